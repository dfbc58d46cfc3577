//! Sandbox policy: what a model may do in a workspace, from the user's file and the workspace's.

mod off_limits;
mod workspace_policy;

use std::str::FromStr;

use serde::Deserialize;

pub use self::off_limits::OffLimits;
pub use self::workspace_policy::{
    Granted, Narrowed, NotGranted, RefusedRequest, Request, WorkspacePolicy,
};

use crate::command::{CommandPreset, CommandRule};
use crate::confine::CommandLimits;
use crate::files::FileRules;
use crate::{RuleError, ToolError};

/// Path of the policy file in a workspace.
pub const POLICY_FILE: &str = ".ostler/sandbox.toml";

/// What a model may do in a workspace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxPolicy {
    /// Files it may see and change.
    pub files: FileRules,
    /// Limits on running commands.
    pub sandbox: CommandLimits,
    /// Preset for commands that no rule names. If absent, it is chosen by the strength of the
    /// sandbox on this machine.
    #[serde(rename = "commands")]
    pub preset: Option<CommandPreset>,
    /// Rules for commands, in addition to the defaults.
    #[serde(rename = "command")]
    pub commands: Vec<CommandRule>,
    /// Rules that a call must also pass: they only refuse. Not read from a file; the rules of an
    /// untrusted workspace are put here.
    #[serde(skip)]
    pub narrowing: Vec<CommandRule>,
}

impl SandboxPolicy {
    /// Parses a policy from a file that messages call `source`, and checks each rule against its
    /// own examples.
    ///
    /// # Errors
    /// Names the faulty line or rule.
    pub fn parse_as(text: &str, source: &str) -> Result<Self, ToolError> {
        Self::read(text).map_err(|error| error.in_file(source))
    }

    fn read(text: &str) -> Result<Self, RuleError> {
        let policy: Self = toml::from_str(text)?;
        policy.files.check()?;
        policy.sandbox.check()?;
        policy.commands.iter().try_for_each(CommandRule::check)?;
        Ok(policy)
    }
}

/// Parses a policy as [`SandboxPolicy::parse_as`] does, with the name of a workspace's file.
impl FromStr for SandboxPolicy {
    type Err = ToolError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_as(text, POLICY_FILE)
    }
}
