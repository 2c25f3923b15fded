CREATE TABLE members (
    member      TEXT    PRIMARY KEY,
    name        TEXT    NOT NULL,
    boot        TEXT    NOT NULL,
    namespace   TEXT    NOT NULL,
    pid         INTEGER NOT NULL,
    started     INTEGER NOT NULL,
    beat        REAL    NOT NULL,
    since       REAL    NOT NULL,
    concurrency INTEGER NOT NULL,
    is_draining INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE leases (
    job        TEXT    PRIMARY KEY,
    generation INTEGER NOT NULL,
    member     TEXT,
    errand     TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;

CREATE INDEX leases_by_member ON leases (member) WHERE member IS NOT NULL;

CREATE INDEX leases_orphaned ON leases (job) WHERE member IS NULL AND errand <> '';

CREATE TABLE jobs (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    job        TEXT    NOT NULL UNIQUE,
    errand     TEXT    NOT NULL,
    project    TEXT    NOT NULL,
    model      TEXT    NOT NULL,
    priority   INTEGER NOT NULL,
    not_before REAL    NOT NULL,
    every_s    REAL    NOT NULL,
    queued     REAL    NOT NULL,
    deaths     INTEGER NOT NULL DEFAULT 0,
    member     TEXT
);

CREATE INDEX jobs_of_lane ON jobs (project, model, member, priority DESC, number);

CREATE INDEX jobs_by_member ON jobs (member) WHERE member IS NOT NULL;

CREATE TABLE lanes (
    project TEXT    NOT NULL,
    model   TEXT    NOT NULL,
    served  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, model)
) WITHOUT ROWID;

CREATE TABLE slots (
    scope TEXT NOT NULL,
    job   TEXT NOT NULL,
    PRIMARY KEY (scope, job)
) WITHOUT ROWID;

CREATE INDEX slots_by_job ON slots (job);
