//! Results of the conformance suite by agent: stored in a file that docs/agents/matrix.md is
//! generated from.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::step::{Outcome, perform};
use crate::{agents, workspace};

/// Path from the root. The library's conformance suite reads it.
const FILE: &str = "fixtures/conformance/last-full-run.json";

/// Prefixes of the suite's test names in the library.
const GROUPS: &[&str] = &["conformance::own::", "real::conformance::", "heavy::"];

/// The latest results of an agent.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq)]
struct Results {
    /// The day, in UTC.
    date: String,
    /// The tested version; empty for an agent that is part of Ostler.
    version: String,
    passed: Vec<String>,
    failed: Vec<String>,
}

/// Stores the results of every tested agent, leaves those of the others, and regenerates the page.
pub(super) fn store_results(junits: &[String]) -> Result<Outcome> {
    if junits.is_empty() {
        bail!("the results need cargo-nextest: install it");
    }
    let path = workspace::root().join(FILE);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {FILE}"))?;
    let mut all: BTreeMap<String, Results> =
        serde_json::from_str(&text).with_context(|| format!("cannot read {FILE}"))?;
    let (date, versions) = (today()?, agents::versions()?);
    for (agent, results) in results(junits) {
        let version = version(&versions, &agent);
        all.insert(
            agent,
            Results {
                date: date.clone(),
                version,
                ..results
            },
        );
    }
    let text = serde_json::to_string_pretty(&all).context("cannot write the results")?;
    fs::write(&path, text + "\n").with_context(|| format!("cannot write {FILE}"))?;
    let mut page = workspace::cargo();
    page.env("UPDATE_GOLDEN", "1").args([
        "nextest",
        "run",
        "-p",
        "ostler",
        "-E",
        "test(/^conformance::matrix::/)",
    ]);
    Ok(perform(&mut page))
}

fn today() -> Result<String> {
    let output = Command::new("date")
        .args(["-u", "+%F"])
        .output()
        .context("cannot start date")?;
    if !output.status.success() {
        bail!("date failed: {}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the pinned version of an agent of the suite, whose name begins with that of the program
/// (`codex_exec`).
fn version(versions: &BTreeMap<String, String>, agent: &str) -> String {
    let agent = agent.replace('_', "-");
    let fits = versions
        .iter()
        .filter(|(name, _)| agent.starts_with(name.as_str()));
    fits.max_by_key(|(name, _)| name.len())
        .map(|(_, version)| version.clone())
        .unwrap_or_default()
}

/// Returns the results of the suite's tests, named `<group><agent>::<row>`, from JUnit files.
fn results(junits: &[String]) -> BTreeMap<String, Results> {
    let mut agents: BTreeMap<String, Results> = BTreeMap::new();
    for case in junits
        .iter()
        .flat_map(|junit| junit.split("<testcase ").skip(1))
    {
        let name = case
            .split_once("name=\"")
            .and_then(|(_, rest)| rest.split_once('"'))
            .map_or("", |(name, _)| name);
        let member = GROUPS
            .iter()
            .find_map(|group| name.strip_prefix(group))
            .and_then(|rest| rest.split_once("::"));
        // Other crates have tests in these groups too, but the suite is the library's.
        let Some((agent, row)) = member
            .filter(|(_, row)| !row.contains("::") && case.contains("classname=\"ostler::it\""))
        else {
            continue;
        };
        let results = agents.entry(agent.to_owned()).or_default();
        let failed = case.contains("<failure") || case.contains("<error");
        let list = if failed {
            &mut results.failed
        } else {
            &mut results.passed
        };
        list.push(row.to_owned());
    }
    for results in agents.values_mut() {
        results.passed.sort_unstable();
        results.failed.sort_unstable();
    }
    agents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_grouped_by_agent_and_outcome() {
        let junit = r#"<testsuites tests="3"><testsuite name="ostler::it">
            <testcase name="heavy::crab::text" classname="ostler::it" time="1"></testcase>
            <testcase name="heavy::crab::fork" classname="ostler::it"><failure type="x">no</failure></testcase>
            <testcase name="heavy::crab::cwd" classname="ostler::it" time="1"></testcase>
            <testcase name="heavy::further::crab::more" classname="ostler::it" time="1"></testcase>
            <testcase name="heavy::shop::open" classname="ostler-cli::it"/>
            <testcase name="real::live::text" classname="ostler::it"/></testsuite></testsuites>"#;
        let more = r#"<testcase name="real::conformance::fish::text" classname="ostler::it"/>
            <testcase name="conformance::own::api::text" classname="ostler::it"/>
            <testcase name="conformance::played::fish::fork" classname="ostler::it"/>"#;
        let of = |passed: &[&str], failed: &[&str]| {
            let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Results {
                passed: all(passed),
                failed: all(failed),
                ..Results::default()
            }
        };
        let expected = [
            ("crab", of(&["cwd", "text"], &["fork"])),
            ("fish", of(&["text"], &[])),
            ("api", of(&["text"], &[])),
        ];
        let expected = expected.map(|(name, results)| (name.to_owned(), results));
        assert_eq!(
            results(&[junit.to_owned(), more.to_owned()]),
            BTreeMap::from(expected)
        );
    }

    #[test]
    fn the_longest_matching_program_name_gives_the_version() {
        let known = [("codex", "1"), ("codex-acp", "2")]
            .map(|(name, version)| (name.to_owned(), version.to_owned()));
        let known = BTreeMap::from(known);
        let of = |agent: &str| version(&known, agent);
        assert_eq!(
            [
                of("codex"),
                of("codex_exec"),
                of("codex_acp"),
                of("openai_api")
            ],
            ["1", "1", "2", ""]
        );
    }
}
