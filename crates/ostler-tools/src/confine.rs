//! What the operating system keeps a command from doing.

use serde::Deserialize;

/// What a command may do while it runs, as a policy file says it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandLimits {}
