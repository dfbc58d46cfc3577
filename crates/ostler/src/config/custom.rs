//! Agents defined in files: commands that speak the Agent Client Protocol.

use std::sync::Arc;

use super::ValueError;
use crate::agent::Agent;
#[cfg(feature = "acp")]
use crate::agent::ProcessAgent;

/// Creates an agent with this name and command. It stays registered until this process exits.
///
/// # Errors
/// Returns what is wrong with the name or the command.
#[cfg(feature = "acp")]
pub(super) fn acp(name: &str, command: &[String]) -> Result<Arc<dyn Agent>, ValueError> {
    let dialect = ostler_dialects::acp::custom(name, command.to_vec());
    let dialect = dialect.map_err(ValueError::from_error)?;
    Ok(Arc::new(ProcessAgent::new(dialect)))
}

/// Refuses every command.
///
/// # Errors
/// Always: this build does not support ACP.
#[cfg(not(feature = "acp"))]
pub(super) fn acp(_: &str, _: &[String]) -> Result<Arc<dyn Agent>, ValueError> {
    Err(ValueError::new(
        "this build does not support ACP; enable the feature `acp` of the crate `ostler`",
    ))
}
