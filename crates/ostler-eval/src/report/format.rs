//! Figures as people read them.

use ostler_core::clip::sanitize;

use crate::stats::{ContenderSummary, Estimate};
use crate::trial::{Blame, TrialResult, Verdict};

/// `83 %`, or `–` if unknown.
pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{:.0} %", value * 100.0))
}

/// `58–95 %`, or `–`.
pub(super) fn interval(estimate: Option<Estimate>) -> String {
    estimate.map_or("–".to_owned(), |it| {
        format!("{:.0}–{:.0} %", it.low * 100.0, it.high * 100.0)
    })
}

/// `+3.1pp`.
pub(super) fn points(value: f64) -> String {
    format!("{:+.1}pp", value * 100.0)
}

/// `$0.0123`, with as many digits as are worth reading; `–` if unknown.
pub(super) fn dollars(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(0.0) => "$0".to_owned(),
        Some(value) if value < 0.1 => format!("${value:.4}"),
        Some(value) => format!("${value:.2}"),
    }
}

/// The sum of the costs, marked `≥` if it is a lower bound.
pub(super) fn cost(summary: &ContenderSummary) -> String {
    let sum = dollars(summary.cost_usd.map(|it| it.sum));
    if summary.cost_is_partial {
        format!("≥{sum}")
    } else {
        sum
    }
}

/// The cost per solved task, marked `≥` if it is a lower bound.
pub(super) fn per_solved(summary: &ContenderSummary) -> String {
    match summary.cost_per_solved {
        Some(cost) if summary.cost_is_partial => format!("≥{}", dollars(Some(cost))),
        cost => dollars(cost),
    }
}

/// `12.3k`, `4.56M`.
pub(super) fn count(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 999_950.0 => format!("{:.2}M", value / 1e6),
        Some(value) if value >= 1000.0 => format!("{:.1}k", value / 1e3),
        Some(value) => format!("{value:.0}"),
    }
}

/// `850 ms`, `12.3 s`, `4 m 05 s`, `1 h 02 m`.
pub(super) fn duration(milliseconds: Option<f64>) -> String {
    let Some(milliseconds) = milliseconds else {
        return "–".to_owned();
    };
    let seconds = (milliseconds / 1000.0).round() as u64;
    if milliseconds < 1000.0 {
        format!("{milliseconds:.0} ms")
    } else if milliseconds < 60_000.0 {
        format!("{:.1} s", milliseconds / 1000.0)
    } else if seconds < 3600 {
        format!("{} m {:02} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {:02} m", seconds / 3600, seconds % 3600 / 60)
    }
}

/// The denominators of a contender: what was scored, and what was not and why.
pub(super) fn denominators(summary: &ContenderSummary) -> String {
    let counts = summary.counts;
    let mut parts = vec![format!(
        "{} of {} trials scored",
        counts.scored, counts.planned
    )];
    let always = [
        (counts.timeouts, "timed out"),
        (counts.infrastructure, "infrastructure"),
        (counts.cancelled, "cancelled"),
    ];
    let rare = [
        (counts.evaluator_errors, "not judged"),
        (counts.skipped, "skipped"),
        (counts.missing, "missing"),
    ];
    let rare = rare.into_iter().filter(|(number, _)| *number > 0);
    let shown = always.into_iter().chain(rare);
    parts.extend(shown.map(|(number, what)| format!("{number} {what}")));
    parts.join(", ")
}

/// What a trial ended as, in one word or two.
pub(super) fn outcome(trial: &TrialResult) -> &'static str {
    match (trial.verdict, trial.blame) {
        (Verdict::Passed, _) => "passed",
        (_, Some(Blame::Infrastructure)) => "infrastructure",
        (_, Some(Blame::Cancelled)) => "cancelled",
        (Verdict::Skipped, _) => "skipped",
        (Verdict::Errored, _) => "not judged",
        (Verdict::Failed, Some(Blame::Limit)) => "limit reached",
        (Verdict::Failed, _) => "failed",
    }
}

/// Returns why a trial did not pass: its message, otherwise the first required evaluator's reason.
pub(super) fn reason(trial: &TrialResult) -> Option<String> {
    if trial.verdict == Verdict::Passed {
        return None;
    }
    let evaluation = trial
        .evaluations
        .iter()
        .find(|it| it.required && matches!(it.verdict, Verdict::Failed | Verdict::Errored));
    let of_evaluator = evaluation.map(|it| {
        let reason = it.reason.as_deref().unwrap_or("no reason given");
        format!("{}: {reason}", it.name)
    });
    trial.message.clone().or(of_evaluator)
}

/// Returns a text as one line without control characters, whoever wrote it.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    sanitize(&words.join(" "))
}
