//! `write_file`: the whole content of a file, new or not.

use schemars::JsonSchema;
use serde::Deserialize;

use super::root::Root;
use super::store::{Present, Stored, write};
use crate::ToolError;

/// What to write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFile {
    /// The file, relative to the workspace. Directories that are missing are made.
    path: String,
    /// All that the file shall hold.
    content: String,
}

/// Writes.
pub(crate) fn run(root: &Root, args: &WriteFile) -> Result<Stored, ToolError> {
    let WriteFile { path, content } = args;
    write(root, path, content, Present::Replace)
}
