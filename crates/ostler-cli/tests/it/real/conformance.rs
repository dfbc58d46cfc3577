//! `ostler doctor --conformance` with the real agents, each on PATH as a user would install it.

ostler_testkit::each_real_agent!(crate::conformance::conformance_test, real);
