//! `ostler schema`: prints a JSON schema.

use crate::args::Schema;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::print_json;

/// Runs the verb.
pub(crate) fn run(kind: Schema) -> Result<Code> {
    let schema = match kind {
        Schema::Events => serde_json::to_value(ostler::event::schema()).map_err(Fault::internal)?,
        Schema::YoubenchaLog => ostler_eval::normalized::schema(),
    };
    print_json(&schema);
    Ok(exit::OK)
}
