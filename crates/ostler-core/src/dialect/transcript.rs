//! Where an agent keeps its sessions: data and pure functions by which a resume can be checked before it is tried.

use super::Version;

/// How one agent keeps its sessions on disk: `<root>/<folder>/<slug of the directory>/<file of the id>`.
#[derive(Debug, Clone, Copy)]
pub struct Transcripts {
    /// Where the agent's state may be: `$NAME` for the value of a variable, `~/…` below the home directory. The first that
    /// says anything counts.
    pub roots: &'static [&'static str],
    /// The directory, below the root, that has one directory for each that the agent worked in.
    pub folder: &'static str,
    /// The name of the directory that belongs to an absolute, canonical working directory.
    pub slug: fn(&str) -> String,
    /// The name of the file of a session.
    pub file: fn(&str) -> String,
    /// Whether a text can only be a session's id. Anything else, a title for example, is the agent's to look up.
    pub is_id: fn(&str) -> bool,
    /// Reads one line of a transcript; none when it does not say where the session was.
    pub read_head: fn(&str) -> Option<Head>,
    /// How the agent notes which sessions are open, when it does.
    pub open: Option<OpenNotes>,
    /// Whether the agent itself goes on with a session of another directory.
    pub goes_anywhere: bool,
}

/// What a transcript says of its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The directory that the session began in.
    pub cwd: String,
    /// The version that wrote it.
    pub version: Option<Version>,
}

/// The notes of an agent's running processes: one file for each.
#[derive(Debug, Clone, Copy)]
pub struct OpenNotes {
    /// The directory of the notes, below the root.
    pub folder: &'static str,
    /// How the name of a note ends.
    pub suffix: &'static str,
    /// Reads a note.
    pub read: fn(&str) -> Option<Holder>,
}

/// A process that has a session open. A note outlives a process that was killed, and a number may be another's by now: only
/// number and start time together say who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// When it was started, as the system counts that: field 22 of `/proc/<pid>/stat` on Linux.
    pub start: String,
    /// The session that it has open.
    pub id: String,
}

/// How an agent that names its sessions' files by the minute keeps them: `<root>/<folder>/<any directory>/<file>`. A session that
/// is gone on with in the minute in which it was made is lost to such an agent: it takes the file for a new one's.
#[derive(Debug, Clone, Copy)]
pub struct ByMinute {
    /// Where the agent's state may be, as in [`Transcripts::roots`].
    pub roots: &'static [&'static str],
    /// The directory, below the root, that has one directory for each that the agent worked in.
    pub folder: &'static str,
    /// The file of the session of an id that was made in a minute such as `2026-11-16T07:23`, in UTC; none for what is no id.
    pub file: fn(&str, &str) -> Option<String>,
}
