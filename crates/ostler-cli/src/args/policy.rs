//! Arguments of `ostler policy`, and the permission flags.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Layers of the permission policy.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Permissions")]
pub(crate) struct PolicyArgs {
    /// Permissions if no policy rule matches; see docs/permissions.md
    #[arg(long, value_enum, value_name = "PRESET")]
    pub(crate) permissions: Option<Permissions>,
    /// Policy file whose rules come before all others
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Trust the project's settings files for this run; see docs/trust.md
    ///
    /// This includes the agent's own project settings, which can start programs.
    #[arg(long)]
    pub(crate) trust_project: bool,
}

/// Presets of the permission policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Permissions {
    /// Read, but change nothing
    ReadOnly,
    /// Read, and change files in the workspace that are not hidden; ask otherwise
    Workspace,
    /// Read; ask for everything else
    Ask,
    /// Allow everything without asking
    All,
}

pub(super) const POLICY_HELP: &str = "\
A policy is a list of rules. The first rule that matches a tool call decides: allow, deny or ask. \
Rules come from these layers, in this order:
  1. --policy FILE
  2. your own policy: the first that exists of
       $OSTLER_CONFIG_DIR/policy.toml
       $XDG_CONFIG_HOME/ostler/policy.toml
       ~/.config/ostler/policy.toml
  3. the project's policy: .ostler/policy.toml, whose allow rules are
     ignored unless you trust it
  4. --permissions PRESET

See docs/permissions.md for the file format.

Examples:
  ostler policy show --permissions workspace
  ostler policy test --permissions workspace Bash '{\"command\":\"rm -rf /\"}'
  ostler policy test Edit '{\"file_path\":\"src/main.rs\"}' --json

Exit codes of `test`: 0 allow, 1 ask or no matching rule, 2 bad usage or an invalid file, 7 deny.";

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyVerb {
    /// Show which rule decides a tool call
    #[command(after_help = POLICY_HELP)]
    Test(PolicyTestArgs),
    /// Print the effective rules, in order
    #[command(after_help = POLICY_HELP)]
    Show(PolicyShowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct PolicyTestArgs {
    /// Tool name, as the agent spells it
    pub(crate) tool: String,
    /// Tool arguments, as a JSON object
    #[arg(default_value = "{}")]
    pub(crate) json: String,
    /// Agent that the tool belongs to
    #[arg(short, long, value_name = "NAME", default_value = "claude")]
    pub(crate) agent: String,
    #[command(flatten)]
    pub(crate) here: PolicyShowArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyShowArgs {
    /// Working directory [default: current directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(id = "print_json", long = "json")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
}
