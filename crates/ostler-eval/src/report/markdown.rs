//! The report as Markdown, for a pull request or an issue.

use std::fmt::Write as _;

use super::RunReport;
use super::compare_runs::RunComparison;
use super::format::{
    cost, count, denominators, duration, interval, one_line, outcome, per_solved, percent, reason,
};
use super::human::{COMPARISON_HEAD, comparison_row, marks};
use crate::stats::Comparison;
use crate::trial::Verdict;

/// Maximum number of failures that are listed.
const MAX_FAILURES: usize = 50;

/// Returns the report as Markdown. Texts of agents and cases are escaped: they cannot add links,
/// images or HTML.
#[must_use]
pub fn markdown(report: &RunReport) -> String {
    let mut text = format!("# {}\n\nRun {}", escape(&report.suite), escape(&report.run));
    let missing = report.missing();
    if missing > 0 {
        let _ = write!(
            text,
            ", incomplete: {missing} of {} trials",
            report.planned.len()
        );
        text.push_str(" have no result");
    }
    text.push_str(".\n\n");
    let summaries = report.summaries();
    text.push_str(
        "| agent | pass@1 | 95 % interval | all k pass | cost | per solved | tokens | median time \
         | p95 time | trials |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for it in &summaries {
        let hat = match it.k {
            0 | 1 => "–".to_owned(),
            k => format!("{} (k={k})", percent(it.pass_hat_k)),
        };
        let cells = [
            escape(&it.label),
            percent(it.pass_at_1.map(|rate| rate.value)),
            interval(it.pass_at_1),
            hat,
            cost(it),
            per_solved(it),
            count(it.tokens.total.map(|tokens| tokens.sum)),
            duration(it.wall_ms.map(|wall| wall.median)),
            duration(it.wall_ms.map(|wall| wall.p95)),
            denominators(it),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let compared = report.comparisons();
    if !compared.is_empty() {
        text.push_str("\n## On the same tasks\n\n");
        text.push_str(&comparison_table(&compared));
    }
    text.push_str(&tasks(report));
    text.push_str(&failures(report));
    for mixed in report.mixed_identities() {
        let _ = writeln!(text, "\n{}.", escape(&mixed.to_string()));
    }
    text
}

fn tasks(report: &RunReport) -> String {
    let labels: Vec<&str> = report
        .contenders
        .iter()
        .map(|it| it.label.as_str())
        .collect();
    let names: Vec<String> = labels.iter().map(|label| escape(label)).collect();
    let mut text = format!("\n| task | {} |\n|---|", names.join(" | "));
    text.push_str(&"---|".repeat(labels.len()));
    text.push('\n');
    let cells = report.cells();
    for case in report.cases() {
        let row: Vec<String> = labels
            .iter()
            .map(|label| marks(cells.get(&(case, *label)).copied().unwrap_or_default()))
            .collect();
        let _ = writeln!(text, "| {} | {} |", escape(case), row.join(" | "));
    }
    text.push_str("\n✓ passed, ✗ failed, ! not judged, ~ does not count, · no result.\n");
    text
}

fn failures(report: &RunReport) -> String {
    let trials = report.ordered();
    let failed = trials.iter().filter(|it| it.verdict != Verdict::Passed);
    let total = failed.clone().count();
    let mut text = String::new();
    for (index, trial) in failed.take(MAX_FAILURES).enumerate() {
        if index == 0 {
            text.push_str("\n## Trials that did not pass\n\n");
        }
        let key = &trial.key;
        let why = reason(trial).map_or(String::new(), |why| format!(": {}", escape(&why)));
        let _ = writeln!(
            text,
            "- {} with {} #{}: {}{why}",
            escape(&key.case),
            escape(&key.contender),
            key.repetition,
            outcome(trial),
        );
    }
    if total > MAX_FAILURES {
        let _ = writeln!(text, "\nAnd {} more.", total - MAX_FAILURES);
    }
    text
}

/// Returns a comparison of two runs as Markdown.
#[must_use]
pub fn comparison(compared: &RunComparison) -> String {
    let (before, after) = (escape(&compared.before), escape(&compared.after));
    let mut text = match before == after {
        true => format!("# Run {before}\n\n"),
        false => format!("# {before} → {after}\n\n"),
    };
    text.push_str(&comparison_table(&compared.contenders));
    for (label, it) in &compared.contenders {
        for (what, flips) in [("gained", &it.gained), ("lost", &it.lost)] {
            if !flips.is_empty() {
                let names: Vec<String> = flips.iter().map(|flip| escape(&flip.case)).collect();
                let label = escape(label);
                let _ = writeln!(text, "\n{label} {what}: {}.", names.join(", "));
            }
        }
    }
    for mismatch in &compared.mismatches {
        let _ = writeln!(text, "\nDiffers: {}.", escape(&mismatch.to_string()));
    }
    text
}

/// A row for each comparison.
fn comparison_table(compared: &[(String, Comparison)]) -> String {
    let columns = COMPARISON_HEAD.len();
    let mut text = format!(
        "| {} |\n|{}\n",
        COMPARISON_HEAD.join(" | "),
        "---|".repeat(columns)
    );
    for (label, it) in compared {
        let row = comparison_row(it).join(" | ");
        let _ = writeln!(text, "| {} | {row} |", escape(label));
    }
    text
}

/// Escapes a text for Markdown and HTML, on one line.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in one_line(text).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '@' => escaped.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '|' | '!' | '~' => {
                escaped.push('\\');
                escaped.push(c);
            }
            _ => escaped.push(c),
        }
    }
    // A bare address would become a link.
    escaped
        .replace("://", ":\u{2060}//")
        .replace("www.", "www\u{2060}.")
}
