//! Checks whether a session can be resumed, before its agent is started, so that an error has a
//! reason and a hint.
//!
//! Only what is known to fail is refused. What cannot be determined, such as a title instead of an
//! id, is left to the agent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::dialect::Version;
use ostler_core::dialect::transcript::{Head, ResumeDelay, Transcripts};
use ostler_core::event::{Level, Notice, NoticeCode, Timestamp};
use ostler_core::log::SessionRecord;
use ostler_core::outcome::{Cause, Outcome, Reason};

use crate::agent_path;

/// How much of a transcript is searched for its head, which may follow after two copies of the
/// prompt.
const MAX_HEAD: u64 = 32 * 1024 * 1024;

/// A session to resume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResumeRequest<'a> {
    /// Name of the agent.
    pub(crate) agent: &'a str,
    /// Directory of the agent's state; see [`root`].
    pub(crate) root: &'a Path,
    /// The working directory, absolute and canonical.
    pub(crate) dir: &'a Path,
    /// The agent's own session id.
    pub(crate) id: &'a str,
    /// Whether a copy of the session is resumed.
    pub(crate) fork: bool,
}

/// The result of a successful check.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ResumeCheck {
    /// Notices for the caller.
    pub(crate) notices: Vec<Notice>,
    /// The agent version that wrote the session, if known.
    pub(crate) written_by: Option<Version>,
}

/// The reason why a session cannot be resumed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResumeProblem {
    #[error("{agent} has no session {id} in {}.", root.display())]
    UnknownId {
        agent: String,
        id: String,
        root: PathBuf,
    },
    #[error("The session {id} was started in another directory: {}.", there.display())]
    OtherDirectory { id: String, there: PathBuf },
    #[error(
        "The session {id} was started in a directory that no longer exists: {}.",
        there.display()
    )]
    DirectoryGone { id: String, there: PathBuf },
    #[error(
        "The session {id} is in use by process {pid}{}.",
        ostler_session(session.as_deref())
    )]
    InUse {
        id: String,
        pid: u32,
        session: Option<String>,
    },
    #[error(
        "The session {id} was written by version {written_by}, \
         but version {installed} is installed."
    )]
    Incompatible {
        id: String,
        written_by: Version,
        installed: Version,
    },
}

fn ostler_session(session: Option<&str>) -> String {
    session
        .map(|session| format!(" (Ostler session {session})"))
        .unwrap_or_default()
}

impl ResumeProblem {
    /// Returns the outcome of the session that was not started. It is always a bad request, even if
    /// the session is in use: the agent is fine, and the circuit breaker must not count it.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome::new(Cause::BadRequest, self.to_string())
            .hint(self.hint())
            .because(self.reason())
    }

    fn reason(&self) -> Reason {
        match self {
            Self::UnknownId { .. } => Reason::UnknownSession,
            Self::OtherDirectory { .. } => Reason::OtherDirectory,
            Self::DirectoryGone { .. } => Reason::DirectoryGone,
            Self::InUse { .. } => Reason::SessionInUse,
            Self::Incompatible { .. } => Reason::NewerTranscript,
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::UnknownId { .. } => "No such session exists on this machine for this user; \
                 leave out resume to start a new one."
                .to_owned(),
            Self::OtherDirectory { there, .. } => {
                let dir = quoted(there);
                format!("Resume it there: cd {dir}, or ostler run --dir {dir}.")
            }
            Self::DirectoryGone { there, .. } => format!(
                "Restore the directory (mkdir -p {}, or git worktree add), \
                 or leave out resume to start a new session.",
                quoted(there)
            ),
            Self::InUse { pid, .. } => {
                format!("Wait until it ends, stop process {pid}, or resume a copy: --fork.")
            }
            Self::Incompatible { written_by, .. } => {
                format!("If it does not work, update the agent to {written_by} or later.")
            }
        }
    }

    fn notice(&self, code: NoticeCode) -> Notice {
        Notice::new(Level::Warning, code, format!("{self} {}", self.hint()))
    }
}

/// Quotes a path for a shell, if necessary.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    if text.bytes().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Returns the directory of the agent's state, or `None` if the environment does not determine it.
pub(crate) fn root(roots: &[&str], env: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let value = |name: &str| env.get(OsStr::new(name)).map(OsString::as_os_str);
    roots
        .iter()
        .find_map(|path| agent_path::resolve(path, value))
}

/// Returns how long to wait before a session can be resumed, for an agent that loses a session
/// resumed in the minute of its creation. P57
pub(crate) fn delay(rule: &ResumeDelay, root: &Path, id: &str, now: Timestamp) -> Option<Duration> {
    let stamp = now.to_string();
    let file = (rule.file)(id, stamp.get(..MINUTE.len())?)?;
    let mut folders = std::fs::read_dir(root.join(rule.folder)).ok()?.flatten();
    let is_new = folders.any(|folder| folder.path().join(&file).exists());
    let rest = u64::try_from(60_000 - now.0.rem_euclid(60_000)).ok()?;
    is_new.then_some(Duration::from_millis(rest))
}

/// The format of a minute.
const MINUTE: &str = "2026-11-16T07:23";

/// Returns the notice about a delayed resume.
pub(crate) fn delay_notice(id: &str, delay: Duration) -> Notice {
    let message = format!(
        "The session {id} was created in this minute, and the agent would lose it \
         if it were resumed now; resuming in {} s.",
        delay.as_secs() + 1
    );
    Notice::new(Level::Info, NoticeCode::WaitingToResume, message)
}

/// Checks whether a session can be resumed. `known` is its record in the log, if there is one
/// ([`ostler_core::log::Log::find`]). Problems that do not prevent it become notices.
pub(crate) fn check(
    transcripts: &Transcripts,
    request: &ResumeRequest<'_>,
    known: Option<&SessionRecord>,
) -> Result<ResumeCheck, ResumeProblem> {
    if !(transcripts.is_id)(request.id) {
        return Ok(ResumeCheck::default());
    }
    let TranscriptFile { file, is_local } = find(transcripts, request)?;
    if !request.fork {
        check_unused(transcripts, request, known)?;
    }
    let Some(head) = file.and_then(|file| read_head(transcripts, &file)) else {
        return Ok(ResumeCheck::default());
    };
    let mut notices = Vec::new();
    if let Some(problem) = directory_problem(request, &head).filter(|_| !is_local) {
        if !transcripts.resumes_anywhere {
            return Err(problem);
        }
        let message = format!("{problem} It is resumed in {}.", request.dir.display());
        notices.push(Notice::new(
            Level::Warning,
            NoticeCode::ResumedElsewhere,
            message,
        ));
    }
    Ok(ResumeCheck {
        notices,
        written_by: head.version,
    })
}

/// The transcript of a session.
struct TranscriptFile {
    /// `None` if the directory could not be read.
    file: Option<PathBuf>,
    /// Whether it belongs to the requested directory, where the agent looks first.
    is_local: bool,
}

fn find(
    transcripts: &Transcripts,
    request: &ResumeRequest<'_>,
) -> Result<TranscriptFile, ResumeProblem> {
    let folder = request.root.join(transcripts.folder);
    let name = (transcripts.file)(request.id);
    let slug = request.dir.to_str().map(transcripts.slug);
    let local = slug.map(|slug| folder.join(slug).join(&name));
    if let Some(file) = local.filter(|file| file.is_file()) {
        return Ok(TranscriptFile {
            file: Some(file),
            is_local: true,
        });
    }
    let unknown = || ResumeProblem::UnknownId {
        agent: request.agent.to_owned(),
        id: request.id.to_owned(),
        root: folder.clone(),
    };
    let file = match std::fs::read_dir(&folder) {
        Ok(entries) => {
            let mut files = entries.flatten().map(|entry| entry.path().join(&name));
            Some(files.find(|file| file.is_file()).ok_or_else(unknown)?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(unknown()),
        // Not readable for us; it may be for the agent.
        Err(_) => None,
    };
    Ok(TranscriptFile {
        file,
        is_local: false,
    })
}

/// Returns the first line that has the session's directory.
fn read_head(transcripts: &Transcripts, file: &Path) -> Option<Head> {
    let mut lines = BufReader::new(std::fs::File::open(file).ok()?.take(MAX_HEAD));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).ok()? > 0 {
        if let Some(head) = (transcripts.read_head)(&String::from_utf8_lossy(&line)) {
            return Some(head);
        }
        line.clear();
    }
    None
}

fn directory_problem(request: &ResumeRequest<'_>, head: &Head) -> Option<ResumeProblem> {
    let (id, there) = (request.id.to_owned(), PathBuf::from(&head.cwd));
    match there.canonicalize() {
        Ok(real) if real == request.dir => None,
        Ok(real) if real.is_dir() => Some(ResumeProblem::OtherDirectory { id, there }),
        _ => Some(ResumeProblem::DirectoryGone { id, there }),
    }
}

/// Returns a notice if the session was written by a newer version than the installed one.
pub(crate) fn newer_version_notice(
    id: &str,
    written_by: Version,
    installed: &str,
) -> Option<Notice> {
    let installed = Version::find(installed)?;
    let is_newer = (written_by.0, written_by.1) > (installed.0, installed.1);
    let problem = || ResumeProblem::Incompatible {
        id: id.to_owned(),
        written_by,
        installed,
    };
    is_newer.then(|| problem().notice(NoticeCode::NewerTranscript))
}

/// Fails if another process has the session open. Two writers would mix two conversations, and the
/// agent may not notice.
fn check_unused(
    transcripts: &Transcripts,
    request: &ResumeRequest<'_>,
    known: Option<&SessionRecord>,
) -> Result<(), ResumeProblem> {
    let in_use = |pid: u32, session: Option<&String>| {
        Err(ResumeProblem::InUse {
            id: request.id.to_owned(),
            pid,
            session: session.cloned(),
        })
    };
    if let Some(known) = known.filter(|known| known.native_session.as_deref() == Some(request.id))
        && let Some(pid) = known.held_by
    {
        return in_use(pid, Some(&known.session));
    }
    let Some(notes) = transcripts.open else {
        return Ok(());
    };
    let entries = std::fs::read_dir(request.root.join(notes.folder));
    let mut holders = entries.into_iter().flatten().flatten().filter_map(|entry| {
        let is_note = entry.file_name().to_str()?.ends_with(notes.suffix);
        is_note.then(|| (notes.read)(&std::fs::read_to_string(entry.path()).ok()?))?
    });
    let holder = holders.find(|holder| {
        holder.id == request.id && start_time(holder.pid).as_ref() == Some(&holder.start)
    });
    holder.map_or(Ok(()), |holder| in_use(holder.pid, None))
}

/// Returns the start time of a live process in Linux's unit. Returns `None` on other systems, where
/// no process is considered a holder.
fn start_time(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may contain anything.
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let mut fields = std::str::from_utf8(bytes.get(end + 1..)?)
        .ok()?
        .split_ascii_whitespace();
    let state = fields.next()?;
    fields
        .nth(18)
        .filter(|_| !matches!(state, "Z" | "X"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests;
