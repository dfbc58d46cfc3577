-- Messages to sessions that wait to be started, in the order in which they were accepted.
CREATE TABLE queued_messages (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (session, number)
) WITHOUT ROWID;
