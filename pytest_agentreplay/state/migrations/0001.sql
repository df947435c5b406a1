-- The first form of a store.  A commit is one row in cells or in events; branches hold where each line of them stands.
CREATE TABLE about (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE branches (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    parent INTEGER REFERENCES branches (id),
    fork INTEGER NOT NULL,
    head INTEGER NOT NULL,
    events INTEGER NOT NULL,
    chain BLOB NOT NULL,
    created INTEGER NOT NULL,
    deleted INTEGER,
    sum INTEGER NOT NULL
);

CREATE UNIQUE INDEX branches_by_name ON branches (name) WHERE deleted IS NULL;

CREATE INDEX branches_by_parent ON branches (parent) WHERE deleted IS NULL;

CREATE TABLE cells (
    branch INTEGER NOT NULL,
    shape TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    value,
    sum INTEGER NOT NULL,
    PRIMARY KEY (branch, shape, key, version DESC)
) WITHOUT ROWID;

CREATE TABLE events (
    branch INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    version INTEGER NOT NULL,
    type TEXT NOT NULL,
    payload TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    hash BLOB NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (branch, sequence)
) WITHOUT ROWID;

CREATE UNIQUE INDEX events_by_version ON events (branch, version);

CREATE INDEX events_by_type ON events (branch, type, sequence);
