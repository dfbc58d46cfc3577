-- The caller's labels.
CREATE TABLE labels (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session, name)
) WITHOUT ROWID;

-- Sessions of the daemon: what was requested, and the permissions that were granted then.
CREATE TABLE managed (
    session INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE,
    name TEXT NOT NULL,
    request TEXT NOT NULL,
    granted TEXT NOT NULL,
    approval_ms INTEGER NOT NULL, -- how long a permission request waits for an answer
    queued INTEGER NOT NULL -- whether it waits to be started
);

-- Permission requests of the daemon's sessions, each answered at most once.
CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    request TEXT NOT NULL, -- id of the permission event
    event TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    decided_at INTEGER,
    decided_by TEXT,
    message TEXT
) WITHOUT ROWID;

-- Responses to requests with an idempotency key.
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    response TEXT,
    at INTEGER NOT NULL
) WITHOUT ROWID;

-- The highest position of an event that was ever removed: positions are never reused.
CREATE TABLE positions (
    high INTEGER NOT NULL
);
INSERT INTO positions VALUES (0);
