//! Agent output: complete and streamed text, thoughts, structured answers, and usage.

use serde_json::{Value, json};

use super::{Driver, Subject, Task, TestEnv, run};
use crate::model::{Answer, Rule, Script};

fn only(driver: &dyn Driver, answer: Answer) -> TestEnv {
    driver.test_env(Script::new().rule(Rule::on_text("PROMPT").answer(answer)))
}

/// Creates a task whose answer is streamed, or complete if the agent can be configured so.
fn task(subject: &'static Subject, partial: &str) -> Task {
    subject
        .settings
        .partial
        .iter()
        .fold(Task::new("PROMPT"), |task, key| task.set(key, partial))
}

/// A complete answer, the agent's identity, its cost, and every event in order. S1-6, S1-15…S1-19,
/// S2-21, S3-34, S4-6, S4-31.
pub fn text(driver: &dyn Driver) {
    let env = only(driver, Answer::text("Hello, world."));
    let subject = driver.subject();
    let seen = run(driver, &env, &task(subject, "false"));
    seen.assert_story("text");
    seen.assert_ended("completed", 0);
    let event = seen.one("text");
    let in_pieces = subject.settings.partial.is_none() && subject.settings.streams;
    assert_eq!(
        (&event["text"], &event["delta"]),
        (&json!("Hello, world."), &json!(in_pieces))
    );
    assert_eq!(seen.answer(), "Hello, world.");
    if env.skips_live_checks() {
        return;
    }
    let started = seen.started();
    assert_eq!(started["agent"], subject.name);
    if let Some(version) = subject.version() {
        assert_eq!(started["agent_version"], version);
    }
    let model = subject.quirks.reported_model(env.only_call().model());
    assert_eq!(started["model"].as_str(), model.as_deref(), "{started}");
    // An agent that does not report its tools has an empty list.
    let reported = started["tools"].as_array().expect("a list of tools");
    assert!(
        reported.is_empty() || reported.contains(&json!(subject.command())),
        "{started}"
    );
    let ended = seen.one("ended");
    let lingered = subject.quirks.lingers && ended["signal"] == 15;
    let code = &json!(subject.numbers.exit_codes[0]);
    assert!(
        lingered || (&ended["exit_code"], &ended["signal"]) == (code, &Value::Null),
        "{ended}"
    );
    if subject.pinned().is_some() {
        assert_ne!(seen.native(), "", "the id to resume the session");
    }
    assert!(
        subject.prompt_arrived(&env.only_call().last_user_text(), "PROMPT"),
        "{}",
        env.only_call().last_user_text()
    );
}

/// A streamed answer: each delta once, never repeated as a whole, together the answer.
/// S3-25…S3-27, P21.
pub fn partial_messages(driver: &dyn Driver) {
    let env = only(driver, Answer::text("One two three four.").deltas(4));
    let seen = run(driver, &env, &task(driver.subject(), "true"));
    seen.assert_story("deltas");
    seen.assert_ended("completed", 0);
    let texts = seen.all("text");
    let pieces: Vec<&str> = texts
        .iter()
        .filter_map(|text| text["text"].as_str())
        .collect();
    assert_eq!(
        (pieces.len(), pieces.concat().as_str()),
        (4, "One two three four.")
    );
    assert!(
        texts
            .iter()
            .all(|text| text["delta"] == true && text["message"] == texts[0]["message"]),
        "{texts:?}"
    );
    assert_eq!(seen.answer(), "One two three four.");
}

/// Thoughts are emitted as thoughts and never become part of the answer, streamed or complete.
pub fn thinking(driver: &dyn Driver) {
    for partial in ["true", "false"] {
        let env = only(
            driver,
            Answer::thinking("Hm, let me see.")
                .deltas(2)
                .and_text("Forty-two.")
                .deltas(2),
        );
        let seen = run(driver, &env, &task(driver.subject(), partial));
        seen.assert_story("thinking");
        seen.assert_ended("completed", 0);
        let of_kind = |kind: &str| -> String {
            let texts = seen
                .all("text")
                .into_iter()
                .filter(|text| text["kind"] == kind);
            texts.filter_map(|text| text["text"].as_str()).collect()
        };
        let thoughts = |text: &str| match driver.subject().quirks.trims_thoughts {
            true => text.split_whitespace().collect::<String>(),
            false => text.to_owned(),
        };
        assert_eq!(thoughts(&of_kind("thinking")), thoughts("Hm, let me see."));
        assert_eq!(of_kind("reply"), "Forty-two.");
        assert_eq!(seen.answer(), "Forty-two.");
    }
}

/// A schema makes the answer data: the model gets it, and its reply becomes `structured`.
pub fn structured_output(driver: &dyn Driver) {
    let subject = driver.subject();
    let env = only(driver, subject.structured_answer(&json!({"answer": 42})));
    let schema = r#"{"type":"object","properties":{"answer":{"type":"integer"}},"required":["answer"],"additionalProperties":false}"#;
    let seen = run(
        driver,
        &env,
        &Task::new("PROMPT").set("json_schema", schema),
    );
    seen.assert_story("structured_output");
    seen.assert_ended("completed", 0);
    assert_eq!(seen.one("turn_ended")["structured"], json!({"answer": 42}));
    if env.skips_live_checks() {
        return;
    }
    let given = subject
        .schema(&env.only_call())
        .expect("the schema, as the model gets it");
    assert_eq!(given["properties"]["answer"]["type"], "integer");
}

/// Every token is counted once, for the turn and for the session, also over several model calls.
/// S1-19, S2-19, S4-11.
pub fn usage_exact(driver: &dyn Driver) {
    let subject = driver.subject();
    let script = Script::new().rule(Rule::on_text("PROMPT").answer(subject.shell("echo counted")));
    let env = driver.test_env(script.rule(Rule::on_tool_result().text("Two calls.")));
    let seen = run(driver, &env, &Task::new("PROMPT").trusting());
    seen.assert_story("usage_exact");
    seen.assert_ended("completed", 0);
    seen.assert_usage(1..=2);
}

/// The requested model is the one that answers, and the one to which the tokens are attributed.
/// S3-5, S4-11, S0-8, S2-7.
pub fn model(driver: &dyn Driver) {
    let env = only(driver, Answer::text("Small but quick."));
    let wanted = driver.subject().settings.model.as_str();
    let seen = run(driver, &env, &Task::new("PROMPT").set("model", wanted));
    seen.assert_ended("completed", 0);
    let call = env.only_call();
    assert!(call.model().contains(wanted), "{}", call.model());
    let reported = json!(driver.subject().quirks.reported_model(call.model()));
    assert_eq!(
        (
            &seen.one("started")["model"],
            &seen.one("ended")["usage"]["model"]
        ),
        (&reported, &reported)
    );
}
