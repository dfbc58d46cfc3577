//! Approvals: permission requests of a daemon's sessions, each answered at most once.

use ostler_core::event::{Decision, Event, Permission, Timestamp};
use ostler_core::names::named;
use rusqlite::{Connection, OptionalExtension, Result, params};

named! {
    /// State of an approval.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ApprovalState {
        /// It waits for an answer.
        Pending = "pending",
        /// It was allowed.
        Allowed = "allowed",
        /// It was denied.
        Denied = "denied",
        /// It was not answered in time.
        Expired = "expired",
        /// The agent or the session ended it before it was answered.
        Withdrawn = "withdrawn",
    }
}

/// A permission request and its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    /// Its id, which cannot be guessed and is never used again.
    pub id: String,
    /// Ostler's id of the session.
    pub session: String,
    /// The `permission` event, as JSON.
    pub event: String,
    /// Id of the request within the session.
    pub request: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// When it is denied if it was not answered.
    pub expires_at: Timestamp,
    /// Its state.
    pub state: ApprovalState,
    /// When it was decided.
    pub decided_at: Option<Timestamp>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// The message with the decision.
    pub message: Option<String>,
}

/// Result of an attempt to decide.
#[derive(Debug, Clone, PartialEq)]
pub enum DecideResult {
    /// This attempt decided.
    Decided(Box<Approval>),
    /// It was decided before.
    Earlier(Box<Approval>),
    /// There is no such approval.
    Unknown,
}

/// A decision on an approval.
#[derive(Debug, Clone, Copy)]
pub struct ApprovalDecision<'a> {
    /// The state that it gets.
    pub state: ApprovalState,
    /// Who decided.
    pub by: &'a str,
    /// The message for the agent.
    pub message: Option<&'a str>,
    /// When.
    pub at: Timestamp,
}

/// Adds or closes the approval of a permission event, if the session is managed.
pub(crate) fn on_permission(
    db: &Connection,
    key: i64,
    event: &Event,
    permission: &Permission,
) -> Result<()> {
    let state = match permission.decision {
        Decision::Asked => {
            return db
                .prepare_cached(
                    "INSERT INTO approvals (id, session, request, event, asked_at, expires_at, state)
                     SELECT lower(hex(randomblob(16))), ?1, ?2, ?3, ?4, ?4 + approval_ms, 'pending'
                     FROM managed WHERE session = ?1",
                )?
                .execute(params![key, permission.id, event.to_json(), event.at.0])
                .map(drop);
        }
        Decision::Allowed => ApprovalState::Allowed,
        Decision::Denied => ApprovalState::Withdrawn,
    };
    // One that a client has answered is not pending any more.
    db.prepare_cached(
        "UPDATE approvals SET state = ?3, decided_at = ?4, decided_by = ?5, message = ?6
         WHERE session = ?1 AND request = ?2 AND state = 'pending'",
    )?
    .execute(params![
        key,
        permission.id,
        state.as_str(),
        event.at.0,
        "session",
        permission.message
    ])
    .map(drop)
}

const COLUMNS: &str = "SELECT id, sessions.session, event, request, asked_at, expires_at,
    approvals.state, decided_at, decided_by, message
    FROM approvals JOIN sessions ON approvals.session = key ";

fn row(row: &rusqlite::Row<'_>) -> Result<Approval> {
    let state: String = row.get(6)?;
    let state = ApprovalState::ALL
        .into_iter()
        .find(|known| known.as_str() == state);
    Ok(Approval {
        id: row.get(0)?,
        session: row.get(1)?,
        event: row.get(2)?,
        request: row.get(3)?,
        asked_at: Timestamp(row.get(4)?),
        expires_at: Timestamp(row.get(5)?),
        // A state that only a later Ostler knows is not pending.
        state: state.unwrap_or(ApprovalState::Withdrawn),
        decided_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        decided_by: row.get(8)?,
        message: row.get(9)?,
    })
}

/// Lists approvals, the oldest first; with a state, only those in it.
pub(crate) fn list(db: &Connection, state: Option<ApprovalState>) -> Result<Vec<Approval>> {
    let sql = format!("{COLUMNS} WHERE ?1 IS NULL OR approvals.state = ?1 ORDER BY asked_at, id");
    let mut query = db.prepare_cached(&sql)?;
    let rows = query.query_map([state.map(ApprovalState::as_str)], row)?;
    rows.collect()
}

/// Returns the approval with this id.
pub(crate) fn get(db: &Connection, id: &str) -> Result<Option<Approval>> {
    db.prepare_cached(&format!("{COLUMNS} WHERE id = ?1"))?
        .query_row([id], row)
        .optional()
}

/// Returns the pending approval of a session's permission request.
pub(crate) fn pending(db: &Connection, session: &str, request: &str) -> Result<Option<Approval>> {
    let sql = format!(
        "{COLUMNS} WHERE sessions.session = ?1 AND request = ?2 AND approvals.state = 'pending'"
    );
    db.prepare_cached(&sql)?
        .query_row([session, request], row)
        .optional()
}

/// Decides an approval, unless it was decided before.
pub(crate) fn decide(
    db: &Connection,
    id: &str,
    decision: ApprovalDecision<'_>,
) -> Result<DecideResult> {
    let changed = db.execute(
        "UPDATE approvals SET state = ?2, decided_at = ?3, decided_by = ?4, message = ?5
         WHERE id = ?1 AND state = 'pending'",
        params![
            id,
            decision.state.as_str(),
            decision.at.0,
            decision.by,
            decision.message
        ],
    )?;
    Ok(match get(db, id)? {
        None => DecideResult::Unknown,
        Some(approval) if changed > 0 => DecideResult::Decided(Box::new(approval)),
        Some(approval) => DecideResult::Earlier(Box::new(approval)),
    })
}

/// Marks an approval as withdrawn, whatever was decided.
pub(crate) fn withdraw(db: &Connection, id: &str) -> Result<()> {
    db.execute(
        "UPDATE approvals SET state = 'withdrawn' WHERE id = ?1",
        [id],
    )
    .map(drop)
}
