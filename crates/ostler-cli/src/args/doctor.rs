//! Arguments of `ostler doctor`.

use clap::Args;

use super::ConfigArgs;

const DOCTOR_HELP: &str = "\
States:
  ready            installed and logged in
  needs login      installed, but not logged in
  unknown login    installed; checking the login would need a model call
  broken, too old  installed, but not usable

Examples:
  ostler doctor
  ostler doctor claude
  ostler doctor --json
  ostler doctor --conformance codex

Exit codes: 0 an agent is usable (with AGENT: that agent), 3 none is.";

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_HELP)]
pub(crate) struct DoctorArgs {
    /// Show details about this agent only
    #[arg(value_name = "AGENT", conflicts_with = "conformance")]
    pub(crate) agent: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Test an installed agent against a local scripted model: no account, network or cost
    #[arg(long, value_name = "AGENT", conflicts_with = "workspace_tools")]
    pub(crate) conformance: Option<String>,
    /// Also check for the program that `ostler run --workspace-tools` needs
    #[arg(long, value_name = "NAME", value_parser = ["file-tools"])]
    pub(crate) workspace_tools: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}
