//! The conformance suite with the real agents.

ostler_testkit::each_member!(crate::conformance::member_tests, real);
