//! Queries of sessions and their events: lists, lookup by id, and pages of events.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ostler_core::event::{Event, SessionState, Timestamp, Unreadable};
use ostler_core::log::{PAGE_BYTES, SessionRecord};
use ostler_core::outcome::{Cause, Status};
use ostler_core::usage::CostSource;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::counters::TokenCounters;
use crate::index::{dir_value, signed, unsigned};
pub(crate) use crate::stored_path::dir;
use crate::{driver, title};

/// Maximum number of matches of an ambiguous prefix that are listed.
const MAX_CANDIDATES: usize = 10;

/// Maximum number of unknown message kinds that are listed.
const MAX_KINDS: i64 = 500;

/// Which sessions to list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only sessions of this agent.
    pub agent: Option<String>,
    /// Only sessions in this directory.
    pub dir: Option<PathBuf>,
    /// Only sessions in a directory with this text in its path, ignoring case.
    pub dir_text: Option<String>,
    /// Maximum number of sessions, newest first.
    pub limit: Option<usize>,
    /// Only running sessions.
    pub live: bool,
    /// Only sessions in this state.
    pub state: Option<SessionState>,
    /// Only sessions with all of these labels.
    pub labels: Vec<(String, String)>,
    /// Only sessions with a label that has this text in `NAME=VALUE`, ignoring case.
    pub label_text: Option<String>,
    /// Only sessions that are listed after this one.
    pub after: Option<String>,
    /// Leaves out failed starts ([`SessionRow::is_failed_start`]).
    pub without_failed_starts: bool,
    /// Only sessions with this text in their title, name, directory, id or model, ignoring case.
    pub text: Option<String>,
    /// Only sessions with a permission request that waits for an answer in a daemon.
    pub waiting: bool,
    /// Only sessions that the agent of this session started.
    pub parent: Option<String>,
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionRow {
    /// Ostler's id of the session.
    pub session: String,
    /// The agent's name in Ostler.
    pub agent: String,
    /// The agent's version, as reported by the agent.
    pub agent_version: Option<String>,
    /// The agent's id of the session.
    pub native_session: Option<String>,
    /// The directory that the agent works in.
    pub dir: PathBuf,
    /// The model, as reported by the agent.
    pub model: Option<String>,
    /// When it began.
    pub began_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Whether it is running, and how it ended otherwise.
    pub status: SessionStatus,
    /// Whether the agent started and reported itself.
    pub started: bool,
    /// Number of turns that were started.
    pub turns: u32,
    /// Total number of tokens, as far as known.
    pub tokens: Option<u64>,
    /// Its cost, if known. A lower bound if `cost_source` is `partial`.
    pub cost_usd: Option<f64>,
    /// Where the cost comes from.
    pub cost_source: CostSource,
    /// The session it continues.
    pub continues: Option<String>,
    /// The start of the first prompt.
    pub prompt: Option<String>,
    /// Its last known state.
    pub state: SessionState,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    /// The name that it has in a daemon.
    pub name: Option<String>,
    /// Number of permission requests that wait for an answer in a daemon.
    pub pending_approvals: u64,
    /// Number of its last event; 0 if it has none.
    pub last_seq: u64,
    /// The session whose agent started it.
    pub parent: Option<String>,
    /// Tokens of the turns that have ended, by kind.
    pub counters: TokenCounters,
    /// How its last turn ended; `None` before that.
    pub last_turn: Option<Cause>,
}

/// A stored event, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its position among the events of all sessions, in the order in which they were stored.
    pub position: u64,
    /// Ostler's id of the session.
    pub session: String,
    /// Its number within the session.
    pub seq: u64,
    /// Its kind: the `type` of the event.
    pub kind: String,
    /// The event, as JSON.
    pub json: String,
}

impl SessionRow {
    /// Returns the first line of the first prompt, of at most 120 characters.
    #[must_use]
    pub fn title(&self) -> Option<String> {
        self.prompt.as_deref().and_then(title::title)
    }

    /// Returns true if the session has ended without any work: it had no turn, or its agent never
    /// started.
    #[must_use]
    pub fn is_failed_start(&self) -> bool {
        match self.status {
            SessionStatus::Live(_) => false,
            _ if self.turns == 0 => true,
            // A turn that the caller interrupted before the agent's first output counts.
            SessionStatus::Ended(cause) => {
                !self.started && (cause.status() == Status::Failed || cause == Cause::StartupLimit)
            }
            SessionStatus::Abandoned => false,
        }
    }
}

/// Messages of an agent that Ostler does not know, by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMessages {
    /// The agent's name in Ostler.
    pub agent: String,
    /// Its version, as reported by the agent.
    pub agent_version: Option<String>,
    /// The kind: `type "x"`, for example.
    pub kind: String,
    /// Number of messages.
    pub count: u64,
    /// Number of sessions with such a message.
    pub sessions: u64,
    /// Time of the latest message.
    pub last_at: Timestamp,
}

/// Status of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// It is running in the process with this pid.
    Live(u32),
    /// It ended with this cause.
    Ended(Cause),
    /// It did not end, but its process is gone.
    Abandoned,
}

impl SessionStatus {
    /// Returns its name: `live`, `abandoned`, or that of the cause.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live(_) => "live",
            Self::Ended(cause) => cause.as_str(),
            Self::Abandoned => "abandoned",
        }
    }
}

impl From<SessionRow> for SessionRecord {
    fn from(row: SessionRow) -> Self {
        let held_by = match row.status {
            SessionStatus::Live(pid) => Some(pid),
            SessionStatus::Ended(_) | SessionStatus::Abandoned => None,
        };
        let SessionRow {
            session,
            agent,
            agent_version,
            native_session,
            dir,
            continues,
            ..
        } = row;
        Self {
            session,
            agent,
            agent_version,
            native_session,
            dir,
            continues,
            held_by,
        }
    }
}

/// The columns that [`row`] reads, in order.
const COLUMNS: &str =
    "SELECT session, agent, agent_version, native_session, dir, model, began_at, ended_at, cause, turns,
    tokens, cost_usd, cost_source, continues, prompt, driver_pid, driver_started,
    EXISTS (SELECT 1 FROM events WHERE events.session = key AND type = 'started'), state,
    (SELECT json_group_object(name, value) FROM labels WHERE labels.session = key),
    (SELECT name FROM managed WHERE managed.session = key),
    (SELECT count(*) FROM approvals WHERE approvals.session = key AND approvals.state = 'pending'),
    (SELECT max(seq) FROM events WHERE events.session = key),
    (SELECT parent FROM children WHERE children.session = key),
    (SELECT json_array(sum(input), sum(cache_read), sum(cache_write), sum(output), sum(reasoning))
        FROM turns WHERE turns.session = key),
    (SELECT turns.cause FROM turns WHERE turns.session = key ORDER BY turn DESC LIMIT 1)
    FROM sessions ";

fn row(row: &Row<'_>) -> Result<SessionRow> {
    let cause: Option<String> = row.get(8)?;
    let source: Option<String> = row.get(12)?;
    let tokens: Option<i64> = row.get(10)?;
    let last_turn: Option<String> = row.get(25)?;
    Ok(SessionRow {
        session: row.get(0)?,
        agent: row.get(1)?,
        agent_version: row.get(2)?,
        native_session: row.get(3)?,
        dir: dir(row.get_ref(4)?),
        model: row.get(5)?,
        began_at: Timestamp(row.get(6)?),
        ended_at: row.get::<_, Option<i64>>(7)?.map(Timestamp),
        status: status(cause.as_deref(), row.get(15)?, row.get(16)?),
        started: row.get(17)?,
        turns: row.get(9)?,
        tokens: tokens.map(unsigned),
        cost_usd: row.get(11)?,
        cost_source: cost_source(source.as_deref()),
        continues: row.get(13)?,
        prompt: row.get(14)?,
        state: state(&row.get::<_, String>(18)?),
        labels: labels(&row.get::<_, String>(19)?),
        name: row.get(20)?,
        pending_approvals: unsigned(row.get(21)?),
        last_seq: row.get::<_, Option<i64>>(22)?.map_or(0, unsigned),
        parent: row.get(23)?,
        counters: TokenCounters::parse(&row.get::<_, String>(24)?),
        last_turn: last_turn.as_deref().map(self::cause),
    })
}

/// Parses the name of a cause. One that only a later Ostler knows counts as a failure.
fn cause(name: &str) -> Cause {
    let known = Cause::ALL.into_iter().find(|cause| cause.as_str() == name);
    known.unwrap_or(Cause::Protocol)
}

/// Parses the name of a state. One that only a later Ostler knows counts as created.
fn state(name: &str) -> SessionState {
    SessionState::ALL
        .into_iter()
        .find(|known| known.as_str() == name)
        .unwrap_or(SessionState::Created)
}

fn labels(json: &str) -> BTreeMap<String, String> {
    serde_json::from_str(json).unwrap_or_default()
}

/// Parses the name of a cost source.
pub(crate) fn cost_source(name: Option<&str>) -> CostSource {
    match name {
        Some("reported") => CostSource::Reported,
        Some("estimated") => CostSource::Estimated,
        Some("partial") => CostSource::Partial,
        _ => CostSource::Unknown,
    }
}

/// Returns the status of a session, from its cause or from the liveness of its process.
pub(crate) fn status(cause: Option<&str>, pid: u32, started: Option<i64>) -> SessionStatus {
    match cause {
        Some(name) => SessionStatus::Ended(self::cause(name)),
        None if driver::is_alive(pid, started.map(unsigned)) => SessionStatus::Live(pid),
        None => SessionStatus::Abandoned,
    }
}

/// Returns the statement that lists the sessions that may match a filter, and its parameters.
fn list_statement(filter: &Filter) -> (String, Vec<Value>) {
    // Only the conditions that apply: SQLite could not use an index for one that may not.
    let agent = filter
        .agent
        .clone()
        .map(|agent| (" AND agent = ?", agent.into()));
    let dir = filter
        .dir
        .as_deref()
        .map(|dir| (" AND dir = ?", dir_value(dir)));
    let state = filter
        .state
        .map(|state| (" AND state = ?", state.as_str().to_owned().into()));
    let labels = filter.labels.iter().flat_map(|(name, value)| {
        [
            (
                " AND EXISTS (SELECT 1 FROM labels WHERE session = key AND name = ?",
                name.clone().into(),
            ),
            (" AND value = ?)", value.clone().into()),
        ]
    });
    let after = filter.after.clone().map(|session| {
        let condition = " AND (began_at, key) <
            (SELECT own.began_at, own.key FROM sessions AS own WHERE own.session = ?)";
        (condition, session.into())
    });
    let text = filter.text.as_deref().map(|text| {
        let condition = " AND mentions(?, prompt, dir, session, model, coalesce(
            (SELECT name FROM managed WHERE managed.session = key),
            agent || '-' || substr(session, 1, 8)))";
        (condition, text.to_lowercase().into())
    });
    let dir_text = filter.dir_text.as_deref().map(|text| {
        let condition = " AND mentions(?, NULL, dir)";
        (condition, text.to_lowercase().into())
    });
    let label_text = filter.label_text.as_deref().map(|text| {
        let condition = " AND EXISTS (SELECT 1 FROM labels
            WHERE session = key AND mentions(?, NULL, name || '=' || value))";
        (condition, text.to_lowercase().into())
    });
    let parent = filter.parent.clone().map(|parent| {
        let condition = " AND key IN (SELECT children.session FROM children WHERE parent = ?)";
        (condition, parent.into())
    });
    let all = agent.into_iter().chain(dir).chain(state).chain(parent);
    let all = all.chain(labels).chain(after).chain(text);
    let all = all.chain(dir_text).chain(label_text);
    let (conditions, values): (String, Vec<Value>) = all.unzip();
    let live = if filter.live {
        " AND cause IS NULL"
    } else {
        ""
    };
    let waiting = if filter.waiting {
        " AND key IN (SELECT approvals.session FROM approvals WHERE approvals.state = 'pending')"
    } else {
        ""
    };
    let sql =
        format!("{COLUMNS} WHERE TRUE{conditions}{live}{waiting} ORDER BY began_at DESC, key DESC");
    (sql, values)
}

/// Lists the sessions that match a filter, newest first.
pub(crate) fn list(db: &Connection, filter: &Filter) -> Result<Vec<SessionRow>> {
    let (sql, values) = list_statement(filter);
    let mut query = db.prepare_cached(&sql)?;
    let rows = query.query_map(rusqlite::params_from_iter(values), row)?;
    // SQL cannot apply the limit: whether a session is live depends on its process.
    let wanted = rows.filter(|row| match row {
        Ok(row) => {
            let is_live = matches!(row.status, SessionStatus::Live(_));
            (is_live || !filter.live) && !(filter.without_failed_starts && row.is_failed_start())
        }
        Err(_) => true,
    });
    wanted.take(filter.limit.unwrap_or(usize::MAX)).collect()
}

/// Result of resolving an id.
pub(crate) enum LookupResult {
    NotFound,
    One(Box<SessionRow>),
    Ambiguous { candidates: Vec<String>, more: bool },
}

/// Resolves an id: Ostler's, then the agent's (the newest session with it), then a prefix of
/// either.
pub(crate) fn find(db: &Connection, id: &str) -> Result<LookupResult> {
    for condition in [
        "WHERE session = ?1",
        "WHERE native_session = ?1 ORDER BY began_at DESC, key DESC LIMIT 1",
    ] {
        let mut query = db.prepare_cached(&format!("{COLUMNS} {condition}"))?;
        if let Some(found) = query.query_row([id], row).optional()? {
            return Ok(LookupResult::One(Box::new(found)));
        }
    }
    if id.is_empty() {
        return Ok(LookupResult::NotFound);
    }
    // Sessions that continue each other share the agent's id. The newest represents them.
    let sql = format!(
        "{COLUMNS} WHERE (session >= ?1 AND session < ?1 || char(0x10FFFF)) OR key IN (
             SELECT max(key) FROM sessions WHERE native_session >= ?1 AND native_session < ?1 || char(0x10FFFF)
             GROUP BY native_session)
         ORDER BY began_at DESC, key DESC LIMIT {}",
        MAX_CANDIDATES + 1
    );
    let mut found: Vec<SessionRow> = db
        .prepare_cached(&sql)?
        .query_map([id], row)?
        .collect::<Result<_>>()?;
    let more = found.len() > MAX_CANDIDATES;
    found.truncate(MAX_CANDIDATES);
    Ok(match (found.len(), found.pop()) {
        (1, Some(row)) => LookupResult::One(Box::new(row)),
        (_, None) => LookupResult::NotFound,
        (_, Some(last)) => LookupResult::Ambiguous {
            candidates: found
                .into_iter()
                .chain([last])
                .map(|row| row.session)
                .collect(),
            more,
        },
    })
}

/// Returns the session with exactly that Ostler id.
pub(crate) fn session(db: &Connection, id: &str) -> Result<Option<SessionRow>> {
    db.prepare_cached(&format!("{COLUMNS} WHERE session = ?1"))?
        .query_row([id], row)
        .optional()
}

/// Returns the session with that key.
pub(crate) fn by_key(db: &Connection, key: i64) -> Result<Option<SessionRow>> {
    db.prepare_cached(&format!("{COLUMNS} WHERE key = ?1"))?
        .query_row([key], row)
        .optional()
}

/// Returns a page of a session's events from `from` on, within the limits of
/// [`Log::read`](ostler_core::log::Log::read).
pub(crate) fn events(db: &Connection, session: &str, from: u64, most: usize) -> Result<Vec<Event>> {
    let sql = "SELECT seq, at, turn, json FROM events
        WHERE session = (SELECT key FROM sessions WHERE session = ?1) AND seq >= ?2 ORDER BY seq LIMIT ?3";
    let mut query = db.prepare_cached(sql)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    event_page(query.query(params![session, signed(from), most])?, session)
}

/// Parses rows of number, time, turn and JSON, within the limits of
/// [`Log::read`](ostler_core::log::Log::read).
pub(crate) fn event_page(mut rows: rusqlite::Rows<'_>, session: &str) -> Result<Vec<Event>> {
    let (mut events, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let json = row.get_ref(3)?.as_str()?;
        bytes += json.len();
        if bytes > PAGE_BYTES && !events.is_empty() {
            break;
        }
        // An event that only a later Ostler can parse is returned with its raw text.
        events.push(match Event::from_json(json) {
            Ok(event) => event,
            Err(error) => {
                let (raw, length) = (json.to_owned(), json.len() as u64);
                let kind = Unreadable {
                    raw,
                    why: error.to_string(),
                    length,
                    lossy: false,
                };
                let seq = unsigned(row.get(0)?);
                Event {
                    seq,
                    at: Timestamp(row.get(1)?),
                    session: session.into(),
                    turn: row.get(2)?,
                    kind: kind.into(),
                }
            }
        });
    }
    Ok(events)
}

/// Returns stored events of one session from `from` on, within the limits of
/// [`Log::read`](ostler_core::log::Log::read).
pub(crate) fn event_rows(
    db: &Connection,
    session: &str,
    from: u64,
    most: usize,
) -> Result<Vec<EventRow>> {
    let sql = "SELECT events.rowid, ?1, seq, json, type FROM events
        WHERE session = (SELECT key FROM sessions WHERE session = ?1) AND seq >= ?2 ORDER BY seq LIMIT ?3";
    let mut query = db.prepare_cached(sql)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    page(query.query(params![session, signed(from), most])?)
}

/// Returns stored events of all sessions after a position, in the order in which they were stored.
pub(crate) fn events_after(db: &Connection, position: u64, most: usize) -> Result<Vec<EventRow>> {
    let sql = "SELECT events.rowid, sessions.session, seq, json, type FROM events
        JOIN sessions ON events.session = key WHERE events.rowid > ?1 ORDER BY events.rowid LIMIT ?2";
    let mut query = db.prepare_cached(sql)?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    page(query.query(params![signed(position), most])?)
}

/// Returns the last event of a kind in a session, as JSON.
pub(crate) fn last_event(db: &Connection, session: &str, kind: &str) -> Result<Option<String>> {
    let sql = "SELECT json FROM events
        WHERE session = (SELECT key FROM sessions WHERE session = ?1) AND type = ?2
        ORDER BY seq DESC LIMIT 1";
    db.prepare_cached(sql)?
        .query_row([session, kind], |row| row.get(0))
        .optional()
}

/// Returns the position of the newest event; 0 if there is none.
pub(crate) fn last_position(db: &Connection) -> Result<u64> {
    let sql = "SELECT coalesce(max(rowid), 0) FROM events";
    db.prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .map(unsigned)
}

fn page(mut rows: rusqlite::Rows<'_>) -> Result<Vec<EventRow>> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let json: String = row.get(3)?;
        bytes += json.len();
        if bytes > PAGE_BYTES && !page.is_empty() {
            break;
        }
        page.push(EventRow {
            position: unsigned(row.get(0)?),
            session: row.get(1)?,
            seq: unsigned(row.get(2)?),
            kind: row.get(4)?,
            json,
        });
    }
    Ok(page)
}

/// Returns the kinds of unknown messages in sessions since then, the most frequent first.
pub(crate) fn unknown_messages(db: &Connection, since: Timestamp) -> Result<Vec<UnknownMessages>> {
    let sql = "SELECT agent, agent_version, kind, sum(count), count(*), max(last_at)
        FROM sessions JOIN unknown_messages ON unknown_messages.session = key WHERE began_at >= ?1
        GROUP BY agent, agent_version, kind ORDER BY sum(count) DESC, agent, agent_version, kind LIMIT ?2";
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map(params![since.0, MAX_KINDS], |row| {
        Ok(UnknownMessages {
            agent: row.get(0)?,
            agent_version: row.get(1)?,
            kind: row.get(2)?,
            count: unsigned(row.get(3)?),
            sessions: unsigned(row.get(4)?),
            last_at: Timestamp(row.get(5)?),
        })
    })?;
    rows.collect()
}

/// Returns the newest session in a directory.
pub(crate) fn latest(db: &Connection, dir: &Path) -> Result<Option<SessionRow>> {
    let filter = Filter {
        dir: Some(dir.to_owned()),
        limit: Some(1),
        ..Filter::default()
    };
    Ok(list(db, &filter)?.pop())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps in which SQLite reads a list.
    fn plan(filter: &Filter) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let store_dir = crate::files::StoreDir::prepare(dir.path()).unwrap();
        let db = crate::database::open(&store_dir).unwrap();
        let (sql, values) = list_statement(filter);
        let mut plan = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let steps = plan.query_map(rusqlite::params_from_iter(values), |row| row.get("detail"));
        steps.unwrap().collect::<Result<_>>().unwrap()
    }

    // However many sessions there are, a page of them reads little more than the page.
    #[test]
    fn lists_are_read_in_order_from_an_index() {
        let all = Filter::default();
        for (filter, index) in [
            (
                Filter {
                    dir: Some("/work".into()),
                    ..all.clone()
                },
                "sessions_by_dir",
            ),
            (
                Filter {
                    agent: Some("one".into()),
                    ..all.clone()
                },
                "sessions_by_agent",
            ),
            (
                Filter {
                    live: true,
                    ..all.clone()
                },
                "sessions_open",
            ),
            (
                Filter {
                    after: Some("s".into()),
                    ..all.clone()
                },
                "sessions_by_time",
            ),
            (all, "sessions_by_time"),
        ] {
            let steps = plan(&filter);
            assert!(steps[0].contains(index), "{filter:?}: {steps:?}");
            let has_sort = steps.iter().any(|step| step.contains("TEMP B-TREE"));
            assert!(!has_sort, "{filter:?}: {steps:?}");
            let has_scan = steps[1..].iter().any(|step| step.starts_with("SCAN"));
            assert!(!has_scan, "{filter:?}: {steps:?}");
        }
        let waiting = Filter {
            waiting: true,
            ..Filter::default()
        };
        let steps = plan(&waiting);
        let is_indexed = steps.iter().any(|step| step.contains("approvals_pending"));
        assert!(is_indexed, "{steps:?}");
    }
}
