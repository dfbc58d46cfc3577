//! Registry of evaluators, by their kinds.

use std::collections::BTreeMap;
use std::sync::Arc;

use ostler::Host;

use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, Evaluator};
use crate::evaluators::judge::{JudgeBackend, JudgeError, JudgeFuture, JudgeRequest};
use crate::evaluators::{
    CommandEvaluator, ExpectedDiff, FilesEvaluator, GitDiff, Judge, ScriptEvaluator, SweBench,
    TrajectoryRules,
};
use crate::harbor_evaluator::HarborEvaluator;

/// A program without agents and models for judges.
struct NoJudges;

impl JudgeBackend for NoJudges {
    fn ask<'a>(&'a self, _: &'a JudgeRequest) -> JudgeFuture<'a> {
        let message = "this program has no agents or models that judge";
        Box::pin(async move { Err(JudgeError(message.to_owned())) })
    }
}

/// The evaluators that cases can use.
#[derive(Clone, Default)]
pub struct Evaluators(BTreeMap<&'static str, Arc<dyn Evaluator>>);

impl Evaluators {
    /// Returns the evaluators that come with Ostler. Their commands run with this host. Judges need
    /// [`Evaluators::with_judges`].
    #[must_use]
    pub fn builtin(host: &Host) -> Self {
        let mut all = Self::default();
        all.add(Arc::new(CommandEvaluator::new(host.clone())));
        all.add(Arc::new(ScriptEvaluator::new(host.clone())));
        all.add(Arc::new(FilesEvaluator));
        all.add(Arc::new(HarborEvaluator::new(host.clone())));
        all.add(Arc::new(GitDiff));
        all.add(Arc::new(ExpectedDiff));
        all.add(Arc::new(TrajectoryRules));
        all.add(Arc::new(SweBench));
        all.with_judges(Arc::new(NoJudges))
    }

    /// Sets who asks judges.
    #[must_use]
    pub fn with_judges(mut self, judges: Arc<dyn JudgeBackend>) -> Self {
        self.add(Arc::new(Judge::new(judges)));
        self
    }

    /// Adds an evaluator, replacing any of the same kind.
    pub fn add(&mut self, evaluator: Arc<dyn Evaluator>) {
        self.0.insert(evaluator.kind(), evaluator);
    }

    /// Returns the evaluator of a kind.
    #[must_use]
    pub fn get(&self, kind: &str) -> Option<Arc<dyn Evaluator>> {
        self.0.get(kind).cloned()
    }

    /// Returns the known kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// Checks an evaluator's configuration without running anything.
    #[must_use]
    pub fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        match self.get(&spec.kind) {
            Some(evaluator) => evaluator.check(spec),
            None => vec![ConfigProblem {
                key: "name".to_owned(),
                message: format!(
                    "this version of Ostler has no evaluator {:?}; known: {}",
                    spec.kind,
                    self.kinds().collect::<Vec<_>>().join(", ")
                ),
            }],
        }
    }
}
