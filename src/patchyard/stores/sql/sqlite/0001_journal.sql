CREATE TABLE events (
    stream  TEXT    NOT NULL,
    version INTEGER NOT NULL,
    type    TEXT    NOT NULL,
    schema  INTEGER NOT NULL,
    at      REAL    NOT NULL,
    body    TEXT    NOT NULL,
    PRIMARY KEY (stream, version)
) WITHOUT ROWID;

CREATE TABLE bodies (
    digest TEXT PRIMARY KEY,
    data   BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE summaries (
    stream  TEXT PRIMARY KEY,
    summary TEXT NOT NULL
) WITHOUT ROWID;
