//! The library with the real Codex, against the scripted model on loopback: quick tests that are
//! not rows of the conformance suite. The rest is in `heavy/further/codex.rs`, with the list of
//! what is not tested, and why.

use ostler_testkit::scenario::CODEX;

use crate::driver::Library;

mod own;

ostler_testkit::tests_of_scenarios! { Library(&CODEX);
    tools::tool_denied_and_tolerated
    endings::broken_off endings::refused endings::output_limit
    endings::interrupted_at_once endings::interrupted_in_a_tool
    prompts::system_prompts
}

crate::sessions::live_tests! { CODEX;
    sending::freeze_stops_the_work sending::steered_between_tools
    interrupts::in_a_command interrupts::in_a_question interrupts::in_a_bound_tool
    interrupts::with_a_message_under_way interrupts::stopped_in_the_middle
    permissions::two_at_once
    changes::another_model
    lasting::killed_and_started_again
}
