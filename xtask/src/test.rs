//! `cargo xtask test`: runs every check and test, continues after a failure, and ends with a table.

mod coverage;
mod deny;
mod dispositions;
mod heavy;
mod lanes;
mod metadata;
mod mutants;
mod netns;
mod pypi;
mod packages;
mod registry;
pub(crate) mod page;
mod runner;
mod step;
mod steps;
mod summary;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};

use self::step::Step;

pub(crate) const ABOUT: &str =
    "run all checks and tests (--quick, --all-agents, --with-NAME, --step NAME)";

/// Which steps to run.
#[derive(Debug, PartialEq)]
enum Selection {
    All,
    /// All, and the tests of agents that are too big or too slow for every run.
    AllAgents,
    /// All, and the step of this name, which needs a program from PyPI.
    With(&'static str),
    Quick,
    One(String),
}

pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let chosen = choose(&selection(arguments)?)?;
    if let Some(code) = dispositions::reset_and_rerun() {
        return Ok(code);
    }
    let started = Instant::now();
    let reports = lanes::run(&chosen);
    let verdict = summary::Verdict::of(&reports, is_ci());
    print!("{}", summary::render(&reports, started.elapsed(), &verdict));
    Ok(if verdict.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn selection(arguments: &[String]) -> Result<Selection> {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => Ok(Selection::All),
        ["--all-agents"] => Ok(Selection::AllAgents),
        ["--quick"] => Ok(Selection::Quick),
        ["--step", name] => Ok(Selection::One((*name).to_owned())),
        [flag] if let Some(name) = with(flag) => Ok(Selection::With(name)),
        _ => {
            let names = steps::FROM_PYPI
                .iter()
                .map(|step| format!("--with-{}", step.name));
            let usage = format!(
                "cargo xtask test [--quick | --all-agents | {} | --step NAME]",
                names.collect::<Vec<_>>().join(" | ")
            );
            bail!("usage: {usage}; steps: {}", step_names())
        }
    }
}

/// Returns the step that a flag such as `--with-litellm` adds.
fn with(flag: &str) -> Option<&'static str> {
    let name = flag.strip_prefix("--with-")?;
    let mut steps = steps::FROM_PYPI.iter();
    steps.find(|step| step.name == name).map(|step| step.name)
}

fn choose(selection: &Selection) -> Result<Vec<&'static Step>> {
    match selection {
        Selection::All => Ok(steps::STEPS.iter().collect()),
        Selection::AllAgents => Ok(steps::STEPS.iter().chain([&steps::HEAVY]).collect()),
        Selection::With(name) => {
            let own = steps::FROM_PYPI.iter().filter(|step| step.name == *name);
            Ok(steps::STEPS.iter().chain(own).collect())
        }
        Selection::Quick => Ok(steps::STEPS.iter().filter(|step| step.quick).collect()),
        Selection::One(name) => match all_steps().find(|step| step.name == name) {
            Some(step) => Ok(vec![step]),
            None => bail!("unknown step {name:?}; steps: {}", step_names()),
        },
    }
}

fn step_names() -> String {
    all_steps()
        .map(|step| step.name)
        .collect::<Vec<_>>()
        .join(", ")
}

fn all_steps() -> impl Iterator<Item = &'static Step> {
    let on_request = [&steps::HEAVY, &steps::MUTANTS, &steps::COVERAGE];
    steps::STEPS
        .iter()
        .chain(steps::FROM_PYPI)
        .chain(on_request)
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| matches!(value.as_str(), "true" | "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn arguments_choose_the_steps() {
        assert_eq!(selection(&[]).unwrap(), Selection::All);
        assert_eq!(selection(&words("--quick")).unwrap(), Selection::Quick);
        assert_eq!(
            selection(&words("--all-agents")).unwrap(),
            Selection::AllAgents
        );
        assert_eq!(
            selection(&words("--with-litellm")).unwrap(),
            Selection::With("litellm")
        );
        assert!(selection(&words("--with-nothing")).is_err());
        assert_eq!(
            selection(&words("--step fmt")).unwrap(),
            Selection::One("fmt".into())
        );
        assert!(
            selection(&words("--fast"))
                .unwrap_err()
                .to_string()
                .contains("usage")
        );
        assert!(choose(&Selection::One("nope".into())).is_err());
    }

    #[test]
    fn quick_is_fmt_tidy_tests_and_clippy() {
        let names: Vec<_> = choose(&Selection::Quick)
            .unwrap()
            .iter()
            .map(|step| step.name)
            .collect();
        assert_eq!(names, ["fmt", "tidy", "tests", "clippy"]);
    }

    #[test]
    fn litellm_heavy_agents_and_mutants_run_only_on_request() {
        for (name, selection) in [
            ("litellm", Selection::With("litellm")),
            ("schemathesis", Selection::With("schemathesis")),
            ("statsmodels", Selection::With("statsmodels")),
            ("harbor", Selection::With("harbor")),
            ("heavy", Selection::AllAgents),
            ("mutants", Selection::One("mutants".into())),
            ("coverage", Selection::One("coverage".into())),
        ] {
            let has = |selection: &Selection| {
                choose(selection)
                    .unwrap()
                    .iter()
                    .any(|step| step.name == name)
            };
            assert!(!has(&Selection::All) && !has(&Selection::Quick));
            assert!(has(&selection) && has(&Selection::One(name.into())));
        }
    }
}
