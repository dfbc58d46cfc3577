//! Agents that only a file knows: a command that speaks the Agent Client Protocol.

use std::sync::Arc;

use crate::agent::Agent;
#[cfg(feature = "acp")]
use crate::agent::ProcessAgent;

/// The agent of that name, started by that command. It stays known for as long as this process lives.
///
/// # Errors
/// Says what is wrong with the name or the command.
#[cfg(feature = "acp")]
pub(super) fn acp(name: &str, command: &[String]) -> Result<Arc<dyn Agent>, String> {
    Ok(Arc::new(ProcessAgent::new(ostler_dialects::acp::custom(
        name,
        command.to_vec(),
    )?)))
}

/// Refuses every command.
///
/// # Errors
/// Always: this build does not speak ACP.
#[cfg(not(feature = "acp"))]
pub(super) fn acp(_: &str, _: &[String]) -> Result<Arc<dyn Agent>, String> {
    Err("this build does not support ACP; enable the feature `acp` of the crate `ostler`".to_owned())
}
