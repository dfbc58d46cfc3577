//! Confinement on systems other than Linux: none.

use super::Machine;

/// Returns the properties of this machine that affect confinements: nothing can be enforced.
#[must_use]
pub fn machine() -> Machine {
    Machine::default()
}
