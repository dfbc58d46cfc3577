-- Sessions that an agent started, and the session of that agent.
CREATE TABLE children (
    session INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE,
    parent TEXT NOT NULL
);

-- Webhooks of the daemon, and the position of the last event that was examined for each.
CREATE TABLE webhooks (
    name TEXT PRIMARY KEY,
    position INTEGER NOT NULL
) WITHOUT ROWID;

-- Deliveries to webhooks that are still to be made.
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    webhook TEXT NOT NULL REFERENCES webhooks (name) ON DELETE CASCADE,
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL, -- the event
    attempts INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    UNIQUE (webhook, session, seq)
) WITHOUT ROWID;
