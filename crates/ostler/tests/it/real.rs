//! The library with real agents, against the scripted model on loopback: Claude Code here, others
//! in separate files.

mod adapter;
mod codex;
mod conformance;
mod copilot;
mod live;
mod logins;
mod pi;
mod project_settings;
mod settings;

use std::time::Duration;

use ostler::EventKind;
use ostler_testkit::model::{Rule, Script};
use ostler_testkit::processes::alive;
use ostler_testkit::scenario::{self, CLAUDE, Task, TestEnv};
use ostler_testkit::{claude_only_scenarios, further_scenarios};

use crate::driver::{Library, agent, host, runtime, spec};
use crate::turns;

further_scenarios!(Library(&CLAUDE));
claude_only_scenarios!(Library(&CLAUDE));

// S2-10, P21, P36
#[test]
fn three_turns_in_one_process() {
    turns::three_turns_are_one_conversation(&CLAUDE);
}

/// A dropped session leaves neither the agent nor its child processes behind. P1, P4.
#[test]
fn a_dropped_session_leaves_nothing() {
    let command = CLAUDE.shell("echo running > running; sleep 300");
    let place = TestEnv::new(&CLAUDE, Script::new().rule(Rule::any().answer(command)));
    let runtime = runtime();
    let pid = runtime.block_on(async {
        let mut session = agent(&CLAUDE)
            .start(&host(&place), spec(&place, &Task::new("PROMPT").trusting()))
            .unwrap();
        while let Some(event) = session.next().await {
            if matches!(event.kind, EventKind::ToolCall(_)) {
                break;
            }
        }
        session.remote().pid().unwrap()
    });
    assert!(alive(pid));
    // The task that owns the agent ends with the runtime, at the latest.
    drop(runtime);
    place.wait_until_empty(Duration::from_secs(10));
}

/// A system prompt of a megabyte fits no command line and arrives all the same. P28.
#[test]
fn a_megabyte_of_system_prompt() {
    let place = TestEnv::new(&CLAUDE, Script::always("Aye."));
    let long = "Speak like a sailor, always. ".repeat(36_000);
    let seen = scenario::run(
        &Library(&CLAUDE),
        &place,
        &Task::new("PROMPT").set("append_system_prompt", &long),
    );
    seen.assert_ended("completed", 0);
    assert!(place.only_call().system_text().contains(long.trim_end()));
}
