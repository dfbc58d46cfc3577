//! Settings of agents that speak ACP.

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{COPILOT_ACP, GEMINI, OPENCODE, Subject, Task, TestEnv};

use super::{adder, call_with, run, talking};

fn agents() -> [&'static Subject; 3] {
    [&GEMINI, &OPENCODE, &COPILOT_ACP]
}

/// `model` selects the model.
#[test]
fn model() {
    for subject in agents() {
        let wanted = subject.settings.model.as_str();
        let call = call_with(subject, &Task::new("PROMPT").set("model", wanted));
        assert_eq!(
            call.model(),
            wanted.rsplit('/').next().unwrap_or_default(),
            "{}",
            subject.name
        );
    }
}

/// `mcp_config`: the server is started, and the model is offered its tool.
#[test]
fn mcp_config() {
    for subject in agents() {
        let call = call_with(subject, &Task::new("PROMPT").set("mcp_config", adder()));
        let is_adder = |name: &&str| name.contains("adder") && name.contains("add");
        assert!(
            call.tool_names().iter().any(is_adder),
            "{}: {:?}",
            subject.name,
            call.tool_names()
        );
    }
}

/// `fs`: Ostler reads and writes files for an agent that requests it, including files that do not
/// exist yet.
#[test]
fn fs() {
    for subject in agents() {
        let place = TestEnv::new(subject, Script::new());
        let made = place.work().join("made");
        let (tool, input) = subject.tools.write(made.to_str().unwrap());
        let script = Script::new()
            .rule(Rule::on_tool_result().text("Done."))
            .rule(Rule::any().with_tools().answer(Answer::tool(tool, input)));
        let place = place.with_script(script);
        let seen = run(
            subject,
            &place,
            &Task::new("PROMPT").trusting().set("fs", "true"),
        );
        seen.assert_ended("completed", 0);
        let written = std::fs::read_to_string(made).unwrap_or_default();
        assert_eq!(
            written,
            "written\n",
            "{}: {:?}",
            subject.name,
            seen.all("tool_result")
        );
    }
}

/// `auth_method` logs in before the session starts.
#[test]
fn auth_method() {
    call_with(
        &GEMINI,
        &Task::new("PROMPT").set("auth_method", "gemini-api-key"),
    );
    let place = talking(&GEMINI);
    let seen = run(
        &GEMINI,
        &place,
        &Task::new("PROMPT").set("auth_method", "no-such-method"),
    );
    assert_ne!(seen.outcome()["cause"], "completed");
}
