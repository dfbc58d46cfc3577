//! No repository is made by hand: git takes a directory for one by the names in it, and runs what its configuration says.

use std::ffi::OsStr;

use cap_std::fs::Dir;

use super::rules::bare_name;
use crate::repository::directory::GROUPS;
use crate::{Code, ToolError};

/// Refuses a name that makes its directory a repository, or changes one.
pub(super) fn check(dir: &Dir, name: &OsStr, shown: &str) -> Result<(), ToolError> {
    let name = bare_name(name);
    let is_name = |other: &str| other.to_lowercase() == name;
    // What cannot be looked at counts as there.
    let is_there = |other: &str| !matches!(dir.symlink_metadata(other), Err(error) if error.kind() == std::io::ErrorKind::NotFound);
    let completes = |group: &&[&str]| {
        group.iter().any(|other| is_name(other))
            && group.iter().all(|other| is_name(other) || is_there(other))
    };
    if !GROUPS.iter().any(completes) {
        return Ok(());
    }
    let message = format!(
        "{shown} would make its directory a git repository, or change one: take another name"
    );
    Err(ToolError::new(Code::DeniedByPolicy, message))
}
