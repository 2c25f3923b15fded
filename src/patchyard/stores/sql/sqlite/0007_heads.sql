CREATE TABLE heads (
    stream  TEXT    PRIMARY KEY,
    version INTEGER NOT NULL,
    hash    TEXT    NOT NULL
) WITHOUT ROWID;

INSERT OR IGNORE INTO heads
WITH RECURSIVE every(stream) AS (
    SELECT min(stream) FROM events
    UNION ALL
    SELECT (SELECT min(stream) FROM events WHERE stream > every.stream) FROM every
    WHERE every.stream IS NOT NULL
)
SELECT stream,
    (SELECT version FROM events WHERE events.stream = every.stream ORDER BY version DESC LIMIT 1),
    (SELECT hash FROM events WHERE events.stream = every.stream ORDER BY version DESC LIMIT 1)
FROM every WHERE stream IS NOT NULL;

DELETE FROM heads WHERE hash = '';
