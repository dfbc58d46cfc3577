//! Whether a session can be gone on with: looked up before an agent is started, so that a refusal says why and what to do.
//!
//! Only what is known to fail is refused. What cannot be told, a title for example, is left to the agent.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::dialect::Version;
use ostler_core::dialect::transcript::{ByMinute, Head, Transcripts};
use ostler_core::event::{At, Level, Notice};
use ostler_core::log::SessionRecord;
use ostler_core::outcome::{Cause, Outcome};

/// How much of a transcript is searched for its head: a prompt may stand before it, twice.
const HEAD: u64 = 32 * 1024 * 1024;

/// The word for a session that is not there.
pub(crate) const UNKNOWN_SESSION: &str = "unknown_session";

/// What is to be gone on with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    /// The agent's name.
    pub(crate) agent: &'a str,
    /// The agent's state; see [`root`].
    pub(crate) root: &'a Path,
    /// The directory to work in: absolute and canonical.
    pub(crate) dir: &'a Path,
    /// The session, as the agent names it.
    pub(crate) id: &'a str,
    /// Whether it is gone on with in a copy.
    pub(crate) fork: bool,
}

/// A session that can be gone on with.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Checked {
    /// What is worth knowing about it.
    pub(crate) notices: Vec<Notice>,
    /// The version of the agent that wrote it, when that is known.
    pub(crate) written_by: Option<Version>,
}

/// Why a session cannot be gone on with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResumeProblem {
    #[error("{agent} has no session {id} in {}.", root.display())]
    UnknownId {
        agent: String,
        id: String,
        root: PathBuf,
    },
    #[error("The session {id} was begun in another directory: {}.", there.display())]
    OtherDirectory { id: String, there: PathBuf },
    #[error("The session {id} was begun in a directory that is no longer there: {}.", there.display())]
    DirectoryGone { id: String, there: PathBuf },
    #[error("The session {id} is in use: process {pid} has it open{}.", as_session(session.as_deref()))]
    InUse {
        id: String,
        pid: u32,
        session: Option<String>,
    },
    #[error(
        "The session {id} was written by version {written_by}, and version {installed} is installed."
    )]
    Incompatible {
        id: String,
        written_by: Version,
        installed: Version,
    },
}

fn as_session(session: Option<&str>) -> String {
    session
        .map(|session| format!(", as session {session} of Ostler"))
        .unwrap_or_default()
}

impl ResumeProblem {
    /// How the session ends that was not begun. A wrong request, even when somebody else has the session: nothing is wrong
    /// with the agent, and no breaker must count it.
    pub(crate) fn outcome(&self) -> Outcome {
        let word = self.as_str().to_owned();
        Outcome::new(Cause::BadRequest, self.to_string())
            .hint(self.hint())
            .with(|detail| detail.native = Some(word))
    }

    /// A word to branch on.
    fn as_str(&self) -> &'static str {
        match self {
            Self::UnknownId { .. } => UNKNOWN_SESSION,
            Self::OtherDirectory { .. } => "other_directory",
            Self::DirectoryGone { .. } => "directory_gone",
            Self::InUse { .. } => "session_in_use",
            Self::Incompatible { .. } => "newer_transcript",
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::UnknownId { .. } => {
                "No such session exists on this machine for this user; leave out resume to start a new one."
                    .to_owned()
            }
            Self::OtherDirectory { there, .. } => {
                format!("Go on there: cd {0}, or ostler run --dir {0}.", quoted(there))
            }
            Self::DirectoryGone { there, .. } => format!(
                "Put the directory back (mkdir -p {}, or git worktree add), or leave out resume to begin a new session.",
                quoted(there)
            ),
            Self::InUse { pid, .. } => {
                format!("Wait until it has ended, stop process {pid}, or go on with a copy: --fork.")
            }
            Self::Incompatible { written_by, .. } => {
                format!("If it does not go on well, update the agent to {written_by} or later.")
            }
        }
    }

    fn notice(&self, code: &str) -> Notice {
        Notice::new(Level::Warning, code, format!("{self} {}", self.hint()))
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    if text.bytes().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Where an agent with this environment keeps its state; none when the environment does not say.
pub(crate) fn root(roots: &[&str], env: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    let value = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
    roots
        .iter()
        .find_map(|place| match place.strip_prefix('$') {
            Some(name) => value(name).map(PathBuf::from),
            None => Some(Path::new(value("HOME")?).join(place.strip_prefix("~/")?)),
        })
}

/// How long a session has to be left alone before it is gone on with, of an agent that loses one which is too young. P57
pub(crate) fn wait(kept: &ByMinute, root: &Path, id: &str, now: At) -> Option<Duration> {
    let stamp = now.to_string();
    let file = (kept.file)(id, stamp.get(..MINUTE.len())?)?;
    let mut folders = std::fs::read_dir(root.join(kept.folder)).ok()?.flatten();
    let young = folders.any(|folder| folder.path().join(&file).exists());
    let rest = u64::try_from(60_000 - now.0.rem_euclid(60_000)).ok()?;
    young.then_some(Duration::from_millis(rest))
}

/// What a minute looks like.
const MINUTE: &str = "2026-11-16T07:23";

/// What the caller is told meanwhile.
pub(crate) fn waiting(id: &str, wait: Duration) -> Notice {
    let message = format!(
        "The session {id} was made in this minute, and the agent would lose it; it is gone on with in {} s.",
        wait.as_secs() + 1
    );
    Notice::new(Level::Info, "waiting_to_resume", message)
}

/// Checks whether a session can be gone on with; `known` is what the log has of it ([`ostler_core::log::Log::find`]), if there is
/// one. What is worth knowing and does not keep it from going on is a notice.
pub(crate) fn check(
    places: &Transcripts,
    asked: &Asked<'_>,
    known: Option<&SessionRecord>,
) -> Result<Checked, ResumeProblem> {
    if !(places.is_id)(asked.id) {
        return Ok(Checked::default());
    }
    let Found { file, at_home } = find(places, asked)?;
    if !asked.fork {
        in_use(places, asked, known)?;
    }
    let Some(head) = file.and_then(|file| head(places, &file)) else {
        return Ok(Checked::default());
    };
    let mut notices = Vec::new();
    if let Some(problem) = elsewhere(asked, &head).filter(|_| !at_home) {
        if !places.goes_anywhere {
            return Err(problem);
        }
        let message = format!("{problem} It goes on in {}.", asked.dir.display());
        notices.push(Notice::new(Level::Warning, "resumed_elsewhere", message));
    }
    Ok(Checked {
        notices,
        written_by: head.version,
    })
}

/// A session's transcript.
struct Found {
    /// None when it could not be looked for.
    file: Option<PathBuf>,
    /// Whether it is where the agent looks first, from the directory that was asked for.
    at_home: bool,
}

fn find(places: &Transcripts, asked: &Asked<'_>) -> Result<Found, ResumeProblem> {
    let folder = asked.root.join(places.folder);
    let name = (places.file)(asked.id);
    if let Some(file) = asked
        .dir
        .to_str()
        .map(|dir| folder.join((places.slug)(dir)).join(&name))
        && file.is_file()
    {
        return Ok(Found {
            file: Some(file),
            at_home: true,
        });
    }
    let unknown = || ResumeProblem::UnknownId {
        agent: asked.agent.to_owned(),
        id: asked.id.to_owned(),
        root: folder.clone(),
    };
    match std::fs::read_dir(&folder) {
        Ok(entries) => {
            let mut files = entries.flatten().map(|entry| entry.path().join(&name));
            let file = files.find(|file| file.is_file()).ok_or_else(unknown)?;
            Ok(Found {
                file: Some(file),
                at_home: false,
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(unknown()),
        // We may not look; the agent may.
        Err(_) => Ok(Found {
            file: None,
            at_home: false,
        }),
    }
}

/// The first line that says where the session was.
fn head(places: &Transcripts, file: &Path) -> Option<Head> {
    let mut lines = BufReader::new(std::fs::File::open(file).ok()?.take(HEAD));
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).ok()? > 0 {
        if let Some(head) = (places.read_head)(&String::from_utf8_lossy(&line)) {
            return Some(head);
        }
        line.clear();
    }
    None
}

fn elsewhere(asked: &Asked<'_>, head: &Head) -> Option<ResumeProblem> {
    let (id, there) = (asked.id.to_owned(), PathBuf::from(&head.cwd));
    match there.canonicalize() {
        Ok(real) if real == asked.dir => None,
        Ok(real) if real.is_dir() => Some(ResumeProblem::OtherDirectory { id, there }),
        _ => Some(ResumeProblem::DirectoryGone { id, there }),
    }
}

/// The agent has said its version: if a newer one wrote the session, that is worth knowing.
pub(crate) fn newer(id: &str, written_by: Version, installed: &str) -> Option<Notice> {
    let installed = Version::find(installed)?;
    let is_newer = (written_by.0, written_by.1) > (installed.0, installed.1);
    let problem = || ResumeProblem::Incompatible {
        id: id.to_owned(),
        written_by,
        installed,
    };
    is_newer.then(|| problem().notice("newer_transcript"))
}

/// Two writers would mix two conversations into one. The agent may not notice, so we do.
fn in_use(
    places: &Transcripts,
    asked: &Asked<'_>,
    known: Option<&SessionRecord>,
) -> Result<(), ResumeProblem> {
    let id = || asked.id.to_owned();
    if let Some(known) = known.filter(|known| known.native_session.as_deref() == Some(asked.id))
        && let Some(pid) = known.held_by
    {
        return Err(ResumeProblem::InUse {
            id: id(),
            pid,
            session: Some(known.session.clone()),
        });
    }
    let Some(notes) = places.open else {
        return Ok(());
    };
    for entry in std::fs::read_dir(asked.root.join(notes.folder))
        .into_iter()
        .flatten()
        .flatten()
    {
        if entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.ends_with(notes.suffix))
            && let Some(holder) = std::fs::read_to_string(entry.path())
                .ok()
                .and_then(|text| (notes.read)(&text))
            && holder.id == asked.id
            && start_of(holder.pid).is_some_and(|start| start == holder.start)
        {
            return Err(ResumeProblem::InUse {
                id: id(),
                pid: holder.pid,
                session: None,
            });
        }
    }
    Ok(())
}

/// When a living process was started, as Linux counts it; none elsewhere, where nobody is taken for a holder.
fn start_of(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything.
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
