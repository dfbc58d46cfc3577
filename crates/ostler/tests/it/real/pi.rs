//! The library with the real pi, against the scripted model on loopback: tests that are not rows of
//! the conformance suite.
//!
//! Scenarios that are left out, and why: those with permissions, with tools of the caller, `budget`
//! and `max_turns` (it has none of them), `disallowed_tools_are_gone` (no such setting),
//! `unreachable` (the address is not a variable), `an_unknown_session`, `in_use_by_another` and
//! `from_another_directory` (no transcripts that Ostler could look up). Own tests take the place of
//! the last four.

use std::fs;
use std::path::{Path, PathBuf};

use ostler::permission::{Policy, Trust};
use ostler_testkit::model::{Rule, Script};
use ostler_testkit::scenario::{self, Observed, PI, Task, TestEnv};

use crate::driver::{Library, agent, host, runtime, spec};

ostler_testkit::tests_of_scenarios! { Library(&PI);
    output::model
    tools::tools_limit_what_exists tools::no_tools_at_all
    endings::overloaded endings::server_error endings::broken_off endings::refused
    endings::output_limit endings::wall_limit_in_a_tool endings::idle_limit
    endings::a_silent_tool_is_not_idle
    endings::interrupted endings::interrupted_at_once endings::interrupted_in_mid_stream
    endings::interrupted_in_a_tool
    prompts::a_leading_dash prompts::system_prompts
    sessions::unknown_resume_id
}

crate::sessions::live_tests! { PI;
    sending::three_turns_remember sending::pause_holds_messages sending::freeze_stops_the_work
    sending::steered_between_tools sending::a_budget_of_turns sending::a_budget_of_tokens
    interrupts::in_a_command interrupts::at_once
    interrupts::with_a_message_under_way
    changes::another_model
    lasting::killed_and_started_again
}

fn run(place: &TestEnv, task: &Task) -> Observed {
    scenario::run(&Library(&PI), place, task)
}

/// Returns the directory of pi's own files in the home of a place.
fn agent_dir(place: &TestEnv) -> PathBuf {
    let home = place.host().iter().find(|(name, _)| name == "HOME");
    Path::new(&home.unwrap().1).join(".pi/agent")
}

/// A model that can remember a word.
fn memory() -> TestEnv {
    let script = Script::new()
        .rule(Rule::on_text("Which").text("Pelican."))
        .rule(Rule::on_text("Remember").text("I will."));
    TestEnv::new(&PI, script)
}

// S2-10, P21, P36
#[test]
fn three_turns_in_one_process() {
    crate::turns::three_turns_are_one_conversation(&PI);
}

/// Its tools run without a question, so no rule could be enforced: nothing is started.
#[test]
fn a_policy_is_refused() {
    let place = TestEnv::new(&PI, Script::new());
    let mut wanted = spec(&place, &Task::new("PROMPT"));
    let policy = "[[rule]]\ncommand = \"touch good*\"\ndo = \"allow\"\n";
    wanted.policy = Some(Policy::parse(policy, "test", Trust::Full).unwrap());
    let _context = runtime();
    let error = agent(&PI).start(&host(&place), wanted).unwrap_err();
    assert!(
        error.to_string().contains("no rule can be enforced"),
        "{error}"
    );
    assert!(place.server.requests().is_empty() && place.processes().is_empty());
}

/// The service's address refuses connections.
#[test]
fn an_unreachable_model_is_a_network_error() {
    let place = TestEnv::new(&PI, Script::new());
    let models = agent_dir(&place).join("models.json");
    let text = fs::read_to_string(&models).unwrap();
    let moved = text.replace(&place.server.base_url(), "http://127.86.75.30:9");
    assert_ne!(moved, text);
    fs::write(&models, moved).unwrap();
    let seen = run(&place, &Task::new("PROMPT"));
    seen.assert_ended("network", 1);
    let hint = seen.outcome()["hint"].as_str().unwrap();
    assert!(hint.contains("models.json"), "{hint}");
}

/// pi does not resume a session of another directory, but copies it. P53
#[test]
fn a_session_of_another_directory_is_copied_and_not_resumed() {
    let place = memory();
    let first = run(&place, &Task::new("Remember the word pelican."));
    first.assert_ended("completed", 0);
    let there = place.outside("there");
    fs::create_dir(&there).unwrap();
    let again = |fork: &str| {
        let task = Task::new("Which word?")
            .set("resume", first.native())
            .set("fork", fork);
        let mut wanted = spec(&place, &task);
        wanted.dir = Some(there.clone());
        runtime().block_on(async {
            crate::rig::finish(agent(&PI).start(&host(&place), wanted).unwrap()).await
        })
    };
    let outcome = again("false").outcome().clone();
    assert_eq!(outcome.cause, ostler::Cause::BadRequest, "{outcome:?}");
    assert!(outcome.hint.as_ref().unwrap().contains("--fork"));
    assert_eq!(place.server.requests().len(), 1);
    assert_eq!(again("true").turn().text, "Pelican.");
    assert_eq!(place.processes(), []);
}
