//! Evaluator `script`: any program judges. It reads a request from its input as JSON, and writes
//! its verdict to its output as JSON.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use ostler::Host;
use ostler::sandbox::program::{Capture, ProgramOutput};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::config::{CommandPart, Judgement, Words, parse, yes};
use crate::case::EvaluatorSpec;
use crate::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use crate::event_log::EVENTS_FILE;
use crate::normalized;
use crate::patch::DIFF_FILE;
use crate::trial::{Evaluation, Verdict};
use crate::workspace::{CommandPlace, PrivateHome};

/// Version of the request.
const VERSION: u32 = 1;

/// Longest answer in bytes.
const MAX_ANSWER: usize = 1024 * 1024;

/// Longest part of an error output in a reason.
const MAX_STDERR: usize = 500;

/// Name of the file with the program's error output.
const STDERR_FILE: &str = "stderr.log";

/// Configuration of the evaluator.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The program. A path with `/` is relative to the case.
    command: Words,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout_seconds: Option<f64>,
    /// Whether the program can use the network.
    #[serde(default = "yes")]
    network: bool,
    /// Anything that the program should know; part of the request.
    #[serde(default)]
    parameters: Map<String, Value>,
}

impl Config {
    fn command(&self) -> CommandPart<'_> {
        CommandPart {
            words: &self.command,
            args: &self.args,
            dir: None,
            env: &self.env,
            timeout_seconds: self.timeout_seconds,
        }
    }
}

/// What the program answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    verdict: Option<Verdict>,
    score: Option<f64>,
    reason: Option<String>,
    #[serde(default)]
    metrics: BTreeMap<String, Value>,
}

/// An answer that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum AnswerError {
    #[error("the program took longer than {0} s")]
    TimedOut(String),
    #[error("the program ended with exit code {code}{stderr}")]
    Exit { code: i32, stderr: String },
    #[error("the program was ended by signal {signal}{stderr}")]
    Signal { signal: i32, stderr: String },
    #[error("the program's answer is longer than {MAX_ANSWER} bytes")]
    TooLong,
    #[error("the program's answer is not the required JSON: {0}")]
    Malformed(String),
    #[error("the program's answer has neither `verdict` nor `score`")]
    Empty,
    #[error("the program's score {0} is not between 0 and 1")]
    Score(String),
}

/// Lets a program judge a copy of the workspace.
pub struct ScriptEvaluator {
    host: Host,
}

impl ScriptEvaluator {
    /// Creates the evaluator. Its programs get a private home and nothing secret of this host.
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
        let Some(mut command) = config.command().spec() else {
            return result.errored("the command is empty or has an unbalanced quote");
        };
        if let Some(program) = command.argv.first_mut().filter(|name| name.contains('/')) {
            let dir = evidence.case.file.parent().unwrap_or(Path::new("."));
            *program = dir.join(&program).to_string_lossy().into_owned();
        }
        let request = match request(&config, evidence) {
            Ok(request) => request,
            Err(error) => return result.errored(format!("cannot write the request: {error}")),
        };
        let home = match PrivateHome::beside(&evidence.workspace) {
            Ok(home) => home,
            Err(error) => return result.errored(format!("cannot create a private home: {error}")),
        };
        let (dir, isolation) = (evidence.workspace.clone(), evidence.identity.isolation);
        let mut place = CommandPlace::new(self.host.clone(), &home, dir, isolation)
            .with_writable(&evidence.artifacts);
        if !config.network {
            place = match place.without_network() {
                Ok(place) => place,
                Err(error) => return result.errored(error.to_string()),
            };
        }
        let program = place
            .program(&command)
            .input(request.to_string().into_bytes())
            .capture(Capture::Head(MAX_ANSWER));
        let output = match program.run().await {
            Ok(output) => output,
            Err(error) => return result.errored(format!("{error}; check `command` and PATH")),
        };
        conclude(result, &config, &output, &evidence.artifacts)
    }
}

/// Writes diff, events and normalized log beside the workspace, and returns the request.
fn request(config: &Config, evidence: &Evidence) -> io::Result<Value> {
    let (diff, events) = (
        evidence.workspace.with_file_name(DIFF_FILE),
        evidence.workspace.with_file_name(EVENTS_FILE),
    );
    fs::write(&diff, evidence.diff.as_bytes())?;
    evidence.events.copy_to(&events)?;
    let log = match &evidence.log {
        Some(source) => {
            let log = evidence.workspace.with_file_name(normalized::FILE_NAME);
            fs::copy(source, &log)?;
            Some(log)
        }
        None => None,
    };
    let case = &evidence.case;
    Ok(json!({
        "version": VERSION,
        "workspace": evidence.workspace,
        "base": evidence.base,
        "expected": evidence.expected,
        "diff": diff,
        "events": events,
        "log": log,
        "artifacts": evidence.artifacts,
        "case": {
            "name": case.name,
            "file": case.file,
            "prompt": case.prompt,
        },
        "trial": evidence.identity,
        "parameters": config.parameters,
    }))
}

fn conclude(
    mut result: Judgement,
    config: &Config,
    output: &ProgramOutput,
    artifacts: &Path,
) -> Evaluation {
    if !output.stderr.is_empty() && fs::write(artifacts.join(STDERR_FILE), &output.stderr).is_ok() {
        result.artifact(STDERR_FILE);
    }
    match answer(output, config.command().seconds()) {
        Ok(answer) => judged(result, answer),
        Err(error) => result.errored(error.to_string()),
    }
}

/// Turns an answer into an evaluation. Without a verdict, a score of 1 passes.
fn judged(mut result: Judgement, answer: Answer) -> Evaluation {
    for (name, value) in answer.metrics {
        result.metric(&name, value);
    }
    if let Some(score) = answer.score {
        result.score(score);
    }
    let is_full = answer.score.is_none_or(|score| score >= 1.0);
    let verdict = answer.verdict.unwrap_or(match is_full {
        true => Verdict::Passed,
        false => Verdict::Failed,
    });
    let reason = || match (&answer.reason, answer.score) {
        (Some(reason), _) => reason.clone(),
        (None, Some(score)) => format!("the program's score is {score}"),
        (None, None) => "the program gave no reason".to_owned(),
    };
    match verdict {
        Verdict::Passed => {}
        Verdict::Failed => result.fail(reason()),
        Verdict::Errored => return result.errored(reason()),
        Verdict::Skipped => return result.skipped(reason()),
    }
    result.finish()
}

fn answer(output: &ProgramOutput, seconds: f64) -> Result<Answer, AnswerError> {
    if output.timed_out {
        return Err(AnswerError::TimedOut(seconds.to_string()));
    }
    let stderr = || {
        let text = output.stderr_text();
        let text = text.trim();
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_STDERR));
        match &text[start..] {
            "" => String::new(),
            tail => format!(": {tail}"),
        }
    };
    match (output.exit_code, output.signal) {
        (Some(0), _) => {}
        (Some(code), _) => {
            return Err(AnswerError::Exit {
                code,
                stderr: stderr(),
            });
        }
        (None, signal) => {
            return Err(AnswerError::Signal {
                signal: signal.unwrap_or_default(),
                stderr: stderr(),
            });
        }
    }
    if output.stdout.len() >= MAX_ANSWER {
        return Err(AnswerError::TooLong);
    }
    let answer: Answer = serde_json::from_slice(&output.stdout)
        .map_err(|error| AnswerError::Malformed(error.to_string()))?;
    match answer.score {
        Some(score) if !(0.0..=1.0).contains(&score) => Err(AnswerError::Score(score.to_string())),
        None if answer.verdict.is_none() => Err(AnswerError::Empty),
        _ => Ok(answer),
    }
}

impl Evaluator for ScriptEvaluator {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn check(&self, spec: &EvaluatorSpec) -> Vec<ConfigProblem> {
        match parse::<Config>(spec) {
            Ok(config) => config.command().problems(),
            Err(problem) => vec![problem],
        }
    }

    fn evaluate<'a>(&'a self, spec: &'a EvaluatorSpec, evidence: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async move { self.judge(spec, &evidence).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(exit_code: i32, stdout: &str) -> ProgramOutput {
        ProgramOutput {
            exit_code: Some(exit_code),
            signal: None,
            stdout: stdout.as_bytes().to_vec(),
            stderr: b"oops\n".to_vec(),
            truncated: false,
            timed_out: false,
        }
    }

    #[test]
    fn answers_are_strict() {
        for (exit, text, wanted) in [
            (0, r#"{"verdict":"passed"}"#, None),
            (
                0,
                r#"{"score":0.5,"reason":"half","metrics":{"a":1}}"#,
                None,
            ),
            (3, r#"{"verdict":"passed"}"#, Some("exit code 3: oops")),
            (0, "", Some("not the required JSON")),
            (0, r#"{"verdict":"passed"} x"#, Some("trailing")),
            (0, r#"{"verdict":"ok"}"#, Some("unknown variant")),
            (
                0,
                r#"{"verdict":"passed","points":1}"#,
                Some("unknown field"),
            ),
            (0, r#"{"score":1.5}"#, Some("not between 0 and 1")),
            (0, "{}", Some("neither")),
        ] {
            let error = answer(&output(exit, text), 1.0).err();
            let error = error.map(|error| error.to_string());
            match wanted {
                None => assert_eq!(error, None, "{text}"),
                Some(part) => assert!(
                    error.as_ref().is_some_and(|it| it.contains(part)),
                    "{error:?}"
                ),
            }
        }
    }
}
