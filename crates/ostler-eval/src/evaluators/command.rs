//! Evaluator `command`: a build, test or lint command judges by its exit code.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ostler::Host;
use ostler::sandbox::program::ProgramOutput;
use serde::Deserialize;
use serde_json::Value;

use super::config::{CommandPart, Judgement, Words, inside, is_below, not_below, parse, yes};
use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::test_counts;
use crate::trial::Evaluation;
use crate::workspace::{CommandPlace, PrivateHome};

/// Name of the file with the output.
const OUTPUT_FILE: &str = "output.log";

/// Configuration of the evaluator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    command: Words,
    /// Further arguments.
    #[serde(default)]
    args: Vec<String>,
    /// Directory below the workspace.
    dir: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout_seconds: Option<f64>,
    #[serde(default)]
    expect_exit_code: i32,
    /// Whether the command can use the network.
    #[serde(default = "yes")]
    network: bool,
    /// A JUnit XML file below the workspace that the command writes.
    junit: Option<PathBuf>,
    /// Minimum number of passed tests: a command that runs none does not pass.
    min_passed: Option<u64>,
    /// Directory beside the case whose files are copied over those of the workspace before the
    /// command, such as hidden tests.
    overlay: Option<PathBuf>,
    /// Files or directories that are replaced before the command: path in the workspace, and path
    /// relative to the case.
    #[serde(default)]
    copies: BTreeMap<PathBuf, PathBuf>,
}

impl Config {
    fn command(&self) -> CommandPart<'_> {
        CommandPart {
            words: &self.command,
            args: &self.args,
            dir: self.dir.as_ref(),
            env: &self.env,
            timeout_seconds: self.timeout_seconds,
        }
    }
}

/// Runs a command in a copy of the workspace.
pub struct CommandEvaluator {
    host: Host,
}

impl CommandEvaluator {
    /// Creates the evaluator. Its commands get a private home and nothing secret of this host.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host }
    }

    async fn judge(&self, spec: &EvaluatorSpec, evidence: &Evidence) -> Evaluation {
        let result = Judgement::new(spec);
        let config: Config = match parse(spec) {
            Ok(config) => config,
            Err(problem) => return result.errored(problem.message),
        };
        let Some(command) = config.command().spec() else {
            return result.errored("the command is empty or has an unbalanced quote");
        };
        if let Err(error) = copy_in(&config, evidence) {
            return result.errored(format!("cannot copy files into the workspace: {error}"));
        }
        let home = match PrivateHome::beside(&evidence.workspace) {
            Ok(home) => home,
            Err(error) => return result.errored(format!("cannot create a private home: {error}")),
        };
        let isolation = evidence.identity.isolation;
        let dir = evidence.workspace.clone();
        let mut place = CommandPlace::new(self.host.clone(), &home, dir, isolation);
        if !config.network {
            place = match place.without_network() {
                Ok(place) => place,
                Err(error) => return result.errored(error.to_string()),
            };
        }
        // A file from before the command says nothing about it, whoever wrote it.
        if let Some(junit) = &config.junit
            && let Err(error) = remove_old(&evidence.workspace, junit)
        {
            return result.errored(format!("cannot remove an old `junit` file: {error}"));
        }
        match place.run(&command).await {
            Ok(output) => verdict(result, &config, &output, evidence),
            Err(error) => result.errored(format!("{error}; check `command` and PATH")),
        }
    }
}

/// Copies files of the case into the workspace, replacing what the agent left there.
fn copy_in(config: &Config, evidence: &Evidence) -> io::Result<()> {
    let case_dir = evidence.case.file.parent().unwrap_or(Path::new("."));
    let workspace = &evidence.workspace;
    for (target, source) in &config.copies {
        replace(&case_dir.join(source), workspace, target)?;
    }
    if let Some(overlay) = &config.overlay {
        let overlay = case_dir.join(overlay);
        if !overlay.is_dir() {
            let message = format!("{} is not a directory", overlay.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
        }
        for path in crate::tree::files(&overlay)? {
            replace(&overlay.join(&path), workspace, &path)?;
        }
    }
    Ok(())
}

/// Replaces a file or directory of the workspace.
fn replace(source: &Path, workspace: &Path, path: &Path) -> io::Result<()> {
    let target = workspace.join(path);
    // Before anything is removed: a link among the parents could lead out of the workspace.
    make_parents(workspace, &target)?;
    crate::tree::remove(&target)?;
    if source.is_dir() {
        crate::tree::copy(source, &target, crate::tree::Omit::Git)
    } else {
        fs::copy(source, &target).map(drop)
    }
}

/// Removes a file of the workspace, unless a link leads out of it.
fn remove_old(workspace: &Path, path: &Path) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new(""));
    match (inside(workspace, parent), path.file_name()) {
        (Some(parent), Some(name)) => crate::tree::remove(&parent.join(name)),
        _ => Ok(()),
    }
}

/// Creates the parents of a path as directories: a link that the agent left there is removed.
fn make_parents(root: &Path, target: &Path) -> io::Result<()> {
    let below = target.strip_prefix(root).unwrap_or(target);
    let mut path = root.to_owned();
    for part in below.parent().into_iter().flat_map(Path::components) {
        path.push(part);
        if path.is_symlink() || path.is_file() {
            fs::remove_file(&path)?;
        }
        if !path.is_dir() {
            fs::create_dir(&path)?;
        }
    }
    Ok(())
}

fn verdict(
    mut result: Judgement,
    config: &Config,
    output: &ProgramOutput,
    evidence: &Evidence,
) -> Evaluation {
    let (stdout, stderr) = (output.stdout_text(), output.stderr_text());
    let counts = match &config.junit {
        Some(path) => inside(&evidence.workspace, path)
            .and_then(|path| fs::read_to_string(path).ok())
            .and_then(|text| test_counts::from_junit(&text)),
        None => test_counts::from_output(&stdout).or_else(|| test_counts::from_output(&stderr)),
    };
    let passed = counts.map_or(0, |counts| counts.passed);
    if output.timed_out {
        let seconds = config.command().seconds();
        result.fail(format!("the command took longer than {seconds} s"));
    } else if output.exit_code != Some(config.expect_exit_code) {
        result.fail(match (output.exit_code, output.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
        });
    } else if let Some(min) = config.min_passed.filter(|min| passed < *min) {
        result.fail(format!(
            "{passed} tests passed, and at least {min} are required"
        ));
    }
    result.metric(
        "exit_code",
        output.exit_code.map_or(Value::Null, Value::from),
    );
    if let Some(counts) = counts {
        result.metric("tests_passed", counts.passed);
        result.metric("tests_failed", counts.failed);
        result.metric("tests_skipped", counts.skipped);
    }
    let text = format!("{stdout}\n--- stderr ---\n{stderr}\n");
    if fs::write(evidence.artifacts.join(OUTPUT_FILE), text).is_ok() {
        result.artifact(OUTPUT_FILE);
    }
    result.finish()
}

impl Evaluator for CommandEvaluator {
    fn kind(&self) -> &'static str {
        "command"
    }

    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        let config: Config = match parse(spec) {
            Ok(config) => config,
            Err(problem) => return vec![problem],
        };
        let mut problems = config.command().problems();
        if config.junit.as_ref().is_some_and(|path| !is_below(path)) {
            problems.push(not_below("junit"));
        }
        if config.copies.keys().any(|path| !is_below(path)) {
            problems.push(not_below("copies"));
        }
        problems
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async move { self.judge(spec, &evidence).await })
    }
}
