//! Evaluator `swe-bench`: leaves the verdict to SWE-bench's own harness.

use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::evaluators::Judgement;

/// The kind of the evaluator.
pub const SWE_BENCH: &str = "swe-bench";

const REASON: &str = "SWE-bench's own harness grades the predictions; \
                      write them with `--format predictions`";

/// Skips every trial: the tests of a row need the environment that SWE-bench builds.
pub struct SweBench;

impl Evaluator for SweBench {
    fn kind(&self) -> &'static str {
        SWE_BENCH
    }

    fn check(&self, _: &EvaluatorSpec) -> Vec<ConfigProblem> {
        Vec::new()
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, _: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async { Judgement::new(spec).skipped(REASON) })
    }
}
