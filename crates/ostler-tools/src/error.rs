//! What goes wrong in a tool, in words that a model can act on.

use serde::Serialize;

/// Why a tool did not do what it was asked. The words are a contract with models and scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// There is no such file.
    FileNotFound,
    /// The path leads out of the workspace.
    PathOutsideWorkspace,
    /// A rule forbids it.
    DeniedByPolicy,
    /// A file was expected.
    IsDirectory,
    /// A directory was expected.
    NotADirectory,
    /// A regular file was expected: this is a device, a pipe or a socket.
    NotAFile,
    /// The text to replace is not in the file.
    FindNotFound,
    /// The text to replace is in the file more than once.
    FindNotUnique,
    /// More than the limit.
    TooLarge,
    /// The file holds no text.
    BinaryFile,
    /// There is something of that name already.
    Exists,
    /// The arguments are not what the tool takes.
    BadArguments,
    /// There is no such tool.
    UnknownTool,
    /// The command ran, and said that it failed.
    CommandFailed,
    /// It took too long and was ended.
    TimedOut,
    /// The system said no: a full disk, missing rights.
    Io,
}

impl Code {
    /// The word on the wire.
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

    /// Whether it was a rule that stopped the tool, and not a mistake or the system.
    #[must_use]
    pub fn is_denial(self) -> bool {
        matches!(self, Self::PathOutsideWorkspace | Self::DeniedByPolicy)
    }
}

/// A tool did not do what it was asked: a code to branch on, a sentence to act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct ToolError {
    /// Why.
    pub code: Code,
    /// The sentence.
    pub message: String,
    /// Files that a person can approve the change of: they are all that stands in the way. Paths relative to the workspace, with
    /// links resolved.
    pub needs_approval: Vec<String>,
}

impl ToolError {
    /// An error of that code.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            needs_approval: Vec::new(),
        }
    }
}
