//! The event: the one thing that callers, logs and other programs see of a session.
//!
//! An envelope (`seq`, `at`, `session`, `turn`) and a kind ([`EventKind`]), written as one flat JSON object whose `type` names
//! the kind. Fields may be added, never renamed. `docs/events.md` shows each kind.

mod weight;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::permission::ToolKind;
use crate::raw_json::RawJson;
use crate::usage::Usage;

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// 1, 2, 3 … per session, without a gap.
    pub seq: u64,
    /// When it was seen: RFC 3339, UTC, milliseconds.
    pub at: At,
    /// The session, as Ostler names it.
    #[schemars(with = "String")]
    pub session: Arc<str>,
    /// The turn it belongs to, counted from 1; 0 before the first.
    pub turn: u32,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// A moment: milliseconds since the Unix epoch, shown as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", extend("format" = "date-time"))]
pub struct At(
    /// Milliseconds since the Unix epoch.
    pub i64,
);

impl At {
    /// The time of an event in a recording without times: the Unix epoch.
    pub const UNKNOWN: Self = Self(0);

    /// The time from `earlier` to this moment, in milliseconds; `None` if a recording does not have both.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<i64> {
        (self != Self::UNKNOWN && earlier != Self::UNKNOWN).then(|| self.0 - earlier.0)
    }

    /// Reads a moment as HTTP and mail write it: `Fri, 31 Dec 2100 23:59:59 GMT`.
    #[must_use]
    pub fn from_http_date(text: &str) -> Option<Self> {
        jiff::fmt::rfc2822::parse(text)
            .ok()
            .map(|moment| Self(moment.timestamp().as_millisecond()))
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stamp =
            jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{stamp:.3}")
    }
}

impl std::str::FromStr for At {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse::<jiff::Timestamp>()
            .map(|t| Self(t.as_millisecond()))
            .map_err(|e| e.to_string())
    }
}

impl Serialize for At {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Declares the kinds of events once: the enum, its words on the wire and the reader that goes with them.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// What happened. The word in `type` is the variant's name in snake_case.
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "type", rename_all = "snake_case")]
        pub enum EventKind {
            $($(#[$doc])* $kind($kind),)*
        }

        impl EventKind {
            /// Every word that `type` can be.
            pub const NAMES: &'static [&'static str] = &[$($word),*];

            /// The word in `type`.
            #[must_use]
            pub fn as_str(&self) -> &'static str {
                match self { $(Self::$kind(_) => $word,)* }
            }

            /// Reads the kind out of one JSON object; fields of the envelope and unknown ones are passed over.
            ///
            /// # Errors
            /// When it is not JSON, has no known `type`, or lacks a field of its kind.
            pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
                #[derive(Deserialize)]
                struct Kind<'a> {
                    #[serde(borrow)]
                    r#type: std::borrow::Cow<'a, str>,
                }
                match &*serde_json::from_str::<Kind<'_>>(text)?.r#type {
                    $($word => serde_json::from_str(text).map(Self::$kind),)*
                    other => Err(serde::de::Error::unknown_variant(other, Self::NAMES)),
                }
            }
        }

        $(impl From<$kind> for EventKind {
            fn from(it: $kind) -> Self { Self::$kind(it) }
        })*
    };
}

kinds! {
    /// The agent is there and said who it is.
    Started = "started",
    /// The session went from one state to another.
    State = "state",
    /// A turn began.
    TurnStarted = "turn_started",
    /// The agent said something.
    Text = "text",
    /// The agent called a tool.
    ToolCall = "tool_call",
    /// A tool call came to its end.
    ToolResult = "tool_result",
    /// Whether a tool may run was asked or decided.
    Permission = "permission",
    /// Tokens and cost so far.
    Usage = "usage",
    /// Something worth knowing that changes nothing.
    Notice = "notice",
    /// A line that could not be understood.
    Unreadable = "unreadable",
    /// A request of the caller that was not carried out.
    Refused = "refused",
    /// A turn ended.
    TurnEnded = "turn_ended",
    /// The session ended; nothing follows.
    Ended = "ended",
}

/// The agent is there and said who it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// The agent's name in Ostler.
    pub agent: String,
    /// Its version, as it said it.
    pub agent_version: Option<String>,
    /// The agent's own id of the session: what `--resume` takes.
    pub native_session: Option<String>,
    /// The model it uses.
    pub model: Option<String>,
    /// The directory it works in.
    pub cwd: Option<String>,
    /// The tools it has.
    #[serde(default)]
    pub tools: Vec<String>,
}

/// The session went from one state to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// The state before.
    pub from: SessionState,
    /// The state now.
    pub to: SessionState,
}

/// The states of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// It exists; nothing was started.
    Created,
    /// The agent was started and has not said anything yet.
    Starting,
    /// The agent waits for the next message.
    Idle,
    /// A turn is under way.
    Working,
    /// Input is held back until the caller resumes.
    Paused,
    /// The agent is being ended.
    Stopping,
    /// It is over.
    Ended,
}

/// A turn began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnStarted {
    /// Who began it.
    pub origin: Origin,
    /// The caller's message; null when the agent began the turn by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Who began a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The caller sent a message.
    Caller,
    /// The agent went on by itself, for example when a background task ended.
    Agent,
}

/// The agent said something. A reply that came in deltas is not repeated whole; [`TurnEnded`] carries the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    /// Part of the answer, or a thought.
    pub kind: TextKind,
    /// The words.
    pub text: String,
    /// True for a piece of a message, false for a whole one.
    pub delta: bool,
    /// The message it belongs to, as the agent names it.
    pub message: Option<String>,
    /// The tool call of the sub-agent that said it; null for the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// Part of the answer, or a thought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TextKind {
    /// Addressed to the caller.
    Reply,
    /// The model's reasoning; never part of the answer.
    Thinking,
}

/// The agent called a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Pairs the call with its result.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, as the agent wrote them.
    pub input: RawJson,
    /// The tool call of the sub-agent that made it; null for the agent itself.
    pub parent: Option<String>,
}

/// A tool call came to its end. Every [`ToolCall`] gets exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The call it answers.
    pub id: String,
    /// The tool; null when the call was never seen.
    pub name: Option<String>,
    /// False when the tool failed, was denied, or never ended.
    pub ok: bool,
    /// What it gave, as text.
    pub output: String,
    /// True when it did not run because it was not allowed.
    pub denied: bool,
    /// What it gave as the agent wrote it, when it holds more than text (an image, say).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<RawJson>,
}

/// Whether a tool may run was asked or decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    /// The tool call, or the request when there is no call yet.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// What the tool does, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// Its arguments.
    pub input: Option<RawJson>,
    /// What was decided.
    pub decision: Decision,
    /// Who decided.
    pub by: DecidedBy,
    /// The reason, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What was decided on a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Nobody has answered yet.
    Asked,
    /// It may run.
    Allowed,
    /// It may not.
    Denied,
}

/// Who decided on a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// A rule of the caller's policy.
    Rule,
    /// A person.
    Person,
    /// The agent's own layer: its mode, its settings.
    Agent,
    /// Nobody was there to ask.
    Default,
}

/// Something worth knowing that changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// How much it matters.
    pub level: Level,
    /// A word to branch on.
    pub code: String,
    /// A sentence for a person.
    pub message: String,
    /// The agent's line, when the notice stands for one that Ostler does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawJson>,
}

impl Notice {
    /// A notice without a line behind it.
    #[must_use]
    pub fn new(level: Level, code: &str, message: impl Into<String>) -> Self {
        Self {
            level,
            code: code.to_owned(),
            message: message.into(),
            raw: None,
        }
    }

    /// A line of an agent's that Ostler does not know: `kind` names its kind, such as `type "x"`, and is the same for all of
    /// that kind. They are counted by it.
    #[must_use]
    pub fn unknown_message(agent: &str, kind: &str, raw: Option<RawJson>) -> Self {
        let message = format!("{agent} said something that {UNKNOWN}{kind}.");
        Self {
            raw,
            ..Self::new(Level::Debug, UNKNOWN_CODE, message)
        }
    }

    /// The kind of a line that Ostler does not know, if the notice stands for one.
    #[must_use]
    pub fn unknown_kind(&self) -> Option<&str> {
        let (_, kind) = self
            .message
            .split_once(UNKNOWN)
            .filter(|_| self.code == UNKNOWN_CODE)?;
        Some(kind.strip_suffix('.').unwrap_or(kind))
    }
}

const UNKNOWN_CODE: &str = "unknown_message";

/// What stands before the kind of a line that is not known.
const UNKNOWN: &str = "Ostler does not know: ";

/// How much a notice matters.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Of interest when one looks for it.
    Debug,
    /// Progress.
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something went wrong.
    Error,
}

/// A line that could not be understood. Nothing is lost: the line is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// The line, or its head when it was over the cap.
    pub raw: String,
    /// Why it could not be understood.
    pub why: String,
    /// The length of the whole line in bytes.
    #[serde(default)]
    pub length: u64,
    /// True when invalid UTF-8 was replaced.
    #[serde(default)]
    pub lossy: bool,
}

/// A request of the caller that was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// What was asked.
    pub request: String,
    /// Why it was not done.
    pub why: String,
    /// The same in one word, to branch on: `ending`, `no_turn`, `busy`, `unsupported`, `rejected`, `timeout`, `unknown`, `decided`.
    #[serde(default)]
    pub code: String,
}

/// A turn ended. Each turn has exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnEnded {
    /// How.
    pub outcome: Outcome,
    /// The answer; or what had been said when the turn was cut short.
    pub text: String,
    /// The structured answer, when a schema was given.
    pub structured: Option<RawJson>,
    /// Tokens and cost of the turn.
    pub usage: Option<Usage>,
}

/// The session ended; nothing follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// How: the last turn's outcome, unless the session broke by itself.
    pub outcome: Outcome,
    /// The exit code of the agent's process.
    pub exit_code: Option<i32>,
    /// The signal that ended the agent's process.
    pub signal: Option<i32>,
    /// Tokens and cost of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Event {
    /// Writes the event as one JSON line, without the newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Reserved at once: a large event is not copied over and over while its text grows.
        let mut json = Vec::with_capacity(self.weight());
        // Strings, numbers and checked raw values: there is nothing in an event that cannot be written.
        let written = serde_json::to_writer(&mut json, self).is_ok();
        String::from_utf8(json)
            .ok()
            .filter(|_| written)
            .unwrap_or_default()
    }

    /// Reads an event from one JSON line.
    ///
    /// # Errors
    /// When it is not JSON, or not an event.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Envelope {
            seq: u64,
            at: At,
            session: Arc<str>,
            turn: u32,
        }
        let Envelope {
            seq,
            at,
            session,
            turn,
        } = serde_json::from_str(text)?;
        Ok(Self {
            seq,
            at,
            session,
            turn,
            kind: EventKind::from_json(text)?,
        })
    }
}

/// The JSON schema of an event.
#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Event)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The kind is read back from the sentence that it was put into, whatever it holds.
    #[test]
    fn the_kind_of_a_line_that_is_not_known_can_be_read_back() {
        for kind in [
            "type \"x\"",
            "a block without a type",
            "type \"a. b.\"",
            "",
            "type \"Ostler does not know: \"",
        ] {
            let notice = Notice::unknown_message("Some Agent 2.0", kind, None);
            assert_eq!(notice.unknown_kind(), Some(kind));
            assert_eq!(
                (notice.level, notice.code.as_str()),
                (Level::Debug, "unknown_message")
            );
        }
        let other = Notice {
            code: "other".into(),
            ..Notice::unknown_message("a", "b", None)
        };
        assert_eq!(other.unknown_kind(), None);
        assert_eq!(
            Notice::new(Level::Debug, "unknown_message", "something else").unknown_kind(),
            None
        );
    }
}
