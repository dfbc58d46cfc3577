//! Items of a transcript, as they are on the wire. Fields may be added, never renamed.

use ostler_core::event::{DecidedBy, Decision, Level, Origin, State, Timestamp};
use ostler_core::outcome::Outcome;
use ostler_core::raw_json::RawJson;
use ostler_core::usage::Usage;
use schemars::JsonSchema;
use serde::Serialize;

use crate::diff::FileDiff;
use crate::tools::CallKind;

/// One item of a transcript, condensed from one or more events.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Item {
    /// Number of its first event.
    pub seq: u64,
    /// Number of its last event so far.
    pub last_seq: u64,
    /// The turn it belongs to, counted from 1; 0 before the first.
    pub turn: u32,
    /// Time of its first event.
    pub at: Timestamp,
    /// What it is.
    #[serde(flatten)]
    pub kind: ItemKind,
}

/// What an item is. The value of `type` is the variant's name in snake_case.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ItemKind {
    /// Start of a turn, with the caller's message.
    Prompt(PromptItem),
    /// Text for the caller.
    Reply(MessageItem),
    /// The model's reasoning.
    Thinking(MessageItem),
    /// A tool call, with its result.
    Tool(Box<ToolItem>),
    /// A permission request that belongs to no tool call shown.
    Permission(Box<PermissionItem>),
    /// Information that changes nothing, or a refused request.
    Notice(NoticeItem),
    /// Tokens and cost so far.
    Usage(Box<UsageItem>),
    /// The turn ended.
    TurnEnded(Box<TurnEndedItem>),
    /// The session ended.
    Ended(Box<EndedItem>),
    /// A line of the agent that could not be parsed.
    Unreadable(UnreadableItem),
    /// The session was paused or resumed.
    State(State),
}

/// Start of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PromptItem {
    /// Who started it.
    pub origin: Origin,
    /// The message; empty if the agent started the turn by itself.
    pub text: String,
}

/// A message of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MessageItem {
    /// The exact text.
    pub text: String,
    /// A complete reply as safe HTML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Id of the message, from the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Tool call of the subagent that wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// True if more text of the message may follow, here or on the next page.
    pub open: bool,
    /// True if the message began on an earlier page.
    #[serde(skip_serializing_if = "is_false")]
    pub continued: bool,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToolItem {
    /// Id of the call.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// What it does.
    pub kind: CallKind,
    /// Its path or command, on one line.
    pub summary: String,
    /// Its arguments, as the agent wrote them.
    pub input: RawJson,
    /// Its output, or the beginning and end of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// True if part of the output is left out; the events contain it.
    #[serde(skip_serializing_if = "is_false")]
    pub output_truncated: bool,
    /// False if the tool failed, was denied, or did not finish; absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ok: Option<bool>,
    /// True if it did not run because it was denied.
    #[serde(skip_serializing_if = "is_false")]
    pub denied: bool,
    /// When it was called.
    pub started_at: Timestamp,
    /// When it finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Time between the two, if both are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
    /// Tool call of the subagent that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The changes that it made or, unless it succeeded, that it requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub diff: Vec<FileDiff>,
    /// Decision on its permission request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<CallDecision>,
}

/// Decision on the permission request of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CallDecision {
    /// The decision.
    pub decision: Decision,
    /// Who decided.
    pub by: DecidedBy,
    /// The reason, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A permission request.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PermissionItem {
    /// Id of the request.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// What it does.
    pub kind: CallKind,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<RawJson>,
    /// The decision, by whom, and why.
    #[serde(flatten)]
    pub decision: CallDecision,
}

/// Information that changes nothing, or a refused request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NoticeItem {
    /// Severity.
    pub level: Level,
    /// Code for programs to branch on.
    pub code: String,
    /// One sentence for a person.
    pub message: String,
}

/// Tokens and cost so far.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct UsageItem {
    /// The numbers.
    pub usage: Usage,
}

/// End of a turn.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TurnEndedItem {
    /// How it ended.
    pub outcome: Outcome,
    /// Tokens and cost of the turn.
    pub usage: Option<Usage>,
    /// The structured answer, if a schema was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<RawJson>,
    /// Time since the start of the turn, if it is known.
    pub duration_ms: Option<i64>,
}

/// End of the session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct EndedItem {
    /// How it ended.
    pub outcome: Outcome,
    /// Tokens and cost of the session.
    pub usage: Option<Usage>,
}

/// A line that could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnreadableItem {
    /// The line, or the beginning of it.
    pub raw: String,
    /// Why it could not be parsed.
    pub why: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(value: &bool) -> bool {
    !value
}
