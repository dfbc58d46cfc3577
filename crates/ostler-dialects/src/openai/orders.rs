//! What the conversation and its body say to each other. The conversation thinks, the body does: it calls the model and
//! runs tools. Each sentence is one line of JSON, so a recording of the body's lines can be replayed without it.

use ostler_core::event::Notice;
use ostler_core::raw_json::RawJson;
pub use ostler_core::spec::ToolOffer;
use serde::{Deserialize, Serialize};

/// What the conversation wants done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Say again what is there: the first attempt failed.
    Introduce,
    /// Send this request to the model and pass on what comes.
    Call(RawJson),
    /// Run these tools: in order, or at once when they only read.
    Tools(Vec<ToolOrder>),
    /// Run this tool beside those that run: a person has decided on what it waits for.
    Approved(ToolOrder),
    /// Let the caller's hooks have their say about a round of the loop.
    Hook {
        /// Before or behind it.
        when: When,
        /// Which one, counted from 1.
        iteration: u64,
    },
    /// Check the result, which is said to be this.
    Verify(String),
    /// Leave off what is under way, and say so.
    Cancel,
}

/// A tool to run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOrder {
    /// The call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: JSON.
    pub input: RawJson,
    /// What the model is told instead, because the tool may not run. The body says it back, so that a recording of what it
    /// says has a result for every call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Files that a person has approved the change of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
}

/// What the body says for itself. Everything else it prints is the model's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// It is there.
    Ready(Ready),
    /// The answer came to its end.
    Over,
    /// There is no answer, or no more of it.
    Failed(Failed),
    /// It tries again: nothing of the answer had come.
    Retrying(Retrying),
    /// The connection lives; nothing was said.
    Alive,
    /// A tool says how far it is.
    Progress(String),
    /// A tool came to its end.
    Result(Outcome),
    /// A call is a question to a person, and nobody is there to answer.
    Unanswered {
        /// The call.
        id: String,
        /// The question.
        question: String,
    },
    /// A tool would change files that a person has to approve the change of; it did nothing yet.
    NeedsApproval {
        /// The call.
        id: String,
        /// The files, relative to the workspace.
        paths: Vec<String>,
        /// What the model is told if nobody approves it.
        output: String,
    },
    /// What the caller's hooks say.
    Flow(Flow),
    /// What the check of the result says: nothing when it is right, else why not.
    Verified(Option<String>),
    /// What was under way was left off.
    Cancelled,
}

/// The line in which a [`Word`] stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The word.
    pub ostler: Word,
}

impl Line {
    /// How such a line begins; no server's does.
    pub(super) const BEGINNING: &'static str = "{\"ostler\":";
}

/// Who and where the model is, and what it can use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The model that is asked.
    pub model: String,
    /// The directory the tools work in.
    pub cwd: String,
    /// The tools.
    pub tools: Vec<ToolOffer>,
    /// What the system prompt says about commands and the sandbox: a sentence or more.
    #[serde(default)]
    pub sandbox: String,
    /// Whether the server is OpenAI's own: the price table and some field names are its.
    #[serde(default)]
    pub official: bool,
    /// Whether tokens are not counted at all, so that nobody misses the counts.
    #[serde(default)]
    pub uncounted: bool,
    /// What the caller should know before anything happens.
    #[serde(default)]
    pub notices: Vec<Notice>,
    /// What there is around the loop, for an agent that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looping: Option<Looping>,
}

/// What there is around a loop.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looping {
    /// Whether the result is checked before it counts.
    #[serde(default)]
    pub verifies: bool,
    /// Whether the caller has hooks.
    #[serde(default)]
    pub hooks: bool,
    /// Whether the model may ask a person.
    #[serde(default)]
    pub asks: bool,
    /// The tools that change something.
    #[serde(default)]
    pub mutating: Vec<String>,
}

/// When hooks have their say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Before the model is asked.
    Before,
    /// When its answer is there and its tools are through.
    After,
}

/// How a loop goes on behind a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// As it would.
    Go,
    /// As it would, and the model is told this.
    Say(String),
    /// Not at all; this is why.
    Stop(String),
}

/// What became of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The call.
    pub id: String,
    /// Whether the tool did what it was asked.
    pub ok: bool,
    /// Whether a rule forbade it.
    #[serde(default)]
    pub denied: bool,
    /// What the model is told.
    pub output: String,
}

/// Why there is no answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// What kind of failure it was.
    pub kind: FailedKind,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What happened, for a person.
    pub message: String,
    /// What the server wrote, or its beginning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// When to try again, if the server said so: RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<String>,
    /// What it comes to, where somebody has found that out already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Box<ostler_core::outcome::Outcome>>,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailedKind {
    /// The server answered with an error.
    Status,
    /// No connection.
    #[default]
    Connect,
    /// No trust: the certificate, or no TLS at all.
    Tls,
    /// The answer broke off.
    Cut,
    /// There is no key.
    NoKey,
    /// The answer is not what was agreed.
    Invalid,
}

/// Another attempt is about to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrying {
    /// Which attempt failed, counted from 1.
    pub attempt: u32,
    /// How many there are at most.
    pub of: u32,
    /// How long is waited.
    pub after_ms: u64,
    /// Why.
    pub why: Failed,
}
