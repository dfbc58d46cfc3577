//! The report as Markdown.

use std::fmt::Write as _;

use super::contenders::ALL;
use super::report::{Growth, Point, Report, Shape, Verdict};
use super::rows::{Goal, ROWS, Row, yardstick};

/// Growth up to this factor counts as expected.
const TOLERANCE: f64 = 1.3;

/// Returns all tables.
pub(super) fn markdown(report: &Report) -> String {
    let mut text = format!("{}\n", report.machine.describe());
    if report.is_quick {
        text.push_str("Measured with `--quick`: few samples.\n");
    }
    if !report.versions.is_empty() {
        let _ = writeln!(text, "Peers: {}.", report.versions.join(", "));
    }
    for left_out in &report.left_out {
        let _ = writeln!(text, "Left out: {left_out}.");
    }
    rows(report, &mut text);
    misses(report, &mut text);
    growth(report, &mut text);
    readers(report, &mut text);
    text
}

/// Appends the comparison: a line per row, a column per contender that took part.
fn rows(report: &Report, text: &mut String) {
    let took_part = |name: &&str| report.series.iter().any(|it| it.contender == **name);
    let columns: Vec<&str> = ALL.into_iter().filter(took_part).collect();
    if columns.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n| median (minimum) | goal | {} | best peer ÷ Ostler | met |",
        columns.join(" | ")
    );
    let _ = writeln!(text, "|---|---|{}---|---|", "---|".repeat(columns.len()));
    for row in &ROWS {
        let cells: Vec<String> = columns.iter().map(|name| cell(report, row, name)).collect();
        if cells.iter().all(|cell| cell == NONE) {
            continue;
        }
        let ratio = report
            .best_ratio(row)
            .map_or(NONE.to_owned(), |ratio| format!("×{ratio:.1}"));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {ratio} | {} |",
            row.title,
            goals(row),
            cells.join(" | "),
            met(report, row)
        );
    }
    text.push_str(
        "\nThe prototype and the floor are not peers.\n\
         Decoding is a speed, so its ratio is Ostler ÷ best peer, and the number in parentheses \
         is the maximum.\n",
    );
}

const NONE: &str = "–";

fn cell(report: &Report, row: &Row, contender: &str) -> String {
    report
        .summary(row, contender)
        .map_or(NONE.to_owned(), |it| {
            let best = if row.is_speed() { it.max } else { it.min };
            format!("{} ({})", number(it.median), number(best))
        })
}

fn goals(row: &Row) -> String {
    let goal = |(contender, goal): &(&str, Goal)| {
        if contender.starts_with("with") {
            format!("{contender} {}", describe(goal))
        } else {
            describe(goal)
        }
    };
    let all: Vec<String> = row.goals.iter().map(goal).collect();
    all.join(", ")
}

fn describe(goal: &Goal) -> String {
    match goal {
        Goal::AtMost(most) => format!("≤ {most}"),
        Goal::AtLeast(least) => format!("≥ {least}"),
        Goal::Like(other) => format!("as `{other}`"),
    }
}

fn met(report: &Report, row: &Row) -> String {
    let verdicts = report.verdicts(row);
    let misses: Vec<&str> = verdicts
        .iter()
        .filter(|verdict| !verdict.is_met)
        .map(|verdict| verdict.contender)
        .collect();
    match (verdicts.len(), misses.len()) {
        (0, _) => NONE.to_owned(),
        (_, 0) => "yes".to_owned(),
        (all, missed) if all == missed => "no".to_owned(),
        _ => format!("no: {}", misses.join(", ")),
    }
}

/// Appends the goals that are not met, by how much.
fn misses(report: &Report, text: &mut String) {
    let mut lines = String::new();
    for row in &ROWS {
        for verdict in report.verdicts(row).iter().filter(|it| !it.is_met) {
            let _ = writeln!(
                lines,
                "- {}, {}: {}, goal {}{}",
                row.title,
                verdict.contender,
                number(verdict.median),
                describe(verdict.goal),
                relative(report, row, verdict).unwrap_or_default()
            );
        }
    }
    if !lines.is_empty() {
        let _ = write!(text, "\nNot met:\n\n{lines}");
    }
}

/// Compares a median and its goal as multiples of what shows the speed of the machine. The goals
/// were set on another machine.
fn relative(report: &Report, row: &Row, verdict: &Verdict) -> Option<String> {
    let (contender, then) = yardstick(row.measurement)?;
    let now = report.summary(row, contender)?.median;
    let &Goal::AtMost(most) = verdict.goal else {
        return None;
    };
    let (ours, goal) = (verdict.median / now, most / then);
    Some(format!(
        "; ×{ours:.1} of the {contender}, where the goal was ×{goal:.1}"
    ))
}

fn growth(report: &Report, text: &mut String) {
    if report.growth.is_empty() {
        return;
    }
    text.push_str("\n| growth | size: median ms | factor | verdict |\n|---|---|---|---|\n");
    for growth in &report.growth {
        let point = |point: &Point| {
            let floor = growth.floor.iter().find(|floor| floor.size == point.size);
            let floor = floor.map(|floor| format!(" (floor {})", number(floor.median())));
            let (size, floor) = (thousands(point.size), floor.unwrap_or_default());
            format!("{size}: {}{floor}", number(point.median()))
        };
        let points: Vec<String> = growth.points.iter().map(point).collect();
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {} |",
            growth.what,
            points.join(", "),
            growth.factor(),
            verdict(growth)
        );
    }
    text.push_str(
        "\nThe factor compares the time per unit of the two largest sizes (linear), or the time of \
         the largest and the smallest size (flat).\n\
         The floor of a run is the agent's script alone; where it is shown, the factor is divided \
         by the floor's own.\n",
    );
}

fn verdict(growth: &Growth) -> &'static str {
    match (growth.shape, growth.factor() <= TOLERANCE) {
        (Shape::Linear, true) => "linear",
        (Shape::Flat, true) => "flat",
        (Shape::Linear, false) => "more than linear",
        (Shape::Flat, false) => "grows",
    }
}

fn readers(report: &Report, text: &mut String) {
    if report.readers.is_empty() {
        return;
    }
    text.push_str("\n| readers | events | lost | ms |\n|---|---|---|---|\n");
    for it in &report.readers {
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {:.0} |",
            it.readers, it.events, it.lost, it.ms
        );
    }
}

/// Formats a number with about three digits.
fn number(value: f64) -> String {
    if value < 10.0 {
        format!("{value:.2}")
    } else if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn thousands(value: usize) -> String {
    if value < 1_000 {
        value.to_string()
    } else {
        format!("{},{:03}", value / 1_000, value % 1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::super::contenders::{OSTLER, PEERS, STORE};
    use super::super::machine::Machine;
    use super::super::report::Series;
    use super::*;

    fn series(contender: &str, samples: &[f64]) -> Series {
        Series {
            measurement: "latency".to_owned(),
            contender: contender.to_owned(),
            samples: samples.iter().map(|sample| vec![*sample]).collect(),
        }
    }

    #[test]
    fn a_row_shows_medians_minima_the_best_peer_and_the_missed_goal() {
        let mut report = Report::new(Machine::default(), false);
        report.series = vec![
            series(OSTLER, &[20.0, 10.0, 30.0]),
            series(STORE, &[60.0, 50.0, 70.0]),
            series(PEERS[0], &[40.0, 80.0, 40.0]),
            series(PEERS[2], &[400.0]),
        ];
        let text = markdown(&report);
        let line = "| line to event, µs | ≤ 30, with store ≤ 45 | 20.0 (10.0) | 60.0 (50.0) | \
             40.0 (40.0) | 400 (400) | ×2.0 | no: with store |";
        assert!(text.contains(line), "{text}");
        assert!(text.contains("- line to event, µs, with store: 60.0, goal ≤ 45\n"));
    }

    #[test]
    fn numbers_have_about_three_digits() {
        assert_eq!(number(1.234), "1.23");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(1234.5), "1234");
        assert_eq!(thousands(500_000), "500,000");
        assert_eq!(thousands(10), "10");
    }
}
