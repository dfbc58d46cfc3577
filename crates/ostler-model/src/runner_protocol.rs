//! Protocol between the conversation and its runner. The conversation decides; the runner calls the
//! model and runs tools. Each message is one JSON line, so that a recording of the runner's lines
//! can be replayed without it.

use ostler_core::event::Notice;
use ostler_core::outcome::Outcome;
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use serde::{Deserialize, Serialize};

use crate::part::Part;
use crate::request::ModelRequest;

/// Command from the conversation to the runner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerCommand {
    /// Report readiness again, because the first attempt failed.
    Introduce,
    /// Send this request to the model and pass on the reply.
    Call(ModelRequest),
    /// Run these tools: one after the other, or concurrently if they only read.
    Tools(Vec<ToolJob>),
    /// Run this tool concurrently with the others: a person has approved the change it waits for.
    Approved(ToolJob),
    /// Run the caller's hooks for a round of the loop.
    Hook {
        /// Before or after the round.
        when: When,
        /// Number of the round, starting at 1.
        iteration: u64,
    },
    /// Verify the result, given the model's answer.
    Verify(String),
    /// Cancel everything in progress, and confirm it.
    Cancel,
}

/// A tool to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolJob {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments, as JSON.
    pub input: RawJson,
    /// Message for the model if the tool may not run. The runner returns it as the result, so that
    /// a recording has a result for every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Files that a person has allowed to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
}

/// Event from the runner. Its other lines are chunks of an OpenAI-compatible server, verbatim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerEvent {
    /// The runner is ready.
    Ready(Ready),
    /// Parts of the answer, from a model that is not an OpenAI-compatible server.
    Parts(Vec<Part>),
    /// The answer is complete.
    Over,
    /// The answer failed or was cut off.
    Failed(Failed),
    /// The request is retried; no part of the answer had arrived.
    Retrying(Retrying),
    /// The connection is alive, without new data.
    Alive,
    /// Progress of a tool.
    Progress(String),
    /// Result of a tool.
    Result(ToolOutcome),
    /// A call is a question to a person in an unattended session.
    Unanswered {
        /// Id of the call.
        id: String,
        /// The question.
        question: String,
    },
    /// A tool would change files that need a person's approval; it has done nothing yet.
    NeedsApproval {
        /// Id of the call.
        id: String,
        /// The files, relative to the workspace.
        paths: Vec<String>,
        /// Message for the model if the change is not approved.
        output: String,
    },
    /// Result of the caller's hooks.
    Flow(Flow),
    /// Result of the verification: `None` on success, otherwise the reason.
    Verified(Option<String>),
    /// Everything in progress was cancelled.
    Cancelled,
}

/// Line that contains a [`RunnerEvent`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunnerLine {
    /// The event.
    pub ostler: RunnerEvent,
}

impl RunnerLine {
    /// Prefix of such a line; no server sends it.
    const PREFIX: &'static str = "{\"ostler\":";

    /// Returns true if a line contains an event, and is not a chunk.
    pub(crate) fn is_event(line: &str) -> bool {
        line.starts_with(Self::PREFIX)
    }
}

/// Model and environment of the runner.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Model in use.
    pub model: String,
    /// Working directory of the tools.
    pub cwd: String,
    /// Available tools.
    pub tools: Vec<ToolOffer>,
    /// Description of commands and the sandbox for the system prompt: one or more sentences.
    #[serde(default)]
    pub sandbox: String,
    /// Whether the server is OpenAI's own, for prices and some field names.
    #[serde(default)]
    pub official: bool,
    /// Whether tokens are never counted, so that missing counts are not reported.
    #[serde(default)]
    pub uncounted: bool,
    /// Notices for the caller, emitted at the start.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// Features of the loop, if this agent is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looping: Option<LoopFeatures>,
}

/// Features of a loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopFeatures {
    /// Whether the result is verified.
    #[serde(default)]
    pub verifies: bool,
    /// Whether the caller has hooks.
    #[serde(default)]
    pub hooks: bool,
    /// Whether the model may ask a person.
    #[serde(default)]
    pub asks: bool,
    /// Names of tools that change something.
    #[serde(default)]
    pub mutating: Vec<String>,
}

/// When hooks run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the model is called.
    Before,
    /// After its answer and its tools.
    After,
}

/// How a loop continues after a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// Continue.
    Go,
    /// Continue, with this message for the model.
    Say(String),
    /// Stop, for this reason.
    Stop(String),
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// Id of the call.
    pub id: String,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// Whether a rule denied it.
    #[serde(default)]
    pub denied: bool,
    /// Output for the model.
    pub output: String,
}

/// Failure of a model call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Kind of the failure.
    pub kind: FailedKind,
    /// HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Description for a person.
    pub message: String,
    /// Body of the server's response, possibly truncated.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// When to retry, if the server said so (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<String>,
    /// Outcome, if it is already known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Box<Outcome>>,
}

impl From<Outcome> for Failed {
    fn from(outcome: Outcome) -> Self {
        Self {
            message: outcome.message.clone(),
            ended: Some(Box::new(outcome)),
            ..Self::default()
        }
    }
}

/// Kind of a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedKind {
    /// The server answered with an error.
    Status,
    /// The connection failed.
    #[default]
    Connect,
    /// The TLS handshake failed: an untrusted certificate, or no TLS.
    Tls,
    /// The answer was cut off.
    Cut,
    /// There is no API key.
    NoKey,
    /// The response is not valid.
    Invalid,
}

/// A retry after a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrying {
    /// Number of the failed attempt, starting at 1.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub of: u32,
    /// Delay before the retry, in milliseconds.
    pub after_ms: u64,
    /// The failure.
    pub why: Failed,
}
