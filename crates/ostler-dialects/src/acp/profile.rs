//! Agent profiles: what Ostler knows about an agent that speaks ACP.

use ostler_core::dialect::transcript::ResumeDelay;
use ostler_core::dialect::{
    Inherits, LoginFile, LoginQuery, Probe, ProjectFiles, Runtime, Version,
};

use super::quirks::{DEFAULT_QUIRKS, Quirks};
use super::unattended_modes::{self, AutoApprove};
use crate::tools::ToolTable;

/// Profile of one agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentProfile {
    /// Name in Ostler.
    pub(crate) name: &'static str,
    /// Program to launch.
    pub(crate) program: &'static str,
    /// Arguments that select ACP mode.
    pub(crate) args: &'static [&'static str],
    /// Paths of the native executable behind a launcher script.
    pub(crate) natives: &'static [&'static str],
    /// Environment variables passed to it.
    pub(crate) inherits: Inherits,
    /// Variables set unless the caller sets them.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// Variables set in attended sessions.
    pub(crate) ask_env: &'static [(&'static str, &'static str)],
    /// Variables withheld in attended sessions, because they would override whoever decides.
    pub(crate) ask_never: &'static [&'static str],
    /// Permission modes that Ostler defines and the protocol lacks, with the arguments and
    /// variables that select them.
    pub(crate) modes: &'static [LaunchMode],
    /// 5. Layout of its session files, if a session must not be resumed in the minute in which it
    ///    was created.
    pub(crate) resume_delay: Option<ResumeDelay>,
    /// Paths of its state.
    pub(crate) state: &'static [&'static str],
    /// Models that it is known to accept.
    pub(crate) models: &'static [&'static str],
    /// Argument that selects the model, if the protocol cannot.
    pub(crate) model_flag: Option<&'static str>,
    /// Argument for a file of MCP servers to start, if the agent does not accept them over the
    /// protocol.
    pub(crate) server_flag: Option<&'static str>,
    /// Explanation appended to the warning that the agent has not started the bridge to the
    /// caller's tools.
    pub(crate) unreached_hint: &'static str,
    /// Explanation appended to the hint that a session was not found.
    pub(crate) lost_session_hint: &'static str,
    /// Prefix of its last stderr line if its gateway is unreachable, and the hint for that.
    pub(crate) gateway_failure: Option<(&'static str, &'static str)>,
    /// Its tools.
    pub(crate) tools: ToolTable,
    /// Settings that a working directory can have for it.
    pub(crate) project_files: ProjectFiles,
    /// Variables that make it ignore those settings.
    pub(crate) ignore_env: &'static [(&'static str, &'static str)],
    /// Variables never inherited if it must ignore them; includes `ask_never`.
    pub(crate) ignore_never: &'static [&'static str],
    /// Whether it asks before running tools.
    pub(crate) ask: bool,
    /// Session mode in which it asks, for an agent that may start in one in which it does not.
    pub(crate) asks_in: Option<&'static str>,
    /// Modes, flags and variables that make it act without asking.
    pub(crate) auto_approve: AutoApprove,
    /// Whether it can fork sessions.
    pub(crate) fork: bool,
    /// Whether it reports the cost of a turn.
    pub(crate) cost: bool,
    /// Whether it accepts prompts of many megabytes.
    pub(crate) long_prompts: bool,
    /// Oldest supported version.
    pub(crate) minimum: Version,
    /// Newest tested version.
    pub(crate) tested: Option<Version>,
    /// Runtime that it requires.
    pub(crate) runtime: Option<Runtime>,
    /// Hint for installing it.
    pub(crate) install_hint: &'static str,
    /// Query of its login state, if it has a command for that.
    pub(crate) login: Option<LoginQuery>,
    /// Returns true if a recording that begins with this text is of this agent. Never for a
    /// configured command.
    pub(crate) recognizes: fn(&str) -> bool,
    /// Hint for logging in.
    pub(crate) login_hint: &'static str,
    /// Files with its login.
    pub(crate) login_files: &'static [LoginFile],
    /// Deviations from other agents.
    pub(crate) quirks: Quirks,
}

/// A permission mode that is selected at launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchMode {
    /// Name of the mode.
    pub(crate) name: &'static str,
    /// Arguments to add.
    pub(crate) args: &'static [&'static str],
    /// Variables to set.
    pub(crate) env: &'static [(&'static str, &'static str)],
}

impl AgentProfile {
    /// Returns the permission mode with this name, if it is one that is selected at launch.
    pub(super) fn mode(&self, name: &str) -> Option<&'static LaunchMode> {
        self.modes.iter().find(|mode| mode.name == name)
    }

    /// Returns how to detect it.
    pub(super) fn probe(&self) -> Probe {
        Probe {
            program: self.program,
            natives: self.natives,
            runtime: self.runtime,
            version_args: &["--version"],
            read_version: Version::find,
            login: self.login,
            minimum: self.minimum,
            tested: self.tested,
            install_hint: self.install_hint,
            login_hint: self.login_hint,
            login_files: self.login_files,
            inherits: self.inherits,
        }
    }
}

/// Base of all profiles, and the profile of a configured command.
pub(super) const BASE: AgentProfile = AgentProfile {
    name: "",
    program: "",
    args: &[],
    natives: &[],
    inherits: Inherits {
        always: &[],
        when: &[],
        never: &[],
    },
    env: &[],
    ask_env: &[],
    ask_never: &[],
    modes: &[],
    resume_delay: None,
    state: &[],
    models: &[],
    model_flag: None,
    server_flag: None,
    unreached_hint: "",
    lost_session_hint: "",
    gateway_failure: None,
    tools: &[],
    project_files: ProjectFiles {
        paths: &[],
        can_ignore: false,
        setting: None,
    },
    ignore_env: &[],
    ignore_never: &[],
    ask: true,
    asks_in: None,
    auto_approve: unattended_modes::COMMON,
    fork: true,
    cost: true,
    long_prompts: true,
    minimum: Version(0, 0, 0),
    tested: None,
    runtime: None,
    login: None,
    recognizes: |_| false,
    install_hint: "The program of the configured agent was not found. Check its `acp` line in \
        ostler.toml.",
    login_hint: "The agent is not logged in. Log in with its own program, then try again.",
    login_files: &[],
    quirks: DEFAULT_QUIRKS,
};
