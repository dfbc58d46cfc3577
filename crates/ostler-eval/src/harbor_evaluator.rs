//! Evaluator `harbor`: runs a task's `tests/test.sh` in a private root and reads its reward.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler::Host;
use ostler::sandbox::program::ProgramOutput;
use serde_json::{Map, Value};

use crate::case::{CommandSpec, EvaluatorSpec, Isolation};
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::evaluators::Judgement;
use crate::private_root::{self, VerifierRoot};
use crate::tree::{self, Omit};
use crate::trial::Evaluation;
use crate::workspace::{CommandPlace, PrivateHome};

/// How long a verifier may run if its task does not say so.
const TIMEOUT_SECONDS: f64 = 600.0;
/// Largest file with a reward.
const MAX_REWARD_FILE: u64 = 1024 * 1024;
/// Name of the file with the verifier's output.
const OUTPUT_FILE: &str = "output.log";

/// Runs the verifier of a Harbor task, apart from the agent and its processes.
pub struct HarborEvaluator {
    host: Host,
}

/// A reward that cannot be read. It is an error of the trial, and never a zero.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RewardError {
    /// There is no file.
    #[error("the verifier wrote neither reward.txt nor reward.json")]
    Missing,
    /// The file is empty.
    #[error("{0} is empty")]
    Empty(&'static str),
    /// The file is not what it should be.
    #[error("{file}: {problem}")]
    Invalid {
        /// Its name.
        file: &'static str,
        /// The problem.
        problem: String,
    },
}

/// Rewards by name. That of `reward.txt` is called `reward`.
pub type Rewards = BTreeMap<String, f64>;

/// Reads `reward.txt` (one finite number), or else `reward.json` (an object of finite numbers).
///
/// # Errors
/// There is no reward, or it is not a finite number.
pub fn read_rewards(dir: &Path) -> Result<Rewards, RewardError> {
    let text_file = "reward.txt";
    if let Some(text) = read_reward_file(dir, text_file)? {
        let number = text.trim().parse::<f64>().ok();
        let number = number.filter(|number| number.is_finite());
        let number = number.ok_or_else(|| RewardError::Invalid {
            file: text_file,
            problem: "expected one finite number".to_owned(),
        })?;
        return Ok(Rewards::from([("reward".to_owned(), number)]));
    }
    let file = "reward.json";
    let text = read_reward_file(dir, file)?.ok_or(RewardError::Missing)?;
    let invalid = |problem: String| RewardError::Invalid { file, problem };
    let object: Map<String, Value> =
        serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
    if object.is_empty() {
        return Err(invalid("the object is empty".to_owned()));
    }
    let numbers = object.into_iter().map(|(name, value)| {
        let number = value.as_f64().filter(|number| number.is_finite());
        match number {
            Some(number) => Ok((name, number)),
            None => Err(invalid(format!("{name:?} is not a finite number"))),
        }
    });
    numbers.collect()
}

/// Reads a file without following a link. Returns `None` if it does not exist.
fn read_reward_file(dir: &Path, name: &'static str) -> Result<Option<String>, RewardError> {
    let path = dir.join(name);
    let invalid = |problem: String| RewardError::Invalid {
        file: name,
        problem,
    };
    let Ok(metadata) = path.symlink_metadata() else {
        return Ok(None);
    };
    if !metadata.is_file() || metadata.len() > MAX_REWARD_FILE {
        return Err(invalid("expected a small regular file".to_owned()));
    }
    let text = fs::read_to_string(&path).map_err(|error| invalid(error.to_string()))?;
    match text.trim().is_empty() {
        true => Err(RewardError::Empty(name)),
        false => Ok(Some(text)),
    }
}

impl HarborEvaluator {
    /// Creates the evaluator. Verifiers get a private home and nothing secret of this host.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self { host }
    }

    async fn judge(&self, spec: &EvaluatorSpec, evidence: &Evidence) -> Evaluation {
        let errored = |reason: String| Judgement::new(spec).errored(reason);
        let Some(root) = &evidence.case.mounts else {
            return errored("the case is not a Harbor task".to_owned());
        };
        let home = match PrivateHome::beside(&evidence.workspace) {
            Ok(home) => home,
            Err(error) => return errored(format!("cannot create a private home: {error}")),
        };
        let private = [home.path(), home.temp_path()];
        let verifier = private_root::for_verifier(root, &evidence.workspace, &private);
        let verifier = match verifier {
            Ok(verifier) => verifier,
            Err(error) => return errored(format!("no private root: {error}")),
        };
        let VerifierRoot {
            layout,
            verifier_logs,
        } = verifier;
        let host = self.host.clone().with_private_root(layout);
        let dir = evidence.workspace.clone();
        let place = CommandPlace::new(host, &home, dir, Isolation::PrivateRoot);
        let timeout = timeout(spec);
        let command = CommandSpec {
            argv: vec!["bash".to_owned(), "/tests/test.sh".to_owned()],
            dir: None,
            env: root
                .env
                .clone()
                .into_iter()
                .chain(variables(spec))
                .collect(),
            timeout: Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX),
        };
        let output = match place.run(&command).await {
            Ok(output) => output,
            Err(error) => return errored(error.to_string()),
        };
        let mut result = match read_rewards(&verifier_logs) {
            _ if output.timed_out => errored(format!("the verifier took longer than {timeout} s")),
            Ok(rewards) => judged(spec, &rewards),
            Err(error) => errored(format!("{error}; {}", ending(&output))),
        };
        let exit_code = output.exit_code.map_or(Value::Null, Value::from);
        result.metrics.insert("exit_code".to_owned(), exit_code);
        retain_logs(&output, &verifier_logs, evidence, &mut result);
        result
    }
}

/// Returns the variables of the verifier.
fn variables(spec: &EvaluatorSpec) -> BTreeMap<String, String> {
    let env = spec.config.get("env").and_then(Value::as_object);
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    env.into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), text(value)))
        .collect()
}

fn timeout(spec: &EvaluatorSpec) -> f64 {
    let seconds = spec.config.get("timeout_sec").and_then(Value::as_f64);
    seconds.unwrap_or(TIMEOUT_SECONDS)
}

fn ending(output: &ProgramOutput) -> String {
    match (output.exit_code, output.signal) {
        (Some(code), _) => format!("its exit code was {code}"),
        (None, signal) => format!("signal {} ended it", signal.unwrap_or_default()),
    }
}

/// Judges by the rewards: all of them must be at least 1. The score is their mean, within 0 and 1.
fn judged(spec: &EvaluatorSpec, rewards: &Rewards) -> Evaluation {
    let mut result = Judgement::new(spec);
    for (name, reward) in rewards {
        result.metric(name, *reward);
        result.at_least(name, *reward, Some(1.0));
    }
    let sum: f64 = rewards.values().map(|reward| reward.clamp(0.0, 1.0)).sum();
    let count = u32::try_from(rewards.len()).unwrap_or(u32::MAX);
    result.score(sum / f64::from(count));
    result.finish()
}

/// Copies the verifier's output and logs to the artifacts.
fn retain_logs(
    output: &ProgramOutput,
    verifier_logs: &Path,
    evidence: &Evidence,
    result: &mut Evaluation,
) {
    let (stdout, stderr) = (output.stdout_text(), output.stderr_text());
    let text = format!("{stdout}\n--- stderr ---\n{stderr}\n");
    if fs::write(evidence.artifacts.join(OUTPUT_FILE), text).is_ok() {
        result.artifacts.push(PathBuf::from(OUTPUT_FILE));
    }
    let copy = evidence.artifacts.join("verifier");
    if tree::copy(verifier_logs, &copy, Omit::Nothing).is_ok() {
        result.artifacts.push(PathBuf::from("verifier"));
    }
}

impl Evaluator for HarborEvaluator {
    fn kind(&self) -> &'static str {
        "harbor"
    }

    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        let known = [
            "timeout_sec",
            "env",
            "solution_env",
            "artifacts",
            "files_sha256",
        ];
        let unknown = spec
            .config
            .keys()
            .filter(|key| !known.contains(&key.as_str()));
        unknown
            .map(|key| ConfigProblem {
                key: format!("config.{key}"),
                message: "the evaluator has no such setting; task.toml has them".to_owned(),
            })
            .collect()
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async move { self.judge(spec, &evidence).await })
    }
}
