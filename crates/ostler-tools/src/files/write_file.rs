//! `write_file` and `create_file`: write the whole content of a file.

use schemars::JsonSchema;
use serde::Deserialize;

use super::atomic_write::{IfExists, WriteResult, write};
use super::root::Root;
use crate::ToolError;

/// Arguments of `write_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteFile {
    /// The file, relative to the workspace. Missing directories are created.
    path: String,
    /// The complete new content of the file.
    content: String,
}

/// Arguments of `create_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateFile {
    /// The new file, relative to the workspace. Missing directories are created.
    path: String,
    /// The content of the file.
    content: String,
}

/// Writes the file, new or existing.
pub(crate) fn run(root: &Root, args: &WriteFile) -> Result<WriteResult, ToolError> {
    write(root, &args.path, &args.content, IfExists::Replace)
}

/// Creates the file, never overwriting an existing one.
pub(crate) fn create(root: &Root, args: &CreateFile) -> Result<WriteResult, ToolError> {
    write(root, &args.path, &args.content, IfExists::Refuse)
}
