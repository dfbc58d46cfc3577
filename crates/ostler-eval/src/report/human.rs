//! The report for a terminal.

use std::fmt::Write as _;

use super::compare_runs::RunComparison;
use super::format::{
    cost, count, denominators, duration, interval, one_line, outcome, per_solved, percent, points,
    reason,
};
use super::table::{Table, clip};
use super::{Cell, RunReport};
use crate::stats::{Comparison, ContenderSummary};
use crate::trial::Verdict;

/// Maximum number of failures that are listed.
const MAX_FAILURES: usize = 20;

/// Returns the report as text that fits into `width` columns.
#[must_use]
pub fn human(report: &RunReport, width: usize) -> String {
    let width = width.max(40);
    let summaries = report.summaries();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}  run {}",
        one_line(&report.suite),
        one_line(&report.run)
    );
    if report.missing() > 0 {
        let (missing, planned) = (report.missing(), report.planned.len());
        let _ = writeln!(
            text,
            "incomplete: {missing} of {planned} trials have no result"
        );
    }
    text.push('\n');
    text.push_str(&contenders(&summaries).render(width));
    text.push('\n');
    for summary in &summaries {
        let line = format!("{}: {}", one_line(&summary.label), denominators(summary));
        let _ = writeln!(text, "{}", clip(&line, width));
    }
    let compared = report.comparisons();
    if !compared.is_empty() {
        text.push('\n');
        text.push_str(&comparison_table("on the same tasks", &compared).render(width));
    }
    if report.contenders.len() > 1 || report.cases().len() > 1 {
        text.push('\n');
        text.push_str(&tasks(report).render(width));
        let _ = writeln!(text, "{}", clip(LEGEND, width));
    }
    text.push_str(&failures(report, width));
    text.push_str(&notes(report, &summaries, width));
    text
}

const LEGEND: &str = "✓ passed  ✗ failed  ! not judged  ~ does not count  · no result";

fn contenders(summaries: &[ContenderSummary]) -> Table {
    let head = [
        "agent",
        "pass@1",
        "95 % interval",
        "all k pass",
        "passed",
        "cost",
        "per solved",
        "tokens",
        "median time",
        "p95 time",
    ];
    let rows = summaries.iter().map(|it| {
        let hat = match it.k {
            0 | 1 => "–".to_owned(),
            k => format!("{} (k={k})", percent(it.pass_hat_k)),
        };
        vec![
            one_line(&it.label),
            percent(it.pass_at_1.map(|rate| rate.value)),
            interval(it.pass_at_1),
            hat,
            format!("{}/{}", it.counts.passed, it.counts.scored),
            cost(it),
            per_solved(it),
            count(it.tokens.total.map(|tokens| tokens.sum)),
            duration(it.wall_ms.map(|wall| wall.median)),
            duration(it.wall_ms.map(|wall| wall.p95)),
        ]
    });
    Table {
        head: head.map(str::to_owned).to_vec(),
        rows: rows.collect(),
    }
}

fn tasks(report: &RunReport) -> Table {
    let cells = report.cells();
    let labels: Vec<&str> = report
        .contenders
        .iter()
        .map(|it| it.label.as_str())
        .collect();
    let mut head = vec!["task".to_owned()];
    head.extend(labels.iter().map(|label| clip(&one_line(label), 24)));
    let rows = report.cases().into_iter().map(|case| {
        let mut row = vec![one_line(case)];
        row.extend(labels.iter().map(|label| {
            let cell = cells.get(&(case, *label)).copied().unwrap_or_default();
            marks(cell)
        }));
        row
    });
    Table {
        head,
        rows: rows.collect(),
    }
}

/// Shows a cell as one mark per trial, or as counts if there are many.
pub(super) fn marks(cell: Cell) -> String {
    let kinds = [
        ('✓', cell.passed),
        ('✗', cell.failed),
        ('!', cell.errored),
        ('~', cell.neutral),
        ('·', cell.missing),
    ];
    let total: u32 = kinds.iter().map(|(_, number)| number).sum();
    if total == 0 {
        return "–".to_owned();
    }
    let shown = kinds.into_iter().filter(|(_, number)| *number > 0);
    if total > 10 {
        let counts: Vec<String> = shown
            .map(|(mark, number)| format!("{number}{mark}"))
            .collect();
        return counts.join(" ");
    }
    shown
        .map(|(mark, number)| mark.to_string().repeat(number as usize))
        .collect()
}

fn failures(report: &RunReport, width: usize) -> String {
    let failed: Vec<_> = report
        .ordered()
        .into_iter()
        .filter(|trial| trial.verdict != Verdict::Passed)
        .collect();
    let mut text = String::new();
    if !failed.is_empty() {
        text.push('\n');
    }
    for trial in failed.iter().take(MAX_FAILURES) {
        let key = &trial.key;
        let why = reason(trial).unwrap_or_default();
        let line = format!(
            "{}: {} with {} #{}  {}",
            outcome(trial),
            one_line(&key.case),
            one_line(&key.contender),
            key.repetition,
            one_line(&why)
        );
        let _ = writeln!(text, "{}", clip(line.trim_end(), width));
    }
    if failed.len() > MAX_FAILURES {
        let rest = failed.len() - MAX_FAILURES;
        let _ = writeln!(text, "and {rest} more; see the report as HTML or JSON");
    }
    text
}

fn notes(report: &RunReport, summaries: &[ContenderSummary], width: usize) -> String {
    let mixed = report.mixed_identities().into_iter();
    let mut notes: Vec<String> = mixed.map(|it| one_line(&it.to_string())).collect();
    for it in summaries {
        let label = one_line(&it.label);
        if !it.flaky.is_empty() {
            let names: Vec<String> = it.flaky.iter().map(|name| one_line(name)).collect();
            notes.push(format!("flaky with {label}: {}", names.join(", ")));
        }
        if it.replayed {
            notes.push(format!(
                "{label}: its answers are scripted, not those of a model"
            ));
        }
        if it.cost_is_partial {
            notes.push(format!(
                "{label}: some costs are unknown, so its sum is a lower bound"
            ));
        }
    }
    let lines = notes.iter().map(|note| clip(note, width) + "\n");
    let text: String = lines.collect();
    if text.is_empty() {
        text
    } else {
        format!("\n{text}")
    }
}

/// Returns a comparison of two runs as text that fits into `width` columns.
#[must_use]
pub fn comparison(compared: &RunComparison, width: usize) -> String {
    let width = width.max(40);
    let mut text = String::new();
    let (before, after) = (one_line(&compared.before), one_line(&compared.after));
    if before == after {
        let _ = writeln!(text, "run {before}\n");
    } else {
        let _ = writeln!(text, "{before} → {after}\n");
    }
    text.push_str(&comparison_table(COMPARISON_HEAD[0], &compared.contenders).render(width));
    for (label, it) in &compared.contenders {
        let label = one_line(label);
        for (what, flips) in [("gained", &it.gained), ("lost", &it.lost)] {
            if !flips.is_empty() {
                let names: Vec<String> = flips.iter().map(|flip| one_line(&flip.case)).collect();
                let line = format!("{label} {what}: {}", names.join(", "));
                let _ = writeln!(text, "{}", clip(&line, width));
            }
        }
        if let Some(effect) = it.minimum_detectable {
            let line = match effect < 1.0 {
                true => format!(
                    "{label}: {} tasks would probably miss a change below {}",
                    it.tasks,
                    points(effect).trim_start_matches('+')
                ),
                false => format!("{label}: {} tasks are too few to find a change", it.tasks),
            };
            let _ = writeln!(text, "{}", clip(&line, width));
        }
        if !it.unmatched.is_empty() {
            let names: Vec<String> = it.unmatched.iter().map(|name| one_line(name)).collect();
            let line = format!("not compared with {label}: {}", names.join(", "));
            let _ = writeln!(text, "{}", clip(&line, width));
        }
    }
    for mismatch in &compared.mismatches {
        let line = format!("differs: {mismatch}");
        let _ = writeln!(text, "{}", clip(&one_line(&line), width));
    }
    text
}

/// A row for each comparison.
fn comparison_table(title: &str, compared: &[(String, Comparison)]) -> Table {
    let rows = compared.iter().map(|(label, it)| {
        let mut row = vec![one_line(label)];
        row.extend(comparison_row(it));
        row
    });
    let mut head = COMPARISON_HEAD.map(str::to_owned).to_vec();
    head[0] = title.to_owned();
    Table {
        head,
        rows: rows.collect(),
    }
}

/// The heads of a comparison's columns.
pub(super) const COMPARISON_HEAD: [&str; 7] = [
    "agent",
    "before",
    "after",
    "change",
    "95 % interval",
    "McNemar p",
    "tasks",
];

/// The columns of a comparison after its label.
pub(super) fn comparison_row(it: &Comparison) -> Vec<String> {
    let interval = it.difference.map_or("–".to_owned(), |paired| {
        let range = paired.difference;
        format!("{} to {}", points(range.low), points(range.high))
    });
    vec![
        percent(Some(it.before)),
        percent(Some(it.after)),
        points(it.after - it.before),
        interval,
        it.mcnemar_p.map_or("–".to_owned(), |p| format!("{p:.3}")),
        it.tasks.to_string(),
    ]
}
