//! Which commands a model may run: rules that carry their own examples.

use serde::Deserialize;

/// What is allowed of one command.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandRule {
    /// The command, as it is found on PATH.
    pub name: String,
}

impl CommandRule {
    /// Whether the rule makes sense and its examples come out as they say.
    pub(crate) fn check(&self) -> Result<(), String> {
        Ok(())
    }
}
