//! `ostler version`: prints the version, as `--version` does.

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::print_line;

/// Runs the verb.
#[expect(clippy::unnecessary_wraps, reason = "every verb may fail")]
pub(crate) fn run() -> Result<Code> {
    print_line(Cli::command().render_version().trim_end());
    Ok(exit::OK)
}
