//! Errors that end the program: message, hint and exit code.

use ostler::{Cause, Outcome};

use crate::exit::{self, Code};

/// A result whose error ends the program, unless it has another.
pub(crate) type Result<T, E = Fault> = std::result::Result<T, E>;

/// An error that ends the program.
#[derive(Debug)]
pub(crate) struct Fault {
    code: Code,
    message: String,
    hint: Option<String>,
}

impl Fault {
    fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
        }
    }

    /// Creates a usage error.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(exit::USAGE, message)
    }

    /// Creates an error for something that is not available.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(exit::UNAVAILABLE, message)
    }

    /// Creates an internal error.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(exit::INTERNAL, error.to_string())
    }

    /// Adds a hint about what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prefixes the message with the origin of the invalid value.
    pub(crate) fn with_origin(mut self, from: &impl std::fmt::Display) -> Self {
        self.message = format!("{from}: {}", self.message);
        self
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Returns the outcome of a run that could not start.
    pub(crate) fn outcome(&self) -> Outcome {
        // Internal errors have the same cause as in a session.
        let cause = if self.code == exit::USAGE {
            Cause::BadRequest
        } else {
            Cause::Protocol
        };
        Outcome {
            hint: self.hint.clone(),
            ..Outcome::new(cause, &self.message)
        }
    }
}
