//! `create_file`: a new file, never over one that exists.

use schemars::JsonSchema;
use serde::Deserialize;

use super::root::Root;
use super::store::{Present, Stored, write};
use crate::ToolError;

/// What to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateFile {
    /// The new file, relative to the workspace. Directories that are missing are made.
    path: String,
    /// What the file shall hold.
    content: String,
}

/// Creates.
pub(crate) fn run(root: &Root, args: &CreateFile) -> Result<Stored, ToolError> {
    let CreateFile { path, content } = args;
    write(root, path, content, Present::Refuse)
}
