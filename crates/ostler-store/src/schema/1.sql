-- The version of Ostler that applied the last migration.
CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Keys are never reused (AUTOINCREMENT): events for a pruned session must not end up in another.
CREATE TABLE sessions (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    session TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    agent_version TEXT,
    native_session TEXT,
    model TEXT,
    dir NOT NULL, -- text; bytes where it is not UTF-8
    began_at INTEGER NOT NULL,
    ended_at INTEGER,
    state TEXT NOT NULL DEFAULT 'created',
    cause TEXT,
    turns INTEGER NOT NULL DEFAULT 0,
    tokens INTEGER,
    cost_usd REAL,
    cost_source TEXT,
    continues TEXT,
    driver_pid INTEGER NOT NULL,
    driver_started INTEGER
);

CREATE TABLE turns (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    turn INTEGER NOT NULL,
    origin TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    ended_at INTEGER,
    cause TEXT,
    input INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    output INTEGER,
    reasoning INTEGER,
    cost_usd REAL,
    cost_source TEXT,
    PRIMARY KEY (session, turn)
) WITHOUT ROWID;

CREATE TABLE permissions (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    id TEXT NOT NULL,
    tool TEXT NOT NULL,
    decision TEXT NOT NULL,
    decided_by TEXT NOT NULL,
    asked_at INTEGER,
    answered_at INTEGER,
    PRIMARY KEY (session, id)
) WITHOUT ROWID;

-- With a rowid, since events are often too large for a WITHOUT ROWID table.
CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    at INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    type TEXT NOT NULL,
    json TEXT NOT NULL,
    raw_offset INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
);
