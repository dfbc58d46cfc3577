//! The contract of a durable log: where sessions are kept, so that any reader can come late and nothing is lost.
//!
//! The session appends first and tells its readers afterwards. Who keeps the log is elsewhere; the session knows only this.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use crate::event::{At, Event};

/// What a session says of itself when it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
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
pub struct Entry {
    /// The event.
    pub event: Event,
    /// How many bytes the agent had printed before the line that gave the event.
    pub raw_offset: u64,
}

/// A session that the log knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
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

/// What an append gives: it resolves when the events are kept.
pub type Appending = Pin<Box<dyn Future<Output = Result<(), LogError>> + Send>>;

/// A durable log. One serves all sessions of a process; several processes may keep theirs in the same place.
pub trait Log: Send + Sync {
    /// A session begins. It is there for others as soon as its first events are.
    ///
    /// # Errors
    /// When nothing can be kept.
    fn open(&self, opening: &Opening) -> Result<(), LogError>;

    /// Keeps events of one session, in order. Once this resolves, [`Log::read`] gives them.
    fn append(&self, entries: Arc<Vec<Entry>>) -> Appending;

    /// At most `most` events of a session, from `from` on. It may block for a moment.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError>;

    /// Where the agent's raw output is to be written; none when it is not kept.
    fn raw(&self, session: &str) -> Option<PathBuf>;

    /// The newest session of that id: Ostler's own, an unmistakable beginning of it, or the agent's.
    ///
    /// # Errors
    /// When the log cannot be read.
    fn find(&self, id: &str) -> Result<Option<Known>, LogError>;
}
