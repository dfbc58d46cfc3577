-- Full-text index: the grams of each text, by the position of its first event. The text itself is
-- only in `events`.
CREATE VIRTUAL TABLE search_index USING fts5(
    grams, content = '', contentless_delete = 1, detail = none,
    tokenize = "ascii tokenchars '_'"
);

-- The position of the last event that was indexed. Events of earlier formats are indexed like new
-- ones, by the first search.
CREATE TABLE search_progress (
    position INTEGER NOT NULL
);
INSERT INTO search_progress VALUES (0);

-- Sessions with a message that was incomplete when it was indexed, and where to read again.
CREATE TABLE search_open (
    session INTEGER PRIMARY KEY REFERENCES sessions (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL
);

-- For lists.
CREATE INDEX sessions_open ON sessions (began_at) WHERE cause IS NULL;
CREATE INDEX sessions_by_agent ON sessions (agent, began_at);
CREATE INDEX approvals_pending ON approvals (session) WHERE state = 'pending';
