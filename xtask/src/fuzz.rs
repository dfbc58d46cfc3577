//! `cargo xtask fuzz`: a fuzz campaign with a time budget, one target after the other.
//!
//! The targets are tests of `ostler-tools` (`tests/it/fuzz`), so they need neither nightly Rust nor
//! another tool.

use std::fs;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

pub(crate) const ABOUT: &str =
    "fuzz shell commands, paths, policies and line splitting (--minutes, --seed, --target, --case)";

/// The targets. Those that start programs or touch files are slow and get a larger share of the
/// time.
const TARGETS: &[Target] = &[
    Target {
        name: "shell",
        test: "fuzz::shell::what_a_shell_runs_is_what_the_rules_saw",
        share: 4,
    },
    Target {
        name: "paths",
        test: "fuzz::paths::nothing_outside_is_seen_or_changed",
        share: 3,
    },
    Target {
        name: "policies",
        test: "fuzz::policies::policy_files_are_read_or_refused_with_reasons",
        share: 2,
    },
    Target {
        name: "lines",
        test: "fuzz::lines::chunks_make_no_difference",
        share: 1,
    },
];

struct Target {
    name: &'static str,
    test: &'static str,
    share: u64,
}

/// Default duration of a campaign, in minutes.
const DEFAULT_MINUTES: u64 = 10;

const USAGE: &str = "usage: cargo xtask fuzz [--minutes N] [--seed S] [--target NAME] [--case C]";

/// Parsed command line.
#[derive(Debug, Default, PartialEq)]
struct Options {
    minutes: Option<u64>,
    seed: Option<u64>,
    target: Option<String>,
    case: Option<u64>,
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let options = parse(arguments)?;
    let seed = options.seed.unwrap_or_else(|| {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        now.as_secs()
    });
    let chosen: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| {
            options
                .target
                .as_ref()
                .is_none_or(|name| name == target.name)
        })
        .collect();
    let shares: u64 = chosen.iter().map(|target| target.share).sum();
    let seconds = options.minutes.unwrap_or(DEFAULT_MINUTES) * 60;
    let report = workspace::root().join("target/fuzz-report.tsv");
    let _ = fs::remove_file(&report); // left by an earlier campaign
    println!(
        "fuzz: seed {seed}, {seconds} s for {} targets",
        chosen.len()
    );
    let mut failed = Vec::new();
    for target in chosen {
        let mut command = workspace::cargo();
        command.args([
            "test",
            "--quiet",
            "--package",
            "ostler-tools",
            "--test",
            "it",
            "--",
        ]);
        command.args(["--exact", target.test, "--nocapture"]);
        command.env(
            "OSTLER_FUZZ_SECONDS",
            (seconds * target.share / shares).max(1).to_string(),
        );
        command
            .env("OSTLER_FUZZ_SEED", seed.to_string())
            .env("OSTLER_FUZZ_REPORT", &report);
        if let Some(case) = options.case {
            command.env("OSTLER_FUZZ_CASE", case.to_string());
        }
        if !command
            .status()
            .context("cannot start cargo test")?
            .success()
        {
            failed.push(target.name);
        }
    }
    print!(
        "{}",
        table(&fs::read_to_string(&report).unwrap_or_default(), seed)
    );
    for name in &failed {
        println!(
            "{name}: to replay a finding, run cargo xtask fuzz --target {name} --seed {seed} --case NUMBER"
        );
    }
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn parse(arguments: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(flag) = arguments.next() {
        let Some(value) = arguments.next() else {
            bail!("{flag} needs a value\n{USAGE}")
        };
        let number = || {
            value
                .parse::<u64>()
                .with_context(|| format!("{flag} {value}: expected a number"))
        };
        match flag.as_str() {
            "--minutes" => options.minutes = Some(number()?.max(1)),
            "--seed" => options.seed = Some(number()?),
            "--case" => options.case = Some(number()?),
            "--target" if TARGETS.iter().any(|target| target.name == value) => {
                options.target = Some(value.clone());
            }
            "--target" => {
                let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                bail!("unknown target {value:?}; known: {}", names.join(", "))
            }
            _ => bail!("{USAGE}"),
        }
    }
    if options.case.is_some() && (options.target.is_none() || options.seed.is_none()) {
        bail!("--case needs --target and --seed");
    }
    Ok(options)
}

/// Renders the table of a campaign: a line for each target, and the sum.
fn table(report: &str, seed: u64) -> String {
    let mut text = format!(
        "\n── fuzz, seed {seed} ──\n{:10}{:>12}{:>9}{:>10}\n",
        "target", "inputs", "seconds", "findings"
    );
    let mut sum = [0; 3];
    for line in report.lines() {
        let mut cells = line.split('\t');
        let name = cells.next().unwrap_or_default();
        let numbers: Vec<u64> = cells.filter_map(|cell| cell.parse().ok()).collect();
        let [inputs, seconds, findings] = numbers[..] else {
            continue;
        };
        text.push_str(&format!(
            "{name:10}{inputs:>12}{seconds:>9}{findings:>10}\n"
        ));
        sum = [sum[0] + inputs, sum[1] + seconds, sum[2] + findings];
    }
    text.push_str(&format!(
        "{:10}{:>12}{:>9}{:>10}\n",
        "all", sum[0], sum[1], sum[2]
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_are_parsed() {
        assert_eq!(parse(&[]).unwrap(), Options::default());
        let all = parse(&words("--minutes 3 --seed 7 --target shell --case 9")).unwrap();
        let expected = Options {
            minutes: Some(3),
            seed: Some(7),
            target: Some("shell".into()),
            case: Some(9),
        };
        assert_eq!(all, expected);
        for wrong in [
            "--minutes",
            "--minutes x",
            "--target nothing",
            "--fast 1",
            "--case 1",
            "--case 1 --seed 2",
        ] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_table_ends_with_the_sum() {
        let text = table("shell\t100\t60\t1\npaths\t20\t30\t0\n", 7);
        assert!(
            text.contains("seed 7") && text.contains("shell") && text.lines().count() == 6,
            "{text}"
        );
        assert!(
            text.lines()
                .last()
                .unwrap()
                .split_whitespace()
                .eq(["all", "120", "90", "1"]),
            "{text}"
        );
    }

    #[test]
    fn every_target_has_a_test() {
        let source = workspace::root().join("crates/ostler-tools/tests/it/fuzz");
        for target in TARGETS {
            let (module, test) = target
                .test
                .strip_prefix("fuzz::")
                .unwrap()
                .split_once("::")
                .unwrap();
            let text = fs::read_to_string(source.join(format!("{module}.rs"))).unwrap();
            assert!(
                text.contains(&format!("fn {test}()"))
                    && text.contains(&format!("\"{}\"", target.name)),
                "{module}"
            );
        }
    }
}
