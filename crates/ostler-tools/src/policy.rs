//! The policy of a workspace: what its file `.ostler/sandbox.toml` says, on top of the defaults.

use serde::Deserialize;

use crate::command::CommandRule;
use crate::confine::CommandLimits;
use crate::files::FileRules;
use crate::{Code, ToolError};

/// Where a workspace keeps its policy.
pub const POLICY_FILE: &str = ".ostler/sandbox.toml";

/// What a model may do in a workspace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Which files it may see and change.
    pub files: FileRules,
    /// What a command may do while it runs.
    pub sandbox: CommandLimits,
    /// Which commands it may run, besides the defaults.
    #[serde(rename = "command")]
    pub commands: Vec<CommandRule>,
}

impl Policy {
    /// Reads a policy, and checks each rule against its own examples.
    ///
    /// # Errors
    /// Names the line or the rule that is wrong.
    pub fn parse(text: &str) -> Result<Self, ToolError> {
        let bad = |why: String| ToolError::new(Code::BadArguments, format!("{POLICY_FILE}: {why}"));
        let policy: Self = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
        policy.files.check().map_err(bad)?;
        policy.sandbox.check().map_err(bad)?;
        for rule in &policy.commands {
            rule.check().map_err(bad)?;
        }
        Ok(policy)
    }
}
