//! Tests with agents that are too large or too slow for every run: only with
//! `cargo xtask test --all-agents`.

mod conformance {
    ostler_testkit::each_real_agent!(crate::conformance::conformance_test, heavy);
}
