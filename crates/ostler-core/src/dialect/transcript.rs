//! Locations of an agent's stored sessions: data and pure functions to check a resume before it is
//! attempted.

use super::Version;

/// How an agent stores its sessions on disk: `<root>/<folder>/<slug of the directory>/<file of the
/// id>`.
#[derive(Debug, Clone, Copy)]
pub struct Transcripts {
    /// Possible locations of the agent's state: `$NAME` for the value of a variable, `~/…` below
    /// the home directory. The first that is set counts.
    pub roots: &'static [&'static str],
    /// Directory below the root with one subdirectory for each working directory.
    pub folder: &'static str,
    /// Returns the name of that subdirectory for an absolute, canonical working directory.
    pub slug: fn(&str) -> String,
    /// Returns the file name of a session.
    pub file: fn(&str) -> String,
    /// Returns true if a text can only be a session id. Anything else, such as a title, is resolved
    /// by the agent.
    pub is_id: fn(&str) -> bool,
    /// Parses one line of a transcript, or returns `None` if it does not contain the session's
    /// directory.
    pub read_head: fn(&str) -> Option<Head>,
    /// How the agent records which sessions are open, if it does.
    pub open: Option<OpenMarkers>,
    /// Whether the agent can resume a session of another directory.
    pub resumes_anywhere: bool,
}

/// Header of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Directory the session was started in.
    pub cwd: String,
    /// Version of the agent that wrote it.
    pub version: Option<Version>,
}

/// Marker files of an agent's running processes, one for each.
#[derive(Debug, Clone, Copy)]
pub struct OpenMarkers {
    /// Directory of the marker files, below the root.
    pub folder: &'static str,
    /// Suffix of a marker file's name.
    pub suffix: &'static str,
    /// Parses a marker file.
    pub read: fn(&str) -> Option<SessionHolder>,
}

/// A process that has a session open. A marker file outlives a killed process, and its pid may be
/// reused, so only pid and start time together identify the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHolder {
    /// Process id.
    pub pid: u32,
    /// Start time in the system's own unit: field 22 of `/proc/<pid>/stat` on Linux.
    pub start: String,
    /// The open session.
    pub id: String,
}

/// Session files that an agent names by the minute: `<root>/<folder>/<any directory>/<file>`.
///
/// Such an agent loses a session that is resumed within the minute of its creation, because it
/// mistakes the file for that of a new session. A resume has to wait for the next minute.
#[derive(Debug, Clone, Copy)]
pub struct ResumeDelay {
    /// Possible locations of the agent's state, as in [`Transcripts::roots`].
    pub roots: &'static [&'static str],
    /// Directory below the root with one subdirectory for each working directory.
    pub folder: &'static str,
    /// Returns the file name for a session id created in a given minute (UTC), such as
    /// `2026-11-16T07:23`, or `None` if the text is not a session id.
    pub file: fn(&str, &str) -> Option<String>,
}
