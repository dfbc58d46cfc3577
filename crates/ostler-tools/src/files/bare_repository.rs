//! Refuses hand-made git repositories: git recognizes a directory as a repository by the names in
//! it, and then runs what its configuration says.

use std::ffi::OsStr;

use cap_std::fs::Dir;
use ostler_core::matching::lenient_name;

use crate::ToolError;
use crate::repository::directory::GROUPS;

/// Refuses a name that would make its directory a git repository, or change one.
pub(super) fn check(dir: &Dir, name: &OsStr, display: &str) -> Result<(), ToolError> {
    let name = lenient_name(&name.to_string_lossy());
    let is_name = |other: &str| other.to_lowercase() == name;
    // An entry that cannot be examined counts as present.
    let is_present = |other: &str| {
        !matches!(
            dir.symlink_metadata(other),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound
        )
    };
    let completes = |group: &&[&str]| {
        group.iter().any(|other| is_name(other))
            && group
                .iter()
                .all(|other| is_name(other) || is_present(other))
    };
    if !GROUPS.iter().any(completes) {
        return Ok(());
    }
    let message = format!(
        "{display} would make its directory a git repository, or change one: choose another name"
    );
    Err(ToolError::denied(message))
}
