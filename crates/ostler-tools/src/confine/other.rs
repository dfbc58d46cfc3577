//! Systems for which there is no confinement yet: it says so.

use super::{Confinement, Layer, Report};

/// What is enforced here: nothing but what the process layer does itself.
#[must_use]
pub fn report(_confinement: &Confinement) -> Report {
    let names = ["files", "attributes", "network", "signals", "system_calls", "privileges", "processes", "limits"];
    let layer = |name| Layer { name, by: "not available on this system".to_owned(), enforced: false };
    Report { layers: names.map(layer).to_vec() }
}
