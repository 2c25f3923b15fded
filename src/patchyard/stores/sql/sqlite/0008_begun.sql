-- The order in which plans were begun, whatever the clock said. Those of before have that of their ids.
CREATE TABLE IF NOT EXISTS begun (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT    NOT NULL UNIQUE
);

INSERT OR IGNORE INTO begun (stream) SELECT stream FROM summaries ORDER BY stream;
