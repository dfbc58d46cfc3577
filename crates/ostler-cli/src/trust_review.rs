//! Review of a project's settings files: what they request, the trust prompt, and notices about
//! what was ignored.

use std::io::Write;
use std::path::Path;

use ostler::Host;
use ostler::event::{Level, Notice, NoticeCode};
use ostler::permission::Trust;
use ostler::spec::Attendance;
use ostler::trust::{Decided, FileKind, Standing, WorkspaceFile};

use crate::args::{ConfigArgs, PolicyArgs};
use crate::fault::{Fault, Result};
use crate::output::style::{DIM, WARN};
use crate::output::{eprint_line, shortened, visible};
use crate::trust::{Memory, Project};
use crate::{config, environment, policy, user};

/// Maximum number of characters shown of a request.
const WIDTH: usize = 300;

/// Access that a file requests.
#[derive(Debug, Default)]
pub(crate) struct RequestedAccess {
    /// Requests that trust would grant.
    pub(crate) grantable: Vec<String>,
    /// Requests that are never granted to a project.
    pub(crate) never: Vec<String>,
}

/// Reads the project of a run. On a terminal, asks whether to trust files that request more access.
pub(crate) fn open(
    config: ConfigArgs,
    args: &PolicyArgs,
    dir: &Path,
    attendance: Attendance,
) -> Result<Project> {
    let mut project = Project::read(config, args, dir)?;
    if attendance == Attendance::Attended {
        ask(&mut project);
    }
    Ok(project)
}

/// Asks whether to trust the files that request more access. "No" changes nothing.
fn ask(project: &mut Project) {
    let files = project.files.iter().enumerate();
    let untrusted = files.filter(|(_, file)| !file.is_trusted());
    // Errors in a file are reported when it is loaded.
    let waiting: Vec<(usize, RequestedAccess)> = untrusted
        .map(|(at, file)| (at, requested_access(project, file).unwrap_or_default()))
        .filter(|(_, requested)| !requested.grantable.is_empty())
        .collect();
    if waiting.is_empty() {
        return;
    }
    errln!(
        "{} has settings files that request more access than you granted:",
        shown(&project.root.to_string_lossy())
    );
    for (at, requested) in &waiting {
        let lines = describe(&project.files[*at], requested);
        lines.iter().for_each(|line| eprint_line(line));
    }
    if confirm("Trust exactly these contents? [y/N] ") {
        let files: Vec<&WorkspaceFile> =
            waiting.iter().map(|(at, _)| &project.files[*at]).collect();
        // The answer applies to this run even if it cannot be saved.
        if let Err(fault) = Memory::remember(&files) {
            errln!(
                "warning: trusted for this run only: {}",
                shown(&fault.outcome().message)
            );
        }
        waiting
            .iter()
            .for_each(|(at, _)| project.files[*at].standing = Standing::Trusted);
    } else {
        eprint_line("Not granted. Run `ostler trust` to be asked again.");
    }
}

/// Returns the access that a file requests.
pub(crate) fn requested_access(project: &Project, file: &WorkspaceFile) -> Result<RequestedAccess> {
    let mut never = Vec::new();
    let grantable = match file.kind {
        FileKind::Sandbox => {
            let decided = as_if_trusted(project, file)?;
            never.extend(decided.refused.iter().map(ToString::to_string));
            decided.opened.iter().map(ToString::to_string).collect()
        }
        FileKind::Policy => {
            let rules = user::parse(&file.text, &file.name, Trust::Full)?;
            let allows = rules.rules().filter(|rule| rule.as_str() == "allow");
            allows
                .map(|rule| format!("{rule} (allowed without asking)"))
                .collect()
        }
        FileKind::Config => {
            let config = config::untrusted(file)?;
            let values = config.ignored().iter().map(|ignored| &ignored.entry);
            values
                .map(|entry| format!("{} = {}", entry.key, entry.shown()))
                .collect()
        }
        FileKind::Script => {
            vec!["the scripted agent plays its replies, including tool calls".to_owned()]
        }
    };
    Ok(RequestedAccess { grantable, never })
}

/// Returns what a project's sandbox file would get if it were trusted.
fn as_if_trusted(project: &Project, file: &WorkspaceFile) -> Result<Decided> {
    let mut trust = project.trust();
    trust.files = vec![WorkspaceFile {
        standing: Standing::Trusted,
        ..file.clone()
    }];
    trust.root = Some(file.root.clone());
    let host = environment::host().with_workspace(trust);
    ostler::sandbox::sandbox_policy(&host, &file.root).map_err(|error| Fault::usage(error.message))
}

/// Describes a file and its requests, as lines for people.
pub(crate) fn describe(file: &WorkspaceFile, requested: &RequestedAccess) -> Vec<String> {
    let RequestedAccess { grantable, never } = requested;
    let (path, standing) = (shown(&file.path().to_string_lossy()), file.standing);
    let hash = &file.sha256[..12];
    let mut lines = vec![format!("  {path} {DIM}{standing}, sha256 {hash}…{DIM:#}")];
    let open = |clause: &String| format!("    {WARN}+{WARN:#} {}", shown(clause));
    let closed = |clause: &String| format!("    {DIM}never granted: {}{DIM:#}", shown(clause));
    lines.extend(grantable.iter().map(open).chain(never.iter().map(closed)));
    if lines.len() == 1 {
        lines.push(format!(
            "    {DIM}requests nothing beyond what you granted{DIM:#}"
        ));
    }
    lines
}

/// Formats text of a file on one line, with control and invisible characters escaped.
pub(crate) fn shown(text: &str) -> String {
    let (shown, left) = visible(text, WIDTH);
    shortened(shown, left)
}

/// Asks a yes-or-no question on the terminal. Anything but yes means no.
pub(crate) fn confirm(question: &str) -> bool {
    let mut err = anstream::stderr();
    let _ = write!(err, "{question}").and_then(|()| err.flush());
    let answer = typed_line();
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

/// Reads one line from the terminal, and nothing after it: that input may be for the session.
/// Discards input typed before the question.
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

/// Adds the trust decision, and notices about ignored values, to the host of a session.
pub(crate) fn attach(
    host: Host,
    project: &Project,
    config: &ostler::config::Config,
) -> Result<Host> {
    Ok(host
        .with_workspace(project.trust())
        .with_notices(notices(project, config)?))
}

/// Returns notices about ignored configuration values and permission rules. Agents report on the
/// sandbox policy and the script themselves.
fn notices(project: &Project, config: &ostler::config::Config) -> Result<Vec<Notice>> {
    let mut messages = config::ignored_warnings(config, project);
    messages.extend(policy::left_out(project)?);
    if !project.files.is_empty() {
        messages.extend(Memory::load().fault);
    }
    let notice = |message| Notice::new(Level::Warning, NoticeCode::WorkspaceUntrusted, message);
    Ok(messages.into_iter().map(notice).collect())
}
