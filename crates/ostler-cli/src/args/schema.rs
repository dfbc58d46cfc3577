//! Arguments of `ostler schema`.

use clap::ValueEnum;

/// Output that has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Schema {
    /// One line of `--output events`
    Events,
    /// The normalized log of a trial, youbencha.log.json
    YoubenchaLog,
}
