//! `delete_file`: a file, a link or an empty directory.

use std::io::ErrorKind;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::open::not_a_file;
use super::resolve::{Kind, Links};
use super::root::Root;
use super::rules::Access;
use crate::names::quoted;
use crate::{Code, ToolError};

/// What to delete.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteFile {
    /// The file or empty directory, relative to the workspace.
    path: String,
}

/// What was deleted.
#[derive(Debug, Serialize)]
pub(crate) struct Deleted {
    path: String,
    deleted: &'static str,
}

impl Answer for Deleted {
    fn text(&self) -> String {
        format!("deleted the {} {}", self.deleted, quoted(&self.path))
    }
}

/// Deletes. A link is deleted itself; what it points to stays.
pub(crate) fn run(root: &Root, args: &DeleteFile) -> Result<Deleted, ToolError> {
    let given = root.given(&args.path, Access::Write)?;
    if given.is_root() {
        return Err(ToolError::new(
            Code::BadArguments,
            "the workspace itself cannot be deleted",
        ));
    }
    let place = root.place(&given, Links::Keep)?;
    place.check(root, Access::Write)?;
    let (removed, deleted) = match place.kind() {
        None => return Err(place.missing()),
        Some(Kind::Other) => return Err(not_a_file(&place)),
        Some(Kind::Directory) => (place.dir.remove_dir(&place.name), "directory"),
        Some(Kind::File) => (place.dir.remove_file(&place.name), "file"),
        Some(Kind::Link) => (place.dir.remove_file(&place.name), "link"),
    };
    removed.map_err(|error| match error.kind() {
        ErrorKind::DirectoryNotEmpty => place.error(
            Code::IsDirectory,
            "is a directory that is not empty: delete what is in it first",
        ),
        _ => place.told(&error),
    })?;
    Ok(Deleted {
        path: place.real.to_string_lossy().into_owned(),
        deleted,
    })
}
