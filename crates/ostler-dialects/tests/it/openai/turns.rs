//! The tool loop, driven line by line: what it asks for, what it makes of the answers.

use ostler_core::dialect::{Dialect, FromConversation, Outbox, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_core::usage::CostSource;
use ostler_dialects::openai::OpenAi;
use serde_json::{Value, json};

use super::stage::Stage;

// S2-16
#[test]
fn a_second_turn_remembers_the_first() {
    let mut stage = Stage::new(&[]);
    stage.say("my name is Ada");
    stage.text("Hello Ada.");
    stage.say("what is my name?");
    let roles: Vec<_> = stage
        .asked()
        .iter()
        .map(|m| m["role"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(stage.asked()[2]["content"], "Hello Ada.");
    stage.text("Ada.");
    assert_eq!(
        stage
            .ended()
            .iter()
            .map(|over| over.text.as_deref().unwrap())
            .collect::<Vec<_>>(),
        ["Hello Ada.", "Ada."]
    );
}

// S2-19: the workspace, every tool, and the boundaries; a prompt of the caller's stands in place of
// it.
#[test]
fn the_system_prompt_names_the_workspace_the_tools_and_the_boundaries() {
    let system = |settings: &[(&str, &str)]| {
        let mut stage = Stage::new(settings);
        stage.say("hello");
        stage.asked()[0]["content"].as_str().unwrap().to_owned()
    };
    let own = system(&[("max_turns", "7")]);
    for part in [
        "/work",
        "read_file, write_file, weather",
        "outside the workspace",
        "secrets",
        "at most 7 steps",
    ] {
        assert!(own.contains(part), "no {part:?} in: {own}");
    }
    assert_eq!(system(&[("system_prompt", "Be brief.")]), "Be brief.");
}

// S2-17
#[test]
fn tools_are_run_and_their_results_go_back_until_the_model_stops() {
    let mut stage = Stage::new(&[]);
    stage.say("read both");
    stage.calls(&[
        ("1", "read_file", "{\"path\":\"a\"}"),
        ("2", "read_file", "{\"path\":\"b\"}"),
    ]);
    let orders = stage.orders();
    assert_eq!(
        orders[1]["tools"][1],
        json!({"id": "2", "name": "read_file", "input": {"path": "b"}})
    );
    stage.result("2", "bb");
    assert_eq!(stage.orders().len(), 2, "the other result is awaited");
    stage.result("1", "aa");
    let asked = stage.asked();
    assert_eq!(
        asked[2]["tool_calls"][0]["function"],
        json!({"name": "read_file", "arguments": "{\"path\":\"a\"}"})
    );
    assert_eq!(
        (&asked[3]["tool_call_id"], &asked[3]["content"]),
        (&json!("2"), &json!("bb"))
    );
    assert_eq!(asked[4]["content"], "aa");
    stage.text("done");
    let over = stage.ended()[0];
    assert_eq!(
        (over.outcome.cause, over.text.as_deref()),
        (Cause::Completed, Some("done"))
    );
    let usage = &over.usage[0];
    assert_eq!(
        (usage.input, usage.cache_read, usage.output),
        (Some(120), Some(80), Some(20))
    );
    assert_eq!(
        (usage.cost_usd, usage.cost_source),
        (None, CostSource::Unknown)
    );
}

#[test]
fn a_call_that_cannot_be_read_is_answered_and_the_model_mends_it() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{\"path\":"), ("2", "read_file", "[1]")]);
    let asked = stage.asked();
    assert!(
        asked[3]["content"]
            .as_str()
            .unwrap()
            .starts_with("bad_arguments"),
        "{asked:?}"
    );
    assert_eq!(
        asked[2]["tool_calls"][0]["function"]["arguments"], "{}",
        "servers refuse what is not JSON"
    );
    stage.text("never mind");
    assert_eq!(stage.cause(), Cause::Completed);
}

#[test]
fn an_id_that_was_used_before_is_made_another() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    for _ in 0..2 {
        stage.calls(&[("call_0", "read_file", "{}")]);
        let orders = stage.orders();
        let id = orders.last().unwrap()["tools"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        stage.result(&id, "x");
    }
    let ids: Vec<_> = stage
        .events
        .iter()
        .filter_map(|w| {
            if let EventKind::ToolCall(call) = w {
                Some(&call.id)
            } else {
                None
            }
        })
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
}

#[test]
fn a_finish_reason_that_lies_does_not_matter() {
    for reason in ["stop", "", "function_call", "end_turn"] {
        let mut stage = Stage::new(&[]);
        stage.say("go");
        stage.hear(&json!({"choices": [{"delta": {"tool_calls": [{"id": "1", "function": {"name": "read_file"}}]}}]}));
        stage.finish(reason);
        stage.result("1", "x");
        stage.text("ok");
        assert_eq!(stage.cause(), Cause::Completed, "{reason}");
    }
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.hear(&json!({"choices": [{"delta": {"content": "all there is"}}]}));
    stage.finish("tool_calls");
    assert_eq!(stage.cause(), Cause::Completed);
}

#[test]
fn endings_have_their_cause() {
    let end = |lines: &[Value]| {
        let mut stage = Stage::new(&[]);
        stage.say("go");
        lines.iter().for_each(|line| stage.hear(line));
        stage.over();
        stage.cause()
    };
    let text = json!({"choices": [{"delta": {"content": "half an ans"}}]});
    let stop = |reason: &str| json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    assert_eq!(end(&[text.clone(), stop("length")]), Cause::OutputLimit);
    assert_eq!(end(&[text.clone(), stop("content_filter")]), Cause::Refused);
    assert_eq!(
        end(&[
            json!({"choices": [{"delta": {"refusal": "I cannot"}}]}),
            stop("stop")
        ]),
        Cause::Refused
    );
    assert_eq!(
        end(std::slice::from_ref(&text)),
        Cause::Network,
        "it broke off"
    );
    assert_eq!(end(&[]), Cause::Protocol, "there is nothing of an answer");
    assert_eq!(
        end(&[
            text,
            json!({"error": {"message": "busy", "type": "overloaded_error"}})
        ]),
        Cause::Overloaded
    );
    let half = json!({"choices": [{"delta": {"tool_calls": [{"id": "1", "function": {"name": "x", "arguments": "{\"a"}}]}}]});
    assert_eq!(end(&[half, stop("length")]), Cause::OutputLimit);
}

#[test]
fn steps_are_limited() {
    let mut stage = Stage::new(&[("max_turns", "2")]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{}")]);
    stage.result("1", "x");
    stage.calls(&[("2", "read_file", "{}")]);
    assert_eq!(stage.cause(), Cause::TurnLimit);
    stage.say("go on");
    let asked = stage.asked();
    assert_eq!(
        asked[asked.len() - 2]["role"],
        "tool",
        "a call without a result would be refused: {asked:?}"
    );
}

// P64
#[test]
fn an_answer_that_does_not_keep_to_the_schema_goes_back() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let mut stage = Stage::new(&[("json_schema", schema)]);
    stage.say("go");
    assert_eq!(
        stage.orders()[0]["call"]["response_format"]["type"],
        "json_schema"
    );
    stage.text("one");
    stage.text("{\"n\":1}");
    assert_eq!(
        stage.ended()[0].structured.as_ref().unwrap().get(),
        "{\"n\":1}"
    );
    assert_eq!(stage.notices(), ["schema_not_kept"]);
    stage.say("again");
    for _ in 0..3 {
        stage.text("no");
    }
    assert_eq!(stage.cause(), Cause::Protocol);
}

#[test]
fn money_is_estimated_with_a_price_and_a_budget_needs_one() {
    let mut stage = Stage::new(&[("price", "10/1/100")]);
    stage.say("go");
    stage.text("ok");
    let usage = &stage.ended()[0].usage[0];
    assert_eq!(usage.cost_source, CostSource::Estimated);
    assert!((usage.cost_usd.unwrap() - (60.0 * 10.0 + 40.0 + 10.0 * 100.0) / 1e6).abs() < 1e-12);
    let mut stage = Stage::new(&[("max_budget_usd", "1")]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{}")]);
    assert_eq!(stage.cause(), Cause::Budget);
}

#[test]
fn an_interrupt_is_acknowledged_and_the_next_turn_goes_on() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{}"), ("2", "read_file", "{}")]);
    stage.result("1", "kept");
    stage.interrupt();
    assert_eq!(stage.orders().last().unwrap(), "cancel");
    stage.hear(&json!({"ostler": "cancelled"}));
    assert_eq!(stage.cause(), Cause::Interrupted);
    stage.say("go on");
    let tools: Vec<_> = stage
        .asked()
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| m["content"].clone())
        .collect();
    assert_eq!(tools[0], "kept");
    assert!(
        tools[1].as_str().unwrap().starts_with("no result"),
        "{tools:?}"
    );
}

// What is written over several lines stays one order and one event.
#[test]
fn line_breaks_in_json_tear_nothing() {
    let pretty = "{\n  \"type\": \"object\",\n  \"required\": [\"n\"]\n}";
    let mut stage = Stage::new(&[("json_schema", pretty)]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{\r\n  \"path\": \"a\\nb\"\r\n}")]);
    stage.result("1", "x");
    stage.text("{\n  \"n\": 1\n}");
    for out in &stage.outs {
        if let FromConversation::Write(bytes) = out {
            assert_eq!(
                bytes.iter().filter(|b| **b == b'\n').count(),
                1,
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
    assert_eq!(stage.orders()[1]["tools"][0]["input"]["path"], "a\nb");
    assert!(
        !stage.ended()[0]
            .structured
            .as_ref()
            .unwrap()
            .get()
            .contains('\n')
    );
}

#[test]
fn what_an_interrupted_answer_cost_is_missing_from_the_sum() {
    let mut stage = Stage::new(&[("price", "1/10")]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{}")]);
    stage.result("1", "x");
    stage.hear(&json!({"choices": [{"delta": {"content": "half"}}]}));
    stage.interrupt();
    stage.hear(&json!({"ostler": "cancelled"}));
    let usage = &stage.ended()[0].usage[0];
    assert_eq!(
        (usage.input, usage.cost_usd, usage.cost_source),
        (Some(60), Some(0.0002), CostSource::Partial)
    );
}

#[test]
fn a_recording_of_an_interrupt_replays_as_one() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.hear(&json!({"choices": [{"delta": {"content": "half"}}]}));
    stage.hear(&json!({"ostler": "cancelled"}));
    assert_eq!(stage.cause(), Cause::Interrupted);
    stage.text("the next turn of the recording");
    assert_eq!((stage.ended().len(), stage.cause()), (2, Cause::Completed));
}

#[test]
fn a_failed_introduction_is_tried_again_with_the_next_message() {
    let mut talk = OpenAi.converse(&Spec::default());
    let mut out = Outbox::default();
    talk.send(ToAgent::Prompt("one".into()), &mut out);
    talk.on_line(
        r#"{"ostler":{"failed":{"kind":"connect","message":"no"}}}"#,
        &mut out,
    );
    talk.send(ToAgent::Prompt("two".into()), &mut out);
    let all: Vec<FromConversation> = out.drain().collect();
    assert!(
        matches!(&all[0], FromConversation::TurnOver(over) if over.outcome.cause == Cause::Network),
        "{all:?}"
    );
    assert!(
        matches!(&all[1], FromConversation::Write(bytes) if bytes == b"\"introduce\"\n"),
        "{all:?}"
    );
}

#[test]
fn a_whole_answer_stays_whole() {
    // A connection that ends badly after everything was said.
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.hear(&json!({"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]}));
    stage.hear(&json!({"ostler": {"failed": {"kind": "cut", "message": "reset"}}}));
    assert_eq!(stage.cause(), Cause::Completed);
    // A last piece that repeats the message, and an error that says nothing.
    stage.say("again");
    stage.hear(&json!({"choices": [{"delta": {"content": "hello"}}], "error": {}}));
    stage.hear(&json!({"choices": [{"delta": {}, "message": {"content": "hello"}, "finish_reason": "stop"}]}));
    stage.over();
    assert_eq!(stage.ended()[1].text.as_deref(), Some("hello"));
}

#[test]
fn sending_an_answer_back_keeps_to_the_limit_on_steps() {
    let mut stage = Stage::new(&[("json_schema", "{\"type\":\"object\"}"), ("max_turns", "1")]);
    stage.say("go");
    stage.text("no JSON");
    assert_eq!((stage.cause(), stage.orders().len()), (Cause::TurnLimit, 1));
}
