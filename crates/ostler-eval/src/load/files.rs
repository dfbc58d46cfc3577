//! Reads files that a case names. Paths stay below the directory of the case.

use std::io::{ErrorKind, Read as _};
use std::path::{Component, Path};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// Maximum length of a path in a case file, in characters.
pub(crate) const MAX_PATH: usize = 500;

/// Maximum size of a file of cases, in bytes.
pub(crate) const MAX_FILE: u64 = 8 * 1024 * 1024;

/// A file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    #[error("the path has {0} characters; at most {MAX_PATH} are allowed")]
    TooLong(usize),
    #[error("the path must be relative to the file's directory, and must not contain `..`")]
    Escapes,
    #[error("the path leaves the file's directory through a symbolic link")]
    LeavesByLink,
    #[error("the file does not exist: {0}")]
    Missing(String),
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    #[error("the file is larger than {0} bytes")]
    TooLarge(u64),
    #[error("the file is not UTF-8 text")]
    NotText,
}

/// Checks a path without touching the disk.
pub(crate) fn check_relative(path: &str) -> Result<&Path, FileError> {
    let length = path.chars().count();
    if length > MAX_PATH {
        return Err(FileError::TooLong(length));
    }
    let has_backslash_parent = path.split('\\').any(|part| part == "..");
    let path = Path::new(path);
    let stays = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if has_backslash_parent || !path.components().all(stays) {
        return Err(FileError::Escapes);
    }
    Ok(path)
}

/// Reads a text file below a directory. A symbolic link that leaves the directory is refused by
/// the way the file is opened, not by a check before.
pub(crate) fn read_below(dir: &Path, path: &str, max: u64) -> Result<String, FileError> {
    let relative = check_relative(path)?;
    let unreadable = |error: &std::io::Error| match error.kind() {
        ErrorKind::NotFound => FileError::Missing(path.to_owned()),
        ErrorKind::PermissionDenied if dir.join(relative).exists() => FileError::LeavesByLink,
        _ => FileError::Unreadable(error.to_string()),
    };
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    let opened = Dir::open_ambient_dir(dir, ambient_authority());
    let file = opened.and_then(|dir| dir.open(relative));
    let file = file.map_err(|error| unreadable(&error))?;
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    if !is_file {
        return Err(FileError::Unreadable("it is not a regular file".to_owned()));
    }
    read_text(file.take(max + 1), max)
}

/// Reads a text file that the user named.
pub(crate) fn read_named(path: &Path, max: u64) -> Result<String, FileError> {
    let file = std::fs::File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => FileError::Missing(path.display().to_string()),
        _ => FileError::Unreadable(error.to_string()),
    })?;
    read_text(file.take(max + 1), max)
}

fn read_text(mut source: impl std::io::Read, max: u64) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    source
        .read_to_end(&mut bytes)
        .map_err(|error| FileError::Unreadable(error.to_string()))?;
    if bytes.len() as u64 > max {
        return Err(FileError::TooLarge(max));
    }
    let text = String::from_utf8(bytes).map_err(|_| FileError::NotText)?;
    Ok(text
        .strip_prefix('\u{feff}')
        .map_or(text.clone(), str::to_owned))
}
