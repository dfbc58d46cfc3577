//! Arguments of `ostler serve`.

use std::net::SocketAddr;

use clap::{Args, ValueEnum};

use super::{ConfigArgs, PolicyArgs, Time};

const SERVE_HELP: &str = "\
The daemon listens on a Unix socket that only you can open. The first line of its output is the \
path of the socket. SIGTERM or Ctrl-C lets running turns finish; a second one ends them at once.

Examples:
  ostler serve
  ostler serve --detach
  ostler run --detach \"make the tests pass\"
  SOCKET=$(ostler serve --print-socket)
  curl --unix-socket \"$SOCKET\" http://localhost/v1/sessions
  ostler serve --listen 127.0.0.1:7070
  ostler serve --print-unit systemd > ~/.config/systemd/user/ostler.service

See docs/daemon.md for the API, and for what an agent can and cannot do with it.

Exit codes: 0 stopped, 2 bad usage, 3 a daemon is already running, 70 internal error.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// Listen on this loopback address too; clients need the token
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Start in the background and return once the daemon is ready
    #[arg(long)]
    pub(crate) detach: bool,
    /// Command to run, with a JSON object on its stdin, when a session needs approval, a turn ends
    /// or a session ends
    ///
    /// It is started without a shell.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) notify: Option<String>,
    /// Maximum number of sessions that run at the same time; others wait
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count())]
    pub(crate) max_sessions: u32,
    /// Maximum number of sessions of one agent that run at the same time
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count())]
    pub(crate) max_sessions_per_agent: u32,
    /// How long a permission request waits for an answer before it is denied
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) approval_timeout: Time,
    /// How long running turns may continue after SIGTERM
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) drain: Time,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print the path of the socket and exit
    #[arg(long, conflicts_with_all = ["print_token", "print_unit", "detach"])]
    pub(crate) print_socket: bool,
    /// Print the token for TCP clients and exit
    #[arg(long, conflicts_with_all = ["print_unit", "detach"])]
    pub(crate) print_token: bool,
    /// Print the code that TCP clients need to approve, and exit
    #[arg(long, conflicts_with_all = ["print_socket", "print_token", "print_unit", "detach"])]
    pub(crate) print_code: bool,
    /// Print a unit file that starts the daemon, and exit
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "detach")]
    pub(crate) print_unit: Option<UnitKind>,
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

/// Service managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnitKind {
    /// A user unit of systemd
    Systemd,
    /// An agent of launchd (macOS)
    Launchd,
}
