//! Runs one group of tests, with cargo-nextest where it is installed and with `cargo test` elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::netns::Isolation;
use super::step::{Context, Counts, Outcome, perform};
use crate::{programs, workspace};

/// A group of tests, told apart by the path of the test.
#[derive(Clone, Copy)]
pub(super) enum Group {
    /// All that is in no other group.
    Usual,
    /// `real::…` of an integration binary: needs the real agents.
    Real,
    /// `litellm::…` of an integration binary: needs LiteLLM's proxy.
    Litellm,
    /// `heavy::…` of an integration binary: needs all real agents, also the big and slow ones.
    Heavy,
    /// `…slow::…`: alone, one after the other.
    Slow,
}

impl Group {
    /// As a filter of cargo-nextest.
    fn filter(self) -> &'static str {
        match self {
            Self::Usual => "not (test(/^(real|litellm|heavy)::/) or test(/(^|::)slow::/))",
            Self::Real => "test(/^real::/)",
            Self::Litellm => "test(/^litellm::/)",
            Self::Heavy => "test(/^heavy::/)",
            Self::Slow => "test(/(^|::)slow::/) and not test(/^(real|heavy)::/)",
        }
    }

    /// As arguments of the test binaries under `cargo test`, which only knows substrings.
    fn substrings(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &["--skip", "real::", "--skip", "litellm::", "--skip", "heavy::", "--skip", "slow::"],
            Self::Real => &["real::", "--test-threads", "2"],
            Self::Litellm => &["litellm::", "--test-threads", "2"],
            Self::Heavy => &["heavy::", "--test-threads", "2"],
            Self::Slow => &["slow::", "--skip", "real::", "--skip", "heavy::", "--test-threads", "1"],
        }
    }
}

/// Runs a group; the runner's own output goes through as it is.
pub(super) fn run(context: &mut Context, group: Group, isolation: &Isolation) -> Result<Outcome> {
    if !context.built {
        // Tests start programs of other crates, which no test runner builds for them.
        let built = perform(workspace::cargo().args(["build", "--quiet", "--workspace", "--all-targets"]));
        if !matches!(built, Outcome::Passed) {
            return Ok(built);
        }
        context.built = true;
    }
    let mut command = isolation.cargo();
    command.envs(context.variables.iter().map(|(name, value)| (name, value)));
    if !has_nextest() {
        command.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
        command.args(isolation.cargo_flags()).arg("--").args(group.substrings());
        return Ok(perform(&mut command));
    }
    let junit = junit();
    if junit.exists() {
        fs::remove_file(&junit).context("cannot remove the last junit.xml")?;
    }
    command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    command.args(isolation.cargo_flags()).args(["-E", group.filter()]);
    match group {
        Group::Usual => {}
        Group::Litellm => drop(command.args(["--test-threads", "2"])),
        Group::Real => drop(command.args(["--no-tests", "pass"])),
        Group::Heavy => drop(command.args(["--no-tests", "pass", "--test-threads", "2"])),
        Group::Slow => drop(command.args(["--no-tests", "pass", "--test-threads", "1"])),
    }
    let outcome = perform(&mut command);
    context.counts = fs::read_to_string(&junit).ok().and_then(|text| counts(&text));
    Ok(outcome)
}

/// What the last run of a group left, where nextest ran it. It keeps its store below the root, wherever cargo's target
/// directory is.
pub(super) fn junit() -> PathBuf {
    workspace::root().join("target/nextest/default/junit.xml")
}

/// The tests of a group by name; empty where the runner cannot tell.
pub(super) fn list(group: Group) -> Result<Vec<String>> {
    if !has_nextest() {
        return list_with_cargo_test(group);
    }
    let mut command = workspace::cargo();
    command.args(["nextest", "list", "--workspace", "--message-format", "json"]);
    command.args(["-E", group.filter()]);
    let output = command.output().context("cannot start cargo nextest list")?;
    names(&output.stdout).context("cannot read the answer of cargo nextest list")
}

fn has_nextest() -> bool {
    programs::succeeds(Command::new(workspace::cargo_program()).args(["nextest", "--version"]))
}

fn list_with_cargo_test(group: Group) -> Result<Vec<String>> {
    let mut command = workspace::cargo();
    command.args(["test", "--quiet", "--workspace", "--all-targets", "--", "--list"]);
    let output = command.args(group.substrings()).output().context("cannot start cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// What `nextest list` answers, as far as we need it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Listing {
    rust_suites: BTreeMap<String, Suite>,
}

#[derive(Deserialize)]
struct Suite {
    testcases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Case {
    filter_match: FilterMatch,
}

#[derive(Deserialize)]
struct FilterMatch {
    status: String,
}

fn names(listing: &[u8]) -> Result<Vec<String>> {
    let listing: Listing = serde_json::from_slice(listing)?;
    let mut names = Vec::new();
    for (suite, Suite { testcases }) in listing.rust_suites {
        for (name, case) in testcases {
            if case.filter_match.status == "matches" {
                names.push(format!("{suite} {name}"));
            }
        }
    }
    Ok(names)
}

/// The totals in the first element of a JUnit file.
fn counts(junit: &str) -> Option<Counts> {
    let element = junit.split_once("<testsuites ")?.1.split_once('>')?.0;
    let number =
        |name: &str| -> Option<u64> { element.split_once(&format!("{name}=\""))?.1.split_once('"')?.0.parse().ok() };
    Some(Counts { run: number("tests")?, failed: number("failures")? + number("errors")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_from_the_first_element() {
        let junit = r#"<?xml version="1.0"?><testsuites name="x" tests="12" failures="2" errors="1" uuid="u"><testsuite tests="9"/>"#;
        assert_eq!(counts(junit), Some(Counts { run: 12, failed: 3 }));
        assert_eq!(counts("<nothing/>"), None);
    }

    #[test]
    fn names_are_those_that_match_the_filter() {
        let listing = br#"{"test-count": 2, "rust-suites": {"ostler::it": {"status": "listed", "testcases": {
            "real::a": {"ignored": false, "filter-match": {"status": "matches"}},
            "b": {"ignored": false, "filter-match": {"status": "mismatch", "reason": "expression"}}}}}}"#;
        assert_eq!(names(listing).unwrap(), ["ostler::it real::a"]);
    }
}
