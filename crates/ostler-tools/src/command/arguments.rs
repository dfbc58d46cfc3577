//! Arguments that look like paths: they must stay inside the workspace and not name denied files.

use std::path::{Component, Path, PathBuf};

use ostler_core::matching::{is_long_option, short_options};

use super::{CommandContext, CommandRule};
use crate::{Code, ToolError};

/// Schemes of network addresses, which are not paths. Whether they can be reached is decided
/// elsewhere.
const REMOTE: [&str; 7] = ["http", "https", "ssh", "git", "ftp", "ftps", "git+ssh"];

/// Maximum number of paths in one argument; no legitimate argument could be read as more.
const MAX_CANDIDATES: usize = 64;

/// Maximum length of a path that a system opens.
const MAX_PATH_BYTES: usize = 4096;

/// Where path arguments may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathScope {
    /// Nowhere outside the workspace.
    Workspace,
    /// Anywhere the sandbox allows, so text that looks like a path is accepted. Only denied files
    /// of the workspace cannot be named.
    Sandbox,
}

/// Checks every argument that may be or contain a path.
pub(super) fn check(
    rule: &CommandRule,
    args: &[String],
    context: &CommandContext<'_>,
    scope: PathScope,
) -> Result<(), ToolError> {
    let mut is_text = false;
    let real = context.root.canonicalize().ok();
    let root = Root {
        given: context.root,
        real: real.as_deref(),
    };
    for arg in args {
        if std::mem::take(&mut is_text) {
            continue;
        }
        match text_option(rule, args, arg) {
            TextValue::Here => continue,
            TextValue::Next => is_text = true,
            TextValue::No => {}
        }
        let mut candidates = candidates(arg);
        if scope == PathScope::Sandbox {
            candidates.truncate(MAX_CANDIDATES);
        }
        if candidates.len() > MAX_CANDIDATES {
            let start = ostler_core::clip::sanitize(&arg.chars().take(40).collect::<String>());
            let message =
                format!("the argument that begins with {start:?} could be read as too many paths");
            return Err(ToolError::denied(message));
        }
        for path in candidates {
            match check_path(&PathArgument { path, arg }, &root, context) {
                Err(error)
                    if error.code == Code::PathOutsideWorkspace && scope == PathScope::Sandbox => {}
                checked => checked?,
            }
        }
    }
    Ok(())
}

/// Position of an option's text.
enum TextValue {
    No,
    Here,
    Next,
}

/// Returns whether an argument is an option whose value is text, such as a commit message.
fn text_option(rule: &CommandRule, args: &[String], arg: &str) -> TextValue {
    let sub_command = args.iter().find(|arg| !arg.starts_with('-'));
    let options = rule.text.iter().filter_map(|words| match &words[..] {
        [option] => Some(option),
        [first, option] if Some(first) == sub_command => Some(option),
        _ => None,
    });
    for option in options {
        let (is_short, given) = (!option.starts_with("--"), arg.len() > option.len());
        if is_short && arg.starts_with(option.as_str()) {
            return if given {
                TextValue::Here
            } else {
                TextValue::Next
            };
        }
        if is_short
            && option
                .strip_prefix('-')
                .is_some_and(|letter| short_options(arg).ends_with(letter))
        {
            return TextValue::Next;
        }
        if !is_short && is_long_option(option, arg) {
            return if arg.contains('=') {
                TextValue::Here
            } else {
                TextValue::Next
            };
        }
    }
    TextValue::No
}

/// Returns every part of an argument that a program may treat as a path: the whole, the text after
/// `=`, `:`, `,` or `@`, and the value attached to a short option.
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

/// The workspace's root as given, and its real path if it exists.
struct Root<'a> {
    given: &'a Path,
    real: Option<&'a Path>,
}

/// A path in an argument.
struct PathArgument<'a> {
    path: &'a str,
    /// The whole argument.
    arg: &'a str,
}

fn check_path(
    given: &PathArgument<'_>,
    root: &Root<'_>,
    context: &CommandContext<'_>,
) -> Result<(), ToolError> {
    let PathArgument { path, arg } = *given;
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
    // The text was checked all the same: a program may shorten it before it opens anything.
    if relative.as_os_str().is_empty() || relative.as_os_str().len() > MAX_PATH_BYTES {
        return Ok(());
    }
    if root.real.is_some_and(|real| leads_out(&relative, real)) {
        return outside();
    }
    if (context.is_denied)(&relative) {
        let message = format!(
            "the file rules deny {} (argument {arg:?})",
            relative.display()
        );
        return Err(ToolError::denied(message));
    }
    Ok(())
}

/// Returns the path below `root`, by its text alone, or `None` if it leads out.
fn relative(path: &str, root: &Path) -> Option<PathBuf> {
    if path == "~" || path.starts_with("~/") {
        return None;
    }
    let path = Path::new(path);
    let below = if path.is_absolute() {
        normalize(path)?
            .strip_prefix(normalize(root)?)
            .ok()?
            .to_owned()
    } else {
        path.to_owned()
    };
    normalize(&below)
}

/// Returns the path without `.` and `..`, or `None` if it would climb above its start.
fn normalize(path: &Path) -> Option<PathBuf> {
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

/// Returns true if a link on the path leads out of the workspace. A missing path is checked as far
/// as it exists.
fn leads_out(relative: &Path, root: &Path) -> bool {
    let real = relative
        .ancestors()
        .find_map(|part| root.join(part).canonicalize().ok());
    real.is_some_and(|real| !real.starts_with(root))
}
