//! What can be typed about kept sessions, and how ages and sizes are written.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::Format;

const SESSIONS_EXAMPLES: &str = "\
Examples:
  ostler sessions --agent claude --limit 5
  ostler sessions show 0f8fad5b
  ostler sessions search 'flaky test'
  ostler sessions export 0f8fad5b --format html --to session.html
  ostler sessions rm 0f8fad5b
  ostler sessions prune --older-than 30d --larger-than 1GB --dry-run

An ID is one from the list, the agent's own id of the session, or any unambiguous prefix of either. Sessions are stored in $OSTLER_STATE_DIR, else $XDG_STATE_HOME/ostler, else ~/.local/state/ostler; docs/sessions.md describes it.";

#[derive(Debug, Args)]
#[command(after_help = SESSIONS_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<SessionsVerb>,
    #[command(flatten)]
    pub(crate) list: SessionsListArgs,
}

/// Which sessions a verb is about.
#[derive(Debug, Args)]
pub(crate) struct SessionsFilterArgs {
    /// Maximum number of sessions, the newest first
    #[arg(short = 'n', long, value_name = "N", default_value = "20")]
    pub(crate) limit: NonZeroUsize,
    /// Only those of this agent
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only those in this directory
    #[arg(short = 'C', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsListArgs {
    #[command(flatten)]
    pub(crate) filter: SessionsFilterArgs,
    /// Only those that are under way
    #[arg(long)]
    pub(crate) live: bool,
    /// Also failed starts: sessions without a turn, or whose agent never came up
    #[arg(long)]
    pub(crate) all: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    /// List sessions, as `ostler sessions` alone does
    #[command(visible_alias = "ls")]
    List(SessionsListArgs),
    /// Show what happened in a session
    Show(SessionsShowArgs),
    /// Find sessions by what was said in them: prompts, final answers and tool calls
    Search(SessionsSearchArgs),
    /// Write a session as Markdown, HTML or JSON lines
    Export(SessionsExportArgs),
    /// Remove sessions with all that is stored of them; never one that is running
    #[command(visible_alias = "remove")]
    Rm(SessionsRmArgs),
    /// Let old sessions go, and the oldest of too many; never one that is under way
    Prune(SessionsPruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionsShowArgs {
    /// The session: its id, the agent's id of it, or an unambiguous prefix of either
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// How to show it
    #[arg(short, long, value_enum, default_value_t = Format::Human)]
    pub(crate) output: Format,
    /// Print what the list knows of it as JSON
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsSearchArgs {
    /// The text to find, ignoring case
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: String,
    #[command(flatten)]
    pub(crate) filter: SessionsFilterArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The form of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transcript {
    /// Markdown
    Md,
    /// One self-contained page
    Html,
    /// Every event as one JSON line
    Jsonl,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsExportArgs {
    /// The session: its id, the agent's id of it, or an unambiguous prefix of either
    #[arg(allow_hyphen_values = true)]
    pub(crate) id: String,
    /// The form
    #[arg(short, long, value_enum, default_value_t = Transcript::Md)]
    pub(crate) format: Transcript,
    /// Write to this file instead of stdout; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsRmArgs {
    /// The sessions: their ids, the agents' ids of them, or unambiguous prefixes of either
    #[arg(required = true, value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("limit").required(true).multiple(true).args(["older_than", "larger_than"]))]
pub(crate) struct SessionsPruneArgs {
    /// Sessions that are older go, such as 12h, 30d, 8w
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) older_than: Option<Duration>,
    /// The oldest go until all together are no larger, such as 500MB, 1GB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) larger_than: Option<u64>,
    /// Only say which would go
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A number and its unit.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, scale) = units
        .iter()
        .find(|(unit, _)| *unit == &text[digits.len()..])?;
    // A sign, an infinity or a number that is none is no size of anything.
    digits
        .parse::<f64>()
        .ok()
        .filter(|n| n.is_finite() && !digits.starts_with(['-', '+']))
        .map(|n| n * scale)
}

/// The greatest age: what is older is a mistake.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// An age. Unlike a limit on a run it may be zero, and is said in days.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    let units = [
        ("s", 1.0),
        ("m", 60.0),
        ("min", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
        ("w", 604_800.0),
    ];
    let time = scaled(text, &units).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| *time <= LONGEST)
        .ok_or_else(|| "expected an age such as 12h, 30d, 8w".into())
}

/// A size in bytes.
fn size(text: &str) -> Result<u64, String> {
    ostler::config::size(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes() {
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
            assert_eq!(size(text), Ok(want), "{text}");
        }
        for bad in ["", "d", "30", "-1d", "1y", "1e30d", "NaNd", "infd"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        for bad in ["", "MB", "-1MB", "1XB", "1e30", "infMB", "1 GB"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
