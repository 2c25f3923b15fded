CREATE TABLE bus (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic  TEXT    NOT NULL,
    sender TEXT    NOT NULL,
    at     REAL    NOT NULL,
    body   TEXT    NOT NULL
);

ALTER TABLE members ADD COLUMN announced TEXT NOT NULL DEFAULT '';

ALTER TABLE jobs ADD COLUMN role TEXT NOT NULL DEFAULT '';

DROP INDEX jobs_of_lane;

CREATE INDEX jobs_of_lane ON jobs (project, model, role, member, priority DESC, number);

CREATE TABLE lanes_by_role (
    project TEXT    NOT NULL,
    model   TEXT    NOT NULL,
    role    TEXT    NOT NULL DEFAULT '',
    served  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, model, role)
) WITHOUT ROWID;

INSERT INTO lanes_by_role (project, model, served) SELECT project, model, served FROM lanes;

DROP TABLE lanes;

ALTER TABLE lanes_by_role RENAME TO lanes;
