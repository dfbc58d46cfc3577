//! Gates for CI: requirements on the figures of a run, and on its difference from a baseline.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::report::RunReport;
use crate::stats::{ContenderSummary, compare, counts, pass_at_k, pass_hat_k};
use crate::trial::TrialResult;

/// A figure that a requirement can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// `pass@1`, `pass@3`: chance that at least one of k trials passes.
    PassAt(u64),
    /// `pass^3`: chance that all of k trials pass.
    PassHat(u64),
    /// `score`: mean of the scores.
    Score,
    /// `cost_usd`: sum of the costs.
    Cost,
    /// `cost_per_solved`: cost of all trials per solved task.
    CostPerSolved,
    /// `wall_p95`: 95th percentile of the agent's wall time, in seconds.
    WallP95,
    /// `scored`: number of scored trials.
    Scored,
    /// `infrastructure`: number of trials that the infrastructure broke.
    Infrastructure,
    /// `timeouts`: number of trials that ran out of time.
    Timeouts,
}

/// The names of the metrics, for messages.
const METRICS: &[&str] = &[
    "pass@1",
    "pass@k",
    "pass^k",
    "score",
    "cost_usd",
    "cost_per_solved",
    "wall_p95",
    "scored",
    "infrastructure",
    "timeouts",
];

/// How a figure is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `>=`
    AtLeast,
    /// `>`
    Above,
    /// `<=`
    AtMost,
    /// `<`
    Below,
    /// `==`
    Equal,
}

/// A requirement such as `pass@1 >= 0.8`, or `pass@1[label] >= 80%` for one contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Requirement {
    /// The figure.
    pub metric: Metric,
    /// The contender; every one if there is none.
    pub contender: Option<String>,
    /// How it is compared.
    pub operator: Operator,
    /// With what.
    pub value: f64,
    text: String,
}

/// A requirement that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    /// No operator.
    #[error("\"{0}\" has no operator; write for example: pass@1 >= 0.8")]
    NoOperator(String),
    /// An unknown figure.
    #[error("\"{name}\" is not a figure; {hint}")]
    UnknownMetric {
        /// The name.
        name: String,
        /// Suggestion.
        hint: String,
    },
    /// Not a number.
    #[error("\"{0}\" is not a number; write 0.8 or 80%")]
    BadNumber(String),
    /// A regression that is not one.
    #[error("\"{0}\" is not a difference; write 2pp, 2% or 0.02")]
    BadRegression(String),
}

impl FromStr for Requirement {
    type Err = RequirementError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        // A label may contain anything except its closing bracket.
        let (head, rest) = match text.find(']') {
            Some(end) if text.contains('[') => text.split_at(end + 1),
            _ => {
                let at = text.find(['<', '>', '=']).unwrap_or(text.len());
                text.split_at(at)
            }
        };
        let (operator, value) =
            operator(rest.trim()).ok_or_else(|| RequirementError::NoOperator(text.to_owned()))?;
        let (name, contender) = match head.trim().split_once('[') {
            Some((name, label)) => (name.trim(), Some(label.trim_end_matches(']').to_owned())),
            None => (head.trim(), None),
        };
        let value = fraction(value.trim())
            .ok_or_else(|| RequirementError::BadNumber(value.trim().to_owned()))?;
        Ok(Self {
            metric: metric(name)?,
            contender,
            operator,
            value,
            text: text.to_owned(),
        })
    }
}

fn operator(text: &str) -> Option<(Operator, &str)> {
    let operators = [
        (">=", Operator::AtLeast),
        ("<=", Operator::AtMost),
        ("==", Operator::Equal),
        (">", Operator::Above),
        ("<", Operator::Below),
    ];
    let found = |(sign, operator)| Some((operator, text.strip_prefix(sign)?));
    operators.into_iter().find_map(found)
}

fn metric(name: &str) -> Result<Metric, RequirementError> {
    let count = |prefix: &str| name.strip_prefix(prefix)?.parse().ok().filter(|k| *k > 0);
    if let Some(k) = count("pass@") {
        return Ok(Metric::PassAt(k));
    }
    if let Some(k) = count("pass^") {
        return Ok(Metric::PassHat(k));
    }
    match name {
        "score" => Ok(Metric::Score),
        "cost_usd" => Ok(Metric::Cost),
        "cost_per_solved" => Ok(Metric::CostPerSolved),
        "wall_p95" => Ok(Metric::WallP95),
        "scored" => Ok(Metric::Scored),
        "infrastructure" => Ok(Metric::Infrastructure),
        "timeouts" => Ok(Metric::Timeouts),
        _ => Err(RequirementError::UnknownMetric {
            name: name.to_owned(),
            hint: ostler_core::near::suggestion(name, METRICS),
        }),
    }
}

/// Parses `0.8` or `80%`.
fn fraction(text: &str) -> Option<f64> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    Some(number).filter(|number| number.is_finite())
}

/// Parses a difference of rates: `2pp`, `2%` or `0.02`.
///
/// # Errors
/// The text is not a number from 0 to 1.
pub fn parse_regression(text: &str) -> Result<f64, RequirementError> {
    let text = text.trim();
    let parsed = match text.strip_suffix("pp") {
        Some(points) => points
            .trim()
            .parse::<f64>()
            .ok()
            .map(|points| points / 100.0),
        None => fraction(text),
    };
    parsed
        .filter(|it| (0.0..=1.0).contains(it))
        .ok_or_else(|| RequirementError::BadRegression(text.to_owned()))
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What a gate requires.
#[derive(Debug, Clone, Default)]
pub struct Gate<'a> {
    /// Requirements on figures.
    pub requirements: Vec<Requirement>,
    /// Trials of the baseline.
    pub baseline: Option<&'a [TrialResult]>,
    /// How much lower than the baseline the share of passed trials may be.
    pub max_regression: f64,
    /// Whether trials that an evaluator could not judge, and tasks without a scored trial, are
    /// accepted.
    pub allow_errors: bool,
    /// Whether tasks of the baseline may be missing.
    pub allow_unmatched: bool,
}

/// One check of a gate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct GateCheck {
    /// The contender.
    pub contender: String,
    /// What was required.
    pub required: String,
    /// What was found.
    pub found: String,
    /// Whether it is met. A figure that is unknown does not meet anything.
    pub met: bool,
}

/// Checks a run. Returns every check, in the order of the requirements.
#[must_use]
pub fn check(gate: &Gate<'_>, report: &RunReport) -> Vec<GateCheck> {
    let summaries = report.summaries();
    let mut checks = Vec::new();
    for requirement in &gate.requirements {
        let named = requirement.contender.as_deref();
        let chosen: Vec<&ContenderSummary> = summaries
            .iter()
            .filter(|it| named.is_none_or(|name| it.label == name))
            .collect();
        if chosen.is_empty() {
            checks.push(GateCheck {
                contender: named.unwrap_or("(any)").to_owned(),
                required: requirement.to_string(),
                found: "no such contender in the run".to_owned(),
                met: false,
            });
        }
        let own = chosen.into_iter();
        checks.extend(own.map(|summary| required(requirement, summary, report)));
    }
    checks.extend(summaries.iter().filter_map(incomplete));
    if !gate.allow_errors {
        checks.extend(summaries.iter().filter_map(errors));
        checks.extend(summaries.iter().filter_map(|it| unscored(it, report)));
    }
    if let Some(baseline) = gate.baseline {
        let seed = report.seed;
        let each = summaries.iter();
        checks.extend(each.map(|it| regression(it, gate, baseline, &report.trials, seed)));
    }
    checks
}

fn required(
    requirement: &Requirement,
    summary: &ContenderSummary,
    report: &RunReport,
) -> GateCheck {
    let found = figure(requirement.metric, summary, report);
    let met = found.is_some_and(|found| match requirement.operator {
        Operator::AtLeast => found >= requirement.value,
        Operator::Above => found > requirement.value,
        Operator::AtMost => found <= requirement.value,
        Operator::Below => found < requirement.value,
        Operator::Equal => (found - requirement.value).abs() < 1e-9,
    });
    GateCheck {
        contender: summary.label.clone(),
        required: requirement.to_string(),
        found: found.map_or_else(
            || unknown(requirement.metric, summary, report),
            |found| format!("{found:.4}"),
        ),
        met,
    }
}

fn figure(metric: Metric, summary: &ContenderSummary, report: &RunReport) -> Option<f64> {
    let tasks = || {
        let tasks = counts(&report.trials, &summary.label);
        tasks.into_values().collect::<Vec<_>>()
    };
    match metric {
        Metric::PassAt(1) => summary.pass_at_1.map(|it| it.value),
        Metric::PassAt(k) => pass_at_k(&tasks(), k),
        Metric::PassHat(k) => pass_hat_k(&tasks(), k),
        Metric::Score => summary.score.map(|it| it.mean),
        // A lower bound proves no upper limit.
        Metric::Cost => summary
            .cost_usd
            .filter(|_| !summary.cost_is_partial)
            .map(|it| it.sum),
        Metric::CostPerSolved => summary.cost_per_solved.filter(|_| !summary.cost_is_partial),
        Metric::WallP95 => summary.wall_ms.map(|it| it.p95 / 1000.0),
        Metric::Scored => Some(summary.counts.scored as f64),
        Metric::Infrastructure => Some(summary.counts.infrastructure as f64),
        Metric::Timeouts => Some(summary.counts.timeouts as f64),
    }
}

/// Says why a figure is unknown.
fn unknown(metric: Metric, summary: &ContenderSummary, report: &RunReport) -> String {
    let (Metric::PassAt(k) | Metric::PassHat(k)) = metric else {
        return "unknown".to_owned();
    };
    let tasks = counts(&report.trials, &summary.label);
    let few = tasks.values().filter(|task| task.trials < k).count();
    match few {
        0 => "unknown".to_owned(),
        few => format!(
            "unknown: {few} of {} tasks have fewer than {k} scored trials",
            tasks.len()
        ),
    }
}

/// A check that fails if trials have no result yet.
fn incomplete(summary: &ContenderSummary) -> Option<GateCheck> {
    let counts = summary.counts;
    let without = counts.missing + counts.cancelled;
    (without > 0).then(|| GateCheck {
        contender: summary.label.clone(),
        required: "every planned trial has a result".to_owned(),
        found: format!("{without} of {} have none; resume the run", counts.planned),
        met: false,
    })
}

/// A check that fails if a task has results, none of which is scored: its pass rate is unknown.
fn unscored(summary: &ContenderSummary, report: &RunReport) -> Option<GateCheck> {
    let scored = counts(&report.trials, &summary.label);
    let own = report.trials.iter();
    let own = own.filter(|trial| trial.key.contender == summary.label);
    let tasks: BTreeSet<&str> = own.map(|trial| trial.key.case.as_str()).collect();
    let without: Vec<&str> = tasks
        .into_iter()
        .filter(|task| !scored.contains_key(*task))
        .collect();
    (!without.is_empty()).then(|| GateCheck {
        contender: summary.label.clone(),
        required: "every task has a scored trial".to_owned(),
        found: format!("none: {}", without.join(", ")),
        met: false,
    })
}

/// A check that fails if an evaluator crashed.
fn errors(summary: &ContenderSummary) -> Option<GateCheck> {
    let errors = summary.counts.evaluator_errors;
    (errors > 0).then(|| GateCheck {
        contender: summary.label.clone(),
        required: "every scored trial is judged".to_owned(),
        found: format!("{errors} could not be judged; see their evaluators"),
        met: false,
    })
}

fn regression(
    summary: &ContenderSummary,
    gate: &Gate<'_>,
    baseline: &[TrialResult],
    trials: &[TrialResult],
    seed: u64,
) -> GateCheck {
    let label = &summary.label;
    let (before, after) = (counts(baseline, label), counts(trials, label));
    let gone: Vec<&str> = before
        .keys()
        .filter(|task| !after.contains_key(*task))
        .map(String::as_str)
        .collect();
    let compared = compare(&before, &after, seed);
    let (found, met) = match compared {
        None => ("the baseline has no task in common".to_owned(), false),
        Some(it) => {
            let change = it.after - it.before;
            let interval = it.difference.map_or(String::new(), |paired| {
                let (low, high) = (paired.difference.low, paired.difference.high);
                format!(
                    ", 95 % interval {:+.1}pp to {:+.1}pp",
                    low * 100.0,
                    high * 100.0
                )
            });
            let mut found = format!("{:+.1}pp on {} tasks{interval}", change * 100.0, it.tasks);
            if !gone.is_empty() {
                found = format!("{found}; only in the baseline: {}", gone.join(", "));
            }
            let is_whole = gone.is_empty() || gate.allow_unmatched;
            (found, is_whole && change >= -gate.max_regression - 1e-9)
        }
    };
    GateCheck {
        contender: label.clone(),
        required: format!(
            "at most {:.1}pp below the baseline",
            gate.max_regression * 100.0
        ),
        found,
        met,
    }
}
