//! Arguments of the verbs that control sessions of the daemon.

use clap::{Args, Subcommand, ValueEnum};

use super::{Format, ViewArgs};

const ATTACH_HELP: &str = "\
Examples:
  ostler attach
  ostler attach 0f8fad5b --all
  ostler attach 0f8fad5b --output events > events.jsonl

On a terminal, messages can be typed while the agent is idle, and permission requests are answered \
as in `ostler chat`. Ctrl-C detaches, at a prompt also Ctrl-D: nothing stops.

Exit codes: 0 detached; otherwise those of `ostler run`. 3 if no daemon is running.";

#[derive(Debug, Args)]
#[command(after_help = ATTACH_HELP)]
pub(crate) struct AttachArgs {
    /// Session id or a unique prefix [default: the newest running session, preferably in this
    /// directory]
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: Option<String>,
    /// Show the whole history, not only the last turn
    ///
    /// The formats `text`, `json` and `events` always contain everything.
    #[arg(long)]
    pub(crate) all: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Human)]
    output: Format,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    /// Shorthand for `--output json`
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl AttachArgs {
    /// Returns the chosen output format.
    pub(crate) fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

const SEND_HELP: &str = "\
Examples:
  ostler send 0f8fad5b \"and now the documentation\"
  git diff | ostler send 0f8fad5b -
  ostler send 0f8fad5b --steer \"use the other file\"

Exit codes: 0 sent, 2 the session cannot take it, 3 no daemon is running.";

#[derive(Debug, Args)]
#[command(after_help = SEND_HELP)]
pub(crate) struct SendArgs {
    /// Session id or a unique prefix
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// The message; `-` reads it from stdin
    #[arg(value_name = "MESSAGE")]
    pub(crate) text: String,
    /// Add it to the current turn, if the agent supports that
    ///
    /// Without this flag, a message that is sent during a turn starts the next one.
    #[arg(long)]
    pub(crate) steer: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const SESSION_HELP: &str = "\
Exit codes: 0 requested, 2 there is no such session or it has ended, 3 no daemon is running.";

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Session id or a unique prefix
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const PAUSE_HELP: &str = "\
The current turn continues, and messages wait until `ostler resume`.

Exit codes: 0 requested, 2 the session cannot be paused, 3 no daemon is running.";

pub(super) const RESUME_HELP: &str = "\
A paused session gets the messages that were held back. One that has ended continues in a new \
session of the daemon, with the same permissions, and waits for a message: see `ostler send`.

To give it a task at once, or without the daemon, use `ostler run --resume` or `ostler chat --resume`.

Exit codes: 0 resumed, 2 the session cannot be resumed, 3 no daemon is running.";

pub(super) const RESTART_HELP: &str = "\
The new session has a new process, the same conversation and the same permissions. It waits for a \
message: see `ostler send`.

Exit codes: 0 restarted, 2 the session cannot be resumed, 3 no daemon is running.";

pub(super) const FORK_HELP: &str = "\
The session itself is left as it is. The copy has the same permissions and waits for a message: see \
`ostler send`.

To give the copy a task at once, use `ostler run --resume ID --fork \"…\"`.

Exit codes: 0 forked, 2 the session cannot be forked, 3 no daemon is running.";

const OPEN_HELP: &str = "\
Examples:
  ostler open
  ostler open 0f8fad5b
  ostler open --print

The page shows and controls the sessions of the daemon; a daemon is started if none is running. \
The link logs one browser in, once, within two minutes, and is for this machine only. The page asks \
for the approval code before it approves or deletes anything; the code is shown on a terminal, and \
`ostler serve --print-code` prints it.

Exit codes: 0 opened or printed, 2 there is no such session, 3 no browser or no daemon can be started.";

#[derive(Debug, Args)]
#[command(after_help = OPEN_HELP)]
pub(crate) struct OpenArgs {
    /// Session to show: its id or a unique prefix
    #[arg(value_name = "SESSION", allow_hyphen_values = true)]
    pub(crate) id: Option<String>,
    /// Print the link instead of opening it
    #[arg(long)]
    pub(crate) print: bool,
    /// Print the link as JSON instead of opening it
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const APPROVALS_HELP: &str = "\
Examples:
  ostler approvals
  ostler approvals answer 5c1e7d02 yes
  ostler approvals answer 5c1e7d02 always
  ostler approvals answer 5c1e7d02 no --message \"use the staging database\"

`always` also allows the same tool with the same arguments for the rest of the session. Only the \
first answer counts. A request without an answer is denied when it expires; see \
`ostler serve --approval-timeout`.

Exit codes: 0 listed or answered, 2 answered before, expired or unknown, 3 no daemon is running.";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<ApprovalsVerb>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsVerb {
    /// Allow or deny a tool call
    Answer(ApprovalsAnswerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsAnswerArgs {
    /// Id of the request, or a unique prefix
    #[arg(value_name = "ID")]
    pub(crate) request: String,
    /// The answer
    #[arg(value_enum)]
    pub(crate) answer: ApprovalAnswer,
    /// Reason, which the agent reads
    #[arg(short, long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) message: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Answer to a permission request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ApprovalAnswer {
    /// The tool may run
    #[value(aliases = ["y", "allow"])]
    Yes,
    /// The tool may not run
    #[value(aliases = ["n", "deny"])]
    No,
    /// The tool may run, now and with the same arguments for the rest of the session
    #[value(alias = "a")]
    Always,
}
