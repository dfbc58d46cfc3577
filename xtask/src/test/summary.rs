//! Summary of the test command: a table of the steps, skipped tests with the fix, and the verdict.

use std::time::Duration;

use super::step::{Counts, Outcome, Report};

/// Result of the whole run.
pub(super) enum Verdict {
    Passed,
    Failed(String),
}

impl Verdict {
    /// A failed step fails the run. If CI is set, a skipped step or test does, too.
    pub(super) fn of(reports: &[Report], is_ci: bool) -> Self {
        let named = |matching: fn(&Outcome) -> bool| -> Vec<&str> {
            reports
                .iter()
                .filter(|report| matching(&report.outcome))
                .map(|r| r.name)
                .collect()
        };
        let failed = named(|outcome| matches!(outcome, Outcome::Failed(_)));
        let is_skipped = |report: &&Report| {
            matches!(report.outcome, Outcome::Skipped { .. }) || !report.skipped.is_empty()
        };
        let skipped: Vec<&str> = reports
            .iter()
            .filter(is_skipped)
            .map(|report| report.name)
            .collect();
        if !failed.is_empty() {
            Self::Failed(failed.join(", "))
        } else if is_ci && !skipped.is_empty() {
            Self::Failed(format!(
                "tests skipped in {}, which is a failure if CI is set",
                skipped.join(", ")
            ))
        } else {
            Self::Passed
        }
    }

    pub(super) fn passed(&self) -> bool {
        matches!(self, Self::Passed)
    }
}

/// Renders the summary.
pub(super) fn render(reports: &[Report], whole: Duration, verdict: &Verdict) -> String {
    let mut text = String::from("\n── summary ──\n");
    let (mut total, mut total_skipped) = (Counts::default(), 0);
    for report in reports {
        let mut note = String::new();
        if let Some(counts) = report.counts {
            total.run += counts.run;
            total.failed += counts.failed;
            total_skipped += report.skipped.len();
            note = describe(counts, report.skipped.len());
        }
        text.push_str(&row(report, &note));
    }
    for report in reports {
        text.push_str(&details(report));
    }
    if total.run > 0 {
        text.push_str(&format!("all groups: {}\n", describe(total, total_skipped)));
    }
    let seconds = whole.as_secs_f64();
    match verdict {
        Verdict::Passed => text.push_str(&format!("passed in {seconds:.1} s\n")),
        Verdict::Failed(why) => text.push_str(&format!("FAILED in {seconds:.1} s: {why}\n")),
    }
    text
}

fn row(report: &Report, note: &str) -> String {
    let row = format!(
        "{:10}{:9}{:>9}  {note}",
        report.name,
        report.as_str(),
        report.seconds()
    );
    format!("{}\n", row.trim_end())
}

/// Describes the counts. The runner counts a skipped test as passed.
fn describe(counts: Counts, skipped: usize) -> String {
    let passed = counts
        .run
        .saturating_sub(counts.failed)
        .saturating_sub(skipped as u64);
    let skips = if skipped == 0 {
        String::new()
    } else {
        format!(", {skipped} skipped")
    };
    format!(
        "{} tests run, {passed} passed, {} failed{skips}",
        counts.run, counts.failed
    )
}

/// Renders the details of a step that the table does not show.
fn details(report: &Report) -> String {
    let name = report.name;
    let mut text: String = report
        .skipped
        .iter()
        .map(|test| format!("{name}: skipped: {test}\n"))
        .collect();
    match &report.outcome {
        Outcome::Passed => {}
        Outcome::PassedWith(note) | Outcome::NotRun(note) => {
            text.push_str(&format!("{name}: {note}\n"));
        }
        Outcome::Failed(reason) => text.push_str(&format!("{name}: FAILED: {reason}\n")),
        Outcome::Skipped { tests, fix } => {
            text.extend(
                tests
                    .iter()
                    .map(|test| format!("{name}: skipped: {test}\n")),
            );
            text.push_str(&format!("{name}: skipped; to fix it: {fix}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(name: &'static str, outcome: Outcome) -> Report {
        Report {
            name,
            outcome,
            duration: Duration::from_millis(1500),
            counts: None,
            skipped: Vec::new(),
        }
    }

    fn skipped() -> Report {
        let tests = vec!["ostler::it real::says_hello".to_owned()];
        report(
            "real",
            Outcome::Skipped {
                tests,
                fix: "install nodejs npm".to_owned(),
            },
        )
    }

    #[test]
    fn a_skipped_step_fails_only_if_ci_is_set() {
        let reports = [report("fmt", Outcome::Passed), skipped()];
        assert!(Verdict::of(&reports, false).passed());
        assert!(!Verdict::of(&reports, true).passed());
    }

    #[test]
    fn a_skipped_test_is_listed_and_fails_if_ci_is_set() {
        let mut partly = report("tests", Outcome::Passed);
        partly.counts = Some(Counts { run: 5, failed: 0 });
        partly.skipped = vec!["a::b: no Landlock".to_owned()];
        let reports = [partly];
        assert!(Verdict::of(&reports, false).passed());
        let verdict = Verdict::of(&reports, true);
        let text = render(&reports, Duration::from_secs(3), &verdict);
        assert!(
            text.contains("5 tests run, 4 passed, 0 failed, 1 skipped\n"),
            "{text}"
        );
        assert!(
            text.contains("tests: skipped: a::b: no Landlock\n"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "FAILED in 3.0 s: tests skipped in tests, which is a failure if CI is set\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_last_line_is_the_verdict_and_skips_are_listed_with_the_fix() {
        let mut counted = report("tests", Outcome::Failed("exit 100".to_owned()));
        counted.counts = Some(Counts { run: 5, failed: 1 });
        let reports = [counted, skipped()];
        let verdict = Verdict::of(&reports, false);
        let text = render(&reports, Duration::from_secs(3), &verdict);
        assert!(text.contains("tests     FAILED       1.5 s  5 tests run, 4 passed, 1 failed\n"));
        assert!(text.contains("real: skipped: ostler::it real::says_hello\n"));
        assert!(text.contains("real: skipped; to fix it: install nodejs npm\n"));
        assert!(text.ends_with("FAILED in 3.0 s: tests\n"), "{text}");
    }
}
