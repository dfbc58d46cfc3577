//! Figures of one contender.

use ostler_core::usage::CostSource;
use serde::Serialize;

use super::rate::{Estimate, TaskCount, cluster_interval, pass_at_k, pass_hat_k};
use super::tally::{Denominators, counts, flaky_tasks, is_scored, tally};
use crate::case::Contender;
use crate::trial::TrialResult;

/// Mean, median, 95th percentile and sum of a figure, over the trials in which it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Number of trials in which it is known.
    pub known: usize,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub median: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The sum.
    pub sum: f64,
}

impl Figures {
    /// Returns the figures of values; `None` without any.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let sum: f64 = values.iter().sum();
        Some(Self {
            known: values.len(),
            mean: sum / values.len() as f64,
            median: quantile(&values, 0.5)?,
            p95: quantile(&values, 0.95)?,
            sum,
        })
    }
}

/// Tokens by kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Default)]
pub struct TokenFigures {
    /// Input tokens not read from a cache.
    pub input: Option<Figures>,
    /// Input tokens read from a cache.
    pub cache_read: Option<Figures>,
    /// Input tokens written to a cache.
    pub cache_write: Option<Figures>,
    /// Output tokens.
    pub output: Option<Figures>,
    /// Reasoning tokens, a part of the output.
    pub reasoning: Option<Figures>,
    /// All tokens.
    pub total: Option<Figures>,
}

/// Figures of one contender.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContenderSummary {
    /// Label of the contender.
    pub label: String,
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: Option<String>,
    /// What counts.
    pub counts: Denominators,
    /// Number of tasks with a scored trial.
    pub tasks: usize,
    /// Share of scored trials that passed.
    pub pass_at_1: Option<Estimate>,
    /// `k` of the next two: the number of scored trials that every task has.
    pub k: u64,
    /// Chance that at least one of `k` trials of a task passes.
    pub pass_at_k: Option<f64>,
    /// Chance that all of `k` trials of a task pass.
    pub pass_hat_k: Option<f64>,
    /// Mean of the scores.
    pub score: Option<Figures>,
    /// Cost in US dollars.
    pub cost_usd: Option<Figures>,
    /// Whether the sum of the costs is only a lower bound.
    pub cost_is_partial: bool,
    /// Cost of all trials per task that was solved at least once.
    pub cost_per_solved: Option<f64>,
    /// Tokens.
    pub tokens: TokenFigures,
    /// Wall time of the agent in milliseconds.
    pub wall_ms: Option<Figures>,
    /// Time of its turns in milliseconds.
    pub working_ms: Option<Figures>,
    /// Tasks that sometimes passed.
    pub flaky: Vec<String>,
    /// Whether any result was replayed.
    pub replayed: bool,
}

/// Returns the value below which a share `p` of sorted values lies, between neighbours by linear
/// interpolation.
pub(super) fn quantile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = p * last as f64;
    let (below, above) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (at - at.floor()))
}

/// Returns the figures of one contender, with the numbers of its planned trials and of those that
/// were cancelled and have no result.
#[must_use]
pub fn summarize(
    contender: &Contender,
    trials: &[TrialResult],
    (planned, cancelled): (u64, u64),
) -> ContenderSummary {
    let is_own = |trial: &&TrialResult| trial.key.contender == contender.label;
    let own: Vec<&TrialResult> = trials.iter().filter(is_own).collect();
    let ran: Vec<&TrialResult> = own.iter().copied().filter(|it| is_scored(it)).collect();
    let tasks = counts(trials, &contender.label);
    let by_task: Vec<TaskCount> = tasks.values().copied().collect();
    let k = by_task.iter().map(|it| it.trials).min().unwrap_or(0);
    // What was spent on trials that do not count was spent, too.
    let cost_usd = Figures::of(own.iter().filter_map(|it| it.usage.cost_usd));
    let is_known = |trial: &&TrialResult| {
        let source = trial.usage.cost_source;
        matches!(source, CostSource::Reported | CostSource::Estimated)
            && trial.unmetered_attempts.is_empty()
    };
    let solved = by_task.iter().filter(|it| it.passed > 0).count();
    let per_solved = cost_usd.filter(|_| solved > 0);
    ContenderSummary {
        label: contender.label.clone(),
        agent: contender.agent.clone(),
        model: contender.model.clone(),
        counts: tally(own.iter().copied(), planned, cancelled),
        tasks: by_task.len(),
        pass_at_1: cluster_interval(&by_task),
        k,
        pass_at_k: pass_at_k(&by_task, k),
        pass_hat_k: pass_hat_k(&by_task, k),
        score: Figures::of(ran.iter().filter_map(|it| it.score)),
        cost_usd,
        cost_is_partial: cost_usd.is_some() && !own.iter().all(is_known),
        cost_per_solved: per_solved.map(|cost| cost.sum / solved as f64),
        tokens: tokens(&own),
        wall_ms: Figures::of(ran.iter().map(|it| it.agent_ms as f64)),
        working_ms: Figures::of(
            ran.iter()
                .filter_map(|it| it.working_ms.map(|ms| ms as f64)),
        ),
        flaky: flaky_tasks(&tasks),
        replayed: own.iter().any(|it| it.replayed),
    }
}

fn tokens(trials: &[&TrialResult]) -> TokenFigures {
    let of = |count: fn(&TrialResult) -> Option<u64>| {
        Figures::of(trials.iter().filter_map(|it| count(it)).map(|it| it as f64))
    };
    TokenFigures {
        input: of(|it| it.usage.input),
        cache_read: of(|it| it.usage.cache_read),
        cache_write: of(|it| it.usage.cache_write),
        output: of(|it| it.usage.output),
        reasoning: of(|it| it.usage.reasoning),
        total: of(total_tokens),
    }
}

/// Returns the sum of the known counters; `None` if none is known.
pub(crate) fn total_tokens(trial: &TrialResult) -> Option<u64> {
    let usage = &trial.usage;
    let counters = [
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.output,
    ];
    let known: Vec<u64> = counters.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.into_iter().fold(0, u64::saturating_add))
}
