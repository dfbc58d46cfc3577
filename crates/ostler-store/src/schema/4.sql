-- Tokens and cost of each turn by model. Turns of earlier formats have only their total in `turns`.
CREATE TABLE model_usage (
    session INTEGER NOT NULL REFERENCES sessions (key) ON DELETE CASCADE,
    turn INTEGER NOT NULL,
    model TEXT NOT NULL, -- empty where the agent does not name it
    seq INTEGER NOT NULL, -- the event it was read from
    input INTEGER,
    cache_read INTEGER,
    cache_write INTEGER,
    output INTEGER,
    reasoning INTEGER,
    cost_usd REAL,
    cost_source TEXT NOT NULL,
    PRIMARY KEY (session, turn, model)
) WITHOUT ROWID;
