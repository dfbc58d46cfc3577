//! What went wrong before or around a run: a sentence, a hint, an exit code.

use ostler::{Cause, Outcome};

use crate::exit::{self, Code};

/// A fault that ends the program.
#[derive(Debug)]
pub(crate) struct Fault {
    code: Code,
    message: String,
    hint: Option<String>,
}

impl Fault {
    /// The caller asked for something that cannot be.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: exit::USAGE,
            message: message.into(),
            hint: None,
        }
    }

    /// What is needed is not there.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self {
            code: exit::UNAVAILABLE,
            message: message.into(),
            hint: None,
        }
    }

    /// Something that should not happen did.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self {
            code: exit::INTERNAL,
            message: error.to_string(),
            hint: None,
        }
    }

    /// Adds what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says where what is wrong was written.
    pub(crate) fn told_by(mut self, from: &impl std::fmt::Display) -> Self {
        self.message = format!("{from}: {}", self.message);
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// The same as the outcome of a run that could not begin.
    pub(crate) fn outcome(&self) -> Outcome {
        // A fault of Ostler itself has the cause that a session gives it.
        let cause = if self.code == exit::USAGE {
            Cause::BadRequest
        } else {
            Cause::Protocol
        };
        let outcome = Outcome::new(cause, &self.message);
        match &self.hint {
            Some(hint) => outcome.hint(hint),
            None => outcome,
        }
    }
}
