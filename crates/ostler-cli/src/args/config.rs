//! Arguments of `ostler config`, and the flags about configuration files.

use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, Subcommand};

use super::PolicyArgs;

/// Flags about configuration files.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Ignore all ostler.toml files; see docs/configuration.md
    #[arg(long, help_heading = Resettable::Reset)]
    pub(crate) no_config: bool,
}

/// The ostler.toml that `ostler config example` prints. A test parses it.
pub(crate) const EXAMPLE: &str = r#"agent = "claude"                      # default for --agent

[agents.claude]
model = "opus"                        # default for --model
command = "~/bin/claude"              # program to start instead of the one on PATH
args = ["--debug-file", "/tmp/log"]   # extra arguments, passed unchanged
env = { ANTHROPIC_API_KEY = "${WORK_KEY}" }   # ${NAME} is read from your environment

[agents.claude.models]                # model aliases: --model fast
fast = "haiku"

[agents.claude.set]                   # settings, as with --set KEY=VALUE; see docs/agents
effort = "high"
allowed_tools = ["Read", "Bash(git log *)"]

[agents.review]                       # an agent profile with its own defaults: --agent review
like = "claude"
set = { permission_mode = "plan" }

# [agents.mine]                       # a new agent: any Agent Client Protocol (ACP) command
# acp = ["my-agent", "--acp"]

[limits]                              # same names and values as the flags
timeout = "30m"
idle_timeout = "5m"
max_budget_usd = 2.5
max_log_size = "100MB"                # stored events per session
"#;

pub(super) const CONFIG_HELP: &str = "\
Defaults for agents and limits come from ostler.toml files. Later sources override earlier ones, \
value by value:
  1. your own file: the first that exists of
       $OSTLER_CONFIG_DIR/ostler.toml
       $XDG_CONFIG_HOME/ostler/ostler.toml
       ~/.config/ostler/ostler.toml
  2. the project's file: ostler.toml or .ostler/ostler.toml, in the
     working directory or the nearest one above it in the repository
  3. $OSTLER_AGENT and $OSTLER_MODEL
  4. command-line flags

From an untrusted project, only harmless values are used: model, like, tighter limits, and the \
settings effort, fallback_model, reasoning_effort and temperature. To use the rest, trust the \
project with `ostler trust`, `--trust-project`, or `trusted_projects` in your own policy.toml.

`ostler config example` prints a commented file; docs/configuration.md describes every key.

Examples:
  ostler config example > ~/.config/ostler/ostler.toml
  ostler config show --agent claude
  ostler run --agent review \"look at the last commit\"

Exit codes: 0 success, 2 a file is invalid; every error is reported with its line number.";

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print every effective value and where it comes from
    #[command(after_help = CONFIG_HELP)]
    Show(ConfigShowArgs),
    /// List the files that are searched, in the order they are read
    #[command(after_help = CONFIG_HELP)]
    Path(ConfigPathArgs),
    /// Print a commented example file
    Example,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// Show only this agent's values
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) here: ConfigPathArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigPathArgs {
    /// Working directory [default: current directory]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Treat the project's file as trusted
    #[arg(long)]
    pub(crate) trust_project: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

impl ConfigPathArgs {
    /// Returns the policy arguments with the same trust.
    pub(crate) fn policy(&self) -> PolicyArgs {
        PolicyArgs {
            trust_project: self.trust_project,
            ..PolicyArgs::default()
        }
    }
}
