//! Sandbox policy: what a model may do in a workspace, from the user's file and the workspace's.

mod off_limits;
mod workspace_policy;

use serde::Deserialize;

pub use self::off_limits::OffLimits;
pub use self::workspace_policy::{Granted, Narrowed, Request, WorkspacePolicy};

use crate::command::{CommandPreset, CommandRule};
use crate::confine::CommandLimits;
use crate::files::FileRules;
use crate::{Code, ToolError};

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
    /// Parses a policy and checks each rule against its own examples.
    ///
    /// # Errors
    /// Names the faulty line or rule.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        Self::parse_as(text, POLICY_FILE)
    }

    /// Parses a policy from a file that messages call `source`.
    ///
    /// # Errors
    /// Names the faulty line or rule.
    pub fn parse_as(text: &str, source: &str) -> Result<Self, ToolError> {
        let bad = |why: String| ToolError::new(Code::BadArguments, format!("{source}: {why}"));
        let policy: Self = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        policy.files.check().map_err(bad)?;
        policy.sandbox.check().map_err(bad)?;
        for rule in &policy.commands {
            rule.check().map_err(bad)?;
        }
        Ok(policy)
    }
}
