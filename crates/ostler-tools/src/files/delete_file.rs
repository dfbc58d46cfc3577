//! `delete_file`: deletes a file, a link or an empty directory.

use std::io::ErrorKind;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Render;
use super::open::not_a_file;
use super::resolve::{FileKind, LinkMode};
use super::root::Root;
use super::rules::Access;
use crate::names::quoted;
use crate::{Code, ToolError};

/// Arguments of `delete_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteFile {
    /// The file or empty directory, relative to the workspace.
    path: String,
}

/// Result of `delete_file`.
#[derive(Debug, Serialize)]
pub(crate) struct Deleted {
    path: String,
    deleted: &'static str,
}

impl Render for Deleted {
    fn text(&self) -> String {
        format!("deleted the {} {}", self.deleted, quoted(&self.path))
    }
}

/// Deletes the entry. A link itself is deleted; its target stays.
pub(crate) fn run(root: &Root, args: &DeleteFile) -> Result<Deleted, ToolError> {
    let given = root.parse_path(&args.path, Access::Write)?;
    if given.is_root() {
        return Err(ToolError::bad_arguments(
            "the workspace itself cannot be deleted",
        ));
    }
    let resolved = root.resolve(&given, LinkMode::NoFollow)?;
    resolved.check(root, Access::Write)?;
    let (removed, deleted) = match resolved.kind() {
        None => return Err(resolved.missing()),
        Some(FileKind::Other) => return Err(not_a_file(&resolved)),
        Some(FileKind::Directory) => (resolved.dir.remove_dir(&resolved.name), "directory"),
        Some(FileKind::File) => (resolved.dir.remove_file(&resolved.name), "file"),
        Some(FileKind::Link) => (resolved.dir.remove_file(&resolved.name), "link"),
    };
    removed.map_err(|error| match error.kind() {
        ErrorKind::DirectoryNotEmpty => resolved.error(
            Code::IsDirectory,
            "is a directory that is not empty: delete its entries first",
        ),
        _ => resolved.io_error(&error),
    })?;
    Ok(Deleted {
        path: resolved.real.to_string_lossy().into_owned(),
        deleted,
    })
}
