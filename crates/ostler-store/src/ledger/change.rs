//! Changes of the ledger. Each runs in one transaction.

use ostler_core::event::Timestamp;
use ostler_core::usage::Usage;
use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use super::{
    AttemptKey, Booking, Claim, ClaimRequest, ClaimResult, Finish, FinishResult, HeartbeatResult,
    NewRun, Reservation, TrialName,
};
use crate::driver;
use crate::index::{signed, unsigned};

/// The process of an attempt that runs on another machine.
pub(super) const REMOTE: u32 = 0;

pub(super) fn create(db: &Connection, new: &NewRun) -> Result<()> {
    db.execute(
        "INSERT INTO eval_runs (run, suite, plan, artifacts, created_at, budget_usd)
         VALUES (:run, :suite, :plan, :artifacts, :at, :budget)",
        named_params! {
            ":run": new.run,
            ":suite": new.suite,
            ":plan": new.plan,
            ":artifacts": new.artifacts.to_string_lossy(),
            ":at": new.at.0,
            ":budget": new.budget_usd,
        },
    )?;
    let run = db.last_insert_rowid();
    let mut insert = db.prepare_cached(
        "INSERT INTO eval_trials
            (run, position, case_name, contender, repetition, state, fence, not_before)
         VALUES (?1, ?2, ?3, ?4, ?5, 'pending', 0, 0)",
    )?;
    for (position, trial) in (0_i64..).zip(&new.trials) {
        insert.execute(params![
            run,
            position,
            trial.case,
            trial.contender,
            trial.repetition
        ])?;
    }
    Ok(())
}

pub(super) fn claim(
    db: &Connection,
    request: ClaimRequest<'_>,
    reservation: Reservation,
    pid_started: Option<u64>,
) -> Result<ClaimResult> {
    let found = db.query_row(
        "SELECT key, budget_usd, cancelled_at IS NOT NULL FROM eval_runs WHERE run = ?1",
        [request.run],
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
    );
    let found: Option<(i64, Option<f64>, bool)> = found.optional()?;
    let Some((run, budget, is_cancelled)) = found else {
        return Ok(ClaimResult::Complete);
    };
    if is_cancelled {
        return Ok(ClaimResult::Cancelled);
    }
    lose_dead(db, run, request.now)?;
    let Some(next) = next_trial(db, run, request.now)? else {
        return idle(db, run, request.now);
    };
    let reserved = match budget {
        None => None,
        Some(budget) => match reserve(db, run, budget, reservation)? {
            Some(amount) => Some(amount),
            None => {
                return Ok(match running(db, run)? {
                    0 => ClaimResult::BudgetReached,
                    _ => ClaimResult::Wait(later(request.now)),
                });
            }
        },
    };
    let NextTrial {
        key,
        position,
        name,
        fence,
    } = next;
    db.execute(
        "UPDATE eval_trials SET state = 'running', fence = ?2 WHERE key = ?1",
        params![key, fence],
    )?;
    db.execute(
        "INSERT INTO eval_attempts (trial, fence, worker, pid, pid_started, state, started_at,
            lease_until, reserved_usd)
         VALUES (:trial, :fence, :worker, :pid, :pid_started, 'running', :now, :lease, :reserved)",
        named_params! {
            ":trial": key,
            ":fence": fence,
            ":worker": request.worker.name,
            ":pid": request.worker.pid.unwrap_or(REMOTE),
            ":pid_started": pid_started.map(signed),
            ":now": request.now.0,
            ":lease": request.lease_until.0,
            ":reserved": reserved.unwrap_or_default(),
        },
    )?;
    let (retries, losses) = db.query_row(
        "SELECT count(*) FILTER (WHERE state = 'retried'),
            count(*) FILTER (WHERE state IN ('lost', 'late') AND pid = ?2 AND worker <> ?3)
         FROM eval_attempts WHERE trial = ?1",
        params![key, REMOTE, request.worker.name],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    Ok(ClaimResult::Claimed(Claim {
        position: unsigned(position),
        name,
        fence: unsigned(fence),
        retries,
        losses,
        reserved_usd: reserved,
    }))
}

/// A trial that can be claimed.
struct NextTrial {
    key: i64,
    position: i64,
    name: TrialName,
    /// The fence of the new attempt.
    fence: i64,
}

fn next_trial(db: &Connection, run: i64, now: Timestamp) -> Result<Option<NextTrial>> {
    db.prepare_cached(
        "SELECT key, position, case_name, contender, repetition, fence + 1 FROM eval_trials
         WHERE run = ?1 AND state = 'pending' AND not_before <= ?2 ORDER BY position LIMIT 1",
    )?
    .query_row(params![run, now.0], |row| {
        Ok(NextTrial {
            key: row.get(0)?,
            position: row.get(1)?,
            name: TrialName {
                case: row.get(2)?,
                contender: row.get(3)?,
                repetition: row.get(4)?,
            },
            fence: row.get(5)?,
        })
    })
    .optional()
}

/// Marks attempts as lost whose lease has expired or whose process has ended.
fn lose_dead(db: &Connection, run: i64, now: Timestamp) -> Result<()> {
    let mut query = db.prepare_cached(
        "SELECT t.key, a.fence, a.pid, a.pid_started, a.lease_until
         FROM eval_attempts a JOIN eval_trials t ON a.trial = t.key
         WHERE t.run = ?1 AND a.state = 'running'",
    )?;
    let rows = query.query_map([run], |row| {
        let started: Option<i64> = row.get(3)?;
        let pid: u32 = row.get(2)?;
        let is_alive = pid == REMOTE || driver::is_alive(pid, started.map(unsigned));
        let lease: i64 = row.get(4)?;
        let key: (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok((key, is_alive && lease > now.0))
    })?;
    let dead: Vec<(i64, i64)> = rows
        .filter_map(|row| row.map(|(key, holds)| (!holds).then_some(key)).transpose())
        .collect::<Result<_>>()?;
    for (trial, fence) in dead {
        mark_lost(db, trial, fence, now)?;
    }
    Ok(())
}

/// Marks a running attempt as lost, and its trial as claimable.
fn mark_lost(db: &Connection, trial: i64, fence: i64, now: Timestamp) -> Result<()> {
    let lost = db.execute(
        "UPDATE eval_attempts SET state = 'lost', finished_at = ?3
         WHERE trial = ?1 AND fence = ?2 AND state = 'running'",
        params![trial, fence, now.0],
    )?;
    if lost > 0 {
        db.execute(
            "UPDATE eval_trials SET state = 'pending' WHERE key = ?1 AND fence = ?2",
            params![trial, fence],
        )?;
    }
    Ok(())
}

pub(super) fn lose(
    db: &Connection,
    key: AttemptKey<'_>,
    now: Timestamp,
    booking: &Booking,
) -> Result<()> {
    let Some((trial, _)) = trial_of(db, key.run, key.position)? else {
        return Ok(());
    };
    book(db, trial, key.fence, booking)?;
    mark_lost(db, trial, signed(key.fence), now)
}

pub(super) fn assign(
    db: &Connection,
    key: AttemptKey<'_>,
    from: &str,
    worker: &str,
) -> Result<bool> {
    let Some((trial, _)) = trial_of(db, key.run, key.position)? else {
        return Ok(false);
    };
    let assigned = db.execute(
        "UPDATE eval_attempts SET worker = ?4
         WHERE trial = ?1 AND fence = ?2 AND state = 'running' AND worker IN (?3, ?4)",
        params![trial, signed(key.fence), from, worker],
    )?;
    Ok(assigned > 0)
}

/// Reserves a part of the budget, or returns `None` if too little is left.
fn reserve(
    db: &Connection,
    run: i64,
    budget: f64,
    reservation: Reservation,
) -> Result<Option<f64>> {
    let (used, highest): (f64, f64) = db.query_row(
        "SELECT
            coalesce(sum(CASE WHEN a.state = 'running'
                THEN max(a.reserved_usd, coalesce(a.cost_usd, 0))
                ELSE coalesce(a.cost_usd, 0) END), 0.0),
            coalesce(max(a.cost_usd), 0.0)
         FROM eval_attempts a JOIN eval_trials t ON a.trial = t.key WHERE t.run = ?1",
        [run],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let left = budget - used;
    let wanted = match reservation {
        Reservation::Limit(limit) => limit,
        Reservation::Share(count) => (left / f64::from(count.max(1))).max(highest),
    };
    // Sums of costs are not exact.
    Ok((wanted > 0.0 && wanted <= left + 1e-9).then_some(wanted))
}

/// Returns what a worker does when no trial is claimable.
fn idle(db: &Connection, run: i64, now: Timestamp) -> Result<ClaimResult> {
    let next: Option<i64> = db.query_row(
        "SELECT min(not_before) FROM eval_trials WHERE run = ?1 AND state = 'pending'",
        [run],
        |row| row.get(0),
    )?;
    Ok(match (next, running(db, run)?) {
        (Some(next), 0) => ClaimResult::Wait(Timestamp(next)),
        (Some(next), _) => ClaimResult::Wait(Timestamp(next).min(later(now))),
        (None, 0) => ClaimResult::Complete,
        (None, _) => ClaimResult::Wait(later(now)),
    })
}

/// When a worker asks again while others work.
fn later(now: Timestamp) -> Timestamp {
    Timestamp(now.0.saturating_add(1_000))
}

fn running(db: &Connection, run: i64) -> Result<i64> {
    db.query_row(
        "SELECT count(*) FROM eval_trials WHERE run = ?1 AND state = 'running'",
        [run],
        |row| row.get(0),
    )
}

/// Finds the trial of an attempt, and whether the run was cancelled.
fn trial_of(db: &Connection, run: &str, position: u64) -> Result<Option<(i64, bool)>> {
    db.prepare_cached(
        "SELECT t.key, r.cancelled_at IS NOT NULL FROM eval_trials t
         JOIN eval_runs r ON t.run = r.key WHERE r.run = ?1 AND t.position = ?2",
    )?
    .query_row(params![run, signed(position)], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })
    .optional()
}

/// Books usage, whatever the state of the attempt is: it was spent. A cumulative value never
/// shrinks.
fn book(db: &Connection, trial: i64, fence: u64, booking: &Booking) -> Result<()> {
    let usage = booking.usage.as_ref();
    let text = usage.and_then(|usage| serde_json::to_string(usage).ok());
    db.prepare_cached(
        "UPDATE eval_attempts SET
            session = coalesce(:session, session),
            usage = CASE WHEN coalesce(:tokens, 0) >= coalesce(tokens, 0)
                THEN coalesce(:usage, usage) ELSE usage END,
            tokens = nullif(max(coalesce(tokens, -1), coalesce(:tokens, -1)), -1),
            cost_usd = nullif(max(coalesce(cost_usd, -1.0), coalesce(:cost, -1.0)), -1.0)
         WHERE trial = :trial AND fence = :fence",
    )?
    .execute(named_params! {
        ":session": booking.session,
        ":usage": text,
        ":tokens": usage.and_then(Usage::total).map(signed),
        ":cost": booking.cost_usd(),
        ":trial": trial,
        ":fence": signed(fence),
    })
    .map(drop)
}

pub(super) fn heartbeat(
    db: &Connection,
    key: AttemptKey<'_>,
    lease_until: Timestamp,
    booking: &Booking,
) -> Result<HeartbeatResult> {
    let Some((trial, is_cancelled)) = trial_of(db, key.run, key.position)? else {
        return Ok(HeartbeatResult::Lost);
    };
    book(db, trial, key.fence, booking)?;
    let extended = db.execute(
        "UPDATE eval_attempts SET lease_until = max(lease_until, ?3)
         WHERE trial = ?1 AND fence = ?2 AND state = 'running'",
        params![trial, signed(key.fence), lease_until.0],
    )?;
    Ok(match (extended, is_cancelled) {
        (0, _) => HeartbeatResult::Lost,
        (_, true) => HeartbeatResult::Cancelled,
        (_, false) => HeartbeatResult::Extended,
    })
}

pub(super) fn finish(
    db: &Connection,
    key: AttemptKey<'_>,
    now: Timestamp,
    booking: &Booking,
    finish: Finish<'_>,
) -> Result<FinishResult> {
    let Some((trial, _)) = trial_of(db, key.run, key.position)? else {
        return Ok(FinishResult::Late);
    };
    book(db, trial, key.fence, booking)?;
    let (attempt, state, result, not_before) = match finish {
        Finish::Accept(result) => ("accepted", "done", result, None),
        Finish::Retry(result, not_before) => ("retried", "pending", result, Some(not_before.0)),
        Finish::Cancel(result) => ("cancelled", "pending", result, None),
    };
    let fence = signed(key.fence);
    let recorded = db.execute(
        "UPDATE eval_attempts SET state = ?3, result = ?4, finished_at = ?5
         WHERE trial = ?1 AND fence = ?2 AND state = 'running'",
        params![trial, fence, attempt, result, now.0],
    )?;
    if recorded == 0 {
        db.execute(
            "UPDATE eval_attempts SET state = 'late', result = ?3, finished_at = ?4
             WHERE trial = ?1 AND fence = ?2 AND state = 'lost'",
            params![trial, fence, result, now.0],
        )?;
        return Ok(FinishResult::Late);
    }
    let accepted = (attempt == "accepted").then_some(result);
    db.execute(
        "UPDATE eval_trials SET state = ?3, not_before = coalesce(?4, not_before),
            result = coalesce(?5, result)
         WHERE key = ?1 AND fence = ?2",
        params![trial, fence, state, not_before, accepted],
    )?;
    Ok(FinishResult::Recorded)
}

pub(super) fn regrade(
    db: &Connection,
    run: &str,
    position: u64,
    now: Timestamp,
    result: &str,
) -> Result<bool> {
    let Some((trial, _)) = trial_of(db, run, position)? else {
        return Ok(false);
    };
    let changed = db.execute(
        "UPDATE eval_trials SET result = ?2 WHERE key = ?1 AND state = 'done'",
        params![trial, result],
    )?;
    if changed > 0 {
        db.execute(
            "INSERT INTO eval_regrades (trial, number, at, result)
             SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3 FROM eval_regrades WHERE trial = ?1",
            params![trial, now.0, result],
        )?;
    }
    Ok(changed > 0)
}

pub(super) fn set_budget(db: &Connection, run: &str, budget_usd: f64) -> Result<()> {
    db.execute(
        "UPDATE eval_runs SET budget_usd = ?2 WHERE run = ?1",
        params![run, budget_usd],
    )
    .map(drop)
}

pub(super) fn set_cancelled(db: &Connection, run: &str, at: Option<Timestamp>) -> Result<()> {
    db.execute(
        "UPDATE eval_runs SET cancelled_at = ?2 WHERE run = ?1",
        params![run, at.map(|at| at.0)],
    )
    .map(drop)
}
