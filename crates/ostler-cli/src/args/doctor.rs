//! What can be typed to look at the agents of this machine.

use clap::Args;

use super::ConfigArgs;

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Try this agent, as it is installed here, against a scripted model on this machine: no account, no internet, no cost
    #[arg(long, value_name = "AGENT", conflicts_with = "workspace_tools")]
    pub(crate) conformance: Option<String>,
    /// Check for this program too, as `ostler run --workspace-tools` needs it
    #[arg(long, value_name = "NAME", value_parser = ["file-tools"])]
    pub(crate) workspace_tools: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}
