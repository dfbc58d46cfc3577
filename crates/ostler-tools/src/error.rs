//! Tool errors: a code to branch on and a message that a model can act on.

use ostler_core::names::named;
use serde::Serialize;

named! {
    /// Reason for a tool failure. The codes are a contract with models and scripts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Code {
        /// The file does not exist.
        FileNotFound = "file_not_found",
        /// The path leads out of the workspace.
        PathOutsideWorkspace = "path_outside_workspace",
        /// A rule forbids the access.
        DeniedByPolicy = "denied_by_policy",
        /// The path is a directory; a file was expected.
        IsDirectory = "is_directory",
        /// The path is not a directory; a directory was expected.
        NotADirectory = "not_a_directory",
        /// The path is a device, a pipe or a socket; a regular file was expected.
        NotAFile = "not_a_file",
        /// The text to replace does not occur in the file.
        FindNotFound = "find_not_found",
        /// The text to replace occurs more than once in the file.
        FindNotUnique = "find_not_unique",
        /// A size limit was exceeded.
        TooLarge = "too_large",
        /// The file is not text.
        BinaryFile = "binary_file",
        /// Something with that name already exists.
        Exists = "exists",
        /// The arguments do not match the tool's schema.
        BadArguments = "bad_arguments",
        /// No tool has that name.
        UnknownTool = "unknown_tool",
        /// The command ran and reported failure.
        CommandFailed = "command_failed",
        /// The command exceeded its time limit and was killed.
        TimedOut = "timed_out",
        /// The system reported an error, such as a full disk or missing permissions.
        Io = "io",
    }
}

impl Code {
    /// Returns true if a rule stopped the tool, rather than a mistake or a system error.
    #[must_use]
    pub fn is_denial(self) -> bool {
        matches!(self, Self::PathOutsideWorkspace | Self::DeniedByPolicy)
    }
}

/// A failed tool call: a code to branch on and a message to act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
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

    /// Creates an error of the system.
    #[must_use]
    pub fn io(message: impl Into<String>) -> Self {
        Self::new(Code::Io, message)
    }

    /// Creates an error about the arguments of a call.
    #[must_use]
    pub fn bad_arguments(message: impl Into<String>) -> Self {
        Self::new(Code::BadArguments, message)
    }

    /// Creates a denial by a rule.
    #[must_use]
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::DeniedByPolicy, message)
    }
}

/// An invalid rule or limit of a sandbox policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RuleError {
    /// What is wrong, and where.
    pub message: String,
}

impl RuleError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// Returns the error of the file in which the rule is.
    pub(crate) fn in_file(self, source: &str) -> ToolError {
        ToolError::bad_arguments(format!("{source}: {}", self.message))
    }
}

impl From<toml::de::Error> for RuleError {
    fn from(error: toml::de::Error) -> Self {
        Self::new(error.to_string())
    }
}

impl From<RuleError> for ToolError {
    fn from(error: RuleError) -> Self {
        Self::bad_arguments(error.message)
    }
}
