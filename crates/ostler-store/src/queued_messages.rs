//! Messages to sessions that wait to be started.

use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::managed::mark_effective;

/// A message to a session that waits to be started.
#[derive(Debug, Clone, Copy)]
pub struct NewQueuedMessage<'a> {
    /// Ostler's id of the session.
    pub session: &'a str,
    /// The message.
    pub text: &'a str,
    /// The idempotency key of the request, if it has one.
    pub key: Option<&'a str>,
    /// Maximum number of messages that wait for the session.
    pub max_messages: u32,
    /// Maximum size of all of them, in bytes.
    pub max_bytes: u32,
}

/// What became of a message to a session that waits to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueResult {
    /// It is stored, together with the idempotency key of its request.
    Stored,
    /// The session does not wait to be started.
    NotWaiting,
    /// Too many messages wait, or too large ones.
    Full,
}

pub(crate) fn add(db: &Connection, message: &NewQueuedMessage<'_>) -> Result<QueueResult> {
    let session: Option<i64> = db
        .prepare_cached(
            "SELECT key FROM managed JOIN sessions ON managed.session = key
             WHERE sessions.session = ?1 AND queued AND cause IS NULL",
        )?
        .query_row([message.session], |row| row.get(0))
        .optional()?;
    let Some(session) = session else {
        return Ok(QueueResult::NotWaiting);
    };
    let (last, bytes): (u32, u32) = db
        .prepare_cached(
            "SELECT coalesce(max(number), 0), coalesce(sum(octet_length(text)), 0)
             FROM queued_messages WHERE session = ?1",
        )?
        .query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let length = u32::try_from(message.text.len()).unwrap_or(u32::MAX);
    if last >= message.max_messages || bytes.saturating_add(length) > message.max_bytes {
        return Ok(QueueResult::Full);
    }
    db.prepare_cached("INSERT INTO queued_messages (session, number, text) VALUES (?1, ?2, ?3)")?
        .execute(params![session, last + 1, message.text])?;
    if let Some(key) = message.key {
        mark_effective(db, key, message.session)?;
    }
    Ok(QueueResult::Stored)
}

/// Returns the messages that wait for the start of a session, in order.
pub(crate) fn all(db: &Connection, session: &str) -> Result<Vec<String>> {
    db.prepare_cached(
        "SELECT text FROM queued_messages
         WHERE session = (SELECT key FROM sessions WHERE session = ?1) ORDER BY number",
    )?
    .query_map([session], |row| row.get(0))?
    .collect()
}

pub(crate) fn remove(db: &Connection, session: &str) -> Result<()> {
    db.execute(
        "DELETE FROM queued_messages
         WHERE session = (SELECT key FROM sessions WHERE session = ?1)",
        [session],
    )
    .map(drop)
}
