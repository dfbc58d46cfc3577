//! Session index: stores events and updates the rows of sessions, turns and permissions that
//! queries read.

use ostler_core::event::{
    DecidedBy, Decision, Ended, Event, EventKind, Origin, Permission, Started, Timestamp,
    TurnEnded, TurnStarted,
};
use ostler_core::log::{LogEntry, NewSession};
use ostler_core::usage::{CostSource, Scope, Usage};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use crate::approvals;

/// Maximum length of the first prompt in lists, in characters.
pub(crate) const PROMPT_HEAD: u16 = 200;

/// Maximum length of an unknown message's kind, in characters.
const KIND_HEAD: usize = 200;

/// Maximum number of unknown kinds in one session, since an agent may invent any number of them.
const KINDS: i64 = 100;

/// The key of a session in the database, and the sequence number of its last event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionCursor {
    pub(crate) key: i64,
    pub(crate) last: u64,
}

/// Inserts a session. `started` distinguishes its process from a later one with the same pid.
pub(crate) fn open(db: &Connection, new_session: &NewSession, started: Option<u64>) -> Result<i64> {
    db.prepare_cached(
        "INSERT INTO sessions (session, agent, dir, began_at, continues, driver_pid, driver_started)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .insert(params![
        new_session.session,
        new_session.agent,
        dir_value(&new_session.dir),
        new_session.at.0,
        new_session.continues,
        new_session.pid,
        started.map(signed)
    ])
    .and_then(|key| {
        for (name, value) in &new_session.labels {
            db.prepare_cached("INSERT INTO labels VALUES (?1, ?2, ?3)")?
                .execute(params![key, name, value])?;
        }
        Ok(key)
    })
}

/// Finds a session that was opened before, possibly by another process.
pub(crate) fn find(db: &Connection, session: &str) -> Result<Option<SessionCursor>> {
    let sql = "SELECT key, (SELECT max(seq) FROM events WHERE session = key) FROM sessions WHERE session = ?1";
    db.prepare_cached(sql)?
        .query_row([session], |row| {
            let last: Option<i64> = row.get(1)?;
            Ok(SessionCursor {
                key: row.get(0)?,
                last: last.map_or(0, unsigned),
            })
        })
        .optional()
}

/// Positions that removed events had, and that SQLite would assign again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReusedPositions {
    /// The highest position of an existing event.
    last: i64,
    /// The highest position that was ever assigned.
    high: i64,
}

/// Returns the positions that new events must not get. There are some only after the newest events
/// were removed.
pub(crate) fn reused_positions(db: &Connection) -> Result<Option<ReusedPositions>> {
    let sql = "SELECT (SELECT coalesce(max(rowid), 0) FROM events) AS last, high FROM positions
        WHERE high > last";
    db.prepare_cached(sql)?
        .query_row([], |row| {
            Ok(ReusedPositions {
                last: row.get(0)?,
                high: row.get(1)?,
            })
        })
        .optional()
}

/// Moves the new events behind all positions that were ever assigned.
pub(crate) fn move_positions(db: &Connection, reused: ReusedPositions) -> Result<()> {
    let ReusedPositions { last, high } = reused;
    // From the end, since positions are unique.
    let mut new =
        db.prepare_cached("SELECT rowid FROM events WHERE rowid > ?1 ORDER BY rowid DESC")?;
    let new = new.query_map([last], |row| row.get(0))?;
    for position in new.collect::<Result<Vec<i64>>>()? {
        db.prepare_cached("UPDATE events SET rowid = ?2 WHERE rowid = ?1")?
            .execute([position, position - last + high])?;
    }
    Ok(())
}

/// Stores an event and updates the index.
pub(crate) fn append(db: &Connection, key: i64, entry: &LogEntry) -> Result<()> {
    let event = &entry.event;
    let mut insert = db.prepare_cached("INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    insert.raw_bind_parameter(1, key)?;
    insert.raw_bind_parameter(2, signed(event.seq))?;
    insert.raw_bind_parameter(3, event.at.0)?;
    insert.raw_bind_parameter(4, event.turn)?;
    insert.raw_bind_parameter(5, event.kind.as_str())?;
    // SQLite copies the text here, and ours is dropped before the row is written.
    insert.raw_bind_parameter(6, event.to_json())?;
    insert.raw_bind_parameter(7, signed(entry.raw_offset))?;
    insert.raw_execute()?;
    drop(insert);
    match &event.kind {
        EventKind::Started(started) => on_started(db, key, started),
        EventKind::State(state) => {
            let mut set = db.prepare_cached("UPDATE sessions SET state = ?2 WHERE key = ?1")?;
            set.execute(params![key, state.to.as_str()]).map(drop)
        }
        EventKind::TurnStarted(turn) => on_turn_started(db, key, event, turn),
        EventKind::TurnEnded(turn) => on_turn_ended(db, key, event, turn),
        EventKind::Permission(permission) => on_permission(db, key, event.at, permission)
            .and_then(|()| approvals::on_permission(db, key, event, permission)),
        EventKind::Usage(usage) if usage.scope == Scope::Turn => on_usage(db, key, event, usage),
        EventKind::Ended(end) => on_ended(db, key, event.at, end),
        EventKind::Notice(notice) => notice
            .unknown_kind
            .as_deref()
            .map_or(Ok(()), |kind| on_unknown_message(db, key, event.at, kind)),
        _ => Ok(()),
    }
}

fn on_started(db: &Connection, key: i64, started: &Started) -> Result<()> {
    // An agent reports itself before every turn, sometimes with less detail than before.
    let sql = "UPDATE sessions SET agent_version = coalesce(?2, agent_version),
        native_session = coalesce(?3, native_session), model = coalesce(?4, model) WHERE key = ?1";
    let Started {
        agent_version,
        native_session,
        model,
        ..
    } = started;
    db.prepare_cached(sql)?
        .execute(params![key, agent_version, native_session, model])
        .map(drop)
}

fn on_turn_started(db: &Connection, key: i64, event: &Event, turn: &TurnStarted) -> Result<()> {
    let origin = match turn.origin {
        Origin::Caller => "caller",
        Origin::Agent => "agent",
    };
    db.prepare_cached(
        "INSERT INTO turns (session, turn, origin, began_at) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![key, event.turn, origin, event.at.0])?;
    let head: Option<String> = turn
        .prompt
        .as_ref()
        .map(|prompt| prompt.chars().take(usize::from(PROMPT_HEAD)).collect());
    db.prepare_cached(
        "UPDATE sessions SET turns = ?2, prompt = coalesce(prompt, ?3) WHERE key = ?1",
    )?
    .execute(params![key, event.turn, head])
    .map(drop)
}

fn on_turn_ended(db: &Connection, key: i64, event: &Event, turn: &TurnEnded) -> Result<()> {
    let usage = turn.usage.as_ref();
    let count = |of: fn(&Usage) -> Option<u64>| usage.and_then(of).map(signed);
    db.prepare_cached(
        "UPDATE turns SET ended_at = :at, cause = :cause, input = :input, cache_read = :read, cache_write = :write,
         output = :output, reasoning = :reasoning, cost_usd = :cost, cost_source = :source
         WHERE session = :session AND turn = :turn",
    )?
    .execute(named_params! {
        ":session": key,
        ":turn": event.turn,
        ":at": event.at.0,
        ":cause": turn.outcome.cause.as_str(),
        ":input": count(|u| u.input),
        ":read": count(|u| u.cache_read),
        ":write": count(|u| u.cache_write),
        ":output": count(|u| u.output),
        ":reasoning": count(|u| u.reasoning),
        ":cost": usage.and_then(|u| u.cost_usd),
        ":source": usage.map(|u| cost_source_name(u.cost_source)),
    })?;
    reconcile_model_usage(db, key, event, usage)?;
    // The cost of the session so far: a lower bound if a part of it is unknown.
    db.prepare_cached(
        "UPDATE sessions SET (tokens, cost_usd, cost_source) = (
             SELECT CASE WHEN count(coalesce(input, cache_read, cache_write, output)) > 0 THEN
                        sum(coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0)
                            + coalesce(output, 0)) END,
                    sum(cost_usd),
                    CASE WHEN count(cost_usd) = 0 THEN 'unknown'
                         WHEN count(*) > count(cost_usd) OR sum(cost_source = 'partial') > 0 THEN 'partial'
                         WHEN sum(cost_source = 'estimated') > 0 THEN 'estimated' ELSE 'reported' END
             FROM turns WHERE session = ?1 AND ended_at IS NOT NULL)
         WHERE key = ?1",
    )?
    .execute([key])
    .map(drop)
}

/// Stores the usage of a model in a turn so far. The latest numbers replace earlier ones.
fn on_usage(db: &Connection, key: i64, event: &Event, usage: &Usage) -> Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO model_usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        key,
        event.turn,
        usage.model.as_deref().unwrap_or_default(),
        signed(event.seq),
        usage.input.map(signed),
        usage.cache_read.map(signed),
        usage.cache_write.map(signed),
        usage.output.map(signed),
        usage.reasoning.map(signed),
        usage.cost_usd,
        cost_source_name(usage.cost_source)
    ])
    .map(drop)
}

/// Makes the usage of a turn by model add up to its total.
///
/// An agent may report usage under other model names while it works than at the end. The reports
/// at the end are the last events, so earlier ones that exceed the total are deleted.
fn reconcile_model_usage(
    db: &Connection,
    key: i64,
    event: &Event,
    sum: Option<&Usage>,
) -> Result<()> {
    let Some(sum) = sum else { return Ok(()) };
    if sum.model.is_some() {
        db.prepare_cached("DELETE FROM model_usage WHERE session = ?1 AND turn = ?2")?
            .execute(params![key, event.turn])?;
        return on_usage(db, key, event, sum);
    }
    db.prepare_cached(
        "DELETE FROM model_usage WHERE session = ?1 AND turn = ?2 AND seq IN (
             SELECT seq FROM (
                 SELECT seq, sum(coalesce(input, 0) + coalesce(cache_read, 0) + coalesce(cache_write, 0)
                     + coalesce(output, 0)) OVER (ORDER BY seq DESC) AS so_far
                 FROM model_usage WHERE session = ?1 AND turn = ?2)
             WHERE so_far > ?3)",
    )?
    .execute(params![key, event.turn, sum.total().map_or(i64::MAX, signed)])
    .map(drop)
}

fn on_permission(db: &Connection, key: i64, at: Timestamp, permission: &Permission) -> Result<()> {
    let (decision, asked, answered) = match permission.decision {
        Decision::Asked => ("asked", Some(at.0), None),
        Decision::Allowed => ("allowed", None, Some(at.0)),
        Decision::Denied => ("denied", None, Some(at.0)),
    };
    let by = match permission.by {
        DecidedBy::Rule => "rule",
        DecidedBy::Person => "person",
        DecidedBy::Agent => "agent",
        DecidedBy::Default => "default",
    };
    db.prepare_cached(
        "INSERT INTO permissions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (session, id) DO UPDATE SET decision = excluded.decision, decided_by = excluded.decided_by,
             asked_at = coalesce(asked_at, excluded.asked_at), answered_at = excluded.answered_at",
    )?
    .execute(params![key, permission.id, permission.tool, decision, by, asked, answered])
    .map(drop)
}

fn on_unknown_message(db: &Connection, key: i64, at: Timestamp, kind: &str) -> Result<()> {
    let head: String = kind.chars().take(KIND_HEAD).collect();
    let update = "UPDATE unknown_messages SET count = count + 1, last_at = ?3
        WHERE session = ?1 AND kind = ?2";
    if db
        .prepare_cached(update)?
        .execute(params![key, head, at.0])?
        == 0
    {
        let sql = "INSERT INTO unknown_messages SELECT ?1, ?2, 1, ?3
            WHERE (SELECT count(*) FROM unknown_messages WHERE session = ?1) < ?4";
        db.prepare_cached(sql)?
            .execute(params![key, head, at.0, KINDS])?;
    }
    Ok(())
}

fn on_ended(db: &Connection, key: i64, at: Timestamp, end: &Ended) -> Result<()> {
    db.prepare_cached(
        "UPDATE sessions SET ended_at = ?2, cause = ?3, state = 'ended' WHERE key = ?1",
    )?
    .execute(params![key, at.0, end.outcome.cause.as_str()])?;
    let Some(usage) = &end.usage else {
        return Ok(());
    };
    db.prepare_cached(
        "UPDATE sessions SET tokens = ?2, cost_usd = ?3, cost_source = ?4 WHERE key = ?1",
    )?
    .execute(params![
        key,
        usage.total().map(signed),
        usage.cost_usd,
        cost_source_name(usage.cost_source)
    ])
    .map(drop)
}

fn cost_source_name(source: CostSource) -> &'static str {
    match source {
        CostSource::Reported => "reported",
        CostSource::Estimated => "estimated",
        CostSource::Partial => "partial",
        CostSource::Unknown => "unknown",
    }
}

/// Converts to SQLite's signed integers. No count here comes near their maximum.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Converts a directory to a value of the database: text, or bytes if it is not UTF-8.
pub(crate) fn dir_value(dir: &std::path::Path) -> Value {
    match dir.to_str() {
        Some(text) => Value::Text(text.to_owned()),
        None => Value::Blob(dir.as_os_str().as_encoded_bytes().to_vec()),
    }
}
