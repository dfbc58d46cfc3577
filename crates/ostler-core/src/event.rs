//! Events: everything that callers, logs and other programs see of a session.
//!
//! An event is an envelope (`seq`, `at`, `session`, `turn`) and a kind ([`EventKind`]), serialized
//! as one flat JSON object whose `type` names the kind. Fields may be added, never renamed.
//! `docs/events.md` shows each kind.

mod weight;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::codes::{NoticeCode, RefusalCode, RequestKind};
use crate::names::named;
use crate::outcome::Outcome;
use crate::permission::ToolKind;
use crate::raw_json::RawJson;
use crate::usage::Usage;

/// One event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Event {
    /// Sequence number within the session: 1, 2, 3 … without a gap.
    pub seq: u64,
    /// When it was observed: RFC 3339, UTC, milliseconds.
    pub at: Timestamp,
    /// Ostler's id of the session.
    #[schemars(with = "String")]
    pub session: Arc<str>,
    /// The turn it belongs to, counted from 1; 0 before the first.
    pub turn: u32,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// A point in time: milliseconds since the Unix epoch, shown as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String", extend("format" = "date-time"))]
pub struct Timestamp(
    /// Milliseconds since the Unix epoch.
    pub i64,
);

impl Timestamp {
    /// The time of an event in a recording without times: the Unix epoch.
    pub const UNKNOWN: Self = Self(0);

    /// Returns the milliseconds since `earlier`, or `None` if one of the two is unknown.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<i64> {
        (self != Self::UNKNOWN && earlier != Self::UNKNOWN).then(|| self.0 - earlier.0)
    }

    /// Parses an HTTP date: `Fri, 31 Dec 2100 23:59:59 GMT`.
    #[must_use]
    pub fn from_http_date(text: &str) -> Option<Self> {
        jiff::fmt::rfc2822::parse(text)
            .ok()
            .map(|moment| Self(moment.timestamp().as_millisecond()))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stamp =
            jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{stamp:.3}")
    }
}

/// A text that is not a timestamp, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidTimestamp(String);

impl std::str::FromStr for Timestamp {
    type Err = InvalidTimestamp;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse::<jiff::Timestamp>()
            .map(|t| Self(t.as_millisecond()))
            .map_err(|error| InvalidTimestamp(error.to_string()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Declares the event kinds once: the enum, the names on the wire, and the parser. Large and rare
/// ones are boxed, because events are moved and stored by the thousand.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($content:ty) = $name:literal,)*) => {
        /// What happened. The value of `type` is the variant's name in snake_case.
        #[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
        #[serde(tag = "type", rename_all = "snake_case")]
        pub enum EventKind {
            $($(#[$doc])* $kind($content),)*
        }

        impl EventKind {
            /// Every value of `type`.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Returns the value of `type`.
            #[must_use]
            pub fn as_str(&self) -> &'static str {
                match self { $(Self::$kind(_) => $name,)* }
            }

            /// Parses the kind from a JSON object. Fields of the envelope and unknown fields are
            /// ignored.
            ///
            /// # Errors
            /// Fails if the text is not JSON, has no known `type`, or lacks a field of its kind.
            pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
                #[derive(Deserialize)]
                struct KindTag<'a> {
                    #[serde(borrow)]
                    r#type: std::borrow::Cow<'a, str>,
                }
                match &*serde_json::from_str::<KindTag<'_>>(text)?.r#type {
                    $($name => serde_json::from_str(text).map(Self::$kind),)*
                    other => Err(serde::de::Error::unknown_variant(other, Self::NAMES)),
                }
            }
        }

        $(impl From<$kind> for EventKind {
            fn from(it: $kind) -> Self { Self::$kind(it.into()) }
        })*
    };
}

kinds! {
    /// The agent started and identified itself.
    Started(Box<Started>) = "started",
    /// The session changed its state.
    State(State) = "state",
    /// A turn started.
    TurnStarted(TurnStarted) = "turn_started",
    /// The agent wrote text.
    Text(Text) = "text",
    /// The agent called a tool.
    ToolCall(ToolCall) = "tool_call",
    /// A tool call finished.
    ToolResult(ToolResult) = "tool_result",
    /// A permission was requested or decided.
    Permission(Permission) = "permission",
    /// Tokens and cost so far.
    Usage(Box<Usage>) = "usage",
    /// Information for the caller that changes nothing.
    Notice(Notice) = "notice",
    /// A line that could not be parsed.
    Unreadable(Unreadable) = "unreadable",
    /// A request of the caller that was refused.
    Refused(Refused) = "refused",
    /// A turn ended.
    TurnEnded(Box<TurnEnded>) = "turn_ended",
    /// The session ended; no event follows.
    Ended(Box<Ended>) = "ended",
}

/// The agent started and identified itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// The agent's name in Ostler.
    pub agent: String,
    /// Its version, as it reported it.
    pub agent_version: Option<String>,
    /// The agent's own id of the session, which `--resume` accepts.
    pub native_session: Option<String>,
    /// The model it uses.
    pub model: Option<String>,
    /// The directory it works in.
    pub cwd: Option<String>,
    /// The tools it has.
    #[serde(default)]
    pub tools: Vec<String>,
}

/// The session changed its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct State {
    /// Previous state.
    pub from: SessionState,
    /// New state.
    pub to: SessionState,
}

named! {
    /// States of a session.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum SessionState {
        /// The session exists, and nothing is started.
        Created = "created",
        /// The agent was started and has printed nothing yet.
        Starting = "starting",
        /// The agent waits for the next message.
        Idle = "idle",
        /// A turn is in progress.
        Working = "working",
        /// Messages are held back until the caller resumes the session.
        Paused = "paused",
        /// The agent is being stopped.
        Stopping = "stopping",
        /// The session is over.
        Ended = "ended",
    }
}

/// A turn started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnStarted {
    /// Who started it.
    pub origin: Origin,
    /// The caller's message; null if the agent started the turn by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Who started a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The caller sent a message.
    Caller,
    /// The agent started it by itself, for example when a background task ended.
    Agent,
}

/// The agent wrote text. A reply that came in deltas is not repeated as a whole; [`TurnEnded`]
/// carries the answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    /// Part of the answer, or reasoning.
    pub kind: TextKind,
    /// The text.
    pub text: String,
    /// True for a part of a message, false for a whole one.
    pub delta: bool,
    /// Id of the message it belongs to, from the agent.
    pub message: Option<String>,
    /// Tool call of the subagent that wrote it; null for the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
}

/// Part of the answer, or reasoning.
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
    /// Id that pairs the call with its result.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Its arguments, as the agent wrote them.
    pub input: RawJson,
    /// Tool call of the subagent that made it; null for the agent itself.
    pub parent: Option<String>,
}

/// A tool call finished. Every [`ToolCall`] gets exactly one result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// Id of the call.
    pub id: String,
    /// Name of the tool; null if the call was never seen.
    pub name: Option<String>,
    /// False if the tool failed, was denied, or did not finish.
    pub ok: bool,
    /// Its output, as text.
    pub output: String,
    /// True if it did not run because it was denied.
    pub denied: bool,
    /// Its output as the agent wrote it, if it contains more than text (such as an image).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<RawJson>,
}

/// A permission was requested or decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Permission {
    /// Id of the tool call, or of the request if there is no call yet.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// What the tool does, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ToolKind>,
    /// Its arguments.
    pub input: Option<RawJson>,
    /// The decision.
    pub decision: Decision,
    /// Who decided.
    pub by: DecidedBy,
    /// The reason, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Decision on a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Waiting for an answer.
    Asked,
    /// The call may run.
    Allowed,
    /// The call may not run.
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
    /// The agent's own permission settings.
    Agent,
    /// Neither of these: the request is still open, was left without an answer, or was denied
    /// because the session is unattended.
    Default,
}

/// Information for the caller that changes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// Severity.
    pub level: Level,
    /// Code for programs to branch on.
    pub code: NoticeCode,
    /// One sentence for a person.
    pub message: String,
    /// The kind of the agent's message, if Ostler does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown_kind: Option<String>,
    /// The agent's line, if the notice is about one that Ostler does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawJson>,
}

impl Notice {
    /// Creates a notice without a raw line.
    #[must_use]
    pub fn new(level: Level, code: NoticeCode, message: impl Into<String>) -> Self {
        Self {
            level,
            code,
            message: message.into(),
            unknown_kind: None,
            raw: None,
        }
    }

    /// Creates a notice about a message that Ostler does not know. `kind` describes its kind, such
    /// as `type "x"`, and is the same for all messages of that kind: they are counted by it.
    #[must_use]
    pub fn unknown_message(agent: &str, kind: &str, raw: Option<RawJson>) -> Self {
        let message = format!("{agent} said something that Ostler does not know: {kind}.");
        Self {
            unknown_kind: Some(kind.to_owned()),
            raw,
            ..Self::new(Level::Debug, NoticeCode::UnknownMessage, message)
        }
    }
}

/// Severity of a notice.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Details for troubleshooting.
    Debug,
    /// Progress.
    Info,
    /// Something is not as it should be.
    Warning,
    /// Something went wrong.
    Error,
}

/// A line that could not be parsed. Nothing is lost: the event contains the line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// The line, or its head if it was over the cap.
    pub raw: String,
    /// Why it could not be parsed.
    pub why: String,
    /// Length of the whole line in bytes.
    #[serde(default)]
    pub length: u64,
    /// True if invalid UTF-8 was replaced.
    #[serde(default)]
    pub lossy: bool,
}

/// A request of the caller that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// The request.
    pub request: RequestKind,
    /// Why it was refused.
    pub why: String,
    /// Code for programs to branch on: `ending`, `no_turn`, `busy`, `unsupported`, `rejected`,
    /// `timeout`, `unknown`, `decided`, `budget`.
    #[serde(default)]
    pub code: RefusalCode,
}

/// A turn ended. Each turn has exactly one such event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnEnded {
    /// How it ended.
    pub outcome: Outcome,
    /// The answer, or the text so far if the turn was cut short.
    pub text: String,
    /// The structured answer, if a schema was given.
    pub structured: Option<RawJson>,
    /// Tokens and cost of the turn.
    pub usage: Option<Usage>,
}

/// The session ended; no event follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// How it ended: the last turn's outcome, unless the session itself failed.
    pub outcome: Outcome,
    /// Exit code of the agent's process.
    pub exit_code: Option<i32>,
    /// Signal that ended the agent's process.
    pub signal: Option<i32>,
    /// Tokens and cost of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl Event {
    /// Serializes the event as one line of JSON, without the newline.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Reserved at once, so that a large event is not copied repeatedly while the text grows.
        let mut json = Vec::with_capacity(self.weight());
        // An event consists of strings, numbers and validated raw values, so serializing cannot
        // fail.
        let written = serde_json::to_writer(&mut json, self).is_ok();
        String::from_utf8(json)
            .ok()
            .filter(|_| written)
            .unwrap_or_default()
    }

    /// Parses an event from one line of JSON.
    ///
    /// # Errors
    /// Fails if the text is not JSON, or not an event.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Envelope {
            seq: u64,
            at: Timestamp,
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

/// Returns the JSON schema of an event.
#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_two_known_times() {
        let (early, late) = (Timestamp(1_000), Timestamp(3_500));
        assert_eq!(late.since(early), Some(2_500));
        assert_eq!(early.since(late), Some(-2_500));
        let unknown = Timestamp::UNKNOWN;
        for (to, from) in [(late, unknown), (unknown, early), (unknown, unknown)] {
            assert_eq!(to.since(from), None, "{to} {from}");
        }
    }

    #[test]
    fn times_are_read_in_two_forms_and_written_in_one() {
        let time = Timestamp::from_http_date("Fri, 31 Dec 2100 23:59:59 GMT").unwrap();
        assert_eq!(time.to_string(), "2100-12-31T23:59:59.000Z");
        for text in ["2100-12-31T23:59:59Z", "2101-01-01T01:59:59.000+02:00"] {
            assert_eq!(text.parse(), Ok(time), "{text}");
        }
        for text in ["", "2100-12-31", "31.12.2100"] {
            assert_eq!(Timestamp::from_http_date(text), None, "{text}");
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
