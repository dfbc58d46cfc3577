//! The log contract: durable storage of sessions, so that a late reader misses nothing.
//!
//! A session appends every event to the log, in order. Implementations are elsewhere; a session
//! depends only on [`Log`].
//!
//! ```
//! use ostler_core::event::Event;
//! use ostler_core::log::{Log, LogError};
//!
//! /// Reads a whole session page by page, so that memory stays bounded.
//! fn for_each(log: &dyn Log, id: &str, mut each: impl FnMut(Event)) -> Result<(), LogError> {
//!     let mut from = 0;
//!     loop {
//!         let page = log.read(id, from, 1000)?;
//!         let Some(last) = page.last() else { return Ok(()) };
//!         from = last.seq + 1;
//!         page.into_iter().for_each(&mut each);
//!     }
//! }
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use crate::event::{Event, Timestamp};

/// Description of a session when it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSession {
    /// Ostler's id of the session.
    pub session: String,
    /// The agent's name in Ostler.
    pub agent: String,
    /// The agent's working directory.
    pub dir: PathBuf,
    /// When it started.
    pub at: Timestamp,
    /// Ostler's id of the session it continues, if that is known.
    pub continues: Option<String>,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    /// Id of the process that drives the session: this one.
    pub pid: u32,
}

/// An event, and its position in the agent's raw output.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// The event.
    pub event: Event,
    /// Number of bytes the agent had printed before the line that produced the event, including any
    /// dropped since.
    pub raw_offset: u64,
}

/// A stored session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Ostler's id of the session.
    pub session: String,
    /// The agent's name in Ostler.
    pub agent: String,
    /// The agent's version, as it reported it.
    pub agent_version: Option<String>,
    /// The agent's own id of the session.
    pub native_session: Option<String>,
    /// The agent's working directory.
    pub dir: PathBuf,
    /// Ostler's id of the session it continues.
    pub continues: Option<String>,
    /// Id of the process that drives it, if it has not ended and that process is alive.
    pub held_by: Option<u32>,
}

/// Failure of the log. The session continues without it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LogError(
    /// Message for a person.
    pub String,
);

/// Maximum size of a page of events, in bytes of JSON, unless its first event alone is larger.
pub const PAGE_BYTES: usize = 1024 * 1024;

/// Future of an append, which resolves once the events are stored.
pub type AppendFuture = Pin<Box<dyn Future<Output = Result<(), LogError>> + Send>>;

/// Returns the path of the older segment of a session's raw output, next to the current one. It
/// exists if the output came near its limit.
#[must_use]
pub fn older_raw(raw: &Path) -> PathBuf {
    let mut name = raw.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// A durable log. One instance serves all sessions of a process; several processes may share one
/// location.
pub trait Log: Send + Sync {
    /// Registers a session. Other readers see it once its first events are stored.
    ///
    /// # Errors
    /// Fails if nothing can be stored.
    fn open(&self, opening: &NewSession) -> Result<(), LogError>;

    /// Stores events of one session, after those of earlier calls, which may not have resolved yet.
    /// Once this resolves, [`Log::read`] returns them.
    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture;

    /// Returns a page of a session's events starting at `from`, or an empty one after the last. May
    /// block briefly.
    ///
    /// A page has at most `most` events and at most [`PAGE_BYTES`], but at least one event. A
    /// reader calls this until it gets an empty page, which bounds its memory while it catches up.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError>;

    /// Returns where the agent's raw output is written, or `None` if it is not stored.
    /// [`older_raw`] next to it is written too.
    fn raw(&self, session: &str) -> Option<PathBuf>;

    /// Resolves an id: Ostler's own, the agent's (the newest session with it), or an unambiguous
    /// prefix of either.
    ///
    /// # Errors
    /// Fails if the prefix is ambiguous, or if the log cannot be read.
    fn find(&self, id: &str) -> Result<Option<SessionRecord>, LogError>;
}
