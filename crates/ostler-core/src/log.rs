//! The contract of a durable log: where sessions are kept, so that any reader can come late and nothing is lost.
//!
//! The session appends first and tells its readers afterwards. Who keeps the log is elsewhere; the session knows only this.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use crate::event::{At, Event};

/// What a session says of itself when it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// The session, as Ostler names it.
    pub session: String,
    /// The agent's name in Ostler.
    pub agent: String,
    /// The directory that the agent works in.
    pub dir: PathBuf,
    /// When it began.
    pub at: At,
    /// The session it goes on with, as Ostler names it, when that is known.
    pub continues: Option<String>,
    /// The process that drives it: this one.
    pub pid: u32,
}

/// An event, and where in the agent's raw output it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// The event.
    pub event: Event,
    /// How many bytes the agent had printed before the line that gave the event, with those that were dropped since.
    pub raw_offset: u64,
}

/// A session that the log knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// The session, as Ostler names it.
    pub session: String,
    /// The agent's name in Ostler.
    pub agent: String,
    /// The agent's version, as it said it.
    pub agent_version: Option<String>,
    /// The agent's own id of the session.
    pub native_session: Option<String>,
    /// The directory that the agent works in.
    pub dir: PathBuf,
    /// The session it goes on with, as Ostler names it.
    pub continues: Option<String>,
    /// The process that drives it now, when it has not ended and that process is alive.
    pub held_by: Option<u32>,
}

/// The log failed. The session goes on without it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogError(
    /// What happened, for a person.
    pub String,
);

/// Maximum size of a page of events, in bytes of JSON, unless its first event alone is larger.
pub const PAGE_BYTES: usize = 1024 * 1024;

/// What an append gives: it resolves when the events are kept.
pub type AppendFuture = Pin<Box<dyn Future<Output = Result<(), LogError>> + Send>>;

/// The older segment of a session's raw output, beside the current one: it exists when the output is near its limit.
#[must_use]
pub fn older_raw(raw: &Path) -> PathBuf {
    let mut name = raw.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// A durable log. One serves all sessions of a process; several processes may keep theirs in the same place.
pub trait Log: Send + Sync {
    /// A session begins. It is there for others as soon as its first events are.
    ///
    /// # Errors
    /// When nothing can be kept.
    fn open(&self, opening: &NewSession) -> Result<(), LogError>;

    /// Keeps events of one session, in order. Once this resolves, [`Log::read`] gives them.
    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture;

    /// Returns a page of a session's events from `from` on, or none after the last. It may block for a moment.
    ///
    /// A page has at most `most` events and at most [`PAGE_BYTES`], but at least one event: a reader asks again until
    /// it gets none. That bounds the memory of a reader that catches up.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError>;

    /// Where the agent's raw output is to be written; none when it is not kept. [`older_raw`] beside it is written too.
    fn raw(&self, session: &str) -> Option<PathBuf>;

    /// Resolves an id: Ostler's own, the agent's (the newest session with it), or an unambiguous prefix of either.
    ///
    /// # Errors
    /// When the prefix is ambiguous, or the log cannot be read.
    fn find(&self, id: &str) -> Result<Option<SessionRecord>, LogError>;
}
