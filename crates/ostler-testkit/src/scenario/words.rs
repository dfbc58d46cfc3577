//! What the agent says: whole and in pieces, thoughts, and answers of a given shape.

use serde_json::{Value, json};

use super::{Driver, Place, Task, run};
use crate::model::{Answer, Rule, Script};
use crate::real;

fn only(answer: Answer) -> Place {
    Place::new(Script::new().rule(Rule::on_text("PROMPT").answer(answer)))
}

/// An answer, whole; who the agent is, what it cost, and every event in its place. S1-15…S1-19, S2-21, S4-6.
pub fn text(driver: &dyn Driver) {
    let place = only(Answer::text("Hello, world."));
    let seen = run(driver, &place, &Task::new("PROMPT").set("include_partial", "false"));
    seen.ended_with("completed", 0);
    seen.used(1);
    let story = "is starting, turn of the caller, started, is working, reply, usage of the turn, usage of the session, \
                 turn_ended completed, is idle, is stopping, is ended, ended completed";
    assert_eq!(seen.story().join(", "), story);
    let said = seen.one("text");
    assert_eq!((&said["text"], &said["delta"]), (&json!("Hello, world."), &json!(false)));
    assert_eq!(seen.answer(), "Hello, world.");
    let started = seen.one("started");
    assert_eq!((&started["agent"], &started["agent_version"]), (&json!("claude"), &json!(real::CLAUDE_VERSION)));
    assert_eq!(started["model"], place.only_call().model());
    assert!(started["tools"].as_array().is_some_and(|tools| tools.contains(&json!("Bash"))), "{started}");
    assert_eq!(seen.native().len(), 36, "the id to resume it by");
    let ended = seen.one("ended");
    assert_eq!((&ended["exit_code"], &ended["signal"]), (&json!(0), &Value::Null));
    assert_eq!(place.only_call().last_user_text(), "PROMPT");
}

/// An answer in pieces: each once, never repeated whole, together the answer. S3-25…S3-27, P21.
pub fn partial_messages(driver: &dyn Driver) {
    let place = only(Answer::text("One two three four.").deltas(4));
    let seen = run(driver, &place, &Task::new("PROMPT").set("include_partial", "true"));
    seen.ended_with("completed", 0);
    seen.used(1);
    let said = seen.all("text");
    let pieces: Vec<&str> = said.iter().filter_map(|text| text["text"].as_str()).collect();
    assert_eq!((pieces.len(), pieces.concat().as_str()), (4, "One two three four."));
    assert!(said.iter().all(|text| text["delta"] == true && text["message"] == said[0]["message"]), "{said:?}");
    assert_eq!(seen.answer(), "One two three four.");
}

/// Thoughts are told as thoughts and never become part of the answer, in pieces and whole.
pub fn thinking(driver: &dyn Driver) {
    for partial in ["true", "false"] {
        let place = only(Answer::thinking("Hm, let me see.").deltas(2).and_text("Forty-two.").deltas(2));
        let seen = run(driver, &place, &Task::new("PROMPT").set("include_partial", partial));
        seen.ended_with("completed", 0);
        seen.used(1);
        let of_kind = |kind: &str| -> String {
            let texts = seen.all("text").into_iter().filter(|text| text["kind"] == kind);
            texts.filter_map(|text| text["text"].as_str()).collect()
        };
        assert_eq!((of_kind("thinking").as_str(), of_kind("reply").as_str()), ("Hm, let me see.", "Forty-two."));
        assert_eq!(seen.answer(), "Forty-two.");
    }
}

/// A schema makes the answer data: the model is given a tool for it, and what it gave is `structured`.
pub fn structured_output(driver: &dyn Driver) {
    let place = only(Answer::tool("StructuredOutput", json!({"answer": 42})));
    let schema = r#"{"type":"object","properties":{"answer":{"type":"integer"}},"required":["answer"],"additionalProperties":false}"#;
    let seen = run(driver, &place, &Task::new("PROMPT").set("json_schema", schema));
    seen.ended_with("completed", 0);
    seen.used(1);
    assert_eq!(seen.one("turn_ended")["structured"], json!({"answer": 42}));
    let call = place.only_call();
    let tools = call.body["tools"].as_array().cloned().unwrap_or_default();
    let given = tools.iter().find(|tool| tool["name"] == "StructuredOutput").expect("the tool for the answer");
    assert_eq!(given["input_schema"]["properties"]["answer"]["type"], "integer");
}

/// The model that is asked for is the one that answers, and the one that the tokens are counted for. S3-5, S4-11.
pub fn model(driver: &dyn Driver) {
    let place = only(Answer::text("Small but quick."));
    let seen = run(driver, &place, &Task::new("PROMPT").set("model", "haiku"));
    seen.ended_with("completed", 0);
    let call = place.only_call();
    assert!(call.model().contains("haiku"), "{}", call.model());
    assert_eq!(
        (&seen.one("started")["model"], &seen.one("ended")["usage"]["model"]),
        (&json!(call.model()), &json!(call.model()))
    );
}
