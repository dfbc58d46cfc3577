//! Test runner: runs a group of tests with cargo-nextest if installed, otherwise with `cargo test`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::netns::Isolation;
use super::step::{Context, Counts, Outcome};
use crate::{programs, workspace};

/// A group of tests, selected by the path of the test.
#[derive(Clone, Copy)]
pub(super) enum Group {
    /// Tests in no other group.
    Default,
    /// `real::…` of an integration binary: tests that need the real agents.
    Real,
    /// `litellm::…` of an integration binary: tests that need LiteLLM's proxy.
    Litellm,
    /// `schemathesis::…` of an integration binary: tests that need Schemathesis.
    Schemathesis,
    /// `statsmodels::…` of an integration binary: tests that need statsmodels.
    Statsmodels,
    /// `harbor_models::…` of an integration binary: tests that need Harbor's models.
    Harbor,
    /// `heavy::…` of an integration binary: tests that need the agents that are big or slow.
    Heavy,
    /// `…slow::…`: tests that run one at a time.
    Slow,
}

impl Group {
    /// Returns the filter expression for cargo-nextest.
    pub(super) fn filter(self) -> &'static str {
        match self {
            Self::Default => {
                "not (test(/^(real|litellm|schemathesis|statsmodels|harbor_models|heavy)::/) \
                 or test(/(^|::)slow::/))"
            }
            Self::Real => "test(/^real::/)",
            Self::Litellm => "test(/^litellm::/)",
            Self::Schemathesis => "test(/^schemathesis::/)",
            Self::Statsmodels => "test(/^statsmodels::/)",
            Self::Harbor => "test(/^harbor_models::/)",
            Self::Heavy => "test(/^heavy::/)",
            Self::Slow => "test(/(^|::)slow::/) and not test(/^(real|heavy)::/)",
        }
    }

    /// Returns its profile in `.config/nextest.toml`.
    fn profile(self) -> &'static str {
        match self {
            Self::Real => "real",
            Self::Default
            | Self::Litellm
            | Self::Schemathesis
            | Self::Statsmodels
            | Self::Harbor
            | Self::Heavy
            | Self::Slow => "default",
        }
    }

    /// Returns the arguments for test binaries under `cargo test`, which filters by substring.
    fn substrings(self) -> &'static [&'static str] {
        match self {
            Self::Default => &[
                "--skip",
                "real::",
                "--skip",
                "litellm::",
                "--skip",
                "schemathesis::",
                "--skip",
                "statsmodels::",
                "--skip",
                "harbor_models::",
                "--skip",
                "heavy::",
                "--skip",
                "slow::",
            ],
            Self::Real => &["real::", "--test-threads", "2"],
            Self::Litellm => &["litellm::", "--test-threads", "2"],
            Self::Schemathesis => &["schemathesis::"],
            Self::Statsmodels => &["statsmodels::"],
            Self::Harbor => &["harbor_models::"],
            Self::Heavy => &["heavy::", "--test-threads", "2"],
            Self::Slow => &[
                "slow::",
                "--skip",
                "real::",
                "--skip",
                "heavy::",
                "--test-threads",
                "1",
            ],
        }
    }
}

/// Returns the command that builds all tests and the programs they start. Clippy checks the
/// benchmarks.
pub(super) fn build() -> Command {
    let mut command = workspace::cargo();
    command.args([
        "build",
        "--workspace",
        "--lib",
        "--bins",
        "--tests",
        "--examples",
    ]);
    command
}

/// Runs a group of tests.
pub(super) fn run(context: &mut Context, group: Group, isolation: &Isolation) -> Result<Outcome> {
    if !context.built {
        // Tests start programs of other crates, which no test runner builds.
        let built = context.perform(build().arg("--quiet"));
        if !matches!(built, Outcome::Passed) {
            return Ok(built);
        }
        context.built = true;
    }
    let skipped = skipped_list(group);
    let _ = fs::remove_file(&skipped); // left by an earlier run, if any
    if !has_nextest() && list(group)?.is_empty() {
        // `cargo test` would report success.
        return Ok(Outcome::Failed("the group has no tests".to_owned()));
    }
    let mut command = isolation.cargo();
    command.env(SKIPPED, &skipped);
    command.envs(context.variables.iter().map(|(name, value)| (name, value)));
    if !has_nextest() {
        command.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
        command
            .args(isolation.cargo_flags())
            .arg("--")
            .args(group.substrings());
        let outcome = context.perform(&mut command);
        context.skipped = read_skipped(&skipped);
        return Ok(outcome);
    }
    let junit = junit(group);
    if junit.exists() {
        fs::remove_file(&junit).context("cannot remove the last junit.xml")?;
    }
    command.args([
        "nextest",
        "run",
        "--workspace",
        "--no-fail-fast",
        "--no-tests",
        "fail",
    ]);
    command.args(isolation.cargo_flags()).args([
        "--profile",
        group.profile(),
        "-E",
        group.filter(),
    ]);
    match group {
        Group::Default => {}
        Group::Real => drop(command.args(["--test-threads", &parallel_agents().to_string()])),
        Group::Litellm
        | Group::Schemathesis
        | Group::Statsmodels
        | Group::Harbor
        | Group::Heavy => drop(command.args(["--test-threads", "2"])),
        Group::Slow => drop(command.args(["--test-threads", "1"])),
    }
    let outcome = context.perform(&mut command);
    if let Ok(text) = fs::read_to_string(&junit) {
        context.counts = counts(&text);
        context.junits.push(text);
    }
    context.skipped = read_skipped(&skipped);
    Ok(outcome)
}

/// Returns how many real agents may run in parallel: two per core, since they mostly wait, if
/// memory allows.
fn parallel_agents() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix(" kB")?
            .parse()
            .ok()
    });
    limit_by_memory(2 * cores, kib)
}

/// Limits the number of agents to the available memory, at one gibibyte each.
fn limit_by_memory(wanted: usize, available_kib: Option<usize>) -> usize {
    available_kib
        .map_or(wanted, |kib| wanted.min(kib >> 20))
        .max(1)
}

/// Environment variable with the file that skipped tests are reported to
/// (`ostler_testkit::machine`).
const SKIPPED: &str = "OSTLER_SKIPPED_TESTS";

/// Returns the list of skipped tests. Each profile has its own, since two groups run in parallel.
fn skipped_list(group: Group) -> PathBuf {
    workspace::root().join(format!("target/skipped-{}-tests.txt", group.profile()))
}

/// Reads the tests that were skipped, with the reason. A missing list means none.
fn read_skipped(list: &Path) -> Vec<String> {
    let text = fs::read_to_string(list).unwrap_or_default();
    text.lines()
        .map(|line| line.strip_prefix("skipped: ").unwrap_or(line).to_owned())
        .collect()
}

/// Returns the path of nextest's JUnit report. It is below the root, wherever cargo's target
/// directory is.
fn junit(group: Group) -> PathBuf {
    workspace::root().join(format!("target/nextest/{}/junit.xml", group.profile()))
}

/// Lists the tests of a group by name.
pub(super) fn list(group: Group) -> Result<Vec<String>> {
    if !has_nextest() {
        return list_with_cargo_test(group);
    }
    let mut command = workspace::cargo();
    command.args(["nextest", "list", "--workspace", "--message-format", "json"]);
    command.args(["-E", group.filter()]);
    let output = command
        .output()
        .context("cannot start cargo nextest list")?;
    names(&output.stdout).context("cannot parse the output of cargo nextest list")
}

fn has_nextest() -> bool {
    programs::succeeds(Command::new(workspace::cargo_program()).args(["nextest", "--version"]))
}

fn list_with_cargo_test(group: Group) -> Result<Vec<String>> {
    let mut command = workspace::cargo();
    command.args([
        "test",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "--list",
    ]);
    let output = command
        .args(group.substrings())
        .output()
        .context("cannot start cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect())
}

/// The parts of the output of `nextest list` that are used.
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

/// Parses the totals in the first element of a JUnit file.
fn counts(junit: &str) -> Option<Counts> {
    let element = junit.split_once("<testsuites ")?.1.split_once('>')?.0;
    let number = |name: &str| -> Option<u64> {
        element
            .split_once(&format!("{name}=\""))?
            .1
            .split_once('"')?
            .0
            .parse()
            .ok()
    };
    Some(Counts {
        run: number("tests")?,
        failed: number("failures")? + number("errors")?,
    })
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
    fn skipped_tests_are_read_from_their_list() {
        let dir = std::env::temp_dir().join(format!("xtask-skipped-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let list = dir.join("list");
        assert_eq!(read_skipped(&list), [""; 0]);
        fs::write(&list, "skipped: a::b: no Landlock\nskipped: c: no perl\n").unwrap();
        assert_eq!(read_skipped(&list), ["a::b: no Landlock", "c: no perl"]);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn real_agents_are_limited_by_available_memory() {
        let gibibyte = 1 << 20;
        assert_eq!(limit_by_memory(4, Some(16 * gibibyte)), 4);
        assert_eq!(limit_by_memory(4, Some(3 * gibibyte)), 3);
        assert_eq!(limit_by_memory(4, Some(gibibyte / 2)), 1);
        assert_eq!(limit_by_memory(4, None), 4, "unknown on other platforms");
        assert!(parallel_agents() >= 1);
    }

    #[test]
    fn only_tests_that_match_the_filter_are_listed() {
        let listing = br#"{"test-count": 2, "rust-suites": {"ostler::it": {"status": "listed", "testcases": {
            "real::a": {"ignored": false, "filter-match": {"status": "matches"}},
            "b": {"ignored": false, "filter-match": {"status": "mismatch", "reason": "expression"}}}}}}"#;
        assert_eq!(names(listing).unwrap(), ["ostler::it real::a"]);
    }
}
