//! What evaluators share: typed configurations, commands, and verdicts that are put together.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::case::{CommandSpec, EvaluatorSpec};
use crate::evaluator::ConfigProblem;
use crate::trial::{Evaluation, Verdict};

/// Parses the configuration of an evaluator.
pub(crate) fn parse<T: DeserializeOwned>(spec: &EvaluatorSpec) -> Result<T, ConfigProblem> {
    let value = Value::Object(spec.config.clone());
    serde_json::from_value(value).map_err(|error| ConfigProblem {
        key: "config".to_owned(),
        message: error.to_string(),
    })
}

/// A verdict that is still being put together.
pub(crate) struct Judgement {
    evaluation: Evaluation,
    failures: Vec<String>,
}

impl Judgement {
    /// Starts with a verdict of `passed`.
    pub(crate) fn new(spec: &EvaluatorSpec) -> Self {
        Self {
            evaluation: Evaluation {
                name: spec.name.clone(),
                kind: spec.kind.clone(),
                verdict: Verdict::Passed,
                reason: None,
                score: None,
                metrics: BTreeMap::new(),
                artifacts: Vec::new(),
                weight: spec.weight,
                required: spec.required,
                duration_ms: 0,
            },
            failures: Vec::new(),
        }
    }

    /// Adds a figure.
    pub(crate) fn metric(&mut self, name: &str, value: impl Into<Value>) {
        let _ = self
            .evaluation
            .metrics
            .insert(name.to_owned(), value.into());
    }

    /// Adds a file that the evaluator wrote, relative to its artifacts.
    pub(crate) fn artifact(&mut self, path: &str) {
        self.evaluation.artifacts.push(path.into());
    }

    /// Sets the score.
    pub(crate) fn score(&mut self, score: f64) {
        self.evaluation.score = Some(score.clamp(0.0, 1.0));
    }

    /// Records a requirement that is not met.
    pub(crate) fn fail(&mut self, reason: impl Into<String>) {
        self.failures.push(reason.into());
    }

    /// Records a failure if a figure exceeds its maximum.
    pub(crate) fn at_most(&mut self, name: &str, value: f64, max: Option<f64>) {
        if let Some(max) = max.filter(|max| value > *max) {
            self.fail(format!("{name} is {value}, and at most {max} is allowed"));
        }
    }

    /// Records a failure if a figure is below its minimum.
    pub(crate) fn at_least(&mut self, name: &str, value: f64, min: Option<f64>) {
        if let Some(min) = min.filter(|min| value < *min) {
            self.fail(format!("{name} is {value}, and at least {min} is required"));
        }
    }

    /// Returns the evaluation: `failed` if a requirement is not met. Without a score of its own, it
    /// has 1 if it passed and 0 if it failed.
    pub(crate) fn finish(mut self) -> Evaluation {
        let passed = self.failures.is_empty();
        if !passed {
            self.evaluation.verdict = Verdict::Failed;
            self.evaluation.reason = Some(self.failures.join("; "));
        }
        let score = if passed { 1.0 } else { 0.0 };
        self.evaluation.score.get_or_insert(score);
        self.evaluation
    }

    /// Returns an evaluation that could not be made.
    pub(crate) fn errored(mut self, reason: impl Into<String>) -> Evaluation {
        self.evaluation.verdict = Verdict::Errored;
        self.evaluation.reason = Some(reason.into());
        self.evaluation
    }

    /// Returns an evaluation that does not apply.
    pub(crate) fn skipped(mut self, reason: impl Into<String>) -> Evaluation {
        self.evaluation.verdict = Verdict::Skipped;
        self.evaluation.reason = Some(reason.into());
        self.evaluation
    }
}

/// How long a command may run by default.
const TIMEOUT_SECONDS: f64 = 600.0;

/// A program and its arguments: a list, or one text that is split like a shell does.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Words {
    Line(String),
    List(Vec<String>),
}

impl Words {
    /// Returns program and arguments, or `None` if there is none or a quote is unbalanced.
    pub(crate) fn argv(&self, more: &[String]) -> Option<Vec<String>> {
        let mut words = match self {
            Self::Line(line) => shlex::split(line)?,
            Self::List(words) => words.clone(),
        };
        words.extend(more.iter().cloned());
        (!words.is_empty()).then_some(words)
    }
}

/// The part of a configuration that says which command runs.
pub(super) struct CommandPart<'a> {
    pub(super) words: &'a Words,
    pub(super) args: &'a [String],
    pub(super) dir: Option<&'a PathBuf>,
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) timeout_seconds: Option<f64>,
}

impl CommandPart<'_> {
    /// Returns the maximum duration in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.timeout_seconds.unwrap_or(TIMEOUT_SECONDS)
    }

    /// Returns the command, or `None` if there is no program.
    pub(crate) fn spec(&self) -> Option<CommandSpec> {
        Some(CommandSpec {
            argv: self.words.argv(self.args)?,
            dir: self.dir.cloned(),
            env: self.env.clone(),
            timeout: Duration::try_from_secs_f64(self.seconds()).unwrap_or(Duration::MAX),
        })
    }

    /// Returns what is wrong with it.
    pub(crate) fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if self.words.argv(self.args).is_none() {
            problems.push(problem("command", "expected a program and its arguments"));
        }
        let seconds = self.seconds();
        if seconds <= 0.0 || Duration::try_from_secs_f64(seconds).is_err() {
            problems.push(problem("timeout_seconds", "expected a positive number"));
        }
        problems.extend(
            self.dir
                .filter(|dir| !is_below(dir))
                .map(|_| not_below("dir")),
        );
        problems
    }
}

/// Creates a problem with a key of `config`.
pub(crate) fn problem(key: &str, message: &str) -> ConfigProblem {
    ConfigProblem {
        key: format!("config.{key}"),
        message: message.to_owned(),
    }
}

/// The problem of a path that leaves the workspace.
pub(crate) fn not_below(key: &str) -> ConfigProblem {
    problem(key, "expected a path below the workspace, without `..`")
}

/// Returns true if a relative path stays below its directory.
pub(crate) fn is_below(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Returns a path below the workspace, unless a link leads out of it.
pub(crate) fn inside(workspace: &Path, path: impl AsRef<Path>) -> Option<PathBuf> {
    let root = workspace.canonicalize().ok()?;
    let real = root.join(path).canonicalize().ok()?;
    real.starts_with(&root).then_some(real)
}

/// A default of `true`.
pub(crate) fn yes() -> bool {
    true
}
