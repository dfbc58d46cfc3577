//! Agents that are too big or too slow for every run: only with `cargo xtask test --all-agents`.

crate::conformance::members!(heavy);
