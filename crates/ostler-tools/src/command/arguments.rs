//! Arguments that look like paths: they stay inside the workspace, and away from what the rules about files keep closed.

use std::path::{Component, Path, PathBuf};

use super::matching::{cluster, matches};
use super::{CommandRule, Place};
use crate::{Code, ToolError};

/// Addresses on a network are no paths; whether they can be reached is decided elsewhere.
const REMOTE: [&str; 7] = ["http", "https", "ssh", "git", "ftp", "ftps", "git+ssh"];

/// An argument that could be read as more paths than this is none that anybody needs.
const MOST_CANDIDATES: usize = 64;

/// No system opens a longer path.
const LONGEST_PATH: usize = 4096;

/// How far arguments may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Nowhere outside of the workspace.
    Workspace,
    /// Wherever the sandbox lets the command go; text that looks like a path is no path then. Only files of the workspace that
    /// the rules about files keep closed cannot be named.
    Sandbox,
}

/// Checks every argument that may be a path, or hold one.
pub(super) fn check(
    rule: &CommandRule,
    args: &[String],
    place: &Place<'_>,
    reach: Reach,
) -> Result<(), ToolError> {
    let mut is_text = false;
    let real = place.root.canonicalize().ok();
    let root = Root {
        given: place.root,
        real: real.as_deref(),
    };
    for arg in args {
        if std::mem::take(&mut is_text) {
            continue;
        }
        match text_option(rule, args, arg) {
            Text::Here => continue,
            Text::Next => is_text = true,
            Text::No => {}
        }
        let mut candidates = candidates(arg);
        if reach == Reach::Sandbox {
            candidates.truncate(MOST_CANDIDATES);
        }
        if candidates.len() > MOST_CANDIDATES {
            let start = ostler_core::clip::plain(&arg.chars().take(40).collect::<String>());
            let message =
                format!("the argument that begins with {start:?} could be read as too many paths");
            return Err(ToolError::new(Code::DeniedByPolicy, message));
        }
        for path in candidates {
            match check_path((path, arg), &root, place) {
                Err(error)
                    if error.code == Code::PathOutsideWorkspace && reach == Reach::Sandbox => {}
                checked => checked?,
            }
        }
    }
    Ok(())
}

/// Where the text of an option stands.
enum Text {
    No,
    Here,
    Next,
}

/// Whether an argument is an option whose value is text, such as the message of a commit.
fn text_option(rule: &CommandRule, args: &[String], arg: &str) -> Text {
    let sub_command = args.iter().find(|arg| !arg.starts_with('-'));
    let options = rule.text.iter().filter_map(|words| match &words[..] {
        [option] => Some(option),
        [first, option] if Some(first) == sub_command => Some(option),
        _ => None,
    });
    for option in options {
        let (is_short, given) = (!option.starts_with("--"), arg.len() > option.len());
        if is_short && arg.starts_with(option.as_str()) {
            return if given { Text::Here } else { Text::Next };
        }
        if is_short
            && option
                .strip_prefix('-')
                .is_some_and(|letter| cluster(arg).ends_with(letter))
        {
            return Text::Next;
        }
        if !is_short && matches(option, arg) {
            return if arg.contains('=') {
                Text::Here
            } else {
                Text::Next
            };
        }
    }
    Text::No
}

/// Every part of an argument that a program may take for a path: the whole, what stands after `=`, `:`, `,` or `@`, and the value
/// that is glued to a short option.
fn candidates(arg: &str) -> Vec<&str> {
    let mut found = Vec::new();
    if !arg.starts_with('-') {
        found.push(arg);
    } else if !arg.starts_with("--") {
        found.extend(arg.char_indices().nth(2).map(|(at, _)| &arg[at..]));
        found.extend(arg.find(['/', '~']).map(|at| &arg[at..]));
        found.extend(arg.find("..").map(|at| &arg[at..]));
    }
    let mut from = 0;
    for (at, separator) in arg.match_indices(['=', ':', ',', '@']) {
        let rest = &arg[at + separator.len()..];
        if separator == ":" && rest.starts_with("//") && REMOTE.contains(&&arg[from..at]) {
            if from == 0 {
                found.clear();
            }
            break;
        }
        found.push(rest);
        from = at + separator.len();
    }
    found
}

/// The workspace's root as it was given, and where it really is if it is there at all.
struct Root<'a> {
    given: &'a Path,
    real: Option<&'a Path>,
}

fn check_path(
    (path, arg): (&str, &str),
    root: &Root<'_>,
    place: &Place<'_>,
) -> Result<(), ToolError> {
    let outside = || {
        let message = format!(
            "the argument {arg:?} leads out of the workspace; use a path relative to its root"
        );
        Err(ToolError::new(Code::PathOutsideWorkspace, message))
    };
    if path == "/dev/null" {
        return Ok(());
    }
    let Some(relative) = relative(path, root.given) else {
        return outside();
    };
    // Its letters were looked at all the same: a program may shorten them before it opens anything.
    if relative.as_os_str().is_empty() || relative.as_os_str().len() > LONGEST_PATH {
        return Ok(());
    }
    if root.real.is_some_and(|real| leads_out(&relative, real)) {
        return outside();
    }
    if (place.is_denied)(&relative) {
        let message = format!(
            "the rules about files keep {} closed (argument {arg:?})",
            relative.display()
        );
        return Err(ToolError::new(Code::DeniedByPolicy, message));
    }
    Ok(())
}

/// The path below `root`, by its letters alone; none when it leads out.
fn relative(path: &str, root: &Path) -> Option<PathBuf> {
    if path == "~" || path.starts_with("~/") {
        return None;
    }
    let path = Path::new(path);
    let below = if path.is_absolute() {
        plain(path)?.strip_prefix(plain(root)?).ok()?.to_owned()
    } else {
        path.to_owned()
    };
    plain(&below)
}

/// A path without `.` and `..`; none when it would climb above its beginning.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir if !out.pop() => return None,
            Component::CurDir | Component::ParentDir => {}
            Component::RootDir | Component::Prefix(_) => {}
            Component::Normal(name) => out.push(name),
        }
    }
    Some(out)
}

/// Whether a link on the way leads out of the workspace. What does not exist is looked at as far as it does.
fn leads_out(relative: &Path, root: &Path) -> bool {
    let real = relative
        .ancestors()
        .find_map(|part| root.join(part).canonicalize().ok());
    real.is_some_and(|real| !real.starts_with(root))
}
