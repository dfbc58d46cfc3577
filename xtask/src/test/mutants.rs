//! Mutation testing with cargo-mutants: how many faults the tests of a crate detect in its logic.
//!
//! The scope is in `.cargo/mutants.toml`, which cargo-mutants also reads when started by hand.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use super::registry;
use super::step::Outcome;
use crate::workspace;

/// The version whose report this step reads.
const VERSION: &str = "27.1.0";

/// Percentage of viable mutants that the tests must catch.
const REQUIRED: u64 = 90;

/// Cases of a property test per mutant: a fault that fewer cases miss is rarely found by more.
const CASES: &str = "64";

/// Runs the tests on every mutant in scope, or on a sample: the variable `MUTANTS_SHARD=3/20` picks
/// every twentieth mutant, from the fourth on. Fails if too few mutants are caught.
pub(super) fn check() -> Result<Outcome> {
    let target = workspace::target_directory()?;
    let program = registry::install("cargo-mutants", VERSION)?;
    let report = target.join("mutants.out/outcomes.json");
    let _ = fs::remove_file(&report); // left by an earlier run, if any
    let mut command = workspace::cargo();
    command
        .arg("mutants")
        .args(["--workspace", "--jobs", "1", "--output"])
        .arg(&target);
    if let Some(shard) = std::env::var_os("MUTANTS_SHARD") {
        command
            .args(["--sharding", "round-robin", "--shard"])
            .arg(shard);
    }
    command.env("PATH", registry::path_with(&program)?);
    command.env("PROPTEST_CASES", CASES);
    // A missed mutant is an exit code of its own, so the report decides.
    let status = command.status().context("cannot start cargo mutants")?;
    let text = fs::read_to_string(&report)
        .with_context(|| format!("cargo mutants wrote no report ({status})"))?;
    let scores = scores(&text)?;
    print!("{}", render(&scores));
    Ok(verdict(&scores))
}

/// Viable mutants of a file: those that compile.
#[derive(Debug, Default, PartialEq)]
struct Score {
    caught: u64,
    viable: u64,
}

#[derive(Deserialize)]
struct Report {
    outcomes: Vec<Mutant>,
}

#[derive(Deserialize)]
struct Mutant {
    scenario: serde_json::Value,
    summary: Summary,
}

#[derive(Deserialize)]
enum Summary {
    Success,
    CaughtMutant,
    MissedMutant,
    Unviable,
    Failure,
    Timeout,
}

/// Counts the mutants of each file. A timeout is caught: the tests do not pass.
fn scores(report: &str) -> Result<BTreeMap<String, Score>> {
    let report: Report =
        serde_json::from_str(report).context("cannot parse the report of cargo-mutants")?;
    let mut scores = BTreeMap::<String, Score>::new();
    for Mutant { scenario, summary } in report.outcomes {
        let Some(file) = scenario["Mutant"]["file"].as_str() else {
            ensure!(
                matches!(summary, Summary::Success),
                "the tests fail without a mutant"
            );
            continue;
        };
        let score = scores.entry(file.to_owned()).or_default();
        match summary {
            Summary::CaughtMutant | Summary::Timeout => score.caught += 1,
            Summary::MissedMutant => {}
            Summary::Unviable => continue,
            Summary::Success | Summary::Failure => bail!("a mutant of {file} was not tested"),
        }
        score.viable += 1;
    }
    Ok(scores)
}

fn render(scores: &BTreeMap<String, Score>) -> String {
    let mut text = String::new();
    for (file, Score { caught, viable }) in scores {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{caught:>5} of {viable:>4}  {file}");
    }
    text
}

fn verdict(scores: &BTreeMap<String, Score>) -> Outcome {
    let caught: u64 = scores.values().map(|score| score.caught).sum();
    let viable: u64 = scores.values().map(|score| score.viable).sum();
    let note = format!("{caught} of {viable} viable mutants caught");
    if viable > 0 && caught * 100 >= viable * REQUIRED {
        Outcome::PassedWith(note)
    } else {
        Outcome::Failed(format!(
            "{note}, required are {REQUIRED} %: see mutants.out/missed.txt in the target directory"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(file: &str, summary: &str) -> String {
        format!(r#"{{"scenario": {{"Mutant": {{"file": "{file}"}}}}, "summary": "{summary}"}}"#)
    }

    fn report(mutants: &[String]) -> String {
        let baseline = r#"{"scenario": "Baseline", "summary": "Success"}"#.to_owned();
        let all: Vec<String> = [&[baseline], mutants].concat();
        format!(r#"{{"outcomes": [{}]}}"#, all.join(","))
    }

    #[test]
    fn only_mutants_that_compile_count_and_a_timeout_is_caught() {
        let mutants = ["CaughtMutant", "Timeout", "MissedMutant", "Unviable"];
        let mutants = mutants.map(|summary| outcome("a.rs", summary));
        let scores = scores(&report(&mutants)).unwrap();
        let expected = Score {
            caught: 2,
            viable: 3,
        };
        assert_eq!(scores["a.rs"], expected);
        assert_eq!(render(&scores), "    2 of    3  a.rs\n");
    }

    #[test]
    fn nine_of_ten_are_enough() {
        let of = |caught: usize, missed: usize| {
            let caught = vec![outcome("a.rs", "CaughtMutant"); caught];
            let missed = vec![outcome("b.rs", "MissedMutant"); missed];
            verdict(&scores(&report(&[caught, missed].concat())).unwrap())
        };
        assert!(matches!(of(9, 1), Outcome::PassedWith(_)));
        assert!(matches!(of(89, 11), Outcome::Failed(_)));
        assert!(matches!(of(0, 0), Outcome::Failed(_)), "nothing was tested");
    }

    #[test]
    fn tests_that_fail_without_a_mutant_are_an_error() {
        let failed = r#"{"outcomes": [{"scenario": "Baseline", "summary": "Failure"}]}"#;
        assert!(scores(failed).is_err());
        assert!(scores(&report(&[outcome("a.rs", "Failure")])).is_err());
    }
}
