//! Approvals: permission requests of a daemon's sessions, each answered at most once.

use std::path::PathBuf;

use ostler_core::event::{Decision, Event, Permission, Timestamp};
use ostler_core::names::named;
use rusqlite::{Connection, OptionalExtension, Result, params};

use crate::stored_path;

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
    /// The agent of the session.
    pub agent: String,
    /// The directory of the session.
    pub dir: PathBuf,
    /// Name of the session.
    pub name: String,
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
    /// The answer came after the request had expired: it is marked as such now.
    Late(Box<Approval>),
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

/// Which approvals are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalSelection {
    /// All of them, the oldest first.
    #[default]
    All,
    /// Those in one state, the oldest first.
    In(ApprovalState),
    /// Those that are not pending, the one that was decided last first.
    Decided,
}

/// Filter of a list of approvals.
#[derive(Debug, Clone, Default)]
pub struct ApprovalFilter {
    /// Which ones.
    pub selection: ApprovalSelection,
    /// Only those of this session.
    pub session: Option<String>,
    /// Only those that come after this one in the list.
    pub after: Option<String>,
    /// Maximum number of approvals.
    pub limit: Option<usize>,
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

const COLUMNS: &str = "SELECT id, sessions.session, event, approvals.request, asked_at, expires_at,
    approvals.state, decided_at, decided_by, message, agent, dir, managed.name
    FROM approvals JOIN sessions ON approvals.session = key
    JOIN managed ON approvals.session = managed.session ";

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
        agent: row.get(10)?,
        dir: stored_path::dir(row.get_ref(11)?),
        name: row.get(12)?,
    })
}

/// Lists approvals.
pub(crate) fn list(db: &Connection, filter: &ApprovalFilter) -> Result<Vec<Approval>> {
    let (state, is_decided) = match filter.selection {
        ApprovalSelection::All => (None, false),
        ApprovalSelection::In(state) => (Some(state.as_str()), false),
        ApprovalSelection::Decided => (None, true),
    };
    let (which, at, comparison, order) = if is_decided {
        let at = "COALESCE(decided_at, asked_at)";
        ("approvals.state <> 'pending'", at, "<", "DESC")
    } else {
        ("TRUE", "asked_at", ">", "ASC")
    };
    let sql = format!(
        "{COLUMNS} WHERE {which} AND (?1 IS NULL OR approvals.state = ?1)
         AND (?2 IS NULL OR sessions.session = ?2)
         AND (?3 IS NULL OR ({at}, id) {comparison} (SELECT {at}, id FROM approvals WHERE id = ?3))
         ORDER BY {at} {order}, id {order} LIMIT ?4"
    );
    let limit = filter.limit.and_then(|limit| i64::try_from(limit).ok());
    let mut query = db.prepare_cached(&sql)?;
    let values = params![state, filter.session, filter.after, limit.unwrap_or(-1)];
    let rows = query.query_map(values, row)?;
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
        "{COLUMNS} WHERE sessions.session = ?1 AND approvals.request = ?2 AND approvals.state = 'pending'"
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
    let expired = ApprovalState::Expired.as_str();
    let changed = db.execute(
        "UPDATE approvals SET state = ?2, decided_at = ?3, decided_by = ?4, message = ?5
         WHERE id = ?1 AND state = 'pending' AND (expires_at > ?3 OR ?2 = ?6)",
        params![
            id,
            decision.state.as_str(),
            decision.at.0,
            decision.by,
            decision.message,
            expired
        ],
    )?;
    // The timer of the session may be late.
    let is_late = changed == 0
        && db.execute(
            "UPDATE approvals SET state = ?2, decided_at = ?3, decided_by = 'timeout'
             WHERE id = ?1 AND state = 'pending'",
            params![id, expired, decision.at.0],
        )? > 0;
    Ok(match get(db, id)? {
        Some(approval) if is_late => DecideResult::Late(Box::new(approval)),
        None => DecideResult::Unknown,
        Some(approval) if changed > 0 => DecideResult::Decided(Box::new(approval)),
        Some(approval) => DecideResult::Earlier(Box::new(approval)),
    })
}

/// Marks the approvals of a session as withdrawn that were allowed, but whose answer never reached
/// the session.
pub(crate) fn withdraw_undelivered(db: &Connection, session: &str) -> Result<()> {
    db.execute(
        "UPDATE approvals SET state = 'withdrawn' WHERE state = 'allowed'
         AND session = (SELECT key FROM sessions WHERE session = ?1)
         AND request IN (SELECT id FROM permissions
             WHERE permissions.session = approvals.session AND answered_at IS NULL)",
        [session],
    )
    .map(drop)
}

/// Marks the approvals of a session as pending again whose permission requests are still open,
/// whatever was decided.
pub(crate) fn reopen_undelivered(
    db: &Connection,
    session: &str,
    expires_at: Timestamp,
) -> Result<()> {
    // An earlier request may have had the same id.
    db.execute(
        "UPDATE approvals SET state = 'pending', expires_at = ?2, decided_at = NULL,
             decided_by = NULL, message = NULL
         WHERE session = (SELECT key FROM sessions WHERE session = ?1)
         AND request IN (SELECT id FROM permissions
             WHERE permissions.session = approvals.session AND answered_at IS NULL)
         AND asked_at = (SELECT max(asked_at) FROM approvals AS other
             WHERE other.session = approvals.session AND other.request = approvals.request)",
        params![session, expires_at.0],
    )
    .map(drop)
}

/// Marks an approval as withdrawn, whatever was decided.
pub(crate) fn withdraw(db: &Connection, id: &str) -> Result<()> {
    db.execute(
        "UPDATE approvals SET state = 'withdrawn' WHERE id = ?1",
        [id],
    )
    .map(drop)
}
