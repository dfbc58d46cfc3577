//! The program around the evaluation: it chooses agents and reads their configuration.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use ostler::event::Timestamp;
use ostler::{Agent, Host, Spec};

use crate::adapter::Execution;
use crate::case::{Contender, TrialLimits};

/// What the agent of a trial is started with.
pub struct PreparedAgent {
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// The host: the user's environment, a log, a guard.
    pub host: Host,
    /// The spec: model, settings, limits and permissions. The evaluation adds the rest.
    pub spec: Spec,
}

/// An agent that is needed for a trial.
#[derive(Debug, Clone)]
pub struct AgentRequest {
    /// The agent and its configuration.
    pub contender: Contender,
    /// The prompt.
    pub prompt: String,
    /// The workspace.
    pub dir: PathBuf,
    /// Limits of the trial.
    pub limits: TrialLimits,
}

/// A request that cannot be fulfilled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", hint.as_ref().map_or_else(String::new, |hint| format!(" ({hint})")))]
pub struct EmbedderError {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// A future that resolves to a prepared agent.
pub type PrepareFuture<'a> =
    Pin<Box<dyn Future<Output = Result<PreparedAgent, EmbedderError>> + Send + 'a>>;

/// The program around the evaluation.
pub trait Embedder: Send + Sync {
    /// Chooses the agent of a trial, and reads its configuration, policy and limits.
    fn prepare<'a>(&'a self, request: &'a AgentRequest) -> PrepareFuture<'a>;

    /// Returns the host for Git and for commands of cases: the user's environment and a guard.
    fn host(&self) -> Host;

    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// Writes further projections of a trial's events to its artifacts, such as the normalized log.
pub trait Projection: Send + Sync {
    /// Writes files for an execution. Returns their names relative to the artifacts, or why they
    /// could not be written.
    ///
    /// # Errors
    /// If a file cannot be written.
    fn write(
        &self,
        request: &AgentRequest,
        execution: &Execution,
        artifacts: &std::path::Path,
    ) -> std::io::Result<Vec<PathBuf>>;
}
