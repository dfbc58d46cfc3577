//! Results of trials: verdicts, causes, usage and where artifacts lie.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_core::outcome::Cause;
use ostler_core::usage::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::case::Isolation;

/// Which trial: a case, a contender and a repetition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TrialKey {
    /// Name of the case.
    pub case: String,
    /// Label of the contender.
    pub contender: String,
    /// Repetition, from 1.
    pub repetition: u32,
}

/// Everything that must be equal for two trials to be comparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialIdentity {
    /// Name of the case.
    pub case: String,
    /// SHA-256 of the case's definition: prompt, evaluators, limits, source, and the content of
    /// the files that it names.
    pub case_hash: String,
    /// The commit that the workspace started from.
    pub commit: String,
    /// The agent.
    pub agent: String,
    /// Its version, if known.
    pub agent_version: Option<String>,
    /// The model, as configured.
    pub model: Option<String>,
    /// The model, as the agent reported it. With an agent's default, it is all that is known.
    #[serde(default)]
    pub reported_model: Option<String>,
    /// SHA-256 of the prompt that was sent.
    pub prompt_hash: String,
    /// SHA-256 of the contender's settings and instructions.
    #[serde(default)]
    pub settings_hash: String,
    /// How the trial was isolated.
    pub isolation: Isolation,
    /// Version of Ostler.
    pub ostler: String,
}

/// Verdict on a trial or of an evaluator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It meets the requirements.
    Passed,
    /// It does not.
    Failed,
    /// It could not be judged.
    Errored,
    /// It was not judged, and that is no fault.
    Skipped,
}

/// Where a failure comes from. Failures of the infrastructure never count against an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The agent, or its answer.
    Agent,
    /// A limit of the trial: time, budget, turns.
    Limit,
    /// The machine, the network, the provider or Ostler.
    Infrastructure,
    /// An evaluator.
    Evaluator,
    /// The user stopped the run.
    Cancelled,
}

/// Result of one evaluator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Name of the evaluator.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one sentence. Always present unless it passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Score from 0 to 1, if the evaluator has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Figures, by name.
    pub metrics: BTreeMap<String, Value>,
    /// Files that it wrote, relative to the trial's artifacts.
    pub artifacts: Vec<PathBuf>,
    /// Weight in the score of the trial.
    pub weight: f64,
    /// Whether a result other than `passed` fails the trial.
    pub required: bool,
    /// How long it took.
    pub duration_ms: u64,
}

/// The accepted result of a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Which trial.
    pub key: TrialKey,
    /// What it ran with.
    pub identity: TrialIdentity,
    /// The verdict.
    pub verdict: Verdict,
    /// Where a failure comes from; `None` if the trial passed.
    pub blame: Option<Blame>,
    /// How the agent's session ended; `None` if it never started.
    pub cause: Option<Cause>,
    /// Message for people, unless the trial passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Weighted mean of the evaluators' scores, from 0 to 1.
    pub score: Option<f64>,
    /// Results of the evaluators.
    pub evaluations: Vec<Evaluation>,
    /// Tokens and cost of all attempts.
    pub usage: Usage,
    /// Number of attempts.
    pub attempts: u32,
    /// Ostler's id of the session of the accepted attempt.
    pub session: Option<String>,
    /// When the accepted attempt started: RFC 3339.
    pub started_at: String,
    /// When it was complete.
    pub completed_at: String,
    /// Wall time of the agent.
    pub agent_ms: u64,
    /// Time of the agent's turns, without its start and its end, if known.
    pub working_ms: Option<u64>,
    /// Number of files that the agent changed.
    pub diff_files: u32,
    /// Directory with the artifacts.
    pub artifacts: PathBuf,
    /// Whether the answers came from a script or a recording, and not from a model.
    pub replayed: bool,
    /// Whether usage was reported, so that costs can be compared.
    pub metered: bool,
    /// Attempts that were killed before their usage was reported. `usage` is a lower bound then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmetered_attempts: Vec<u64>,
    /// What went wrong without changing the verdict, such as a failed `post_evaluation`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Returns true if a result counts in statistics: the infrastructure did not fail, and the trial
/// was not cancelled.
#[must_use]
pub fn is_scored(result: &TrialResult) -> bool {
    let is_judged = matches!(
        result.verdict,
        Verdict::Passed | Verdict::Failed | Verdict::Errored
    );
    let is_excused = matches!(result.blame, Some(Blame::Infrastructure | Blame::Cancelled));
    is_judged && !is_excused
}
