//! The program around the server: provides the spec of each session, and shows warnings.

use std::path::Path;

use ostler::{Host, Spec};

/// The program around the server.
pub trait Embedder: Send + Sync {
    /// Prepares a session in a directory. The server adds what the editor asks for.
    ///
    /// The spec should wait after a turn ([`ostler::spec::AfterTurn::Wait`]), and be attended
    /// ([`ostler::spec::Attendance::Attended`]) if the editor is to be asked for permissions.
    ///
    /// # Errors
    ///
    /// Returns an error for the editor if no session can be started there.
    fn prepare(&self, dir: &Path) -> Result<PreparedSession, PrepareError>;

    /// Shows a warning to the user. It may contain text from the agent, and is not sanitized.
    fn warn(&self, warning: &str);
}

/// A session before the editor's own parameters are applied.
pub struct PreparedSession {
    /// Host that runs the agent.
    pub host: Host,
    /// Spec for the agent.
    pub spec: Spec,
}

/// Error for the editor: no session can be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PrepareError {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}
