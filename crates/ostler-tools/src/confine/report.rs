//! What is enforced on this machine, and by what.

use serde::Serialize;

/// One thing that is kept from happening, and what keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// What it is about: `files`, `attributes`, `network`, `signals`, `system_calls`, `privileges`, `processes`, `limits`.
    pub name: &'static str,
    /// What enforces it; or, where nothing does, why not.
    pub by: String,
    /// Whether all of it is enforced.
    pub enforced: bool,
}

/// Every layer of a confinement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In the order in which they matter.
    pub layers: Vec<Layer>,
}

impl Report {
    /// The layers that are missing, or not whole.
    pub fn gaps(&self) -> impl Iterator<Item = &Layer> {
        self.layers.iter().filter(|layer| !layer.enforced)
    }
}
