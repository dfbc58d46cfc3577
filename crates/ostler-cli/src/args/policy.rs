//! What can be typed about the permission policy.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// The permission policy, in layers.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct PolicyArgs {
    /// What the agent may do where no rule of a policy decides; docs/permissions.md
    #[arg(long, value_enum, value_name = "WHAT")]
    pub(crate) permissions: Option<Permissions>,
    /// Rules that come before those of your own policy and of the workspace
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Trust the project's own files and its settings of the agent for this run; they can start programs (docs/trust.md)
    #[arg(long)]
    pub(crate) trust_project: bool,
}

/// The presets of the permission policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Permissions {
    /// Look, and change nothing
    ReadOnly,
    /// Look, and change files of the workspace that are not hidden; ask for the rest
    Workspace,
    /// Look, and ask for the rest
    Ask,
    /// Everything, without asking
    All,
}

const POLICY_HELP: &str = "\
A policy is a list of rules; the first that matches a tool use decides: allow, deny or ask. Layers, in this order:
  1. --policy FILE
  2. your own policy: the first that exists of
       $OSTLER_CONFIG_DIR/policy.toml
       $XDG_CONFIG_HOME/ostler/policy.toml
       ~/.config/ostler/policy.toml
  3. the workspace's: .ostler/policy.toml, which only narrows unless you
     trust it
  4. --permissions read-only|workspace|ask|all

docs/permissions.md describes the file.

Examples:
  ostler policy show --permissions workspace
  ostler policy test --permissions workspace Bash '{\"command\":\"rm -rf /\"}'
  ostler policy test Edit '{\"file_path\":\"src/main.rs\"}' --json

Exit codes of test: 0 allow, 7 deny, 1 ask or no rule matches, 2 bad usage or a file that is wrong.";

#[derive(Debug, Args)]
#[command(after_help = POLICY_HELP)]
pub(crate) struct PolicyVerbArgs {
    #[command(subcommand)]
    pub(crate) verb: PolicyVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// Say which rule decides on a tool use
    #[command(after_help = POLICY_HELP)]
    Test(PolicyTestArgs),
    /// Print the rules that hold here, in order
    #[command(after_help = POLICY_HELP)]
    Show(PolicyShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// The tool, as the agent calls it
    pub(crate) tool: String,
    /// Its arguments, as the agent would write them
    #[arg(default_value = "{}")]
    pub(crate) json: String,
    /// The agent whose tool it is
    #[arg(short, long, value_name = "NAME", default_value = "claude")]
    pub(crate) agent: String,
    #[command(flatten)]
    pub(crate) here: PolicyShowArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyShowArgs {
    /// The workspace [default: this directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(id = "print_json", long = "json")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}
