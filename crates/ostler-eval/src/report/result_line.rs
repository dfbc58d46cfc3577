//! The result of one trial as a line of JSON, for the file that a case exports to.

use serde_json::json;

use crate::trial::TrialResult;

/// Returns a line of JSON: the whole result, or the verdict with score, cost and times.
#[must_use]
pub fn result_line(trial: &TrialResult, full: bool) -> String {
    let value = if full {
        serde_json::to_value(trial).unwrap_or_default()
    } else {
        json!({
            "case": trial.key.case,
            "contender": trial.key.contender,
            "agent": trial.identity.agent,
            "model": trial.identity.model,
            "repetition": trial.key.repetition,
            "verdict": trial.verdict,
            "cause": trial.cause,
            "score": trial.score,
            "cost_usd": trial.usage.cost_usd,
            "agent_ms": trial.agent_ms,
            "started_at": trial.started_at,
            "completed_at": trial.completed_at,
        })
    };
    value.to_string() + "\n"
}
