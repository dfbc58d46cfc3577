//! What counts: scored trials, and those that say nothing about the agent.

use std::collections::BTreeMap;

use ostler_core::outcome::{Cause, Status};
use serde::Serialize;

use super::rate::TaskCount;
use crate::trial::{Blame, TrialResult, Verdict};

/// Numbers of trials by what they say about the agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Denominators {
    /// Trials that were planned.
    pub planned: u64,
    /// Trials with a verdict that counts: passed, failed, timed out, or not judged because an
    /// evaluator crashed.
    pub scored: u64,
    /// Scored trials that passed.
    pub passed: u64,
    /// Scored trials in which an evaluator crashed. They count as not passed.
    pub evaluator_errors: u64,
    /// Scored trials that ran out of time. They count as not passed.
    pub timeouts: u64,
    /// Trials that the machine, the network or the provider broke. They are not scored.
    pub infrastructure: u64,
    /// Trials that the user stopped, and that have no result since. They are not scored.
    pub cancelled: u64,
    /// Trials that were skipped. They are not scored.
    pub skipped: u64,
    /// Trials without a result yet.
    pub missing: u64,
}

/// Returns true if a trial counts for or against its agent.
pub(super) fn is_scored(trial: &TrialResult) -> bool {
    let neutral = matches!(trial.blame, Some(Blame::Infrastructure | Blame::Cancelled));
    trial.verdict == Verdict::Passed || !neutral && trial.verdict != Verdict::Skipped
}

/// Counts trials. `planned` of them exist, and `cancelled` of those without a result were stopped.
#[must_use]
pub fn tally<'a>(
    trials: impl IntoIterator<Item = &'a TrialResult>,
    planned: u64,
    cancelled: u64,
) -> Denominators {
    let mut counts = Denominators {
        planned,
        ..Denominators::default()
    };
    let mut seen = 0;
    for trial in trials {
        seen += 1;
        if is_scored(trial) {
            counts.scored += 1;
            counts.passed += u64::from(trial.verdict == Verdict::Passed);
            counts.timeouts += u64::from(is_timeout(trial));
            counts.evaluator_errors += u64::from(trial.verdict == Verdict::Errored);
            continue;
        }
        match trial.blame {
            Some(Blame::Infrastructure) => counts.infrastructure += 1,
            Some(Blame::Cancelled) => counts.cancelled += 1,
            _ => counts.skipped += 1,
        }
    }
    counts.planned = planned.max(seen);
    let without = counts.planned - seen;
    let stopped = cancelled.min(without);
    counts.cancelled += stopped;
    counts.missing = without - stopped;
    counts
}

fn is_timeout(trial: &TrialResult) -> bool {
    let by_time = |cause: Cause| cause.status() == Status::Timeout;
    trial.verdict != Verdict::Passed
        && trial.blame == Some(Blame::Limit)
        && trial.cause.is_some_and(by_time)
}

/// Returns the scored trials of each task of a contender.
#[must_use]
pub fn counts(trials: &[TrialResult], contender: &str) -> BTreeMap<String, TaskCount> {
    let mut tasks: BTreeMap<String, TaskCount> = BTreeMap::new();
    let own = trials
        .iter()
        .filter(|trial| trial.key.contender == contender);
    for trial in own.filter(|trial| is_scored(trial)) {
        let none = TaskCount {
            trials: 0,
            passed: 0,
        };
        let task = tasks.entry(trial.key.case.clone()).or_insert(none);
        task.trials += 1;
        task.passed += u64::from(trial.verdict == Verdict::Passed);
    }
    tasks
}

/// Returns the tasks that sometimes passed and sometimes did not.
#[must_use]
pub fn flaky_tasks(tasks: &BTreeMap<String, TaskCount>) -> Vec<String> {
    let flaky = tasks
        .iter()
        .filter(|(_, it)| it.passed > 0 && it.passed < it.trials);
    flaky.map(|(name, _)| name.clone()).collect()
}
