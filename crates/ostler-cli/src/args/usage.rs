//! Arguments of `ostler usage`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use ostler_store::UtcOffset;

use super::sessions::age;

const USAGE_EXAMPLES: &str = "\
Examples:
  ostler usage
  ostler usage --since 7d --by model
  ostler usage --since 30d --by day --split agent
  ostler usage --by day --tz +02:00 --json

A cost such as ≥ $0.0120 is a lower bound: the agent did not report the cost of every turn. A ~ \
marks an estimate. A turn counts for the day on which it began, in UTC unless `--tz` is given. \
Sessions that were not stored are not included.";

#[derive(Debug, Args)]
#[command(after_help = USAGE_EXAMPLES)]
pub(crate) struct UsageArgs {
    /// Only turns that began within the last TIME, such as 12h, 7d or 8w [default: all]
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) since: Option<Duration>,
    /// Only turns that began more than TIME ago
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) until: Option<Duration>,
    /// Grouping
    #[arg(long, value_enum, default_value_t = UsageBy::Agent)]
    pub(crate) by: UsageBy,
    /// Second grouping, within each group
    #[arg(long, value_enum)]
    pub(crate) split: Option<UsageBy>,
    /// Offset of the days from UTC, such as +02:00 [default: Z]
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    pub(crate) tz: Option<UtcOffset>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Grouping of the usage table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UsageBy {
    /// By agent
    Agent,
    /// By model
    Model,
    /// By day
    Day,
    /// By working directory
    Dir,
}
