//! What is printed about the program itself: schemas, the version, manual pages.

use clap::CommandFactory;

use crate::args::{Cli, ManArgs, Schema, SchemaArgs};
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::say;

/// Prints a JSON schema.
pub(crate) fn schema(args: &SchemaArgs) -> Result<Code, Fault> {
    let schema = match args.kind {
        Schema::Events => ostler::event::schema(),
    };
    say(&serde_json::to_string_pretty(&schema).map_err(Fault::internal)?);
    Ok(exit::OK)
}

/// Prints the version, as `--version` does.
#[expect(clippy::unnecessary_wraps, reason = "every verb may fail")]
pub(crate) fn version() -> Result<Code, Fault> {
    say(Cli::command().render_version().trim_end());
    Ok(exit::OK)
}

/// Prints the manual page, or writes all of them.
pub(crate) fn man(args: &ManArgs) -> Result<Code, Fault> {
    match &args.dir {
        Some(dir) => clap_mangen::generate_to(Cli::command(), dir)
            .map_err(|e| Fault::usage(format!("{}: {e}", dir.display())))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Fault::internal)?;
            say(String::from_utf8_lossy(&page).trim_end());
        }
    }
    Ok(exit::OK)
}
