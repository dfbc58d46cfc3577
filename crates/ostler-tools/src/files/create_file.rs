//! `create_file`: creates a new file, never overwriting an existing one.

use schemars::JsonSchema;
use serde::Deserialize;

use super::atomic_write::{IfExists, WriteResult, write};
use super::root::Root;
use crate::ToolError;

/// Arguments of `create_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateFile {
    /// The new file, relative to the workspace. Missing directories are created.
    path: String,
    /// The content of the file.
    content: String,
}

/// Creates the file.
pub(crate) fn run(root: &Root, args: &CreateFile) -> Result<WriteResult, ToolError> {
    let CreateFile { path, content } = args;
    write(root, path, content, IfExists::Refuse)
}
