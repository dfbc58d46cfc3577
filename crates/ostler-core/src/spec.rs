//! Session specification: what to run, where, and within which limits.
//!
//! ```
//! use ostler_core::spec::{AfterTurn, Spec};
//!
//! let spec = Spec::new("Fix the failing test.")
//!     .dir("/project")
//!     .model("opus")
//!     .after_turn(AfterTurn::Wait);
//! assert_eq!(spec.model.as_deref(), Some("opus"));
//! ```

/// Defines the methods that set one field each.
macro_rules! setters {
    ($struct:ident; $($(#[$doc:meta])* $field:ident: $type:ty => $value:expr;)*) => {
        impl $struct {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $value;
                    self
                }
            )*
        }
    };
}

mod labels;
mod limits;
mod settings;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::permission::Policy;
use crate::raw_json::RawJson;

pub use labels::{check_labels, label_variable};
pub use limits::Limits;
pub use settings::{Settings, keys};
pub use value::{InvalidValue, SpecError, ValueKind, is_uuid};

/// What to run, where, and within which limits. Everything except the prompt is optional.
///
/// Fields that not every agent supports are settings too: each has a key ([`keys`]), and an agent
/// rejects those that it does not have. [`Spec::set`] sets any of them by its key.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Spec {
    /// The first message.
    pub prompt: String,
    /// Messages sent right after the first one, in this order. Each is delivered or refused, even
    /// if the session ends at once.
    pub follow_ups: Vec<String>,
    /// Working directory; the caller's if none is given.
    pub dir: Option<PathBuf>,
    /// The model, by the agent's own name for it.
    pub model: Option<String>,
    /// Session to resume: Ostler's id, or the agent's own.
    pub resume: Option<String>,
    /// Whether to resume a copy of the session and leave the original unchanged.
    pub fork: bool,
    /// The agent's id for a new session.
    pub session_id: Option<String>,
    /// Ostler's id of the session; a random one if none is given. It must be unique.
    pub id: Option<String>,
    /// The caller's labels. An agent's process gets each as `OSTLER_LABEL_<NAME>`
    /// ([`label_variable`]).
    pub labels: BTreeMap<String, String>,
    /// Replacement for the agent's system prompt.
    pub system_prompt: Option<String>,
    /// Text appended to the agent's system prompt.
    pub append_system_prompt: Option<String>,
    /// The agent's tools that are available, or `None` for the usual ones.
    pub tools: Option<Vec<String>>,
    /// The agent's tools that it may use without asking.
    pub allowed_tools: Vec<String>,
    /// The agent's tools that it may not use.
    pub disallowed_tools: Vec<String>,
    /// What the agent may do without asking, by its own name for it.
    pub permission_mode: Option<String>,
    /// JSON schema of a structured answer.
    pub json_schema: Option<String>,
    /// Maximum number of steps per turn.
    pub max_turns: Option<u32>,
    /// Maximum cost in US dollars, as the agent itself enforces it.
    pub max_budget_usd: Option<f64>,
    /// Whether text is streamed while it is generated, or `None` for the agent's usual way.
    pub include_partial: Option<bool>,
    /// Additional directories the agent may use.
    pub add_dirs: Vec<PathBuf>,
    /// Settings that only one agent has.
    settings: Settings,
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
    /// Trust in the settings that the working directory has for the agent itself.
    pub project_settings: ProjectSettings,
    /// Whether permission requests are answered.
    pub attendance: Attendance,
    /// The caller's tools, offered to the agent besides its own.
    pub bound_tools: Vec<ToolOffer>,
    /// Tool calls that the resumed session ended with, by their ids
    /// ([`Detail::pending_calls`](crate::outcome::Detail::pending_calls)). They are made once,
    /// instead of sending the prompt.
    pub approved_calls: Vec<String>,
    /// Ostler's id of the session that precedes this one in the log without being resumed, because
    /// it has no content.
    pub follows: Option<String>,
}

setters! { Spec;
    /// Sets the messages sent right after the first one.
    follow_ups: Vec<String> => follow_ups;
    /// Sets the working directory.
    dir: impl Into<PathBuf> => Some(dir.into());
    /// Sets the model.
    model: impl Into<String> => Some(model.into());
    /// Sets the session to resume.
    resume: impl Into<String> => Some(resume.into());
    /// Sets the agent's id for a new session.
    session_id: impl Into<String> => Some(session_id.into());
    /// Sets Ostler's id of the session.
    id: impl Into<String> => Some(id.into());
    /// Sets the labels.
    labels: BTreeMap<String, String> => labels;
    /// Replaces the agent's system prompt.
    system_prompt: impl Into<String> => Some(system_prompt.into());
    /// Appends a text to the agent's system prompt.
    append_system_prompt: impl Into<String> => Some(append_system_prompt.into());
    /// Sets what the agent may do without asking.
    permission_mode: impl Into<String> => Some(permission_mode.into());
    /// Sets the JSON schema of a structured answer.
    json_schema: impl Into<String> => Some(json_schema.into());
    /// Limits the number of steps per turn.
    max_turns: u32 => Some(max_turns);
    /// Sets the program to start.
    program: impl Into<PathBuf> => Some(program.into());
    /// Sets the limits on time and size.
    limits: Limits => limits;
    /// Sets whether a denied tool call fails the turn.
    denials: Denials => denials;
    /// Sets what happens after a turn.
    after_turn: AfterTurn => after_turn;
    /// Sets the restrictions that the system enforces on the agent's process.
    sandbox: Sandbox => sandbox;
    /// Sets the policy for the agent's actions.
    policy: impl Into<Option<Policy>> => policy.into();
    /// Sets the trust in the settings that the working directory has for the agent itself.
    project_settings: ProjectSettings => project_settings;
    /// Sets whether permission requests are answered.
    attendance: Attendance => attendance;
    /// Sets the caller's tools.
    bound_tools: Vec<ToolOffer> => bound_tools;
    /// Approves tool calls that the resumed session ended with.
    approved_calls: Vec<String> => approved_calls;
    /// Sets the arguments passed to the agent's program.
    extra_args: Vec<String> => extra_args;
}

impl Spec {
    /// Creates a spec with this prompt.
    #[must_use]
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            ..Self::default()
        }
    }

    /// Returns true if a policy or a person decides what the agent may do.
    #[must_use]
    pub fn is_supervised(&self) -> bool {
        self.policy.is_some() || self.attendance == Attendance::Attended
    }

    /// Returns true if the agent must not load its settings from the working directory, because
    /// they could start programs that no rule of the policy covers.
    #[must_use]
    pub fn ignores_project_settings(&self) -> bool {
        match self.project_settings {
            ProjectSettings::Untrusted => self.policy.is_some(),
            ProjectSettings::Trusted => false,
            ProjectSettings::Ignored => true,
        }
    }
}

/// Omits anything that may be secret: shows only names of variables and settings, and the length of
/// the prompt.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools = self.bound_tools.iter().map(|tool| &tool.name);
        f.debug_struct("Spec")
            .field("prompt", &format_args!("<{} bytes>", self.prompt.len()))
            .field("dir", &self.dir)
            .field("settings", &self.to_settings())
            .field(
                "extra_args",
                &format_args!("<{} arguments>", self.extra_args.len()),
            )
            .field("env", &self.env.keys())
            .field("program", &self.program)
            .field("raw_log", &self.raw_log)
            .field("limits", &self.limits)
            .field("denials", &self.denials)
            .field("after_turn", &self.after_turn)
            .field("sandbox", &self.sandbox)
            .field("policy", &self.policy)
            .field("project_settings", &self.project_settings)
            .field("attendance", &self.attendance)
            .field("bound_tools", &tools.collect::<Vec<_>>())
            .finish_non_exhaustive()
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

/// Trust in the settings that a working directory has for the agent itself: hooks, MCP servers,
/// plugins. They come with a repository, and can start programs that no rule covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProjectSettings {
    /// Under a policy, the agent ignores them. Without one, it loads them as it usually does.
    #[default]
    Untrusted,
    /// The agent loads them as it usually does.
    Trusted,
    /// The agent ignores them, even without a policy.
    Ignored,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_of_a_spec_omits_secrets() {
        let mut spec = Spec::new("the-prompt").extra_args(vec!["--an-arg".into()]);
        spec.env.insert("THE_KEY".into(), "the-value".into());
        spec.set(keys::MCP_CONFIG, ["the-config"]).unwrap();
        spec.system_prompt = Some("the-instructions".into());
        let shown = format!("{spec:?}");
        for secret in [
            "the-prompt",
            "the-value",
            "the-config",
            "the-instructions",
            "--an-arg",
        ] {
            assert!(!shown.contains(secret), "{shown}");
        }
        for name in [
            "THE_KEY",
            "mcp_config",
            "system_prompt",
            "<10 bytes>",
            "<1 arguments>",
        ] {
            assert!(shown.contains(name), "{shown}");
        }
    }

    #[test]
    fn only_a_chosen_sandbox_confines_the_agent() {
        for (sandbox, name, confines) in [
            (Sandbox::Usual, "usual", false),
            (Sandbox::Off, "off", false),
            (Sandbox::WorkspaceWrite, "workspace-write", true),
            (Sandbox::ReadOnly, "read-only", true),
        ] {
            assert_eq!(sandbox.as_str(), name);
            assert_eq!(sandbox.confines_agent(), confines, "{name}");
        }
    }

    #[test]
    fn a_policy_or_a_person_supervises_a_session() {
        let ruled = Spec::default().policy(Policy::default());
        let watched = Spec::default().attendance(Attendance::Attended);
        assert!(ruled.is_supervised() && watched.is_supervised());
        assert!(!Spec::default().is_supervised());
    }

    #[test]
    fn project_settings_are_ignored_under_a_policy_unless_they_are_trusted() {
        let ruled = Spec::default().policy(Policy::default());
        assert!(ruled.ignores_project_settings());
        assert!(
            !ruled
                .project_settings(ProjectSettings::Trusted)
                .ignores_project_settings()
        );
        assert!(!Spec::default().ignores_project_settings());
        let ignored = Spec::default().project_settings(ProjectSettings::Ignored);
        assert!(ignored.ignores_project_settings());
    }
}
