//! System errors, converted to tool errors: a code and what to do next.

use std::io::{Error, ErrorKind};

use crate::names::is_deceiving;
use crate::{Code, ToolError};

/// Converts the error of a system call on a path.
pub(super) fn io_error(error: &Error, display: &str) -> ToolError {
    if is_escape(error) {
        return outside(display);
    }
    if is_loop(error) {
        let message = format!(
            "{display}: its symbolic links form a loop, or changed while they were followed"
        );
        return ToolError::new(Code::FileNotFound, message);
    }
    let (code, message) = match error.kind() {
        ErrorKind::NotFound => (Code::FileNotFound, format!("{display} does not exist")),
        ErrorKind::NotADirectory => (
            Code::NotADirectory,
            format!("a part of {display} is a file, not a directory"),
        ),
        ErrorKind::IsADirectory => (Code::IsDirectory, format!("{display} is a directory")),
        ErrorKind::AlreadyExists => (Code::Exists, format!("{display} already exists")),
        ErrorKind::InvalidFilename => (
            Code::BadArguments,
            format!("{display}: the name is too long"),
        ),
        ErrorKind::InvalidInput => (
            Code::BadArguments,
            format!("{display}: the system does not accept this name"),
        ),
        _ => (Code::Io, format!("{display}: {error}")),
    };
    ToolError::new(code, message)
}

/// Returns the error for a path that leaves the workspace. It reveals nothing about the target.
pub(super) fn outside(display: &str) -> ToolError {
    let message = format!(
        "{display} leads out of the workspace: give a path inside it, relative to its root"
    );
    ToolError::new(Code::PathOutsideWorkspace, message)
}

/// Formats a path for a message: on one line and of bounded length.
pub(super) fn display_path(path: &str) -> String {
    const MAX_CHARS: usize = 300;
    let mut text = String::from("`");
    for (at, char) in path.chars().enumerate() {
        if at == MAX_CHARS {
            text.push('…');
            break;
        }
        if is_deceiving(char) {
            text.extend(char.escape_debug());
        } else {
            text.push(char);
        }
    }
    text.push('`');
    text
}

/// The directory handle refuses an escaping path with its own error, which has no OS error code.
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
