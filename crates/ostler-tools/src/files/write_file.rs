//! `write_file`: writes the whole content of a file, new or existing.

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

/// Writes the file.
pub(crate) fn run(root: &Root, args: &WriteFile) -> Result<WriteResult, ToolError> {
    let WriteFile { path, content } = args;
    write(root, path, content, IfExists::Replace)
}
