//! Queries of the ledger.

use std::path::PathBuf;

use ostler_core::event::Timestamp;
use rusqlite::{Connection, Result, Row, params};

use super::TrialState;
use super::change::REMOTE;
use super::{AttemptRow, AttemptState, Claim, RemoteAttempt, RunRow, TrialName, TrialRow};
use crate::index::{signed, unsigned};

pub(super) fn runs(db: &Connection, run: Option<&str>) -> Result<Vec<RunRow>> {
    let sql = "SELECT run, suite, plan, artifacts, created_at, budget_usd, cancelled_at,
            (SELECT count(*) FROM eval_trials t WHERE t.run = r.key),
            (SELECT count(*) FROM eval_trials t WHERE t.run = r.key AND state = 'done'),
            (SELECT count(*) FROM eval_trials t WHERE t.run = r.key AND state = 'running'),
            (SELECT sum(cost_usd) FROM eval_attempts a JOIN eval_trials t ON a.trial = t.key
                WHERE t.run = r.key),
            (SELECT sum(tokens) FROM eval_attempts a JOIN eval_trials t ON a.trial = t.key
                WHERE t.run = r.key)
        FROM eval_runs r WHERE ?1 IS NULL OR run = ?1 ORDER BY created_at DESC, key DESC";
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map([run], |row| {
        Ok(RunRow {
            run: row.get(0)?,
            suite: row.get(1)?,
            plan: row.get(2)?,
            artifacts: PathBuf::from(row.get::<_, String>(3)?),
            created_at: Timestamp(row.get(4)?),
            budget_usd: row.get(5)?,
            cancelled_at: row.get::<_, Option<i64>>(6)?.map(Timestamp),
            trials: unsigned(row.get(7)?),
            done: unsigned(row.get(8)?),
            running: unsigned(row.get(9)?),
            cost_usd: row.get(10)?,
            tokens: row.get::<_, Option<i64>>(11)?.map(unsigned),
        })
    })?;
    rows.collect()
}

pub(super) fn trials(db: &Connection, run: &str, position: Option<u64>) -> Result<Vec<TrialRow>> {
    let sql = "SELECT t.case_name, t.contender, t.repetition, t.position, t.state, t.not_before,
            t.result, t.key
        FROM eval_trials t JOIN eval_runs r ON t.run = r.key WHERE r.run = ?1
            AND (?2 IS NULL OR position = ?2) ORDER BY position";
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map(params![run, position.map(signed)], |row| {
        let state: String = row.get(4)?;
        let trial = TrialRow {
            name: TrialName {
                case: row.get(0)?,
                contender: row.get(1)?,
                repetition: row.get(2)?,
            },
            position: unsigned(row.get(3)?),
            // A state that only a later Ostler knows is not claimable.
            state: TrialState::parse(&state).unwrap_or(TrialState::Running),
            not_before: Timestamp(row.get(5)?),
            result: row.get(6)?,
            attempts: Vec::new(),
        };
        Ok((trial, row.get::<_, i64>(7)?))
    })?;
    let mut trials = rows.collect::<Result<Vec<_>>>()?;
    for (trial, key) in &mut trials {
        trial.attempts = attempts(db, *key)?;
    }
    Ok(trials.into_iter().map(|(trial, _)| trial).collect())
}

fn attempts(db: &Connection, trial: i64) -> Result<Vec<AttemptRow>> {
    let sql = "SELECT fence, worker, state, started_at, lease_until, finished_at, session, usage,
        result FROM eval_attempts WHERE trial = ?1 ORDER BY fence";
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map([trial], attempt)?;
    rows.collect()
}

fn attempt(row: &Row<'_>) -> Result<AttemptRow> {
    let state: String = row.get(2)?;
    let usage: Option<String> = row.get(7)?;
    Ok(AttemptRow {
        fence: unsigned(row.get(0)?),
        worker: row.get(1)?,
        state: AttemptState::parse(&state).unwrap_or(AttemptState::Lost),
        started_at: Timestamp(row.get(3)?),
        lease_until: Timestamp(row.get(4)?),
        finished_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
        session: row.get(6)?,
        usage: usage.and_then(|text| serde_json::from_str(&text).ok()),
        result: row.get(8)?,
    })
}

pub(super) fn remote_attempts(db: &Connection, run: &str) -> Result<Vec<RemoteAttempt>> {
    let sql = "SELECT t.position, t.case_name, t.contender, t.repetition, a.fence, a.reserved_usd,
            r.budget_usd IS NOT NULL, a.worker, a.state = 'lost',
            (SELECT count(*) FROM eval_attempts o WHERE o.trial = t.key AND o.state = 'retried')
        FROM eval_attempts a JOIN eval_trials t ON a.trial = t.key JOIN eval_runs r ON t.run = r.key
        WHERE r.run = ?1 AND a.pid = ?2 AND a.state IN ('running', 'lost') AND a.result IS NULL
        ORDER BY t.position, a.fence";
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map(params![run, REMOTE], |row| {
        let reserved: f64 = row.get(5)?;
        let has_budget: bool = row.get(6)?;
        Ok(RemoteAttempt {
            claim: Claim {
                position: unsigned(row.get(0)?),
                name: TrialName {
                    case: row.get(1)?,
                    contender: row.get(2)?,
                    repetition: row.get(3)?,
                },
                fence: unsigned(row.get(4)?),
                retries: row.get(9)?,
                losses: 0, // it is under way already
                reserved_usd: has_budget.then_some(reserved),
            },
            worker: row.get(7)?,
            is_lost: row.get(8)?,
        })
    })?;
    rows.collect()
}
