//! What an entry says about an agent that speaks ACP.

use ostler_core::dialect::transcript::ByMinute;
use ostler_core::dialect::{Inherits, LoginQuery, Probe, Runtime, Version};
use ostler_core::permission::ToolKind;

use super::quirks::{PLAIN, Quirks};
use super::unattended_modes::{self, Skips};

/// One agent.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in Ostler.
    pub(crate) name: &'static str,
    /// Its program.
    pub(crate) program: &'static str,
    /// The arguments that make it speak ACP.
    pub(crate) args: &'static [&'static str],
    /// Where the program itself is behind a script that only starts it.
    pub(crate) natives: &'static [&'static str],
    /// What it sees of the caller's environment.
    pub(crate) inherits: Inherits,
    /// Variables that are set unless the caller sets them.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The same, when somebody decides what it may do.
    pub(crate) ask_env: &'static [(&'static str, &'static str)],
    /// What it must not see of the caller's environment then: what would decide in their place.
    pub(crate) ask_never: &'static [&'static str],
    /// Permission modes that Ostler has words for and the protocol has not: what makes it so, an argument and variables.
    pub(crate) modes: &'static [Mode],
    /// 5. How it keeps its sessions, if one must not be gone on with in the minute in which it was made.
    pub(crate) by_minute: Option<ByMinute>,
    /// Where it keeps its state.
    pub(crate) state: &'static [&'static str],
    /// Models that it is known to take.
    pub(crate) models: &'static [&'static str],
    /// The argument that chooses the model, where the protocol does not.
    pub(crate) model_flag: Option<&'static str>,
    /// The argument for a file of MCP servers that the agent starts, where it takes none of them over the protocol.
    pub(crate) server_flag: Option<&'static str>,
    /// Why its model may not have the caller's tools, when the agent has not started the program that leads to them.
    pub(crate) unreached: &'static str,
    /// Why a session may be gone, besides that it never was.
    pub(crate) lost: &'static str,
    /// What its last words begin with when it does not reach what it is a bridge to, and what to do then.
    pub(crate) bridge: Option<(&'static str, &'static str)>,
    /// What its tools do, by their names.
    pub(crate) tools: &'static [(&'static str, ToolKind)],
    /// Whether it asks before its tools run.
    pub(crate) ask: bool,
    /// The mode of a session in which it asks, for an agent that may begin in one in which it does not.
    pub(crate) asks_in: Option<&'static str>,
    /// What would make it not ask.
    pub(crate) skips: Skips,
    /// Whether it makes copies of sessions.
    pub(crate) fork: bool,
    /// Whether it says what a turn cost.
    pub(crate) cost: bool,
    /// Whether it takes prompts of many megabytes.
    pub(crate) long_prompts: bool,
    /// The oldest version that is supported.
    pub(crate) minimum: Version,
    /// The newest version that was tested.
    pub(crate) tested: Option<Version>,
    /// What it runs on.
    pub(crate) runtime: Option<Runtime>,
    /// How to install it.
    pub(crate) install_hint: &'static str,
    /// How to query its login state, where it has a command for that.
    pub(crate) login: Option<LoginQuery>,
    /// The `agentInfo.name` of its first response, or the id of a login method where it gives no name; empty for a configured
    /// command.
    pub(crate) signature: &'static str,
    /// How to log in.
    pub(crate) login_hint: &'static str,
    /// How it differs.
    pub(crate) quirks: Quirks,
}

/// A permission mode that is chosen when the agent is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode {
    /// The word for it.
    pub(crate) word: &'static str,
    /// Arguments to add.
    pub(crate) args: &'static [&'static str],
    /// Variables to set.
    pub(crate) env: &'static [(&'static str, &'static str)],
}

impl Entry {
    /// The permission mode of this word, if it is one of those that are chosen when the agent is started.
    pub(super) fn mode(&self, word: &str) -> Option<&'static Mode> {
        self.modes.iter().find(|mode| mode.word == word)
    }

    /// How to find out whether it is there.
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
            inherits: self.inherits,
        }
    }
}

/// What all entries are made from, and what a configured command is.
pub(super) const ANY: Entry = Entry {
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
    by_minute: None,
    state: &[],
    models: &[],
    model_flag: None,
    server_flag: None,
    unreached: "",
    lost: "",
    bridge: None,
    tools: &[],
    ask: true,
    asks_in: None,
    skips: unattended_modes::COMMON,
    fork: true,
    cost: true,
    long_prompts: true,
    minimum: Version(0, 0, 0),
    tested: None,
    runtime: None,
    login: None,
    signature: "",
    install_hint: "The program of the configured agent was not found; check its `acp` line in ostler.toml.",
    login_hint: "The agent says that nobody is logged in; log in with its own program, then try again.",
    quirks: PLAIN,
};
