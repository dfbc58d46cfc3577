//! Sessions that a daemon manages: what was requested and granted, and which of them wait.

use ostler_core::event::Timestamp;
use ostler_core::log::NewSession;
use rusqlite::{Connection, OptionalExtension, Result, named_params, params};

use crate::index::{self, signed};
use crate::rows::{self, SessionRow};

/// A session that a daemon creates. It is in the store before its agent is started.
#[derive(Debug, Clone)]
pub struct NewManaged {
    /// The session.
    pub session: NewSession,
    /// Its name for people.
    pub name: String,
    /// The request that created it, as JSON.
    pub request: String,
    /// The permissions granted to it, as JSON.
    pub granted: String,
    /// How long a permission request waits for an answer, in milliseconds.
    pub approval_ms: u64,
    /// Whether it waits to be started.
    pub queued: bool,
    /// The session whose agent starts it.
    pub parent: Option<String>,
    /// The idempotency key of the request, if it has one.
    pub key: Option<String>,
}

/// What the store knows about a managed session besides its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedSession {
    /// Ostler's id of the session.
    pub session: String,
    /// The request that created it, as JSON.
    pub request: String,
    /// The permissions granted to it, as JSON.
    pub granted: String,
    /// Whether it waits to be started.
    pub queued: bool,
}

/// A managed session whose daemon is gone, and what is open in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Orphaned {
    /// The session.
    pub row: SessionRow,
    /// Sequence number of its last event.
    pub last: u64,
    /// Number of the turn that has not ended.
    pub open_turn: Option<u32>,
    /// The events of its permission requests that have no answer, as JSON.
    pub open_permissions: Vec<String>,
}

pub(crate) fn create(db: &Connection, new: &NewManaged, started: Option<u64>) -> Result<()> {
    let key = index::open(db, &new.session, started)?;
    db.prepare_cached(
        "INSERT INTO managed (session, name, request, granted, approval_ms, queued)
         VALUES (:session, :name, :request, :granted, :approval_ms, :queued)",
    )?
    .execute(named_params! {
        ":session": key,
        ":name": new.name,
        ":request": new.request,
        ":granted": new.granted,
        ":approval_ms": signed(new.approval_ms),
        ":queued": new.queued,
    })?;
    // So that it has a title while it waits.
    db.prepare_cached(
        "UPDATE sessions SET prompt = substr(json_extract(?2, '$.prompt'), 1, ?3) WHERE key = ?1",
    )?
    .execute(params![key, new.request, index::PROMPT_HEAD])?;
    if let Some(idempotency) = &new.key {
        mark_effective(db, idempotency, &new.session.session)?;
    }
    if let Some(parent) = &new.parent {
        db.execute(
            "INSERT INTO children (session, parent) VALUES (?1, ?2)",
            params![key, parent],
        )?;
    }
    Ok(())
}

/// Returns the sessions that a session's agent started, the oldest first.
pub(crate) fn children(db: &Connection, parent: &str) -> Result<Vec<SessionRow>> {
    let mut ids = db.prepare_cached(
        "SELECT sessions.session FROM children JOIN sessions ON children.session = key
         WHERE parent = ?1 ORDER BY key",
    )?;
    let ids = ids.query_map([parent], |row| row.get(0))?;
    let mut found = Vec::new();
    for id in ids.collect::<Result<Vec<String>>>()? {
        found.extend(rows::session(db, &id)?);
    }
    Ok(found)
}

/// Marks a session as started by this process. Returns false if it was not waiting.
pub(crate) fn dequeue(
    db: &Connection,
    session: &str,
    pid: u32,
    started: Option<u64>,
) -> Result<bool> {
    let changed = db.execute(
        "UPDATE managed SET queued = 0 WHERE queued
         AND session = (SELECT key FROM sessions WHERE session = ?1)",
        [session],
    )?;
    db.execute(
        "UPDATE sessions SET driver_pid = ?2, driver_started = ?3 WHERE session = ?1 AND ?4",
        params![session, pid, started.map(signed), changed > 0],
    )?;
    Ok(changed > 0)
}

/// Marks a session that has not ended as driven by this process.
pub(crate) fn adopt(db: &Connection, session: &str, pid: u32, started: Option<u64>) -> Result<()> {
    db.execute(
        "UPDATE sessions SET driver_pid = ?2, driver_started = ?3
         WHERE session = ?1 AND cause IS NULL",
        params![session, pid, started.map(signed)],
    )?;
    Ok(())
}

pub(crate) fn managed(db: &Connection, session: &str) -> Result<Option<ManagedSession>> {
    let sql = "SELECT sessions.session, request, granted, queued
        FROM managed JOIN sessions ON managed.session = key WHERE sessions.session = ?1";
    db.prepare_cached(sql)?
        .query_row([session], managed_row)
        .optional()
}

/// Returns the sessions that wait to be started, the oldest first.
pub(crate) fn queued(db: &Connection) -> Result<Vec<ManagedSession>> {
    let sql = "SELECT sessions.session, request, granted, queued
        FROM managed JOIN sessions ON managed.session = key
        WHERE queued AND cause IS NULL ORDER BY key";
    db.prepare_cached(sql)?
        .query_map([], managed_row)?
        .collect()
}

fn managed_row(row: &rusqlite::Row<'_>) -> Result<ManagedSession> {
    Ok(ManagedSession {
        session: row.get(0)?,
        request: row.get(1)?,
        granted: row.get(2)?,
        queued: row.get(3)?,
    })
}

/// Returns the managed sessions that were started, have not ended, and whose process is gone.
pub(crate) fn orphaned(db: &Connection) -> Result<Vec<Orphaned>> {
    let mut ids = db.prepare_cached(
        "SELECT sessions.session, key FROM managed JOIN sessions ON managed.session = key
         WHERE NOT queued AND cause IS NULL ORDER BY key",
    )?;
    let ids = ids.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let ids: Vec<(String, i64)> = ids.collect::<Result<_>>()?;
    let mut found = Vec::new();
    for (session, key) in ids {
        let Some(row) = rows::session(db, &session)? else {
            continue;
        };
        if row.status != crate::rows::SessionStatus::Abandoned {
            continue;
        }
        let last = index::find(db, &session)?.map_or(0, |cursor| cursor.last);
        let open_turn = db
            .query_row(
                "SELECT max(turn) FROM turns WHERE session = ?1 AND ended_at IS NULL",
                [key],
                |row| row.get(0),
            )
            .optional()?
            .flatten();
        let mut open = db.prepare_cached(
            "SELECT event FROM approvals WHERE session = ?1 AND request IN (
                 SELECT id FROM permissions WHERE session = ?1 AND answered_at IS NULL)
             ORDER BY asked_at",
        )?;
        let open_permissions = open
            .query_map([key], |row| row.get(0))?
            .collect::<Result<_>>()?;
        found.push(Orphaned {
            row,
            last,
            open_turn,
            open_permissions,
        });
    }
    Ok(found)
}

/// How long the response to a request with an idempotency key is kept: a day.
const RETENTION_MS: i64 = 24 * 60 * 60 * 1000;

/// Start of a response that is not known yet, although the request has taken effect: the id of its
/// session follows.
const UNANSWERED: &str = "?";

/// The same, if the response will never be known: the daemon that was to answer is gone, or the
/// session was removed.
const NEVER_ANSWERED: &str = "@";

/// State of a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdempotentRequest {
    /// It is the first with this key. The caller must finish or forget it.
    New,
    /// An identical request was answered with this.
    Done(String),
    /// An identical request took effect on this session, which it may have created, but its daemon
    /// was killed before it answered, or the session was removed.
    TookEffect(String),
    /// An identical request is being processed.
    Running,
    /// The key was used for another request.
    Different,
}

/// Registers a request with an idempotency key.
pub(crate) fn begin_idempotent(
    db: &Connection,
    key: &str,
    fingerprint: &str,
    at: Timestamp,
) -> Result<IdempotentRequest> {
    db.execute(
        "DELETE FROM idempotency WHERE at < ?1",
        [at.0 - RETENTION_MS],
    )?;
    let found: Option<(String, Option<String>)> = db
        .query_row(
            "SELECT fingerprint, response FROM idempotency WHERE key = ?1",
            [key],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .optional()?;
    Ok(match found {
        None => {
            db.execute(
                "INSERT INTO idempotency (key, fingerprint, at) VALUES (?1, ?2, ?3)",
                params![key, fingerprint, at.0],
            )?;
            IdempotentRequest::New
        }
        Some((other, _)) if other != fingerprint => IdempotentRequest::Different,
        Some((_, Some(response))) if response.starts_with(UNANSWERED) => IdempotentRequest::Running,
        Some((_, Some(response))) => match response.strip_prefix(NEVER_ANSWERED) {
            Some(session) => IdempotentRequest::TookEffect(session.to_owned()),
            None => IdempotentRequest::Done(response),
        },
        Some((_, None)) => IdempotentRequest::Running,
    })
}

/// Marks a request with an idempotency key as effective, in the transaction that makes it so.
pub(crate) fn mark_effective(db: &Connection, key: &str, session: &str) -> Result<()> {
    db.execute(
        "UPDATE idempotency SET response = ?2 || ?3 WHERE key = ?1",
        [key, UNANSWERED, session],
    )
    .map(drop)
}

/// Stores the response to a request with an idempotency key; `None` forgets the request.
pub(crate) fn end_idempotent(db: &Connection, key: &str, response: Option<&str>) -> Result<()> {
    match response {
        Some(response) => db.execute(
            "UPDATE idempotency SET response = ?2 WHERE key = ?1",
            [key, response],
        )?,
        None => db.execute("DELETE FROM idempotency WHERE key = ?1", [key])?,
    };
    Ok(())
}

/// Forgets the responses that show a session which is removed. Their requests stay known: repeated
/// ones find that the session does not exist any more, and do not create another.
pub(crate) fn forget_responses(db: &Connection, key: i64) -> Result<()> {
    let session: String = db.query_row(
        "SELECT session FROM sessions WHERE key = ?1",
        [key],
        |row| row.get(0),
    )?;
    // A response is a status, a space and JSON. Most do not name the session at all.
    db.execute(
        "UPDATE idempotency SET response = ?2 || ?1 WHERE instr(response, ?1) > 0
         AND CASE WHEN json_valid(substr(response, instr(response, ' ') + 1))
             THEN json_extract(substr(response, instr(response, ' ') + 1), '$.id') = ?1 END",
        [&session, NEVER_ANSWERED],
    )
    .map(drop)
}

/// Forgets requests without a response, whose daemon is gone, unless they took effect.
pub(crate) fn forget_unanswered(db: &Connection) -> Result<()> {
    db.execute(
        "UPDATE idempotency SET response = ?2 || substr(response, 2)
         WHERE substr(response, 1, 1) = ?1
         AND substr(response, 2) IN (SELECT session FROM sessions)",
        [UNANSWERED, NEVER_ANSWERED],
    )?;
    db.execute(
        "DELETE FROM idempotency WHERE response IS NULL OR substr(response, 1, 1) = ?1",
        [UNANSWERED],
    )
    .map(drop)
}
