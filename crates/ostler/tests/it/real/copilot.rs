//! The library with the real Copilot CLI, against the scripted model on loopback.
//!
//! Not tried, because Copilot has nothing of the kind: a schema (`structured_output`), limits on money and steps (`budget`,
//! `max_turns`), system prompts, no tools at all. Not tried as it is written: `tool_denied`, which looks for the mark of an error
//! in what the model is told; chat completions have none, and Copilot's sentence has no code.

use ostler_testkit::scenario::COPILOT;
use ostler_testkit::tests_of_scenarios;

use crate::driver::Library;

tests_of_scenarios! { Library(&COPILOT);
    words::text words::partial_messages words::thinking words::model
    tools::tool_allowed tools::tool_denied_and_tolerated tools::tools_limit_what_exists
    tools::disallowed_tools_are_gone tools::two_tools_at_once
    endings::unauthorized endings::rate_limited endings::overloaded endings::unreachable endings::broken_off
    endings::refused endings::output_limit
    endings::wall_limit endings::wall_limit_in_a_tool endings::idle_limit endings::a_silent_tool_is_not_idle
    endings::interrupted endings::interrupted_at_once endings::interrupted_in_mid_stream
    endings::interrupted_in_a_tool endings::stopped endings::killed_from_outside
    prompts::five_megabytes prompts::awkward_characters prompts::a_leading_dash
    sessions::resume_remembers sessions::unknown_resume_id
    surroundings::directory
}
