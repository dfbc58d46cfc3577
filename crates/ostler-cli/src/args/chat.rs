//! Arguments of `ostler chat`.

use clap::Args;

use super::{PlacementArgs, StartArgs, ViewArgs};

const CHAT_HELP: &str = "\
Examples:
  ostler chat
  ostler chat --agent claude --permissions ask \"what does this project do?\"
  ostler chat --resume SESSION-ID
  printf 'read README.md\\nsum it up\\n' | ostler chat --agent claude

At the prompt:
  Enter      send the message
  Alt-Enter  start a new line; so does a backslash at the end of a line
  Up         recall an earlier message
  /help      list the commands
  Ctrl-C     interrupt the turn; twice to quit
  Ctrl-D     quit

If stdin is not a terminal, each line is one message.

Exit codes: those of `ostler run`, for the last turn. On a terminal, quitting exits with 0.";

#[derive(Debug, Args)]
#[command(after_help = CHAT_HELP)]
pub(crate) struct ChatArgs {
    /// First message
    pub(crate) prompt: Option<String>,
    /// Chat in the daemon: the session continues when you leave; see `ostler attach`
    ///
    /// With `daemon = true` in your ostler.toml, this is the default while a daemon is running.
    #[arg(long)]
    pub(crate) daemon: bool,
    /// Chat in this process although `daemon = true` is configured
    #[arg(long, conflicts_with = "daemon")]
    pub(crate) no_daemon: bool,
    #[command(flatten)]
    pub(crate) fleet: PlacementArgs,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
    #[command(flatten)]
    pub(crate) start: StartArgs,
}
