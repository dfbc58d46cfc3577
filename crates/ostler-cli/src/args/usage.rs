//! Arguments of `ostler usage`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::sessions::age;

const USAGE_EXAMPLES: &str = "\
Examples:
  ostler usage
  ostler usage --since 7d --by model
  ostler usage --since 30d --by day --json

A cost such as ≥ $0.0120 is a lower bound: the agent did not report the cost of every turn. A ~ \
marks an estimate. A turn counts for the day (UTC) on which it began. Sessions that were not \
stored are not included.";

#[derive(Debug, Args)]
#[command(after_help = USAGE_EXAMPLES)]
pub(crate) struct UsageArgs {
    /// Only turns that began within the last TIME, such as 12h, 7d or 8w [default: all]
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) since: Option<Duration>,
    /// Grouping
    #[arg(long, value_enum, default_value_t = UsageBy::Agent)]
    pub(crate) by: UsageBy,
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
    /// By day (UTC)
    Day,
    /// By working directory
    Dir,
}
