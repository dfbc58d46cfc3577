//! Trial adapter: one agent behind the contract of source document 004.
//!
//! [`AgentAdapter::check_availability`] says whether the agent can be used, and
//! [`AgentAdapter::execute`] runs it once. The latter never fails: whatever happens is in its
//! result.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ostler::agent::Probed;
use ostler::event::{EventKind, Timestamp};
use ostler::outcome::{Detail, Outcome, Status};
use ostler::{Agent, Cause, Host, Session, Spec, Usage};
use ostler_core::clip::OUTPUT_CAP;
use ostler_core::usage::Scope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::event_log::{EVENTS_FILE, EventLog, EventWriter};

/// An agent with the host and the spec of one trial.
pub struct AgentAdapter {
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// The host.
    pub host: Host,
    /// The spec, with the prompt and the working directory.
    pub spec: Spec,
}

/// How long an agent may take to end when its time is up, at each of three steps: a timeout is
/// accurate within five seconds (S4-37), even if the agent ignores all of them.
const GRACE: Duration = Duration::from_millis(1500);

/// How an agent is executed.
pub struct ExecutionContext<'a> {
    /// Directory of the artifacts.
    pub artifacts: &'a Path,
    /// Returns the current time.
    pub now: &'a (dyn Fn() -> Timestamp + Sync),
    /// Called when tokens or cost change.
    pub on_usage: &'a (dyn Fn(&str, &Usage) + Sync),
    /// Becomes true when the run is cancelled.
    pub cancelled: watch::Receiver<bool>,
}

/// Result of an execution, as document 004 defines it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutionResult {
    /// Status.
    pub status: ExecutionStatus,
    /// Exit code: the real one, -1 after a timeout.
    pub exit_code: i32,
    /// What the agent printed, up to 10 MB, with a marker if more is missing.
    pub output: String,
    /// When it started: RFC 3339.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// Time between the two.
    pub duration_ms: u64,
    /// What went wrong.
    pub errors: Vec<ExecutionError>,
}

/// Status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecutionStatus {
    /// The agent finished.
    Success,
    /// The agent failed, or could not be started.
    Failed,
    /// A time limit ended it.
    Timeout,
}

impl ExecutionStatus {
    /// Returns the status of an outcome.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        match outcome.cause.status() {
            Status::Success => Self::Success,
            Status::Timeout => Self::Timeout,
            _ => Self::Failed,
        }
    }
}

/// Something that went wrong during an execution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionError {
    /// Code for programs.
    pub code: ErrorCode,
    /// What happened, and what to do.
    pub message: String,
    /// When.
    pub timestamp: Timestamp,
}

/// Code of an [`ExecutionError`]: a text in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ErrorCode {
    /// The cause that ended the session.
    Session(Cause),
    /// A fault around the session, which went on.
    Adapter(AdapterFault),
}

/// A fault around a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdapterFault {
    /// The output was cut.
    OutputTruncated,
    /// The artifacts could not be written.
    Artifacts,
}

impl AdapterFault {
    /// Returns its name in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OutputTruncated => "output_truncated",
            Self::Artifacts => "artifacts",
        }
    }
}

/// An execution: the contract's result, and everything else that is known.
#[derive(Debug, Clone)]
pub struct Execution {
    /// The contract's result.
    pub result: ExecutionResult,
    /// How the session ended.
    pub outcome: Outcome,
    /// All events of the session.
    pub events: EventLog,
    /// Tokens and cost of the session.
    pub usage: Option<Usage>,
    /// Ostler's id of the session; `None` if it never started.
    pub session: Option<String>,
    /// The agent's version, as it reported it.
    pub agent_version: Option<String>,
    /// The model, as the agent reported it.
    pub model: Option<String>,
    /// The file with the agent's output.
    pub terminal_log: Option<PathBuf>,
}

/// An agent that is installed but cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AvailabilityError {
    /// It is not logged in.
    #[error("{agent} needs authentication: log in or set its API key ({hint})")]
    Authentication {
        /// The agent.
        agent: String,
        /// What to do.
        hint: String,
    },
}

impl AgentAdapter {
    /// Returns true if the agent is installed and ready, and false if it is not. Its version is
    /// returned if it is known.
    ///
    /// # Errors
    /// If the agent is installed but not logged in.
    pub async fn check_availability(&self) -> Result<Availability, AvailabilityError> {
        let name = self.agent.about().name;
        let probed = self.agent.probe(&self.host, &self.spec).await;
        let problem = probed.problem(name);
        let reason = problem.map(|(what, hint)| format!("{what}. {hint}"));
        match probed {
            Probed::NotLoggedIn { hint, .. } => Err(AvailabilityError::Authentication {
                agent: name.to_owned(),
                hint,
            }),
            Probed::Ready { version, .. } => Ok(Availability::ready(version)),
            Probed::LoginUnknown { version, .. } => Ok(Availability::ready(Some(version))),
            _ => Ok(Availability {
                available: false,
                version: None,
                reason,
            }),
        }
    }

    /// Runs the agent once, until it and everything it started has ended.
    pub async fn execute(&self, context: &ExecutionContext<'_>) -> Execution {
        let started_at = (context.now)();
        let mut notes = Vec::new();
        let log = log_file(self.agent.about().name, context.artifacts, started_at);
        let log = log.map_err(|error| {
            notes.push(ExecutionError {
                code: ErrorCode::Adapter(AdapterFault::Artifacts),
                message: format!(
                    "the artifacts cannot be written to {}: {error}; choose another directory",
                    context.artifacts.display()
                ),
                timestamp: started_at,
            });
        });
        let mut spec = self.spec.clone();
        spec.raw_log = log.as_ref().ok().cloned();
        spec.limits.grace = spec.limits.grace.min(GRACE);
        let mut run = Followed::default();
        match self.agent.start(&self.host, spec) {
            Ok(session) => run.follow(session, context).await,
            Err(error) => run.outcome = Some(Outcome::new(Cause::BadRequest, error.to_string())),
        }
        let completed_at = (context.now)();
        let terminal_log = log.ok();
        let (output, truncated) = output(terminal_log.as_deref(), &run.events);
        let outcome = run.outcome.unwrap_or_else(|| {
            Outcome::new(Cause::AgentDied, "The session ended without an outcome.")
        });
        let mut errors = notes;
        errors.extend(run.event_error.map(|error| ExecutionError {
            code: ErrorCode::Adapter(AdapterFault::Artifacts),
            message: format!("events are missing in {EVENTS_FILE}: {error}; free some space"),
            timestamp: completed_at,
        }));
        errors.extend(failure(&outcome, completed_at));
        if truncated {
            errors.push(ExecutionError {
                code: ErrorCode::Adapter(AdapterFault::OutputTruncated),
                message: format!("the output was truncated at 10 MB ({OUTPUT_CAP} bytes)"),
                timestamp: completed_at,
            });
        }
        let status = ExecutionStatus::of(&outcome);
        let duration = completed_at.0.saturating_sub(started_at.0);
        let result = ExecutionResult {
            status,
            exit_code: exit_code(status, &outcome, run.exit),
            output,
            started_at,
            completed_at,
            duration_ms: u64::try_from(duration).unwrap_or(0),
            errors,
        };
        Execution {
            result,
            outcome,
            events: run.events,
            usage: run.usage,
            session: run.session,
            agent_version: run.agent_version,
            model: run.model,
            terminal_log,
        }
    }
}

/// Whether an agent can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    /// Whether it is installed and ready.
    pub available: bool,
    /// Its version, if known.
    pub version: Option<String>,
    /// Why it is not available, and what to do.
    pub reason: Option<String>,
}

impl Availability {
    fn ready(version: Option<String>) -> Self {
        Self {
            available: true,
            version,
            reason: None,
        }
    }
}

/// What is collected while a session runs.
#[derive(Default)]
struct Followed {
    events: EventLog,
    /// Why some events are missing.
    event_error: Option<std::io::Error>,
    outcome: Option<Outcome>,
    exit: (Option<i32>, Option<i32>),
    usage: Option<Usage>,
    session: Option<String>,
    agent_version: Option<String>,
    model: Option<String>,
}

impl Followed {
    async fn follow(&mut self, mut session: Session, context: &ExecutionContext<'_>) {
        let id = session.id().to_owned();
        let mut events = EventWriter::create(context.artifacts);
        let mut cancelled = context.cancelled.clone();
        let mut is_stopped = false;
        // The session is known before anything is spent.
        (context.on_usage)(&id, &Usage::unknown(Scope::Session));
        loop {
            let event = tokio::select! {
                event = session.next() => event,
                () = until_true(&mut cancelled), if !is_stopped => {
                    is_stopped = true;
                    session.stop();
                    continue;
                }
            };
            let Some(event) = event else { break };
            events.push(&event, !session.has_more());
            if let EventKind::Usage(_) | EventKind::TurnEnded(_) = &event.kind
                && let Some(usage) = session.status().usage
            {
                (context.on_usage)(&id, &usage);
                self.usage = Some(usage);
            }
            match &event.kind {
                EventKind::Started(started) => {
                    self.agent_version.clone_from(&started.agent_version);
                    self.model.clone_from(&started.model);
                }
                EventKind::Ended(ended) => {
                    self.outcome = Some(ended.outcome.clone());
                    self.exit = (ended.exit_code, ended.signal);
                    self.usage = ended.usage.clone().or(self.usage.take());
                }
                _ => {}
            }
        }
        (self.events, self.event_error) = events.finish();
        self.session = Some(id);
    }
}

/// Waits until the value is true.
pub(crate) async fn until_true(receiver: &mut watch::Receiver<bool>) {
    if receiver.wait_for(|value| *value).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns the directory of an agent's terminal logs.
pub(crate) fn log_dir(agent: &str, artifacts: &Path) -> PathBuf {
    artifacts.join(format!("{agent}-logs"))
}

/// Creates the directory of the terminal log, and returns the file's path.
fn log_file(agent: &str, artifacts: &Path, at: Timestamp) -> std::io::Result<PathBuf> {
    let dir = log_dir(agent, artifacts);
    fs::create_dir_all(&dir)?;
    let time = at.to_string().replace(':', "-");
    let path = dir.join(format!("terminal-output-{time}.log"));
    File::create(&path)?;
    Ok(path)
}

/// Returns the exit code: that of the process, or one that tells success from failure.
fn exit_code(
    status: ExecutionStatus,
    outcome: &Outcome,
    (code, signal): (Option<i32>, Option<i32>),
) -> i32 {
    let detail = outcome.detail.as_deref();
    let code = code.or_else(|| detail.and_then(|detail| detail.exit_code));
    let signal = signal.or_else(|| detail.and_then(|detail| detail.signal));
    match status {
        ExecutionStatus::Timeout => -1,
        ExecutionStatus::Success => 0,
        ExecutionStatus::Failed => match (code, signal) {
            // Some agents exit with 0 although they report a failure.
            (Some(code), _) if code != 0 => code,
            (_, Some(signal)) => 128 + signal,
            _ => 1,
        },
    }
}

fn failure(outcome: &Outcome, at: Timestamp) -> Option<ExecutionError> {
    if outcome.cause == Cause::Completed {
        return None;
    }
    let detail: Option<&Detail> = outcome.detail.as_deref();
    let mut message = outcome.message.clone();
    if outcome.cause.status() == Status::Timeout
        && let Some(limit) = detail.and_then(|detail| detail.limit_ms)
    {
        message = format!("timeout after {limit} ms: {message}");
    }
    if let Some(hint) = &outcome.hint {
        message = format!("{message} {hint}");
    }
    if let Some(stderr) = detail.and_then(|detail| detail.stderr.as_deref()) {
        message = format!("{message}\nstderr: {stderr}");
    }
    Some(ExecutionError {
        code: ErrorCode::Session(outcome.cause),
        message,
        timestamp: at,
    })
}

/// Returns the agent's output up to the limit, and whether more is missing. An agent that has no
/// output because it is part of Ostler gets what it wrote.
fn output(log: Option<&Path>, events: &EventLog) -> (String, bool) {
    let stored = log.and_then(|path| {
        let file = File::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut bytes = Vec::new();
        let limit = u64::try_from(OUTPUT_CAP).unwrap_or(u64::MAX);
        file.take(limit).read_to_end(&mut bytes).ok()?;
        (length > 0).then_some((bytes, length))
    });
    let (bytes, length) = stored.unwrap_or_else(|| {
        let text = written_text(events);
        if let Some(path) = log {
            let _ = fs::write(path, &text); // it is in the result too
        }
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        let cut = text.floor_char_boundary(OUTPUT_CAP);
        (text.as_bytes()[..cut].to_vec(), length)
    });
    let kept = bytes.len();
    let mut output = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let truncated = length > u64::try_from(kept).unwrap_or(u64::MAX);
    if truncated {
        output.push_str(&format!(
            "\n[OUTPUT TRUNCATED: the first {kept} of {length} bytes are kept]"
        ));
    }
    (output, truncated)
}

/// Returns what an agent wrote, as text.
fn written_text(events: &EventLog) -> String {
    let mut text = String::new();
    for event in events.iter() {
        match &event.kind {
            EventKind::Text(part) => text.push_str(&part.text),
            EventKind::ToolCall(call) => {
                text.push_str(&format!("\n[TOOL: {}] {}\n", call.name, call.input.get()));
            }
            EventKind::ToolResult(result) => text.push_str(&format!("{}\n", result.output)),
            EventKind::TurnEnded(turn) if !text.contains(turn.text.as_str()) => {
                text.push_str(&turn.text);
            }
            _ => {}
        }
    }
    text
}
