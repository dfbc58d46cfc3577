//! The contract of an evaluator.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use crate::case::{Case, EvaluatorSpec};
use crate::event_log::EventLog;
use crate::trial::{Evaluation, TrialIdentity};

/// What an evaluator judges. Every evaluator gets a copy of its own.
pub struct Evidence {
    /// The case.
    pub case: Arc<Case>,
    /// What the trial ran with.
    pub identity: TrialIdentity,
    /// A copy of the workspace as the agent left it. The evaluator may change it.
    pub workspace: PathBuf,
    /// A checkout of the base commit that the agent never saw.
    pub base: PathBuf,
    /// A copy of what is expected, if the case says so.
    pub expected: Option<PathBuf>,
    /// The diff of the workspace against the base commit, in Git's format.
    pub diff: Arc<str>,
    /// The changed files, relative to the workspace: a renamed one with both of its names.
    pub changed: Arc<[PathBuf]>,
    /// The events of the session.
    pub events: EventLog,
    /// The normalized log of the trial, if one was written.
    pub log: Option<PathBuf>,
    /// Directory for the evaluator's own artifacts.
    pub artifacts: PathBuf,
}

/// A future that resolves to an evaluation. A crash is an evaluation with verdict `errored`.
pub type EvaluateFuture<'a> = Pin<Box<dyn Future<Output = Evaluation> + Send + 'a>>;

/// Judges what an agent left behind.
pub trait Evaluator: Send + Sync {
    /// The kind, as in the files of a case.
    fn kind(&self) -> &'static str;

    /// Checks a configuration without running anything. Returns what is wrong, with the key.
    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem>;

    /// Judges one trial.
    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a>;
}

/// A fault in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The key, such as `config.threshold`.
    pub key: String,
    /// What is wrong, and what would be right.
    pub message: String,
}
