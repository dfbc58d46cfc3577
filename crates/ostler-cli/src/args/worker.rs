//! Arguments of `ostler worker`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{ConfigArgs, PolicyArgs, Time};

const WORKER_HELP: &str = "\
A worker runs what the owners in its trust list sign, within its own policy, with its own keys and \
logins. SIGTERM or Ctrl-C lets running attempts finish; a second one hands them back.

Examples:
  ostler worker --join nats://build-1:4222
  ostler worker --join nats://build-1:4222 --jobs 8 --label gpu
  ostler worker --agents claude,codex --budget-usd-per-day 20
  ostler worker --once

See docs/fleet.md and docs/fleet-sessions.md.

Exit codes: 0 drained, 2 bad usage, 3 no server, or another process is this worker.";

#[derive(Debug, Clone, Args)]
#[command(after_help = WORKER_HELP)]
pub(crate) struct WorkerArgs {
    /// Addresses of the servers, separated by commas [default: those of the member file]
    #[arg(long, value_name = "URL")]
    pub(crate) join: Option<String>,
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Number of attempts at once
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) jobs: u32,
    /// Label that work may ask for (repeatable)
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Vec<String>,
    /// Agents that may run here [default: all that are ready]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) agents: Vec<String>,
    /// Directory of this machine that work may name as a repository (repeatable)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) allow_dir: Vec<PathBuf>,
    /// Maximum cost per day (UTC) in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) budget_usd_per_day: Option<f64>,
    /// Let work use your home directory, with its logins and settings
    #[arg(long)]
    pub(crate) share_login: bool,
    /// Run agents and commands of work in the sandbox only
    ///
    /// Without it, a case may ask for isolation `directory`: its commands run as your user.
    #[arg(long)]
    pub(crate) sandbox_only: bool,
    /// Run one attempt, then stop
    #[arg(long, conflicts_with = "max_jobs")]
    pub(crate) once: bool,
    /// Number of attempts after which the worker stops
    #[arg(long, value_name = "N")]
    pub(crate) max_jobs: Option<u64>,
    /// How long running attempts may continue after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub(crate) drain: Time,
    /// Directory for workspaces [default: ostler-eval-USER in the temporary directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) work_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}

/// Which member of a fleet this is.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct MemberArgs {
    /// Member file with name, key and servers [default: fleet.toml in the configuration directory]
    #[arg(long = "member", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,
}

/// Where a session of the daemon runs.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PlacementArgs {
    /// Run the session in the daemon's fleet, on a worker; see `ostler serve --fleet`
    ///
    /// The worker gets the repository of the directory, without changes that are not committed.
    /// `ostler sessions fetch` brings the agent's changes back as a branch.
    #[arg(long, conflicts_with = "no_daemon")]
    pub(crate) fleet: bool,
    /// Label that the worker must have (repeatable)
    #[arg(long, value_name = "LABEL", requires = "fleet")]
    pub(crate) needs_label: Vec<String>,
}
