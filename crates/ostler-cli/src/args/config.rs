//! What can be typed about the configuration.

use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, Subcommand};

use super::PolicyArgs;

/// Whether files are read.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Leave out every ostler.toml, your own and the project's; docs/configuration.md
    #[arg(long, help_heading = Resettable::Reset)]
    pub(crate) no_config: bool,
}

/// An ostler.toml, as `ostler config example` prints it. A test reads it.
pub(crate) const EXAMPLE: &str = r#"agent = "claude"                      # the agent when --agent names none

[agents.claude]
model = "opus"                        # the model when --model names none
command = "~/bin/claude"              # another program than the one in PATH
args = ["--debug-file", "/tmp/log"]   # passed to it as they are
env = { ANTHROPIC_API_KEY = "${WORK_KEY}" }   # ${NAME}: from your environment, so that no key is in the file

[agents.claude.models]                # other names of models: --model fast
fast = "haiku"

[agents.claude.set]                   # settings, as --set KEY=VALUE; docs/agents lists them
effort = "high"
allowed_tools = ["Read", "Bash(git log *)"]

[agents.review]                       # another name for an agent, with defaults of its own: --agent review
like = "claude"
set = { permission_mode = "plan" }

# [agents.mine]                       # a new agent: any command that speaks the Agent Client Protocol
# acp = ["my-agent", "--acp"]

[limits]                              # called and written as the flags are
timeout = "30m"
idle_timeout = "5m"
max_budget_usd = 2.5
max_log_size = "100MB"                # of the events that a session stores
"#;

const CONFIG_HELP: &str = "\
Defaults for agents are in files called ostler.toml. Later ones win, value by value:
  1. your own: the first that exists of
       $OSTLER_CONFIG_DIR/ostler.toml
       $XDG_CONFIG_HOME/ostler/ostler.toml
       ~/.config/ostler/ostler.toml
  2. the project's: ostler.toml or .ostler/ostler.toml, in the directory
     or the nearest above it within the repository
  3. $OSTLER_AGENT, $OSTLER_MODEL
  4. the flags of the command line

From a project that you do not trust, only what can do no harm is taken: model, like, limits that are tighter, and the settings effort, fallback_model, reasoning_effort, temperature. `ostler trust`, --trust-project, or trusted_projects in your own policy.toml, takes the rest. docs/configuration.md describes the file; `ostler config example` prints one.

Examples:
  ostler config example > ~/.config/ostler/ostler.toml
  ostler config show --agent claude
  ostler run --agent review \"look at the last commit\"

Exit codes: 0, or 2 when a file is wrong: every error is reported with its line.";

#[derive(Debug, Args)]
#[command(after_help = CONFIG_HELP)]
pub(crate) struct ConfigVerbArgs {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    /// Print every value that holds, and where it comes from
    #[command(after_help = CONFIG_HELP)]
    Show(ConfigShowArgs),
    /// List the files that are looked for, in the order in which they are read
    #[command(after_help = CONFIG_HELP)]
    Path(ConfigPathArgs),
    /// Print a file to begin with
    Example,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigShowArgs {
    /// Only what holds for this agent
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    #[command(flatten)]
    pub(crate) here: ConfigPathArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigPathArgs {
    /// The directory that the agent would work in [default: this one]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Take everything that the project's file says
    #[arg(long)]
    pub(crate) trust_project: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

impl ConfigPathArgs {
    /// The same as what is asked of a policy.
    pub(crate) fn policy(&self) -> PolicyArgs {
        PolicyArgs {
            trust_project: self.trust_project,
            ..PolicyArgs::default()
        }
    }
}
