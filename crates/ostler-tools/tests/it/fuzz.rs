//! A fuzz campaign without nightly: random inputs that know the grammar, mutated from seeds, checked against invariants.
//!
//! Each target runs for a second among the usual tests. `cargo xtask fuzz` gives them ten minutes; CONTRIBUTING.md says more.

mod harness;
mod lines;
mod paths;
mod policies;
mod random;
mod shell;
