//! Coverage with cargo-llvm-cov: the share of lines of a crate that its tests run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::registry;
use super::runner::Group;
use super::step::Outcome;
use crate::workspace;

/// The version whose report this step reads.
const VERSION: &str = "0.9.1";

/// Percentage of the lines of each crate that the tests must run (S3-42, S4-41).
const REQUIRED: u64 = 80;

/// The programs that tests start.
const PROGRAMS: [&str; 3] = ["fake-agent", "deprived", "terminal-leader"];

/// Variable that selects packages, such as `ostler-core,ostler-eval`.
const PACKAGES: &str = "COVERAGE_PACKAGES";

/// Runs the default tests of some packages, or of all, and counts the lines that they ran. Tests
/// that need real agents, and slow ones, do not count. Fails if a crate has too few.
pub(super) fn check() -> Result<Outcome> {
    let folder = registry::install("cargo-llvm-cov", VERSION)?;
    let packages: Vec<String> = std::env::var(PACKAGES).map_or_else(
        |_| Vec::new(),
        |names| names.split(',').map(str::to_owned).collect(),
    );
    let coverage = Coverage::new(&folder)?;
    coverage.run(&["llvm-cov", "clean", "--workspace", "--profraw-only"])?;
    coverage.add_programs()?;
    let selected = packages.iter().flat_map(|name| ["-p", name]);
    let selected: Vec<&str> = match packages.is_empty() {
        true => vec!["--workspace"],
        false => selected.collect(),
    };
    let test = [
        "nextest",
        "run",
        "--no-fail-fast",
        "-E",
        Group::Default.filter(),
    ];
    // A test that fails is reported after the figures, which show what it ran.
    let tested = coverage.run(&[&test[..], &selected].concat());
    let report = workspace::target_directory()?.join("coverage.json");
    let path = report
        .to_str()
        .context("the target directory is not UTF-8")?;
    coverage.run(&[
        "llvm-cov",
        "report",
        "--json",
        "--summary-only",
        "--output-path",
        path,
    ])?;
    let text = fs::read_to_string(&report).context("cargo-llvm-cov wrote no report")?;
    let mut crates = lines_by_crate(&text)?;
    crates.retain(|name, _| packages.is_empty() || packages.contains(name));
    print!("{}", render(&crates));
    tested.map(|()| verdict(&crates))
}

/// The environment in which everything is built with counters.
struct Coverage {
    variables: Vec<(String, String)>,
    path: std::ffi::OsString,
    target: std::path::PathBuf,
}

impl Coverage {
    fn new(folder: &Path) -> Result<Self> {
        let mut coverage = Self {
            variables: Vec::new(),
            path: registry::path_with(folder)?,
            target: workspace::target_directory()?.join("coverage"),
        };
        let shown = coverage.cargo().args(["llvm-cov", "show-env"]).output();
        let shown = shown.context("cannot start cargo llvm-cov")?;
        ensure!(
            shown.status.success(),
            "cargo llvm-cov failed: `rustup component add llvm-tools`, or set LLVM_COV and \
             LLVM_PROFDATA to programs of the compiler's LLVM version\n{}",
            String::from_utf8_lossy(&shown.stderr)
        );
        coverage.variables = variables(&String::from_utf8_lossy(&shown.stdout));
        Ok(coverage)
    }

    /// Builds the programs that tests start, which no test runner builds, without counters: they
    /// would write them to their directory, which is an agent's workspace.
    fn add_programs(&self) -> Result<()> {
        let mut build = workspace::cargo();
        build.args(["build", "--quiet", "--bins", "-p", "ostler-testkit"]);
        ensure!(
            build.status()?.success(),
            "the programs of the tests cannot be built"
        );
        let (from, to) = (workspace::target_directory()?, self.target.join("debug"));
        fs::create_dir_all(&to)?;
        for name in PROGRAMS {
            fs::copy(from.join("debug").join(name), to.join(name))?;
        }
        Ok(())
    }

    fn cargo(&self) -> Command {
        let mut command = workspace::cargo();
        command.env("PATH", &self.path);
        command.env("CARGO_TARGET_DIR", &self.target);
        command.envs(self.variables.iter().cloned());
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<()> {
        let status = self.cargo().args(arguments).status();
        let status = status.context("cannot start cargo")?;
        ensure!(
            status.success(),
            "cargo {} failed ({status})",
            arguments.join(" ")
        );
        Ok(())
    }
}

/// Parses lines `NAME=value`, the value in quotes if a shell needs them.
fn variables(text: &str) -> Vec<(String, String)> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim_matches(['\'', '"']).to_owned()))
        .collect()
}

/// Lines of a crate's sources.
#[derive(Debug, Default, PartialEq, Deserialize)]
struct Lines {
    count: u64,
    covered: u64,
}

#[derive(Deserialize)]
struct Report {
    data: Vec<Export>,
}

#[derive(Deserialize)]
struct Export {
    files: Vec<File>,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    summary: Summary,
}

#[derive(Deserialize)]
struct Summary {
    lines: Lines,
}

/// Sums the lines of each crate below `crates/`, without files that only tests need.
fn lines_by_crate(report: &str) -> Result<BTreeMap<String, Lines>> {
    let report: Report =
        serde_json::from_str(report).context("cannot parse the report of cargo-llvm-cov")?;
    let mut crates = BTreeMap::<String, Lines>::new();
    for file in report.data.into_iter().flat_map(|export| export.files) {
        let below = file
            .filename
            .rsplit_once("/crates/")
            .map(|(_, below)| below);
        let Some((name, path)) = below.and_then(|below| below.split_once("/src/")) else {
            continue;
        };
        if path.ends_with("tests.rs") || path.contains("tests/") {
            continue;
        }
        let sum = crates.entry(name.to_owned()).or_default();
        sum.count += file.summary.lines.count;
        sum.covered += file.summary.lines.covered;
    }
    Ok(crates)
}

fn render(crates: &BTreeMap<String, Lines>) -> String {
    let mut text = String::new();
    for (name, Lines { count, covered }) in crates {
        let percent = covered * 100 / (*count).max(1);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{percent:>4} %  {covered:>6} of {count:>6} lines  {name}"
        );
    }
    text
}

fn verdict(crates: &BTreeMap<String, Lines>) -> Outcome {
    let low = |lines: &Lines| lines.covered * 100 < lines.count * REQUIRED;
    let low: Vec<&str> = crates
        .iter()
        .filter(|(_, lines)| low(lines))
        .map(|(name, _)| name.as_str())
        .collect();
    match (crates.is_empty(), low.is_empty()) {
        (true, _) => Outcome::Failed("nothing was measured".to_owned()),
        (false, true) => Outcome::PassedWith(render(crates).trim().to_owned()),
        (false, false) => Outcome::Failed(format!("below {REQUIRED} %: {}", low.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(files: &[(&str, u64, u64)]) -> String {
        let files = files.iter().map(|(name, count, covered)| {
            format!(
                r#"{{"filename": "{name}", "summary": {{"lines": {{"count": {count}, "covered": {covered}}}}}}}"#
            )
        });
        let files: Vec<String> = files.collect();
        format!(r#"{{"data": [{{"files": [{}]}}]}}"#, files.join(","))
    }

    #[test]
    fn lines_are_summed_by_crate_without_tests() {
        let crates = lines_by_crate(&report(&[
            ("/w/crates/a/src/lib.rs", 100, 90),
            ("/w/crates/a/src/b/c.rs", 50, 20),
            ("/w/crates/a/src/b/tests.rs", 500, 500),
            ("/w/crates/a/tests/it/main.rs", 500, 500),
            ("/w/crates/b/src/lib.rs", 10, 8),
            ("/w/xtask/src/main.rs", 10, 0),
        ]))
        .unwrap();
        let lines = |count, covered| Lines { count, covered };
        assert_eq!(crates["a"], lines(150, 110));
        assert_eq!(crates["b"], lines(10, 8));
        assert_eq!(crates.len(), 2);
        assert!(matches!(verdict(&crates), Outcome::Failed(why) if why.ends_with(": a")));
    }

    #[test]
    fn four_of_five_lines_are_enough() {
        let of =
            |covered| lines_by_crate(&report(&[("/crates/a/src/lib.rs", 10, covered)])).unwrap();
        assert!(matches!(verdict(&of(8)), Outcome::PassedWith(_)));
        assert!(matches!(verdict(&of(7)), Outcome::Failed(_)));
        assert!(matches!(verdict(&BTreeMap::new()), Outcome::Failed(_)));
    }

    #[test]
    fn variables_are_read_with_and_without_quotes() {
        let found = variables("RUSTFLAGS='-C instrument-coverage --cfg=x'\nA=b\n");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let flags = pair("RUSTFLAGS", "-C instrument-coverage --cfg=x");
        assert_eq!(found, [flags, pair("A", "b")]);
    }
}
