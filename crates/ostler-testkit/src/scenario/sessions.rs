//! Continued sessions: resumed, forked, unknown, and already in use.

use serde_json::json;

use super::{Driver, Task, TestEnv, run};
use crate::model::{Rule, Script};

const ID: &str = "123e4567-e89b-42d3-a456-426614174000";

fn memory(driver: &dyn Driver) -> TestEnv {
    driver.test_env(
        Script::new()
            .rule(Rule::on_text("Remember").text("I will remember."))
            .rule(Rule::on_text("Use the shell").answer(driver.subject().shell("touch made")))
            .rule(Rule::on_tool_result().text("Pelican."))
            .rule(Rule::on_text("Which").text("Pelican.")),
    )
}

/// A resumed session knows the earlier messages. The model is still offered the tools that the
/// session began with, but only those of this run exist. S1-10, S1-21, S1-22.
pub fn resume_remembers(driver: &dyn Driver) {
    let env = memory(driver);
    let first = run(driver, &env, &Task::new("Remember the word pelican."));
    let task = Task::new("Which word? Use the shell.")
        .trusting()
        .set("resume", first.native())
        .set("tools", "Read");
    first.assert_usage(1..=1);
    let second = run(driver, &env, &task);
    second.assert_ended("completed", 0);
    second.assert_usage(2..=3);
    assert_eq!(second.answer(), "Pelican.");
    assert_eq!(second.native(), first.native());
    assert_ne!(second.session(), first.session());
    let call = &env.server.requests()[1];
    let messages = call.body["messages"].to_string();
    let at = |part: &str| {
        messages
            .find(part)
            .unwrap_or_else(|| panic!("no {part:?} in {messages}"))
    };
    assert!(
        at("Remember the word pelican.") < at("I will remember.")
            && at("I will remember.") < at("Which word?")
    );
    assert_eq!(second.one("started")["tools"], json!(["Read"]));
    assert_eq!(second.one("tool_result")["ok"], false);
    assert!(!env.work().join("made").exists());
}

/// A forked session knows as much, under a new id; the original is unchanged.
pub fn fork_is_another_session(driver: &dyn Driver) {
    let env = memory(driver);
    let first = run(
        driver,
        &env,
        &Task::new("Remember the word pelican.").set("session_id", ID),
    );
    assert_eq!(first.native(), ID);
    let copy = run(
        driver,
        &env,
        &Task::new("Which word?")
            .set("resume", ID)
            .set("fork", "true"),
    );
    copy.assert_ended("completed", 0);
    assert_ne!(copy.native(), ID);
    run(
        driver,
        &env,
        &Task::new("Which one, again?").set("resume", ID),
    )
    .assert_ended("completed", 0);
    let calls = env.server.requests();
    let knows = |call: usize, part: &str| calls[call].body["messages"].to_string().contains(part);
    assert!(knows(1, "pelican") && knows(2, "pelican") && !knows(2, "Which word?"));
}

/// Resuming an unknown session is an invalid request, with a hint, before any model call.
pub fn unknown_resume_id(driver: &dyn Driver) {
    let env = driver.test_env(Script::new());
    let seen = run(driver, &env, &Task::new("Which word?").set("resume", ID));
    seen.assert_ended("bad_request", 2);
    let (message, hint) = (&seen.outcome()["message"], &seen.outcome()["hint"]);
    assert!(
        message.as_str().is_some_and(|message| message.contains(ID)),
        "{message}"
    );
    assert!(
        hint.as_str()
            .is_some_and(|hint| hint.contains("No such session")),
        "{hint}"
    );
    assert!(env.server.requests().is_empty());
}

/// An id can be chosen once; the second time it is an invalid request, with a hint. S1-9.
pub fn session_id_in_use(driver: &dyn Driver) {
    let env = memory(driver);
    run(
        driver,
        &env,
        &Task::new("Remember the word pelican.").set("session_id", ID),
    )
    .assert_ended("completed", 0);
    let seen = run(
        driver,
        &env,
        &Task::new("Which word?").set("session_id", ID),
    );
    seen.assert_ended("bad_request", 2);
    let (message, hint) = (&seen.outcome()["message"], &seen.outcome()["hint"]);
    assert!(
        message
            .as_str()
            .is_some_and(|message| message.contains("already in use")),
        "{message}"
    );
    assert!(
        hint.as_str().is_some_and(|hint| hint.contains("resume")),
        "{hint}"
    );
    assert_eq!(env.server.requests().len(), 1);
}
