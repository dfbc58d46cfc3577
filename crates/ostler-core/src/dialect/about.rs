//! Static facts about an agent: its name, settings, capabilities and project files.

use super::probe::Probe;
use super::setting::Setting;
use super::transcript::{ResumeDelay, Transcripts};

/// Static facts about an agent. Create one from [`About::new`], with `..` for the rest.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The agent's name in Ostler, as used with `--agent`.
    pub name: &'static str,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Model names it is known to accept. Others may work too.
    pub models: &'static [&'static str],
    /// Every setting it accepts.
    pub settings: &'static [Setting],
    /// How to check that its program is installed and ready, or `None` if it is part of Ostler.
    pub probe: Option<Probe>,
    /// Whether its answers come from a file and must not be mistaken for a model's.
    pub scripted: bool,
    /// Settings that a working directory can have for the agent itself.
    pub project_files: ProjectFiles,
    /// Where it stores its sessions, or `None` if they cannot be looked up.
    pub transcripts: Option<&'static Transcripts>,
    /// The session files that must not be resumed within the minute of their creation, or `None`
    /// if there is no such restriction.
    pub resume_delay: Option<&'static ResumeDelay>,
    /// The settings that turn it into a plain model, which replies and does nothing else.
    pub as_model: PlainModel,
    /// Returns true if a recording that begins with this text is in its protocol. The text may end
    /// in the middle of a line.
    pub recognizes: fn(&str) -> bool,
}

impl About {
    /// Creates the facts about an agent that can do nothing beyond replying.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            capabilities: Capabilities::default(),
            models: &[],
            settings: &[],
            probe: None,
            scripted: false,
            project_files: ProjectFiles::default(),
            transcripts: None,
            resume_delay: None,
            as_model: PlainModel::default(),
            recognizes: |_| false,
        }
    }

    /// Returns true if the agent is an external program rather than a part of Ostler.
    #[must_use]
    pub const fn is_program(&self) -> bool {
        self.probe.is_some()
    }

    /// Returns true if the agent accepts this setting.
    #[must_use]
    pub fn accepts(&self, key: &str) -> bool {
        self.settings.iter().any(|setting| setting.key == key)
    }
}

/// Settings that a working directory can have for the agent itself, and that can start programs:
/// hooks, MCP servers, plugins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProjectFiles {
    /// Their paths, relative to the directory or to one above it in the repository.
    pub paths: &'static [&'static str],
    /// Whether the agent is launched without them if the [spec says so]. Otherwise a session is
    /// refused if one exists.
    ///
    /// [spec says so]: crate::spec::Spec::ignores_project_settings
    pub can_ignore: bool,
    /// Setting with which the caller selects them explicitly.
    pub setting: Option<&'static str>,
}

/// How to run an agent as a plain model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlainModel {
    /// Settings that remove the agent's own tools, or disable them.
    pub settings: &'static [(&'static str, &'static str)],
    /// Whether the settings remove all tools. Otherwise each call that the agent asks about is
    /// denied by policy.
    pub toolless: bool,
}

/// What an agent can do. This is data, so that no code depends on an agent's name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Capabilities {
    /// Resumes an earlier session.
    pub resume: bool,
    /// Resumes a copy of an earlier session.
    pub fork: bool,
    /// Streams text while it is generated.
    pub stream_text: bool,
    /// Shows its reasoning.
    pub thinking: bool,
    /// Accepts an interrupt without exiting.
    pub interrupt: bool,
    /// Answers according to a JSON schema.
    pub structured: bool,
    /// Reports its cost.
    pub cost: bool,
    /// Takes several turns in one process. Otherwise each turn has its own process.
    pub many_turns: bool,
    /// Accepts a message for the current turn.
    pub steer: bool,
    /// Asks whether a tool may run, so that a policy can decide.
    pub ask: bool,
    /// Accepts the caller's tools.
    pub tools: bool,
    /// Changes its model between turns.
    pub set_model: bool,
    /// Changes its permission mode between turns.
    pub set_permission_mode: bool,
    /// Has processes that can be suspended.
    pub freeze: bool,
    /// Prints nothing until the turn is over: its silence does not mean that it hangs.
    pub silent: bool,
    /// Reports each tool call and its result.
    pub tells_tools: bool,
    /// Reports denied tool calls.
    pub tells_denials: bool,
    /// Reports every token of a turn.
    pub tells_usage: bool,
    /// Accepts prompts of many megabytes: only the model's own limit applies.
    pub long_prompts: bool,
    /// Reaches the caller's tools through a program that it starts itself
    /// ([`Launching::bridge`](super::Launching::bridge)).
    pub bridged_tools: bool,
    /// Takes a session id that Ostler assigns up front ([`crate::spec::keys::SESSION_ID`]),
    /// because it reports its own too late (or never) for an interrupted turn to be resumed.
    /// Given an id that it knows, such an agent resumes that session.
    pub assigned_session_id: bool,
    /// Stores no sessions itself, and is resumed from Ostler's events
    /// ([`Launching::past`](super::Launching::past)).
    pub resumes_from_events: bool,
}
