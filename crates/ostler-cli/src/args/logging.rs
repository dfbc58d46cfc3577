//! `--log` and `--log-file`: how much the program logs, and where.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use tracing_subscriber::filter::{LevelFilter, Targets};

/// Options of the log. They apply to every verb.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Log to stderr, from a level on: error, warn, info, debug, trace; see docs/debugging.md
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Log")]
    pub(crate) log: Option<LogFilter>,
    /// Append the log to a file instead; the default level is debug
    #[arg(long, global = true, value_name = "FILE", help_heading = "Log")]
    pub(crate) log_file: Option<PathBuf>,
}

/// Parts of the program to log, each with its level.
#[derive(Debug, Clone)]
pub(crate) struct LogFilter(pub(crate) Targets);

/// Prefix of the names of all parts. Libraries that Ostler uses are logged only if they are named.
const OSTLER: &str = "ostler";

const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];

/// A level that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("unknown level {0:?}: expected off, error, warn, info, debug or trace")]
pub(crate) struct UnknownLevel(String);

impl FromStr for LogFilter {
    type Err = UnknownLevel;

    /// Parses `LEVEL` and `PART=LEVEL`, separated by commas.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut targets = Targets::new();
        for directive in text.split(',') {
            let (part, name) = directive.split_once('=').unwrap_or((OSTLER, directive));
            let level = LEVELS
                .iter()
                .find(|(known, _)| name.trim().eq_ignore_ascii_case(known))
                .ok_or_else(|| UnknownLevel(name.trim().to_owned()))?;
            targets = targets.with_target(part.trim(), level.1);
        }
        Ok(Self(targets))
    }
}

impl Default for LogFilter {
    fn default() -> Self {
        Self(Targets::new().with_target(OSTLER, LevelFilter::DEBUG))
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn parts_have_levels_of_their_own() {
        let enabled = |filter: &str, target: &str, level: Level| {
            let LogFilter(targets) = filter.parse().unwrap();
            targets.would_enable(target, &level)
        };
        for (filter, target, level, want) in [
            ("info", "ostler::session", Level::INFO, true),
            ("info", "ostler_store::writer", Level::INFO, true),
            ("info", "ostler::session", Level::DEBUG, false),
            ("trace", "hyper_util::client", Level::ERROR, false),
            ("off", "ostler::session", Level::ERROR, false),
            (
                "WARN, ostler::process = debug",
                "ostler::process::direct",
                Level::DEBUG,
                true,
            ),
            (
                "WARN, ostler::process = debug",
                "ostler::session",
                Level::INFO,
                false,
            ),
            ("hyper_util=debug", "hyper_util::client", Level::DEBUG, true),
        ] {
            assert_eq!(
                enabled(filter, target, level),
                want,
                "{filter} {target} {level}"
            );
        }
    }

    #[test]
    fn unknown_levels_are_errors() {
        for text in ["", "loud", "info,", "ostler=", "ostler::session", "3"] {
            let error = LogFilter::from_str(text).unwrap_err().to_string();
            assert!(
                error.contains("expected off, error, warn"),
                "{text}: {error}"
            );
        }
    }
}
