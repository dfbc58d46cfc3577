//! Tool errors: a code to branch on and a message that a model can act on.

use serde::Serialize;

/// Reason for a tool failure. The codes are a contract with models and scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The file does not exist.
    FileNotFound,
    /// The path leads out of the workspace.
    PathOutsideWorkspace,
    /// A rule forbids the access.
    DeniedByPolicy,
    /// The path is a directory; a file was expected.
    IsDirectory,
    /// The path is not a directory; a directory was expected.
    NotADirectory,
    /// The path is a device, a pipe or a socket; a regular file was expected.
    NotAFile,
    /// The text to replace does not occur in the file.
    FindNotFound,
    /// The text to replace occurs more than once in the file.
    FindNotUnique,
    /// A size limit was exceeded.
    TooLarge,
    /// The file is not text.
    BinaryFile,
    /// Something with that name already exists.
    Exists,
    /// The arguments do not match the tool's schema.
    BadArguments,
    /// No tool has that name.
    UnknownTool,
    /// The command ran and reported failure.
    CommandFailed,
    /// The command exceeded its time limit and was killed.
    TimedOut,
    /// The system reported an error, such as a full disk or missing permissions.
    Io,
}

impl Code {
    /// Returns the name used on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileNotFound => "file_not_found",
            Self::PathOutsideWorkspace => "path_outside_workspace",
            Self::DeniedByPolicy => "denied_by_policy",
            Self::IsDirectory => "is_directory",
            Self::NotADirectory => "not_a_directory",
            Self::NotAFile => "not_a_file",
            Self::FindNotFound => "find_not_found",
            Self::FindNotUnique => "find_not_unique",
            Self::TooLarge => "too_large",
            Self::BinaryFile => "binary_file",
            Self::Exists => "exists",
            Self::BadArguments => "bad_arguments",
            Self::UnknownTool => "unknown_tool",
            Self::CommandFailed => "command_failed",
            Self::TimedOut => "timed_out",
            Self::Io => "io",
        }
    }

    /// Returns true if a rule stopped the tool, rather than a mistake or a system error.
    #[must_use]
    pub fn is_denial(self) -> bool {
        matches!(self, Self::PathOutsideWorkspace | Self::DeniedByPolicy)
    }
}

/// A failed tool call: a code to branch on and a message to act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct ToolError {
    /// Reason for the failure.
    pub code: Code,
    /// Message for the model.
    pub message: String,
    /// Files whose change a person can approve, if nothing else stands in the way. Paths are
    /// relative to the workspace, with links resolved.
    pub needs_approval: Vec<String>,
}

impl ToolError {
    /// Creates an error with the given code.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            needs_approval: Vec::new(),
        }
    }
}
