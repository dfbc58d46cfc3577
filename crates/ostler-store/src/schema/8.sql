-- Runs of the evaluation, each with the plan that it was started with.
CREATE TABLE eval_runs (
    key INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    suite TEXT NOT NULL,
    plan TEXT NOT NULL, -- JSON, never changed
    artifacts TEXT NOT NULL, -- directory
    created_at INTEGER NOT NULL,
    budget_usd REAL,
    cancelled_at INTEGER
);

-- Trials of a run, in the order in which they are claimed.
CREATE TABLE eval_trials (
    key INTEGER PRIMARY KEY,
    run INTEGER NOT NULL REFERENCES eval_runs (key) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    case_name TEXT NOT NULL,
    contender TEXT NOT NULL,
    repetition INTEGER NOT NULL,
    state TEXT NOT NULL, -- pending, running or done
    fence INTEGER NOT NULL, -- of the newest attempt; 0 before the first
    not_before INTEGER NOT NULL,
    result TEXT, -- of the accepted attempt, or of the last regrade
    UNIQUE (run, position),
    UNIQUE (run, case_name, contender, repetition)
);

-- Every attempt at a trial. Only the one with the trial's fence can be accepted.
CREATE TABLE eval_attempts (
    trial INTEGER NOT NULL REFERENCES eval_trials (key) ON DELETE CASCADE,
    fence INTEGER NOT NULL,
    worker TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_started INTEGER,
    state TEXT NOT NULL, -- running, accepted, retried, lost, late or cancelled
    started_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    finished_at INTEGER,
    session TEXT,
    reserved_usd REAL NOT NULL,
    tokens INTEGER, -- booked so far
    cost_usd REAL, -- booked so far
    usage TEXT, -- JSON: everything booked so far
    result TEXT, -- JSON: as it was reported
    PRIMARY KEY (trial, fence)
) WITHOUT ROWID;

-- Results of evaluating an accepted attempt again.
CREATE TABLE eval_regrades (
    trial INTEGER NOT NULL REFERENCES eval_trials (key) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    result TEXT NOT NULL,
    PRIMARY KEY (trial, number)
) WITHOUT ROWID;
