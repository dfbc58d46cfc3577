//! Reviewing a project's own files: what they ask for, the question on a terminal, and what a run reports about them.

use std::io::Write;
use std::path::Path;

use ostler::event::{Level, Notice};
use ostler::permission::Trust;
use ostler::trust::{Decided, FileKind, Standing, UNTRUSTED, WorkspaceFile};
use ostler::{Attendance, Host};

use crate::args::{ConfigArgs, PolicyArgs};
use crate::fault::Fault;
use crate::output::{style, tell, visible};
use crate::trust::{Memory, Project};
use crate::{config, environment, policy, user};

/// How many characters of a request are shown.
const WIDTH: usize = 300;

/// What a file asks for.
#[derive(Debug, Default)]
pub(crate) struct RequestedAccess {
    /// Requests that trust grants, one clause each.
    pub(crate) grantable: Vec<String>,
    /// Requests that no workspace is granted.
    pub(crate) never: Vec<String>,
}

impl RequestedAccess {
    fn is_empty(&self) -> bool {
        self.grantable.is_empty() && self.never.is_empty()
    }
}

/// Reads the project of a run, and asks about its files if somebody is there and they ask for more.
pub(crate) fn open(
    (config, args): (ConfigArgs, &PolicyArgs),
    dir: &Path,
    attendance: Attendance,
) -> Result<Project, Fault> {
    let mut project = Project::read(config, args, dir)?;
    if attendance == Attendance::Attended {
        ask(&mut project);
    }
    Ok(project)
}

/// Asks whether the files that ask for more are trusted. "No" leaves them as they are.
fn ask(project: &mut Project) {
    let mut waiting = Vec::new();
    for (at, file) in project
        .files
        .iter()
        .enumerate()
        .filter(|(_, file)| !file.is_trusted())
    {
        // What is wrong with a file is said when it is loaded.
        let requested = requested_access(project, file).unwrap_or_default();
        if !requested.grantable.is_empty() {
            waiting.push((at, requested));
        }
    }
    if waiting.is_empty() {
        return;
    }
    tell(&format!(
        "{} has files that ask for more than you granted:",
        shown(&project.root.to_string_lossy())
    ));
    for (at, requested) in &waiting {
        describe(&project.files[*at], requested)
            .iter()
            .for_each(|line| tell(line));
    }
    if confirm("Trust exactly these contents? [y/N] ") {
        let files: Vec<&WorkspaceFile> =
            waiting.iter().map(|(at, _)| &project.files[*at]).collect();
        // The answer holds for this run even where it cannot be remembered.
        if let Err(fault) = Memory::remember(&files) {
            tell(&format!(
                "warning: trusted for this run only: {}",
                shown(&fault.outcome().message)
            ));
        }
        waiting
            .iter()
            .for_each(|(at, _)| project.files[*at].standing = Standing::Trusted);
    } else {
        tell("Not granted; `ostler trust` asks again.");
    }
}

/// What a file asks for, as it is read.
pub(crate) fn requested_access(
    project: &Project,
    file: &WorkspaceFile,
) -> Result<RequestedAccess, Fault> {
    Ok(match file.kind {
        FileKind::Sandbox => {
            let decided = as_if_trusted(project, file)?;
            let never = decided
                .refused
                .iter()
                .map(|(request, why)| format!("{request} ({why})"))
                .collect();
            RequestedAccess {
                grantable: decided.opened.iter().map(ToString::to_string).collect(),
                never,
            }
        }
        FileKind::Policy => {
            let rules = user::parse(&file.text, &file.name, Trust::Full)?;
            let allows = rules.rules().filter(|rule| rule.as_str() == "allow");
            RequestedAccess {
                grantable: allows
                    .map(|rule| format!("{rule} allows without asking"))
                    .collect(),
                never: Vec::new(),
            }
        }
        FileKind::Config => {
            let config = config::untrusted(file)?;
            let values = config.ignored().iter().map(|ignored| &ignored.entry);
            let grantable = values
                .map(|entry| format!("{} is {}", entry.key, entry.shown()))
                .collect();
            RequestedAccess {
                grantable,
                never: Vec::new(),
            }
        }
        FileKind::Script => {
            let grantable =
                vec!["the agent scripted plays its replies, tool calls included".to_owned()];
            RequestedAccess {
                grantable,
                never: Vec::new(),
            }
        }
    })
}

/// What the sandbox file of a project would get if it were trusted.
fn as_if_trusted(project: &Project, file: &WorkspaceFile) -> Result<Decided, Fault> {
    let mut trust = project.trust();
    trust.files = vec![WorkspaceFile {
        standing: Standing::Trusted,
        ..file.clone()
    }];
    trust.root = Some(file.root.clone());
    let host = environment::host().with_workspace(trust);
    ostler::sandbox_policy(&host, &file.root).map_err(|error| Fault::usage(error.message))
}

/// A file and what it asks for, as lines for people.
pub(crate) fn describe(file: &WorkspaceFile, requested: &RequestedAccess) -> Vec<String> {
    let (warn, dim) = (style::WARN, style::DIM);
    let path = shown(&file.root.join(&file.name).to_string_lossy());
    let mut lines = vec![format!(
        "  {path} {dim}{}, sha256 {}…{dim:#}",
        file.standing.as_str(),
        &file.sha256[..12]
    )];
    lines.extend(
        requested
            .grantable
            .iter()
            .map(|clause| format!("    {warn}+{warn:#} {}", shown(clause))),
    );
    lines.extend(
        requested
            .never
            .iter()
            .map(|clause| format!("    {dim}never granted: {}{dim:#}", shown(clause))),
    );
    if requested.is_empty() {
        lines.push(format!(
            "    {dim}asks for nothing beyond what you granted{dim:#}"
        ));
    }
    lines
}

/// Text of a file on one line: what a terminal would obey, or would not show, is spelled out.
pub(crate) fn shown(text: &str) -> String {
    let (shown, left) = visible(text, WIDTH);
    if left == 0 {
        shown
    } else {
        format!("{shown}…")
    }
}

/// Asks on the terminal. Anything but yes is no.
pub(crate) fn confirm(question: &str) -> bool {
    let mut err = anstream::stderr();
    let _ = write!(err, "{question}").and_then(|()| err.flush());
    let answer = typed_line();
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// One line from the terminal, and nothing of what follows it: that may be for the session. What was typed before the
/// question answers nothing.
#[cfg(unix)]
fn typed_line() -> String {
    let stdin = std::io::stdin();
    let _ = rustix::termios::tcflush(&stdin, rustix::termios::QueueSelector::IFlush);
    let (mut line, mut byte) = (Vec::new(), [0_u8; 1]);
    loop {
        match rustix::io::read(&stdin, &mut byte[..]) {
            Ok(1) if byte[0] != b'\n' => line.push(byte[0]),
            Err(rustix::io::Errno::INTR) => {}
            _ => return String::from_utf8_lossy(&line).into_owned(),
        }
    }
}

#[cfg(not(unix))]
fn typed_line() -> String {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    line
}

/// The surroundings of a session in this project: the decision about its files, and notices about what was left out.
pub(crate) fn attach(
    host: Host,
    project: &Project,
    config: &ostler::config::Config,
) -> Result<Host, Fault> {
    Ok(host
        .with_workspace(project.trust())
        .with_notices(notices(project, config)?))
}

/// What was left out of the project's configuration and permission rules. The sandbox policy and the script are reported by
/// the agents that use them.
fn notices(project: &Project, config: &ostler::config::Config) -> Result<Vec<Notice>, Fault> {
    let mut messages = config::ignored_warnings(config, project);
    messages.extend(policy::left_out(project)?);
    messages.extend(
        Memory::load()
            .fault()
            .filter(|_| !project.files.is_empty())
            .map(str::to_owned),
    );
    Ok(messages
        .into_iter()
        .map(|message| Notice::new(Level::Warning, UNTRUSTED, message))
        .collect())
}
