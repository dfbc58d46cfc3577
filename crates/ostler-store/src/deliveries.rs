//! Deliveries to webhooks, derived from the stored events: each event is examined once per webhook,
//! and a delivery exists until it was made or given up. Both survive the process.

use ostler_core::event::Timestamp;
use rusqlite::{Connection, Result, params};

use crate::index::unsigned;

/// Maximum number of events that are examined in one transaction.
const MAX_EXAMINED: i64 = 512;

/// A delivery that is still to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id, the same for every attempt.
    pub id: String,
    /// Ostler's id of the session.
    pub session: String,
    /// The event, as JSON.
    pub event: String,
    /// Number of attempts so far.
    pub attempts: u32,
}

/// Result of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryResult {
    /// It was made, or is given up.
    Done,
    /// It is tried again at this time.
    Retry(Timestamp),
}

/// Makes these the webhooks. A new one starts at the newest event.
pub(crate) fn set_webhooks(db: &Connection, names: &[&str]) -> Result<()> {
    let mut known = db.prepare("SELECT name FROM webhooks")?;
    let known = known.query_map([], |row| row.get(0))?;
    for name in known.collect::<Result<Vec<String>>>()? {
        if !names.contains(&name.as_str()) {
            db.execute("DELETE FROM webhooks WHERE name = ?1", [name])?;
        }
    }
    for name in names {
        db.execute(
            "INSERT INTO webhooks (name, position)
             SELECT ?1, max((SELECT coalesce(max(rowid), 0) FROM events), high) FROM positions
             WHERE TRUE ON CONFLICT DO NOTHING",
            [name],
        )?;
    }
    Ok(())
}

/// Examines the next events, and adds a delivery for each that is wanted. Returns true if there may
/// be more.
pub(crate) fn add(
    db: &Connection,
    webhook: &str,
    now: Timestamp,
    is_wanted: &dyn Fn(&str, &str) -> bool,
) -> Result<bool> {
    let mut events = db.prepare_cached(
        "SELECT events.rowid, events.session, seq, type, json FROM events
         JOIN managed ON managed.session = events.session
         WHERE events.rowid > (SELECT position FROM webhooks WHERE name = ?1)
         AND type IN ('permission', 'turn_ended', 'ended') ORDER BY events.rowid LIMIT ?2",
    )?;
    // Read before, so that every event up to there has been examined.
    let newest: i64 = db.query_row("SELECT coalesce(max(rowid), 0) FROM events", [], |row| {
        row.get(0)
    })?;
    let mut rows = events.query(params![webhook, MAX_EXAMINED])?;
    let (mut examined, mut last) = (0, None);
    while let Some(row) = rows.next()? {
        examined += 1;
        last = Some(row.get::<_, i64>(0)?);
        let (kind, json): (String, String) = (row.get(3)?, row.get(4)?);
        if is_wanted(&kind, &json) {
            db.prepare_cached(
                "INSERT INTO deliveries (id, webhook, session, seq, attempts, due_at)
                 VALUES (lower(hex(randomblob(16))), ?1, ?2, ?3, 0, ?4) ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                webhook,
                row.get::<_, i64>(1)?,
                row.get::<_, i64>(2)?,
                now.0
            ])?;
        }
    }
    let has_more = examined == MAX_EXAMINED;
    let position = if has_more { last } else { Some(newest) };
    db.execute(
        "UPDATE webhooks SET position = max(position, ?2) WHERE name = ?1",
        params![webhook, position],
    )?;
    Ok(has_more)
}

/// Returns the deliveries that are due, and when the next one is due.
pub(crate) fn due(
    db: &Connection,
    webhook: &str,
    now: Timestamp,
    most: usize,
) -> Result<(Vec<Delivery>, Option<Timestamp>)> {
    let mut due = db.prepare_cached(
        "SELECT id, sessions.session, json, attempts FROM deliveries
         JOIN sessions ON deliveries.session = key
         JOIN events ON events.session = key AND events.seq = deliveries.seq
         WHERE webhook = ?1 AND due_at <= ?2 ORDER BY events.rowid LIMIT ?3",
    )?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = due.query_map(params![webhook, now.0, most], |row| {
        Ok(Delivery {
            id: row.get(0)?,
            session: row.get(1)?,
            event: row.get(2)?,
            attempts: u32::try_from(unsigned(row.get(3)?)).unwrap_or(u32::MAX),
        })
    })?;
    let due = rows.collect::<Result<_>>()?;
    let next: Option<i64> = db
        .prepare_cached("SELECT min(due_at) FROM deliveries WHERE webhook = ?1 AND due_at > ?2")?
        .query_row(params![webhook, now.0], |row| row.get(0))?;
    Ok((due, next.map(Timestamp)))
}

/// Records the result of an attempt.
pub(crate) fn end(db: &Connection, id: &str, result: DeliveryResult) -> Result<()> {
    match result {
        DeliveryResult::Done => db.execute("DELETE FROM deliveries WHERE id = ?1", [id]),
        DeliveryResult::Retry(at) => db.execute(
            "UPDATE deliveries SET attempts = attempts + 1, due_at = ?2 WHERE id = ?1",
            params![id, at.0],
        ),
    }
    .map(drop)
}
