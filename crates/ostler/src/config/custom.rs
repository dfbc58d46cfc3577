//! Agents that only a file knows: a command that speaks the Agent Client Protocol.

use std::sync::Arc;

use crate::agent::{Agent, ProcessAgent};

/// The agent of that name, started by that command. It stays known for as long as this process lives.
///
/// # Errors
/// Says what is wrong with the name or the command.
pub(super) fn acp(name: &str, command: &[String]) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(ProcessAgent::new(ostler_dialects::acp::custom(name, command.to_vec())?)))
}
