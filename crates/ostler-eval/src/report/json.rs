//! The report as JSON: the contract of `ostler eval run --json`.

use serde_json::{Value, json};

use super::RunReport;
use crate::stats::ContenderSummary;
use crate::trial::TrialResult;

/// Returns the report as one JSON object. Fields may be added, never renamed or removed.
#[must_use]
pub fn json(report: &RunReport) -> Value {
    let agents: Vec<Value> = report.summaries().iter().map(agent).collect();
    let trials: Vec<Value> = report
        .ordered()
        .into_iter()
        .map(|it| trial(it, report))
        .collect();
    let compared = report.comparisons().into_iter();
    let comparisons: Vec<Value> = compared
        .map(|(agents, compared)| json!({"agents": agents, "comparison": compared}))
        .collect();
    json!({
        "run": report.run,
        "suite": report.suite,
        "started_at": report.started_at,
        "planned": report.planned.len(),
        "missing": report.missing(),
        "agents": agents,
        "comparisons": comparisons,
        "mixed_identities": report.mixed_identities(),
        "trials": trials,
    })
}

fn agent(it: &ContenderSummary) -> Value {
    let sum = |figures: Option<crate::stats::Figures>| figures.map(|it| it.sum as u64);
    json!({
        "label": it.label,
        "agent": it.agent,
        "model": it.model,
        "planned": it.counts.planned,
        "scored": it.counts.scored,
        "passed": it.counts.passed,
        "infrastructure": it.counts.infrastructure,
        "timeouts": it.counts.timeouts,
        "cancelled": it.counts.cancelled,
        "skipped": it.counts.skipped,
        "missing": it.counts.missing,
        "evaluator_errors": it.counts.evaluator_errors,
        "tasks": it.tasks,
        "pass_at_1": it.pass_at_1,
        "k": it.k,
        "pass_at_k": it.pass_at_k,
        "pass_hat_k": it.pass_hat_k,
        "score": it.score,
        "cost_usd": it.cost_usd.map(|cost| cost.sum),
        "cost_is_partial": it.cost_is_partial,
        "cost_per_trial_usd": it.cost_usd,
        "cost_per_solved_usd": it.cost_per_solved,
        "tokens": {
            "input": sum(it.tokens.input),
            "cache_read": sum(it.tokens.cache_read),
            "cache_write": sum(it.tokens.cache_write),
            "output": sum(it.tokens.output),
            "reasoning": sum(it.tokens.reasoning),
            "total": sum(it.tokens.total),
        },
        "tokens_per_trial": it.tokens,
        "wall_ms": it.wall_ms,
        "working_ms": it.working_ms,
        "flaky": it.flaky,
        "replayed": it.replayed,
    })
}

fn trial(trial: &TrialResult, report: &RunReport) -> Value {
    let evaluators: Vec<Value> = trial
        .evaluations
        .iter()
        .map(|it| {
            json!({
                "name": it.name,
                "kind": it.kind,
                "verdict": it.verdict,
                "reason": it.reason,
                "score": it.score,
                "metrics": it.metrics,
                "artifacts": it.artifacts,
                "weight": it.weight,
                "required": it.required,
                "duration_ms": it.duration_ms,
            })
        })
        .collect();
    let contender = report.contender(&trial.key.contender);
    json!({
        "case": trial.key.case,
        "agent": contender.map_or(&trial.identity.agent, |it| &it.agent),
        "contender": trial.key.contender,
        "model": trial.identity.model,
        "repetition": trial.key.repetition,
        "verdict": trial.verdict,
        "blame": trial.blame,
        "cause": trial.cause,
        "message": trial.message,
        "score": trial.score,
        "attempts": trial.attempts,
        "evaluators": evaluators,
        "artifacts": trial.artifacts,
        "diff_files": trial.diff_files,
        "usage": trial.usage,
        "unmetered_attempts": trial.unmetered_attempts,
        "session": trial.session,
        "started_at": trial.started_at,
        "completed_at": trial.completed_at,
        "agent_ms": trial.agent_ms,
        "working_ms": trial.working_ms,
        "replayed": trial.replayed,
        "metered": trial.metered,
        "identity": trial.identity,
    })
}
