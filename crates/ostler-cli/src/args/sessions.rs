//! What can be typed about kept sessions, and how ages and sizes are written.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::Format;

const SESSIONS_EXAMPLES: &str = "\
Examples:
  ostler sessions --agent claude --limit 5
  ostler sessions show 0f8fad5b --output events
  ostler sessions prune --older-than 30d --larger-than 1GB --dry-run

An ID is one from the list (its first characters are enough, four at least), or the agent's own. Sessions are kept in
$OSTLER_STATE_DIR, else $XDG_STATE_HOME/ostler, else ~/.local/state/ostler; docs/sessions.md describes it.";

#[derive(Debug, Args)]
#[command(after_help = SESSIONS_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<SessionsVerb>,
    #[command(flatten)]
    pub(crate) list: SessionsListArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SessionsListArgs {
    /// At most so many, the newest first
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: usize,
    /// Only those of this agent
    #[arg(short, long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only those in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Only those that are under way
    #[arg(long)]
    pub(crate) live: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    /// Show what happened in a session
    Show(SessionsShowArgs),
    /// Let old sessions go, and the oldest of too many; never one that is under way
    Prune(SessionsPruneArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SessionsShowArgs {
    /// The session: its id, the beginning of it, or the agent's own
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
    let (_, scale) = units.iter().find(|(unit, _)| *unit == &text[digits.len()..])?;
    // A sign, an infinity or a number that is none is no size of anything.
    digits.parse::<f64>().ok().filter(|n| n.is_finite() && !digits.starts_with(['-', '+'])).map(|n| n * scale)
}

/// The greatest age: what is older is a mistake.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// An age. Unlike a limit on a run it may be zero, and is said in days.
fn age(text: &str) -> Result<Duration, String> {
    let units = [("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0), ("w", 604_800.0)];
    let time = scaled(text, &units).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| *time <= LONGEST).ok_or_else(|| "expected an age such as 12h, 30d, 8w".into())
}

/// A size in bytes.
fn size(text: &str) -> Result<u64, String> {
    let units = [("", 1.0), ("B", 1.0), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)];
    let two = [("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)];
    let bytes = scaled(text, &[&units[..], &two[..]].concat()).filter(|bytes| *bytes < 1e18);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is neither negative nor too large")]
    bytes.map(|bytes| bytes as u64).ok_or_else(|| "expected a size such as 500MB, 1GB, 2GiB".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes() {
        let day = Duration::from_secs(86_400);
        for (text, want) in [("30d", day * 30), ("8w", day * 56), ("12h", day / 2), ("0s", Duration::ZERO)] {
            assert_eq!(age(text), Ok(want), "{text}");
        }
        for (text, want) in [("0", 0), ("1.5KB", 1_500), ("500MB", 500_000_000), ("2GiB", 2_147_483_648)] {
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
