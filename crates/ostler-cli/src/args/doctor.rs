//! What can be typed to look at the agents of this machine.

use clap::Args;

use super::ConfigArgs;

const DOCTOR_HELP: &str = "\
States:
  ready            installed, and logged in
  needs login      installed, and not logged in
  unknown login    installed; the login cannot be known without a model call
  broken, too old  installed, and does not work as it is

Examples:
  ostler doctor
  ostler doctor claude
  ostler doctor --json
  ostler doctor --conformance codex

Exit codes: 0 an agent can be used (with AGENT: that one), 3 none.";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// Show everything about this agent only
    #[arg(value_name = "AGENT", conflicts_with = "conformance")]
    pub(crate) agent: Option<String>,
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
