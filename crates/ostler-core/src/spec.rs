//! Session specification: settings and limits that apply to every agent, and their validation.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clip::OUTPUT_CAP;
use crate::event::Event;
use crate::permission::Policy;
use crate::raw_json::RawJson;

/// What to run, where, and within which limits. Everything except the prompt is optional.
#[derive(Clone, Default)]
pub struct Spec {
    /// The first message.
    pub prompt: String,
    /// Working directory; the caller's if none is given.
    pub dir: Option<PathBuf>,
    /// Settings by key: the common ones in [`keys`], and those listed on the agent's page.
    pub settings: Settings,
    /// Arguments passed to the agent's program as they are.
    pub extra_args: Vec<String>,
    /// Variables added to the agent's environment.
    pub env: BTreeMap<String, String>,
    /// Program to start instead of the agent's default on `PATH`.
    pub program: Option<PathBuf>,
    /// File to write the agent's output to, byte for byte.
    pub raw_log: Option<PathBuf>,
    /// Limits on time and size.
    pub limits: Limits,
    /// Whether a denied tool call fails the turn.
    pub denials: Denials,
    /// What happens after a turn.
    pub after_turn: AfterTurn,
    /// Restrictions that the system enforces on the agent's process.
    pub sandbox: Sandbox,
    /// Policy for the agent's actions. Without one, the agent's own settings decide.
    pub policy: Option<Policy>,
    /// Whether permission requests are answered.
    pub attendance: Attendance,
    /// The caller's tools, offered to the agent besides its own.
    pub tools: Vec<ToolOffer>,
    /// Events of the earlier session to resume, for an agent whose sessions Ostler stores.
    pub past: Arc<[Event]>,
    /// Ostler's id of the session that precedes this one in the log without being resumed, because
    /// it has no content.
    pub follows: Option<String>,
    /// How the agent reaches the caller's tools, if it does so through a program that it starts.
    /// Ostler sets this itself.
    pub bridge: Option<Bridge>,
}

/// The program that an agent starts to reach the caller's tools. It relays lines between its stdin
/// and stdout and the agent's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// Absolute path of the program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// Omits anything that may be secret: shows only names of variables and settings, and the length of
/// the prompt.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Destructured, so that a new field cannot be forgotten here.
        let Self {
            prompt,
            dir,
            settings,
            extra_args,
            env,
            program,
            raw_log,
            limits,
            denials,
            ..
        } = self;
        let Self {
            after_turn,
            sandbox,
            policy,
            attendance,
            tools,
            past,
            bridge,
            ..
        } = self;
        f.debug_struct("Spec")
            .field("prompt", &format_args!("<{} bytes>", prompt.len()))
            .field("dir", dir)
            .field("settings", settings)
            .field(
                "extra_args",
                &format_args!("<{} arguments>", extra_args.len()),
            )
            .field("env", &env.keys())
            .field("program", program)
            .field("raw_log", raw_log)
            .field("limits", limits)
            .field("denials", denials)
            .field("after_turn", after_turn)
            .field("sandbox", sandbox)
            .field("policy", policy)
            .field("attendance", attendance)
            .field(
                "tools",
                &tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
            )
            .field("past", &format_args!("<{} events>", past.len()))
            .field("bridge", bridge)
            .finish()
    }
}

/// Restrictions that the system enforces on an agent's process, beyond those of the agent itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// Does not confine an agent's process, which has its own restrictions. Confines commands that
    /// Ostler runs for a model, and refuses to run them if it cannot confine their file access.
    #[default]
    Usual,
    /// Does not confine an agent's process. Commands that Ostler runs for a model get whatever
    /// restrictions this machine supports.
    Off,
    /// Allows writes only to the working directory, the directories added to it, and the agent's
    /// own state.
    WorkspaceWrite,
    /// Allows writes only to the agent's own state.
    ReadOnly,
}

impl Sandbox {
    /// Returns the name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Off => "off",
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }

    /// Returns true if the agent's process is confined.
    #[must_use]
    pub fn confines_agent(self) -> bool {
        matches!(self, Self::WorkspaceWrite | Self::ReadOnly)
    }
}

/// What a session does after a turn if no message is queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AfterTurn {
    /// Ends: the session was for one message.
    #[default]
    End,
    /// Waits for the next message.
    Wait,
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON schema of its arguments.
    pub parameters: RawJson,
}

/// Whether permission requests are answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Attendance {
    /// Permission requests are denied.
    #[default]
    Unattended,
    /// A caller that follows the events answers.
    Attended,
}

/// Whether a denied tool call fails the turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Denials {
    /// The turn ends with cause `denied` (S1 in `docs/requirements.md`).
    #[default]
    Fail,
    /// The turn ends as the agent reports; each denial is still an event.
    Tolerate,
}

/// Keys of the settings that mean the same for every agent that has them.
pub mod keys {
    /// The model.
    pub const MODEL: &str = "model";
    /// Replacement for the agent's system prompt.
    pub const SYSTEM_PROMPT: &str = "system_prompt";
    /// Text appended to the agent's system prompt.
    pub const APPEND_SYSTEM_PROMPT: &str = "append_system_prompt";
    /// What the agent may do without asking.
    pub const PERMISSION_MODE: &str = "permission_mode";
    /// Tools that are available.
    pub const TOOLS: &str = "tools";
    /// Tools allowed without asking.
    pub const ALLOWED_TOOLS: &str = "allowed_tools";
    /// Tools that are never allowed.
    pub const DISALLOWED_TOOLS: &str = "disallowed_tools";
    /// MCP servers, as files or JSON.
    pub const MCP_CONFIG: &str = "mcp_config";
    /// Whether only the given MCP servers are used.
    pub const STRICT_MCP: &str = "strict_mcp";
    /// JSON schema of a structured answer.
    pub const JSON_SCHEMA: &str = "json_schema";
    /// Maximum number of steps.
    pub const MAX_TURNS: &str = "max_turns";
    /// Maximum cost in US dollars.
    pub const MAX_BUDGET_USD: &str = "max_budget_usd";
    /// Id of a new session.
    pub const SESSION_ID: &str = "session_id";
    /// Session to resume.
    pub const RESUME: &str = "resume";
    /// Whether a copy of the session is resumed.
    pub const FORK: &str = "fork";
    /// Additional directories the agent may use.
    pub const ADD_DIR: &str = "add_dir";
    /// Preset: the agent works on files through one of Ostler's programs, and has no other tools.
    pub const WORKSPACE_TOOLS: &str = "workspace_tools";
    /// Whether text is streamed while it is generated.
    pub const INCLUDE_PARTIAL: &str = "include_partial";
}

/// Settings by key. A key may have several values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, Vec<String>>);

/// Shows only the keys, because a value may be secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Settings {
    /// Sets a key to one value, replacing any others.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_owned(), vec![value.into()]);
    }

    /// Adds a value to a key.
    pub fn push(&mut self, key: &str, value: impl Into<String>) {
        self.0.entry(key.to_owned()).or_default().push(value.into());
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Returns the values of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[String]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// Returns the only value of a key, or its last.
    #[must_use]
    pub fn last(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(<[String]>::last).map(String::as_str)
    }

    /// Returns true if a switch is on.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        self.last(key).is_some_and(|v| v == "true")
    }

    /// Returns every key with its values, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_slice()))
    }
}

/// Limits on time and size, with defaults. `None` means no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Maximum time for the task, including turns that the agent starts by itself
    /// ([`AfterTurn::End`]), or for one turn in a session that waits for more messages
    /// ([`AfterTurn::Wait`]).
    pub wall: Option<Duration>,
    /// Maximum silence of the agent while no tool runs and no permission request is open.
    pub idle: Option<Duration>,
    /// Maximum time until the agent's first output.
    pub startup: Option<Duration>,
    /// Time between the steps of ending an agent: after a request before SIGTERM, and after SIGTERM
    /// before SIGKILL.
    pub grace: Duration,
    /// Maximum size of an answer, in bytes.
    pub output: usize,
    /// Maximum time for the agent to reply to a request such as a change of model.
    pub control: Duration,
    /// Maximum cost of the session, for the warning at 80 % and for agents that do not enforce it
    /// themselves.
    pub budget_usd: Option<f64>,
    /// Maximum number of tokens of the session, all kinds together.
    pub budget_tokens: Option<u64>,
    /// Maximum number of messages in the session.
    pub budget_turns: Option<u32>,
    /// Maximum time of the session, counted from its first turn.
    pub budget_wall: Option<Duration>,
    /// Maximum size of the session's stored events, in bytes of JSON. The session ends when it is
    /// reached.
    pub event_bytes: Option<u64>,
    /// Maximum size of the agent's stored raw output, in bytes. The oldest part is dropped beyond
    /// it.
    pub raw_bytes: Option<u64>,
}

impl Limits {
    /// Default of [`Limits::event_bytes`].
    pub const EVENT_BYTES: u64 = 256_000_000;
    /// Default of [`Limits::raw_bytes`].
    pub const RAW_BYTES: u64 = 512_000_000;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall: Some(Duration::from_secs(60 * 60)),
            idle: Some(Duration::from_secs(10 * 60)),
            startup: Some(Duration::from_secs(60)),
            grace: Duration::from_secs(5),
            output: OUTPUT_CAP,
            control: Duration::from_secs(30),
            budget_usd: None,
            budget_tokens: None,
            budget_turns: None,
            budget_wall: None,
            event_bytes: Some(Self::EVENT_BYTES),
            raw_bytes: Some(Self::RAW_BYTES),
        }
    }
}

/// Format of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Non-empty text of at most this many characters.
    Text(usize),
    /// One word without spaces that does not start with a dash.
    Word,
    /// `true` or `false`.
    Switch,
    /// A whole number of at least 1.
    Count,
    /// A number greater than 0.
    Amount,
    /// One of these values.
    OneOf(&'static [&'static str]),
    /// Any number of non-empty texts.
    List,
    /// Any number of non-empty texts; a single empty one means "none".
    ListOrNone,
    /// A JSON object.
    Object,
    /// A UUID.
    Uuid,
}

/// Invalid setting. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}{}: {why}", display_value(.value, *.secret))]
pub struct SpecError {
    /// The setting.
    pub key: String,
    /// The given value; empty if it may be secret.
    pub value: String,
    /// What is allowed.
    pub why: String,
    /// Whether the value was omitted.
    secret: bool,
}

fn display_value(value: &str, secret: bool) -> String {
    if secret {
        String::new()
    } else {
        format!(" = {value:?}")
    }
}

impl SpecError {
    /// Creates an error for an invalid value. A long value is shortened at a character boundary.
    #[must_use]
    pub fn new(key: &str, value: &str, why: impl Into<String>) -> Self {
        let short = &value[..value.floor_char_boundary(80)];
        let value = if short.len() < value.len() {
            format!("{short}…")
        } else {
            value.to_owned()
        };
        Self {
            key: key.to_owned(),
            value,
            why: why.into(),
            secret: false,
        }
    }

    /// Creates an error for an invalid value that may be or contain a secret. The value is omitted.
    #[must_use]
    pub fn secret(key: &str, why: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            value: String::new(),
            why: why.into(),
            secret: true,
        }
    }
}

impl ValueKind {
    /// Validates the values of a key.
    ///
    /// # Errors
    /// Names the key, the value, and what is allowed.
    pub fn check(self, key: &str, values: &[String]) -> Result<(), SpecError> {
        let many = matches!(self, Self::List | Self::ListOrNone);
        if !many && values.len() != 1 {
            return Err(SpecError::new(
                key,
                &values.join(", "),
                "expected one value",
            ));
        }
        if self == Self::ListOrNone && values.len() == 1 && values[0].is_empty() {
            return Ok(());
        }
        values
            .iter()
            .try_for_each(|value| match self.violation(value) {
                Some(why) => Err(SpecError::new(key, value, why)),
                None => Ok(()),
            })
    }

    fn violation(self, value: &str) -> Option<String> {
        if value.contains('\0') {
            return Some("a NUL character cannot be passed to a program".into());
        }
        let (ok, expected) = match self {
            Self::Text(max) => (
                !value.is_empty() && value.chars().nth(max).is_none(),
                format!("expected text of 1 to {max} characters"),
            ),
            Self::Word => (
                !value.is_empty()
                    && !value.starts_with('-')
                    && !value.contains(|c: char| c.is_whitespace() || c.is_control()),
                "expected one word that does not start with a dash".into(),
            ),
            Self::Switch => (
                matches!(value, "true" | "false"),
                "expected true or false".into(),
            ),
            Self::Count => (
                value.parse::<u32>().is_ok_and(|n| n > 0),
                "expected a whole number of at least 1".into(),
            ),
            Self::Amount => (
                value.parse::<f64>().is_ok_and(|n| n.is_finite() && n > 0.0),
                "expected a number greater than 0".into(),
            ),
            Self::OneOf(words) => (
                words.contains(&value),
                format!("expected one of: {}", words.join(", ")),
            ),
            Self::List | Self::ListOrNone => (
                !value.trim().is_empty(),
                "expected a value that is not empty".into(),
            ),
            Self::Object => (is_object(value), "expected a JSON object".into()),
            Self::Uuid => (
                is_uuid(value),
                "expected a UUID such as 123e4567-e89b-42d3-a456-426614174000".into(),
            ),
        };
        (!ok).then_some(expected)
    }
}

fn is_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Returns true if `text` is a UUID in the usual form of five groups.
#[must_use]
pub fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12])
        && groups
            .iter()
            .all(|g| g.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // S3-17: every kind rejects invalid values, and the error names the key, the value and what is
    // allowed.
    #[test]
    fn kinds_accept_and_reject() {
        let long = "x".repeat(11);
        let table: &[(ValueKind, &[&str], &[&str])] = &[
            (
                ValueKind::Text(10),
                &["a", "0123456789", "--x"],
                &["", &long, "a\0b"],
            ),
            (
                ValueKind::Word,
                &["opus", "claude-opus-5-5"],
                &["", "two words", "-x", "a\nb"],
            ),
            (ValueKind::Switch, &["true", "false"], &["", "yes", "TRUE"]),
            (ValueKind::Count, &["1", "20"], &["0", "-1", "1.5", "", "x"]),
            (
                ValueKind::Amount,
                &["0.5", "10", "1e-7"],
                &["0", "-1", "NaN", "inf", ""],
            ),
            (ValueKind::OneOf(&["low", "high"]), &["low"], &["Low", ""]),
            (ValueKind::List, &["Bash(git *)"], &["", " "]),
            (ValueKind::ListOrNone, &["Bash", ""], &[" "]),
            (
                ValueKind::Object,
                &["{}", " {\"a\":1}"],
                &["[]", "{", "\"x\"", ""],
            ),
            (
                ValueKind::Uuid,
                &["123e4567-e89b-42d3-a456-426614174000"],
                &["123", "123e4567e89b42d3a456426614174000", "--version"],
            ),
        ];
        for (kind, good, bad) in table {
            for v in *good {
                assert_eq!(
                    kind.check("k", &[(*v).to_string()]),
                    Ok(()),
                    "{kind:?} {v:?}"
                );
            }
            for v in *bad {
                let error = kind
                    .check("the_key", &[(*v).to_string()])
                    .expect_err(v)
                    .to_string();
                assert!(error.starts_with("the_key = "), "{error}");
            }
        }
    }

    #[test]
    fn two_values_are_rejected_where_one_is_expected() {
        assert!(
            ValueKind::Word
                .check("model", &["a".into(), "b".into()])
                .is_err()
        );
        assert!(
            ValueKind::List
                .check("tools", &["a".into(), "b".into()])
                .is_ok()
        );
    }

    #[test]
    fn a_secret_is_omitted_from_the_error() {
        let error = SpecError::secret("mcp_config", "expected a JSON object");
        assert_eq!(
            (error.to_string().as_str(), &*error.value),
            ("mcp_config: expected a JSON object", "")
        );
    }

    #[test]
    fn debug_output_of_a_spec_omits_secrets() {
        let mut spec = Spec {
            prompt: "the-prompt".into(),
            extra_args: vec!["--an-arg".into()],
            ..Spec::default()
        };
        spec.env.insert("THE_KEY".into(), "the-value".into());
        spec.settings.set(keys::MCP_CONFIG, "the-config");
        let shown = format!("{spec:?}");
        for secret in ["the-prompt", "the-value", "the-config", "--an-arg"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        for name in ["THE_KEY", "mcp_config", "<10 bytes>", "<1 arguments>"] {
            assert!(shown.contains(name), "{shown}");
        }
    }

    // P19
    #[test]
    fn a_long_value_is_shortened_at_a_character_boundary() {
        let value = format!("{}😀tail", "a".repeat(79));
        assert_eq!(
            SpecError::new("k", &value, "no").value,
            format!("{}…", "a".repeat(79))
        );
    }
}
