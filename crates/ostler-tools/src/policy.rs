//! The sandbox policy: what a model may do in a workspace, from the user's own file and the workspace's.

mod off_limits;
mod workspace_policy;

use serde::Deserialize;

pub use self::off_limits::OffLimits;
pub use self::workspace_policy::{Granted, Narrowed, Request, WorkspacePolicy};

use crate::command::{CommandPreset, CommandRule};
use crate::confine::CommandLimits;
use crate::files::FileRules;
use crate::{Code, ToolError};

/// Where a workspace keeps its policy.
pub const POLICY_FILE: &str = ".ostler/sandbox.toml";

/// What a model may do in a workspace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SandboxPolicy {
    /// Which files it may see and change.
    pub files: FileRules,
    /// What a command may do while it runs.
    pub sandbox: CommandLimits,
    /// How many commands it may run that no rule names; what the sandbox on this machine bears, when absent.
    #[serde(rename = "commands")]
    pub preset: Option<CommandPreset>,
    /// Which commands it may run, besides the defaults.
    #[serde(rename = "command")]
    pub commands: Vec<CommandRule>,
    /// Rules that a call must pass as well: they only refuse. No file sets them; an untrusted workspace's rules come here.
    #[serde(skip)]
    pub narrowing: Vec<CommandRule>,
}

impl SandboxPolicy {
    /// Reads a policy, and checks each rule against its own examples.
    ///
    /// # Errors
    /// Names the line or the rule that is wrong.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        Self::parse_as(text, POLICY_FILE)
    }

    /// The same for a file that is called `source` in messages.
    ///
    /// # Errors
    /// Names the line or the rule that is wrong.
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
