CREATE TABLE purse (
    project        TEXT    NOT NULL,
    day            TEXT    NOT NULL,
    nano_usd       INTEGER NOT NULL DEFAULT 0,
    tokens         INTEGER NOT NULL DEFAULT 0,
    steps          INTEGER NOT NULL DEFAULT 0,
    calls          INTEGER NOT NULL DEFAULT 0,
    ms             INTEGER NOT NULL DEFAULT 0,
    held_nano_usd  INTEGER NOT NULL DEFAULT 0,
    held_tokens    INTEGER NOT NULL DEFAULT 0,
    held_steps     INTEGER NOT NULL DEFAULT 0,
    held_calls     INTEGER NOT NULL DEFAULT 0,
    held_ms        INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, day)
) WITHOUT ROWID;

CREATE TABLE reservations (
    stream   TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    project  TEXT    NOT NULL,
    day      TEXT    NOT NULL,
    nano_usd INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    steps    INTEGER NOT NULL,
    calls    INTEGER NOT NULL,
    ms       INTEGER NOT NULL,
    PRIMARY KEY (stream, number)
) WITHOUT ROWID;
