//! Error of a value in a configuration file.

/// A value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct ValueError {
    /// What is expected, for a person.
    pub message: String,
}

impl ValueError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    pub(super) fn from_error(error: impl std::error::Error) -> Self {
        Self::new(error.to_string())
    }
}
