//! What an error of the system means for a model: a code, and what to do next.

use std::io::{Error, ErrorKind};

use crate::names::is_deceiving;
use crate::{Code, ToolError};

/// The error of a call on a path, as a tool's error.
pub(super) fn told(error: &Error, shown: &str) -> ToolError {
    if is_escape(error) {
        return outside(shown);
    }
    if is_loop(error) {
        let message = format!(
            "{shown}: its symbolic links go in a circle, or changed while they were followed"
        );
        return ToolError::new(Code::FileNotFound, message);
    }
    let (code, message) = match error.kind() {
        ErrorKind::NotFound => (Code::FileNotFound, format!("{shown} does not exist")),
        ErrorKind::NotADirectory => (
            Code::NotADirectory,
            format!("a part of {shown} is a file, not a directory"),
        ),
        ErrorKind::IsADirectory => (Code::IsDirectory, format!("{shown} is a directory")),
        ErrorKind::AlreadyExists => (Code::Exists, format!("{shown} exists already")),
        ErrorKind::InvalidFilename => {
            (Code::BadArguments, format!("{shown}: the name is too long"))
        }
        ErrorKind::InvalidInput => (
            Code::BadArguments,
            format!("{shown}: the system does not take this name"),
        ),
        _ => (Code::Io, format!("{shown}: {error}")),
    };
    ToolError::new(code, message)
}

/// The refusal of a path that leaves the workspace. It says nothing about what is there.
pub(super) fn outside(shown: &str) -> ToolError {
    let message =
        format!("{shown} leads out of the workspace: give a path inside it, relative to its root");
    ToolError::new(Code::PathOutsideWorkspace, message)
}

/// A path as it is put into a message: on one line, and not endless.
pub(super) fn shown(path: &str) -> String {
    const LONGEST: usize = 300;
    let mut text = String::from("`");
    for (at, char) in path.chars().enumerate() {
        if at == LONGEST {
            text.push('…');
            break;
        }
        if is_deceiving(char) {
            text.extend(char.escape_debug())
        } else {
            text.push(char)
        }
    }
    text.push('`');
    text
}

/// The directory handle refuses a path that leaves it with an error of its own, without a number of the system.
fn is_escape(error: &Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

#[cfg(unix)]
fn is_loop(error: &Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

#[cfg(not(unix))]
fn is_loop(_error: &Error) -> bool {
    false
}
