//! Settings of the Copilot CLI, one process per turn.

use std::fs;

use ostler_testkit::model::{Rule, Script};
use ostler_testkit::scenario::{COPILOT, Task, TestEnv};
use serde_json::json;

use super::{adder, call_with, run, sibling_dir, talking};

const ID: &str = "123e4567-e89b-42d3-a456-426614174000";

/// `effort` reaches the model's service.
#[test]
fn effort() {
    let call = call_with(&COPILOT, &Task::new("PROMPT").set("effort", "low"));
    assert!(
        call.body
            .to_string()
            .contains("\"reasoning_effort\":\"low\""),
        "{}",
        call.body
    );
}

/// `agent` is a custom agent of the directory.
#[test]
fn agent() {
    let place = talking(&COPILOT);
    fs::create_dir_all(place.work().join(".github/agents")).unwrap();
    let agent = "---\nname: reviewer\ndescription: Reviews.\n---\nYou are a REVIEWER.\n";
    fs::write(place.work().join(".github/agents/reviewer.agent.md"), agent).unwrap();
    run(
        &COPILOT,
        &place,
        &Task::new("PROMPT").set("agent", "reviewer"),
    )
    .assert_ended("completed", 0);
    assert!(
        place
            .only_call()
            .body
            .to_string()
            .contains("You are a REVIEWER."),
        "{}",
        place.only_call().body
    );
}

/// `allowed_tools` lets calls that match its rule run without asking, and no others.
#[test]
fn allowed_tools() {
    let script = Script::new()
        .rule(Rule::on_call(1).answer(COPILOT.shell("touch good")))
        .rule(Rule::on_call(2).answer(COPILOT.shell("mkdir bad")))
        .rule(Rule::any().text("Tried."));
    let place = TestEnv::new(&COPILOT, script);
    let seen = run(
        &COPILOT,
        &place,
        &Task::new("PROMPT").set("allowed_tools", "shell(touch:*)"),
    );
    assert_eq!(
        ["good", "bad"].map(|name| place.work().join(name).exists()),
        [true, false],
        "{:#?}",
        seen.story()
    );
}

/// `add_dir` makes an additional directory available to tools.
#[test]
fn add_dir() {
    for added in [true, false] {
        let place = TestEnv::new(&COPILOT, Script::new());
        let dir = sibling_dir(&place, "second");
        let view =
            ostler_testkit::model::Answer::tool("view", json!({"path": dir.join("note.txt")}));
        let script = Script::new()
            .rule(Rule::on_tool_result().text("{tool_result}"))
            .rule(Rule::any().answer(view));
        let place = place.with_script(script);
        // The system's temporary directory, which contains the test, is open to Copilot.
        let mut task = Task::new("PROMPT").env("TMPDIR", place.work().display().to_string());
        task.tolerate_denials = true;
        let task = if added {
            task.set("add_dir", dir.display().to_string())
        } else {
            task
        };
        let seen = run(&COPILOT, &place, &task);
        assert_eq!(
            seen.answer().contains("forty-two"),
            added,
            "{}",
            seen.answer()
        );
    }
}

/// `mcp_config` as JSON goes through a private file; a path is passed on unchanged.
#[test]
fn mcp_config() {
    let place = talking(&COPILOT);
    let path = place.outside("servers.json");
    fs::write(&path, adder()).unwrap();
    for value in [adder(), path.display().to_string()] {
        let call = call_with(&COPILOT, &Task::new("PROMPT").set("mcp_config", value));
        assert!(
            call.tool_names().iter().any(|name| name.contains("add")),
            "{:?}",
            call.tool_names()
        );
    }
}

/// `session_id` names the session.
#[test]
fn session_id() {
    let place = talking(&COPILOT);
    let seen = run(&COPILOT, &place, &Task::new("PROMPT").set("session_id", ID));
    seen.assert_ended("completed", 0);
    assert_eq!(seen.native(), ID);
    let again = run(
        &COPILOT,
        &place,
        &Task::new("PROMPT again").set("resume", ID),
    );
    again.assert_ended("completed", 0);
    assert!(
        place.server.requests()[1]
            .body
            .to_string()
            .contains("PROMPT again")
    );
}

/// `no_custom_instructions` leaves out the directory's instructions.
#[test]
fn no_custom_instructions() {
    for (without, is_read) in [("false", true), ("true", false)] {
        let place = talking(&COPILOT);
        fs::write(place.work().join("AGENTS.md"), "Speak like a PIRATE.\n").unwrap();
        run(
            &COPILOT,
            &place,
            &Task::new("PROMPT").set("no_custom_instructions", without),
        )
        .assert_ended("completed", 0);
        let said = place.only_call().body.to_string();
        assert_eq!(
            said.contains("Speak like a PIRATE."),
            is_read,
            "no_custom_instructions={without}"
        );
    }
}

/// `no_builtin_mcps` and `max_ai_credits` are accepted; neither has an effect with the user's own
/// model.
#[test]
fn no_builtin_mcps_and_max_ai_credits() {
    let call = call_with(
        &COPILOT,
        &Task::new("PROMPT")
            .set("no_builtin_mcps", "true")
            .set("max_ai_credits", "30"),
    );
    assert!(
        !call
            .tool_names()
            .iter()
            .any(|name| name.starts_with("github")),
        "{:?}",
        call.tool_names()
    );
}
