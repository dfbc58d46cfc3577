//! The library with the real Codex, against the scripted model on loopback.
//!
//! Rows of the conformance suite are tested there, and quick tests are in `real/codex.rs`.
//! Scenarios that are left out, and why: `commands_are_asked_about_one_by_one` (commands of one
//! message run in parallel, in any order), `tools_limit_what_exists`, `no_tools_at_all`,
//! `disallowed_tools_are_gone`, `budget` and `max_turns` (no such settings), `unreachable` (the
//! address is not a variable), `steered_in_the_last_words` (a message joins the same turn),
//! `denied_with_a_message` and `restart_keeps_the_configuration` (the model gets no reason),
//! `rules_decide` (files are read by commands), `ten_megabytes` (Codex truncates results),
//! `a_tool_that_fails_or_panics` (its protocol has no error flag), `another_permission_mode` (other
//! modes), `an_unknown_session`, `in_use_by_another` and `from_another_directory` (no transcripts
//! that Ostler could look up). Codex-specific tests (`real/codex/own.rs`) take their place.

use ostler_testkit::scenario::{CODEX, CODEX_EXEC};

use crate::driver::Library;

mod app_server {
    use super::*;

    ostler_testkit::tests_of_scenarios! { Library(&CODEX);
        output::model
        endings::overloaded endings::wall_limit_in_a_tool endings::idle_limit
        endings::a_silent_tool_is_not_idle
        endings::interrupted endings::interrupted_in_mid_stream
        prompts::a_leading_dash
    }

    crate::sessions::live_tests! { CODEX;
        sending::three_turns_remember sending::pause_holds_messages
        sending::a_budget_of_turns sending::a_budget_of_tokens
        interrupts::at_once
        tools::tool_progress_is_emitted tools::a_tool_that_the_caller_runs
    }

    mod slow {
        crate::sessions::live_tests! { ostler_testkit::scenario::CODEX; lasting::fifty_turns }
    }
}

/// Only tasks that trust their tools: the same settings select the dialect.
mod exec {
    use super::*;

    ostler_testkit::tests_of_scenarios! { Library(&CODEX_EXEC);
        endings::wall_limit_in_a_tool endings::a_silent_tool_is_not_idle
    }
}
