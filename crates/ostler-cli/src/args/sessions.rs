//! Arguments of `ostler sessions`, and the syntax of ages.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use ostler::config::ByteSize;

use super::Format;

const SESSIONS_EXAMPLES: &str = "\
Examples:
  ostler sessions --agent claude --limit 5
  ostler sessions --watch
  ostler sessions show 0f8fad5b
  ostler sessions search 'flaky test'
  ostler sessions export 0f8fad5b --format html --to session.html
  ostler sessions rm 0f8fad5b
  ostler sessions prune --older-than 30d --larger-than 1GB --dry-run

An ID is a session id from the list, the agent's own session id, or a unique prefix of either.

Sessions are stored in $OSTLER_STATE_DIR, which defaults to $XDG_STATE_HOME/ostler or \
~/.local/state/ostler. See docs/sessions.md.";

#[derive(Debug, Args)]
#[command(after_help = SESSIONS_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<SessionsVerb>,
    #[command(flatten)]
    pub(crate) list: SessionsListArgs,
}

impl SessionsArgs {
    /// Returns true if the sessions of the daemon are to be watched.
    pub(crate) fn watches(&self) -> bool {
        match &self.verb {
            None => self.list.watch,
            Some(SessionsVerb::List(list)) => list.watch,
            Some(_) => false,
        }
    }
}

/// Selection of sessions.
#[derive(Debug, Args)]
pub(crate) struct SessionsFilterArgs {
    /// Maximum number of sessions, newest first
    #[arg(short = 'n', long, value_name = "N", default_value = "20")]
    pub(crate) limit: NonZeroUsize,
    /// Only sessions of this agent
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only sessions in this directory
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsListArgs {
    #[command(flatten)]
    pub(crate) filter: SessionsFilterArgs,
    /// Only sessions that are running
    #[arg(long)]
    pub(crate) live: bool,
    /// Show the daemon's sessions as they change, until Ctrl-C
    #[arg(long, conflicts_with_all = ["live", "all", "json", "limit", "agent", "dir"])]
    pub(crate) watch: bool,
    /// Include failed starts: sessions without a turn, or whose agent never started
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    /// List sessions, like `ostler sessions` alone
    #[command(visible_alias = "ls")]
    List(SessionsListArgs),
    /// Show a session
    Show(SessionsShowArgs),
    /// Search prompts, replies, reasoning, tool calls and their output
    Search(SessionsSearchArgs),
    /// Export a session as Markdown, HTML or JSON lines
    Export(SessionsExportArgs),
    /// Put the changes of a session that ran in a fleet into a branch of your repository
    Fetch(SessionsFetchArgs),
    /// Remove sessions that are not running
    #[command(visible_alias = "remove")]
    Rm(SessionsRmArgs),
    /// Remove old sessions that are not running, by age or total size
    Prune(SessionsPruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionsShowArgs {
    /// Session id, the agent's own id, or a unique prefix of either
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Human)]
    pub(crate) output: Format,
    /// Print the session's list entry as JSON
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}

const SEARCH_EXAMPLES: &str = "\
Examples:
  ostler sessions search 'flaky test'
  ostler sessions search '\"connection reset\" retry' --speaker result
  ostler sessions search src/lib.rs --since 7d --all-matches --json

A text matches if it contains every word and every \"quoted phrase\", ignoring case. A part of a \
word is enough, and all other characters are taken literally.";

#[derive(Debug, Args)]
#[command(after_help = SEARCH_EXAMPLES)]
pub(crate) struct SessionsSearchArgs {
    /// Words and "quoted phrases" to find, ignoring case
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) filter: SessionsFilterArgs,
    /// Only texts of this author
    #[arg(long, value_enum, value_name = "WHO")]
    pub(crate) speaker: Option<SearchSpeaker>,
    /// Only texts of the last TIME, such as 12h, 7d or 8w
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) since: Option<Duration>,
    /// Only texts older than TIME
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) until: Option<Duration>,
    /// Every match, not only the newest one of each session
    #[arg(long)]
    pub(crate) all_matches: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Author of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchSpeaker {
    /// You, in a prompt
    User,
    /// The agent, in a reply
    Agent,
    /// The agent, in its reasoning
    Thinking,
    /// The agent, in the arguments of a tool call
    Tool,
    /// A tool, in its output
    Result,
}

/// Format of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transcript {
    /// Markdown
    Md,
    /// A self-contained HTML page
    Html,
    /// One JSON object per event
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsExportArgs {
    /// Session id, the agent's own id, or a unique prefix of either
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// Export format
    #[arg(short, long, value_enum, default_value_t = Transcript::Md)]
    pub(crate) format: Transcript,
    /// Write to this file instead of stdout, replacing it if it exists
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
}

const FETCH_HELP: &str = "\
Examples:
  ostler sessions fetch 0f8fad5b
  git diff main...ostler/0f8fad5b

The branch is `ostler/` and the first eight characters of the session's id. Your files, your index \
and the branch that you work on do not change. An existing branch of that name is only moved \
forward.

Exit codes: 0 fetched, 1 Git refused, 2 bad usage, 3 the session left no changes.";

#[derive(Debug, Args)]
#[command(after_help = FETCH_HELP)]
pub(crate) struct SessionsFetchArgs {
    /// Session id, the agent's own id, or a unique prefix of either
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// Repository that gets the branch [default: that of the session's directory]
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsRmArgs {
    /// Session ids, the agents' own ids, or unique prefixes of either
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("limit")
        .required(true)
        .multiple(true)
        .args(["older_than", "larger_than"])
)]
pub(crate) struct SessionsPruneArgs {
    /// Remove sessions older than this, such as 12h, 30d or 8w
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// Remove the oldest sessions until the total size is at most this, such as 500MB or 1GB
    #[arg(long, value_name = "SIZE")]
    pub(crate) larger_than: Option<ByteSize>,
    /// List what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Maximum age. Anything older is assumed to be a typo.
const MAX_AGE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Parses an age. Unlike a time limit, it may be zero and may be given in days and weeks.
pub(super) fn age(text: &str) -> Result<Duration, InvalidAge> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        "w" => 604_800.0,
        _ => return Err(InvalidAge),
    };
    // Negative, infinite and undefined numbers are not a duration.
    let number = digits
        .parse::<f64>()
        .ok()
        .filter(|_| !digits.starts_with(['-', '+']));
    let age = number.and_then(|number| Duration::try_from_secs_f64(number * scale).ok());
    age.filter(|age| *age <= MAX_AGE).ok_or(InvalidAge)
}

/// A text that is not an age.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("expected an age such as 12h, 30d or 8w")]
pub(super) struct InvalidAge;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_parsed() {
        let day = Duration::from_secs(86_400);
        for (text, want) in [
            ("30d", day * 30),
            ("8w", day * 56),
            ("12h", day / 2),
            ("0s", Duration::ZERO),
        ] {
            assert_eq!(age(text), Ok(want), "{text}");
        }
        for (text, want) in [
            ("0", 0),
            ("1.5KB", 1_500),
            ("500MB", 500_000_000),
            ("2GiB", 2_147_483_648),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(want)), "{text}");
        }
        for bad in ["", "d", "30", "-1d", "1y", "1e30d", "NaNd", "infd"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        for bad in ["", "MB", "-1MB", "1XB", "1e30", "infMB", "1 GB"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }
}
