//! Arguments of `ostler serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{ConfigArgs, MemberArgs, PolicyArgs, SandboxKind, Time};

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

/// Default limits on sessions that run at the same time.
const MAX_SESSIONS: u32 = 1000;

/// Default time that a permission request waits for an answer.
const APPROVAL_TIMEOUT: &str = "1h";

/// Default time that running turns may continue after SIGTERM.
const DRAIN: &str = "10s";

/// Default of `--lease`.
const LEASE: &str = "1m";

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
    #[arg(long, value_name = "N", default_value_t = MAX_SESSIONS, value_parser = count())]
    pub(crate) max_sessions: u32,
    /// Maximum number of sessions of one agent that run at the same time
    #[arg(long, value_name = "N", default_value_t = MAX_SESSIONS, value_parser = count())]
    pub(crate) max_sessions_per_agent: u32,
    /// How long a permission request waits for an answer before it is denied
    #[arg(long, value_name = "TIME", default_value = APPROVAL_TIMEOUT)]
    pub(crate) approval_timeout: Time,
    /// How long running turns may continue after SIGTERM
    #[arg(long, value_name = "TIME", default_value = DRAIN)]
    pub(crate) drain: Time,
    /// Run sessions on the workers of a fleet; see docs/fleet-sessions.md
    #[arg(long)]
    pub(crate) fleet: bool,
    #[command(flatten)]
    pub(crate) member: MemberArgs,
    /// How long a worker of the fleet may be out of reach before its sessions are lost
    #[arg(long, value_name = "TIME", requires = "fleet", default_value = LEASE)]
    pub(crate) lease: Time,
    /// Confine the agents of sessions that do not ask for something else; see docs/sandbox.md
    #[arg(long, value_enum, value_name = "MODE", help_heading = "Permissions")]
    pub(crate) sandbox: Option<SandboxKind>,
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
    /// Print the code that TCP clients and browsers need to approve, and exit
    #[arg(long, conflicts_with_all = ["print_socket", "print_token", "print_unit", "detach"])]
    pub(crate) print_code: bool,
    /// Print a unit file that starts the daemon, and exit
    #[arg(long, value_enum, value_name = "KIND", conflicts_with = "detach")]
    pub(crate) print_unit: Option<UnitKind>,
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

impl ServeArgs {
    /// Returns the flags that a unit needs to start a daemon like this one.
    pub(crate) fn unit_flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            flags.extend(value.map(|value| format!("--{name}={value}")));
        };
        let count = |count: u32| (count != MAX_SESSIONS).then(|| count.to_string());
        let time = |time: Time, usual: &str| {
            let usual = usual.parse::<Time>().ok();
            let is_usual = usual.is_some_and(|usual| usual.0 == time.0);
            (!is_usual).then(|| time.to_string())
        };
        let absolute = |path: &PathBuf| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        };
        add("listen", self.listen.map(|address| address.to_string()));
        add("notify", self.notify.clone());
        add("max-sessions", count(self.max_sessions));
        add("max-sessions-per-agent", count(self.max_sessions_per_agent));
        add(
            "approval-timeout",
            time(self.approval_timeout, APPROVAL_TIMEOUT),
        );
        add("drain", time(self.drain, DRAIN));
        add("sandbox", self.sandbox.as_ref().and_then(name));
        add(
            "permissions",
            self.policy.permissions.as_ref().and_then(name),
        );
        add("policy", self.policy.policy.as_ref().map(absolute));
        add("member", self.member.file.as_ref().map(absolute));
        if self.fleet {
            add("lease", time(self.lease, LEASE));
        }
        let switches = [
            ("--fleet", self.fleet),
            ("--trust-project", self.policy.trust_project),
            ("--no-config", self.config.no_config),
        ];
        let switches = switches.into_iter().filter(|(_, is_on)| *is_on);
        flags.extend(switches.map(|(flag, _)| flag.to_owned()));
        flags
    }
}

/// Returns the name of a value.
fn name(value: &impl ValueEnum) -> Option<String> {
    let value = value.to_possible_value()?;
    Some(value.get_name().to_owned())
}

/// Service managers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnitKind {
    /// A user unit of systemd
    Systemd,
    /// An agent of launchd (macOS)
    Launchd,
}
