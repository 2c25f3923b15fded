CREATE TABLE removed (
    plan_id TEXT    PRIMARY KEY,
    events  INTEGER NOT NULL,
    head    TEXT    NOT NULL,
    at      REAL    NOT NULL,
    swept   INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
