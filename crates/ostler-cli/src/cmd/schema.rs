//! `ostler schema`: prints a JSON schema.

use crate::args::{Schema, SchemaArgs};
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::output::print_line;

/// Runs the verb.
pub(crate) fn run(args: &SchemaArgs) -> Result<Code, Fault> {
    let schema = match args.kind {
        Schema::Events => ostler::event::schema(),
    };
    print_line(&serde_json::to_string_pretty(&schema).map_err(Fault::internal)?);
    Ok(exit::OK)
}
