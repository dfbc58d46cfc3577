//! Agents that are too big or too slow for every run, and slow tests of the others: only with
//! `cargo xtask test --all-agents`.

mod further;

ostler_testkit::each_member!(crate::conformance::member_tests, heavy);
