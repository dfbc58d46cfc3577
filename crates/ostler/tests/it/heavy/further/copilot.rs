//! The library with the real Copilot CLI, against the scripted model on loopback: tests that are
//! not rows of the conformance suite.
//!
//! Not tested, because Copilot lacks them: limits on cost and steps (`budget`, `max_turns`), system
//! prompts, disabling all tools.

use ostler_testkit::scenario::COPILOT;
use ostler_testkit::tests_of_scenarios;

use crate::driver::Library;

tests_of_scenarios! { Library(&COPILOT);
    output::model
    tools::tool_denied_and_tolerated tools::tools_limit_what_exists tools::disallowed_tools_are_gone
    endings::overloaded endings::unreachable endings::broken_off
    endings::refused endings::output_limit
    endings::wall_limit_in_a_tool endings::idle_limit endings::a_silent_tool_is_not_idle
    endings::interrupted endings::interrupted_in_mid_stream
    prompts::a_leading_dash
    sessions::resume_remembers sessions::unknown_resume_id
}
