//! `ostler man`: prints the manual page, or writes one page per verb to a directory.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::print_line;

/// Runs the verb.
pub(crate) fn run(args: &ManArgs) -> Result<Code> {
    match &args.dir {
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
