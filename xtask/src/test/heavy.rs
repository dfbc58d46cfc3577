//! What came of the agents that are only tried now and then: kept in a file, from which docs/agents/matrix.md is made.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::runner;
use super::step::{Outcome, perform};
use crate::{agents, workspace};

/// Below the root; the conformance suite of the library reads it.
const FILE: &str = "fixtures/conformance/last-full-run.json";

#[derive(Debug, Default, Serialize, PartialEq)]
struct LastRun {
    date: String,
    versions: BTreeMap<String, String>,
    agents: BTreeMap<String, Results>,
}

#[derive(Debug, Default, Serialize, PartialEq)]
struct Results {
    passed: Vec<String>,
    failed: Vec<String>,
}

/// Writes down what the last run of the group brought, and makes the page anew.
pub(super) fn keep_results() -> Result<Outcome> {
    let junit =
        fs::read_to_string(runner::junit()).context("the results are only known with cargo-nextest: install it")?;
    let run = LastRun { date: today()?, versions: agents::versions()?, agents: results(&junit) };
    let text = serde_json::to_string_pretty(&run).context("cannot write the results")?;
    fs::write(workspace::root().join(FILE), text + "\n").with_context(|| format!("cannot write {FILE}"))?;
    let mut page = workspace::cargo();
    page.env("UPDATE_GOLDEN", "1").args(["nextest", "run", "-p", "ostler", "-E", "test(/^conformance::matrix::/)"]);
    Ok(perform(&mut page))
}

fn today() -> Result<String> {
    let output = Command::new("date").args(["-u", "+%F"]).output().context("cannot start date")?;
    if !output.status.success() {
        bail!("date failed: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The tests `heavy::<agent>::<row>` of a JUnit file.
fn results(junit: &str) -> BTreeMap<String, Results> {
    let mut agents: BTreeMap<String, Results> = BTreeMap::new();
    for case in junit.split("<testcase ").skip(1) {
        let name = case.split_once("name=\"").and_then(|(_, rest)| rest.split_once('"')).map_or("", |(name, _)| name);
        let [group, agent, row] = name.split("::").collect::<Vec<_>>()[..] else { continue };
        // Other crates have tests of that group too; the suite is the library's.
        if group != "heavy" || !case.contains("classname=\"ostler::it\"") {
            continue;
        }
        let results = agents.entry(agent.to_owned()).or_default();
        let failed = case.contains("<failure") || case.contains("<error");
        let list = if failed { &mut results.failed } else { &mut results.passed };
        list.push(row.to_owned());
    }
    agents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_told_apart_by_agent_and_by_how_they_ended() {
        let junit = r#"<testsuites tests="3"><testsuite name="ostler::it">
            <testcase name="heavy::crab::text" classname="ostler::it" time="1"></testcase>
            <testcase name="heavy::crab::fork" classname="ostler::it"><failure type="x">no</failure></testcase>
            <testcase name="heavy::shop::open" classname="ostler-cli::it"/>
            <testcase name="real::live::text" classname="ostler::it"/></testsuite></testsuites>"#;
        let expected = Results { passed: vec!["text".into()], failed: vec!["fork".into()] };
        assert_eq!(results(junit), BTreeMap::from([("crab".to_owned(), expected)]));
    }
}
