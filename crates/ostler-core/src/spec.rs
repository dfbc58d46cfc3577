//! What the caller wants: one run's settings, the same for every agent, and the table that checks them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clip::OUTPUT_CAP;
use crate::event::Event;
use crate::permission::Policy;
use crate::raw_json::RawJson;

/// What to run, where, with what, and for how long at most. Everything is optional but the prompt.
#[derive(Clone, Default)]
pub struct Spec {
    /// The first message.
    pub prompt: String,
    /// The directory to work in; the caller's own when none is given.
    pub dir: Option<PathBuf>,
    /// Settings by key: the common ones of [`keys`], and those of the agent's own page.
    pub settings: Settings,
    /// Arguments passed to the agent's program as they are.
    pub extra_args: Vec<String>,
    /// Variables added to the agent's environment.
    pub env: BTreeMap<String, String>,
    /// The program to start instead of the agent's usual name on PATH.
    pub program: Option<PathBuf>,
    /// Where to write what the agent prints, byte for byte.
    pub raw_log: Option<PathBuf>,
    /// Limits of time and size.
    pub limits: Limits,
    /// Whether a denied tool call makes the turn a failure.
    pub denials: Denials,
    /// What happens when the turn is over.
    pub after_turn: AfterTurn,
    /// What the system keeps the agent's process from doing.
    pub sandbox: Sandbox,
    /// The rules that decide what the agent may do; without any, its own layer decides.
    pub policy: Option<Policy>,
    /// Whether somebody answers when it is asked what the agent may do.
    pub attendance: Attendance,
    /// Tools of the caller's that the agent gets besides its own.
    pub tools: Vec<ToolOffer>,
    /// The events of an earlier session that this one goes on with, for an agent whose memory Ostler keeps.
    pub past: Arc<[Event]>,
    /// The session, as Ostler names it, that this one follows in the log without resuming it: nothing was said in it.
    pub follows: Option<String>,
    /// How the agent reaches those tools, when it does so through a program that it starts. Ostler sets this itself.
    pub bridge: Option<Bridge>,
}

/// The program that an agent starts to reach the caller's tools: it passes lines on between its own stdin and stdout and the
/// session that the agent belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bridge {
    /// The program, as a whole path.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
}

/// What is secret, or may be, does not show: of the environment and the settings only the names, of the prompt its length.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Taken apart, so that a new field cannot be forgotten here.
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

/// What the system keeps an agent's process from doing, beyond what the agent itself does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sandbox {
    /// An agent with a process is not confined: it brings its own ways. Commands that Ostler runs for a model are, and do not run
    /// where their files cannot be confined.
    #[default]
    Usual,
    /// An agent with a process is not confined. Commands that Ostler runs for a model run with whatever this machine enforces.
    Off,
    /// It writes only in its working directory, the directories added to it, and where it keeps its own state.
    WorkspaceWrite,
    /// It writes only where it keeps its own state.
    ReadOnly,
}

impl Sandbox {
    /// The word on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Off => "off",
            Self::WorkspaceWrite => "workspace-write",
            Self::ReadOnly => "read-only",
        }
    }

    /// Whether an agent's process is confined.
    #[must_use]
    pub fn confines_agent(self) -> bool {
        matches!(self, Self::WorkspaceWrite | Self::ReadOnly)
    }
}

/// What a session does when a turn is over and no message waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AfterTurn {
    /// It ends: it was for one message.
    #[default]
    End,
    /// It waits for the next message.
    Wait,
}

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ToolOffer {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: RawJson,
}

/// Whether anyone answers permission requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Attendance {
    /// No one answers: requests are denied.
    #[default]
    Unattended,
    /// A caller that follows the events answers.
    Attended,
}

/// Whether a denied tool call makes the turn a failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Denials {
    /// The turn ends with cause `denied`, as document 001 asks.
    #[default]
    Fail,
    /// The turn ends as the agent says; each denial is still an event.
    Tolerate,
}

/// Names of the settings that mean the same for every agent that has them.
pub mod keys {
    /// The model.
    pub const MODEL: &str = "model";
    /// Replaces the agent's system prompt.
    pub const SYSTEM_PROMPT: &str = "system_prompt";
    /// Is added to the agent's system prompt.
    pub const APPEND_SYSTEM_PROMPT: &str = "append_system_prompt";
    /// What the agent may do without asking.
    pub const PERMISSION_MODE: &str = "permission_mode";
    /// The tools that exist.
    pub const TOOLS: &str = "tools";
    /// Tools allowed without asking.
    pub const ALLOWED_TOOLS: &str = "allowed_tools";
    /// Tools that are never allowed.
    pub const DISALLOWED_TOOLS: &str = "disallowed_tools";
    /// MCP servers: files or JSON.
    pub const MCP_CONFIG: &str = "mcp_config";
    /// Only the MCP servers given here.
    pub const STRICT_MCP: &str = "strict_mcp";
    /// The schema of a structured answer.
    pub const JSON_SCHEMA: &str = "json_schema";
    /// At most so many steps.
    pub const MAX_TURNS: &str = "max_turns";
    /// At most so much money.
    pub const MAX_BUDGET_USD: &str = "max_budget_usd";
    /// The id of a new session.
    pub const SESSION_ID: &str = "session_id";
    /// The session to resume.
    pub const RESUME: &str = "resume";
    /// Go on with a copy of the resumed session.
    pub const FORK: &str = "fork";
    /// Further directories the agent may use.
    pub const ADD_DIR: &str = "add_dir";
    /// A preset: work on files through a program of Ostler's, and nothing else.
    pub const WORKSPACE_TOOLS: &str = "workspace_tools";
    /// Stream text as it is written.
    pub const INCLUDE_PARTIAL: &str = "include_partial";
}

/// Settings by key. A key may hold several values.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, Vec<String>>);

/// Only the keys: a value may be a secret.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Settings {
    /// Sets a key to one value, in place of what it held.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.0.insert(key.to_owned(), vec![value.into()]);
    }

    /// Adds a value to a key.
    pub fn push(&mut self, key: &str, value: impl Into<String>) {
        self.0.entry(key.to_owned()).or_default().push(value.into());
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// The values of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[String]> {
        self.0.get(key).map(Vec::as_slice)
    }

    /// The only value of a key, or its last.
    #[must_use]
    pub fn last(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(<[String]>::last).map(String::as_str)
    }

    /// True when a switch is on.
    #[must_use]
    pub fn is_on(&self, key: &str) -> bool {
        self.last(key).is_some_and(|v| v == "true")
    }

    /// Every key with its values, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_slice()))
    }
}

/// Limits of time and size. Each has a default that a caller can change; none means no limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// The longest the task may take, with everything that the agent adds to it by itself ([`AfterTurn::End`]); in a session
    /// that waits for more messages ([`AfterTurn::Wait`]), the longest a turn may take.
    pub wall: Option<Duration>,
    /// The longest the agent may be silent while no tool runs and nobody is asked.
    pub idle: Option<Duration>,
    /// The longest until the agent's first word.
    pub startup: Option<Duration>,
    /// How long an agent that was asked to end may take before it is told, and then before it is killed.
    pub grace: Duration,
    /// How much of an answer is kept.
    pub output: usize,
    /// How long an agent may take to answer a request such as a change of its model.
    pub control: Duration,
    /// The session's money, for the warning at 80 % and for agents that do not keep to it themselves.
    pub budget_usd: Option<f64>,
    /// The session's tokens, all kinds together.
    pub budget_tokens: Option<u64>,
    /// How many messages the session takes.
    pub budget_turns: Option<u32>,
    /// The session's time, from its first turn on.
    pub budget_wall: Option<Duration>,
    /// Maximum size of the session's stored events, in bytes of JSON. The session ends when it is reached.
    pub event_bytes: Option<u64>,
    /// Maximum size of the agent's raw output that is stored, in bytes. The oldest part is dropped beyond it.
    pub raw_bytes: Option<u64>,
}

impl Limits {
    /// The default of [`Limits::event_bytes`].
    pub const EVENT_BYTES: u64 = 256_000_000;
    /// The default of [`Limits::raw_bytes`].
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

/// What a setting's value must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text of at most so many characters, not empty.
    Text(usize),
    /// One word without spaces, not starting with a dash.
    Word,
    /// `true` or `false`.
    Switch,
    /// A whole number of at least 1.
    Count,
    /// A number greater than 0.
    Amount,
    /// One of a list.
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

/// A setting was wrong. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key}{}: {why}", shown(.value, *.secret))]
pub struct SpecError {
    /// The setting.
    pub key: String,
    /// The value that was given; empty when it may be a secret.
    pub value: String,
    /// What is allowed.
    pub why: String,
    /// Whether the value was left out.
    secret: bool,
}

fn shown(value: &str, secret: bool) -> String {
    if secret {
        String::new()
    } else {
        format!(" = {value:?}")
    }
}

impl SpecError {
    /// A wrong value of a key. Long values are shortened, at a character boundary.
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

    /// A wrong value that may be a secret, or hold one: it is not repeated.
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

impl Kind {
    /// Checks the values of a key.
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
        values.iter().try_for_each(|value| match self.fault(value) {
            Some(why) => Err(SpecError::new(key, value, why)),
            None => Ok(()),
        })
    }

    fn fault(self, value: &str) -> Option<String> {
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

/// Whether `text` is a UUID in the usual form of five groups.
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

    // S3-17: every kind rejects what it should, and the error names key, value and what is allowed.
    #[test]
    fn kinds_accept_and_reject() {
        let long = "x".repeat(11);
        let table: &[(Kind, &[&str], &[&str])] = &[
            (
                Kind::Text(10),
                &["a", "0123456789", "--x"],
                &["", &long, "a\0b"],
            ),
            (
                Kind::Word,
                &["opus", "claude-opus-5-5"],
                &["", "two words", "-x", "a\nb"],
            ),
            (Kind::Switch, &["true", "false"], &["", "yes", "TRUE"]),
            (Kind::Count, &["1", "20"], &["0", "-1", "1.5", "", "x"]),
            (
                Kind::Amount,
                &["0.5", "10", "1e-7"],
                &["0", "-1", "NaN", "inf", ""],
            ),
            (Kind::OneOf(&["low", "high"]), &["low"], &["Low", ""]),
            (Kind::List, &["Bash(git *)"], &["", " "]),
            (Kind::ListOrNone, &["Bash", ""], &[" "]),
            (
                Kind::Object,
                &["{}", " {\"a\":1}"],
                &["[]", "{", "\"x\"", ""],
            ),
            (
                Kind::Uuid,
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
    fn two_values_where_one_is_expected() {
        assert!(
            Kind::Word
                .check("model", &["a".into(), "b".into()])
                .is_err()
        );
        assert!(Kind::List.check("tools", &["a".into(), "b".into()]).is_ok());
    }

    #[test]
    fn a_secret_is_not_repeated() {
        let error = SpecError::secret("mcp_config", "expected a JSON object");
        assert_eq!(
            (error.to_string().as_str(), &*error.value),
            ("mcp_config: expected a JSON object", "")
        );
    }

    #[test]
    fn a_spec_can_be_logged() {
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
    fn a_long_value_is_cut_at_a_character() {
        let value = format!("{}😀tail", "a".repeat(79));
        assert_eq!(
            SpecError::new("k", &value, "no").value,
            format!("{}…", "a".repeat(79))
        );
    }
}
