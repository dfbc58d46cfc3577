//! Live sessions with the real Claude Code.

crate::sessions::live_scenarios!(ostler_testkit::scenario::CLAUDE);
