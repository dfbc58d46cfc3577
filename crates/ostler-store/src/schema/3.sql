-- Messages of agents that Ostler does not know, counted by kind, for `ostler doctor`.
CREATE TABLE unknown_messages (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    count INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (session, kind)
) WITHOUT ROWID;
