//! Fuzz campaign on stable Rust: random inputs based on a grammar and mutated from seeds, checked
//! against invariants.
//!
//! Each target runs for a second among the regular tests. `cargo xtask fuzz` gives them ten
//! minutes; see CONTRIBUTING.md.

mod harness;
mod lines;
mod paths;
mod policies;
mod random;
mod shell;
