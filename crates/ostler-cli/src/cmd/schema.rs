//! `ostler schema`: prints a JSON schema.

use crate::args::{Schema, SchemaArgs};
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::print_json;

/// Runs the verb.
pub(crate) fn run(args: &SchemaArgs) -> Result<Code> {
    let schema = match args.kind {
        Schema::Events => ostler::event::schema(),
    };
    print_json(&serde_json::to_value(&schema).map_err(Fault::internal)?);
    Ok(exit::OK)
}
