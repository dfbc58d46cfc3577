//! Browser tests and figures of the page: Chromium from the system's packages, driven by packages
//! from npm in the target directory.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::netns::Isolation;
use super::step::{Context, Counts, Outcome};
use crate::programs::{self, CHROMIUM, NPM};
use crate::workspace;

/// Where the tests are.
const TESTS: &str = "crates/ostler-page/tests/browser";

/// The figures of docs/performance.md.
const FIGURES: &str = "bench/page.mjs";

/// The file that contains no tests.
const HARNESS: &str = "harness.mjs";

/// Time limit of a file with tests. Their waits end long before; a loop without an end would not.
const TIME_LIMIT: Duration = Duration::from_secs(45 * 60);

/// Environment variable with the directory that the packages are installed in.
const MODULES_VARIABLE: &str = "OSTLER_PAGE_MODULES";

/// Environment variable with the path of Chromium.
const CHROMIUM_VARIABLE: &str = "OSTLER_CHROMIUM";

/// Environment variable with the directory of the programs that the tests start.
const PROGRAMS_VARIABLE: &str = "OSTLER_PROGRAMS";

/// Installs what the tests need, and runs them. Without Chromium or npm, they are skipped by name.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let files = test_files()?;
    for program in [&CHROMIUM, &NPM] {
        if let Err(fix) = programs::ensure(program) {
            return Ok(Outcome::Skipped {
                tests: names(&files)?,
                fix,
            });
        }
    }
    if !context.built {
        let mut build = workspace::cargo();
        let built = context.perform(build.args(["build", "--quiet", "--workspace", "--bins"]));
        if !matches!(built, Outcome::Passed) {
            return Ok(built);
        }
    }
    let target = workspace::target_directory()?;
    let modules = install(&target)?;
    let report = workspace::root().join("target/page-tests.tap");
    let _ = fs::remove_file(&report); // of an earlier run, if any
    let isolation = Isolation::loopback_only();
    if let Some(reason) = isolation.why_not() {
        println!("xtask: the page is tested without network isolation: {reason}");
    }
    let mut command = isolation.command("node");
    prepare(&mut command, &target, &modules);
    command
        .env(PROGRAMS_VARIABLE, target.join("debug"))
        .args(["--test", "--test-reporter=spec"])
        .arg(format!("--test-timeout={}", TIME_LIMIT.as_millis()))
        .args(["--test-reporter-destination=stdout", "--test-reporter=tap"])
        .arg(format!("--test-reporter-destination={}", report.display()))
        .args(&files);
    let outcome = context.perform(&mut command);
    let Some(counts) = counts(&fs::read_to_string(&report).unwrap_or_default()) else {
        return Ok(match outcome {
            Outcome::Passed => Outcome::Failed("the tests left no report".to_owned()),
            outcome => outcome,
        });
    };
    context.counts = Some(counts);
    Ok(match outcome {
        Outcome::Passed if counts.run == 0 => Outcome::Failed("there are no tests".to_owned()),
        outcome => outcome,
    })
}

/// Measures the page with a release build, or with the programs that `OSTLER_PROGRAMS` names.
pub(crate) fn measure() -> Result<ExitCode> {
    for program in [&CHROMIUM, &NPM] {
        if let Err(fix) = programs::ensure(program) {
            bail!("{fix}");
        }
    }
    let target = workspace::target_directory()?;
    let modules = install(&target)?;
    let mut command = Command::new("node");
    prepare(&mut command, &target, &modules);
    if env::var_os(PROGRAMS_VARIABLE).is_none() {
        let mut build = workspace::cargo();
        build.args(["build", "--quiet", "--release", "--package", "ostler-cli"]);
        if !build.status()?.success() {
            bail!("the build failed");
        }
        command.env(PROGRAMS_VARIABLE, target.join("release"));
    }
    command.arg(workspace::root().join(TESTS).join(FIGURES));
    if !command.status().context("cannot start node")?.success() {
        bail!("the measurement failed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells `node` where the packages, the target directory and Chromium are.
fn prepare(command: &mut Command, target: &Path, modules: &Path) {
    command.env(MODULES_VARIABLE, modules);
    command.env("CARGO_TARGET_DIR", target);
    if let Some(chromium) = programs::find(CHROMIUM.name) {
        command.env(CHROMIUM_VARIABLE, chromium);
    }
}

/// Returns the files with tests, by name.
fn test_files() -> Result<Vec<PathBuf>> {
    let dir = workspace::root().join(TESTS);
    let entries = fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mjs"))
        .filter(|path| path.file_name().is_some_and(|name| name != HARNESS))
        .collect();
    files.sort();
    Ok(files)
}

/// Returns the names of all tests in these files.
fn names(files: &[PathBuf]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in files {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        names.extend(names_in(&text).map(|name| format!("page::{stem}: {name}")));
    }
    Ok(names)
}

/// Returns the names of the tests in a file: `test('name', …`. Those of a loop share a template.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("test(")?;
        let quote = rest.chars().next().filter(|c| "'\"`".contains(*c))?;
        let rest = rest.strip_prefix(quote)?;
        rest.split_once(quote).map(|(name, _)| name)
    })
}

/// Installs the packages unless they are installed, and returns their directory. Its name depends
/// on the lock file, so that a change installs anew.
fn install(target: &Path) -> Result<PathBuf> {
    let tests = workspace::root().join(TESTS);
    let lock = fs::read(tests.join("package-lock.json")).context("cannot read the lock file")?;
    let home = target.join(format!("page-tests-{:016x}", fnv(&lock)));
    let installed = home.join("installed");
    if installed.exists() {
        return Ok(home);
    }
    if home.exists() {
        fs::remove_dir_all(&home).context("cannot remove an incomplete installation")?;
    }
    fs::create_dir_all(&home).with_context(|| format!("cannot create {}", home.display()))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(tests.join(name), home.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    let mut npm = Command::new(NPM.name);
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    npm.arg("--loglevel=error").current_dir(&home);
    let output = npm.stdin(Stdio::null()).output();
    let output = output.context("cannot start npm")?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        let reason = reason.lines().find(|line| line.contains("error"));
        let reason = reason.unwrap_or("no reason given");
        bail!("npm ci failed ({reason}): check the network");
    }
    // Written last, so that an interrupted installation does not look complete.
    fs::write(installed, "").context("cannot mark the installation as complete")?;
    Ok(home)
}

/// Returns a hash (FNV-1a) of a file.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Reads the number of tests from a report in TAP: `# tests 12` and `# fail 1` at its end.
fn counts(report: &str) -> Option<Counts> {
    let number = |name: &str| {
        let mut lines = report.lines().rev();
        let line = lines.find_map(|line| line.strip_prefix("# ")?.strip_prefix(name));
        line.and_then(|rest| rest.trim().parse::<u64>().ok())
    };
    Some(Counts {
        run: number("tests ")?,
        failed: number("fail ")?.checked_add(number("cancelled ").unwrap_or(0))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_from_the_end_of_the_report() {
        let report = "TAP version 13\nok 1 - # tests 99\n1..3\n# tests 3\n# suites 0\n# pass 1\n\
            # fail 1\n# cancelled 1\n# skipped 0\n";
        assert_eq!(counts(report), Some(Counts { run: 3, failed: 2 }));
        assert_eq!(counts("TAP version 13\n"), None);
    }

    #[test]
    fn tests_are_found_by_name() {
        let text = "import x;\n// test('no');\ntest('a link', async (t) => {});\n\
            for (const n of [1, 2]) {\n  test(`in a ${n}`, f);\n}\ntest(\"b's\", () => {});\n";
        let names: Vec<_> = names_in(text).collect();
        assert_eq!(names, ["a link", "in a ${n}", "b's"]);
        assert_eq!(names_in("test(name, function named() {})").count(), 0);
    }

    #[test]
    fn the_harness_is_not_a_test() {
        let files = test_files().unwrap();
        assert!(!files.is_empty());
        assert!(files.iter().all(|file| !file.ends_with(HARNESS)));
        assert!(!names(&files).unwrap().is_empty());
    }
}
