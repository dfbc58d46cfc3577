//! `ostler man`: prints the manual page, or writes one page per verb to a directory.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::print_line;

/// Runs the verb.
pub(crate) fn run(dir: Option<&Path>) -> Result<Code> {
    match dir {
        Some(dir) => clap_mangen::generate_to(Cli::command(), dir)
            .map_err(|e| usage!("{}: {e}", dir.display()))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command())
                .render(&mut page)
                .map_err(Fault::internal)?;
            print_line(String::from_utf8_lossy(&page).trim_end());
        }
    }
    Ok(exit::OK)
}
