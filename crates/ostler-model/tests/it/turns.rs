//! The tool loop, driven line by line: its requests and how it handles answers.

use ostler_core::dialect::{Action, FromConversation, Launching, Outbox, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_core::usage::CostSource;
use serde_json::{Value, json};

use super::harness::{API, Harness, converse};

// S2-16
#[test]
fn a_second_turn_remembers_the_first() {
    let mut harness = Harness::new(&[]);
    harness.prompt("my name is Ada");
    harness.text("Hello Ada.");
    harness.prompt("what is my name?");
    let roles: Vec<_> = harness
        .last_request()
        .iter()
        .map(|m| m["role"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(harness.last_request()[2]["content"], "Hello Ada.");
    harness.text("Ada.");
    assert_eq!(
        harness
            .ended()
            .iter()
            .map(|result| result.text.as_deref().unwrap())
            .collect::<Vec<_>>(),
        ["Hello Ada.", "Ada."]
    );
}

// S2-19: workspace, all tools and boundaries; a system prompt from the caller replaces it.
#[test]
fn the_system_prompt_names_the_workspace_the_tools_and_the_boundaries() {
    let system = |settings: &[(&str, &str)]| {
        let mut harness = Harness::new(settings);
        harness.prompt("hello");
        harness.last_request()[0]["content"]
            .as_str()
            .unwrap()
            .to_owned()
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
fn tools_run_until_the_model_stops() {
    let mut harness = Harness::new(&[]);
    harness.prompt("read both");
    harness.calls(&[
        ("1", "read_file", "{\"path\":\"a\"}"),
        ("2", "read_file", "{\"path\":\"b\"}"),
    ]);
    let commands = harness.commands();
    assert_eq!(
        commands[1]["tools"][1],
        json!({"id": "2", "name": "read_file", "input": {"path": "b"}})
    );
    harness.result("2", "bb");
    assert_eq!(harness.commands().len(), 2, "the other result is awaited");
    harness.result("1", "aa");
    let asked = harness.last_request();
    assert_eq!(
        asked[2]["tool_calls"][0]["function"],
        json!({"name": "read_file", "arguments": "{\"path\":\"a\"}"})
    );
    assert_eq!(
        (&asked[3]["tool_call_id"], &asked[3]["content"]),
        (&json!("2"), &json!("bb"))
    );
    assert_eq!(asked[4]["content"], "aa");
    harness.text("done");
    let result = harness.ended()[0];
    assert_eq!(
        (result.outcome.cause, result.text.as_deref()),
        (Cause::Completed, Some("done"))
    );
    let usage = &result.usage[0];
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
fn malformed_call_gets_an_error_result() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{\"path\":"), ("2", "read_file", "[1]")]);
    let asked = harness.last_request();
    assert!(
        asked[3]["content"]
            .as_str()
            .unwrap()
            .starts_with("bad_arguments"),
        "{asked:?}"
    );
    assert_eq!(
        asked[2]["tool_calls"][0]["function"]["arguments"], "{}",
        "servers reject arguments that are not JSON"
    );
    harness.text("never mind");
    assert_eq!(harness.cause(), Cause::Completed);
}

#[test]
fn repeated_call_ids_are_made_unique() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    for _ in 0..2 {
        harness.calls(&[("call_0", "read_file", "{}")]);
        let commands = harness.commands();
        let id = commands.last().unwrap()["tools"][0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        harness.result(&id, "x");
    }
    let ids: Vec<_> = harness
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
fn wrong_finish_reason_is_ignored() {
    for reason in ["stop", "", "function_call", "end_turn"] {
        let mut harness = Harness::new(&[]);
        harness.prompt("go");
        harness.feed(&json!({"choices": [{"delta": {"tool_calls": [{"id": "1", "function": {"name": "read_file"}}]}}]}));
        harness.finish(reason);
        harness.result("1", "x");
        harness.text("ok");
        assert_eq!(harness.cause(), Cause::Completed, "{reason}");
    }
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.feed(&json!({"choices": [{"delta": {"content": "all there is"}}]}));
    harness.finish("tool_calls");
    assert_eq!(harness.cause(), Cause::Completed);
}

#[test]
fn every_ending_has_its_cause() {
    let end = |lines: &[Value]| {
        let mut harness = Harness::new(&[]);
        harness.prompt("go");
        lines.iter().for_each(|line| harness.feed(line));
        harness.end_answer();
        harness.cause()
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
    assert_eq!(end(std::slice::from_ref(&text)), Cause::Network, "cut off");
    assert_eq!(end(&[]), Cause::Protocol, "empty answer");
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
    let mut harness = Harness::new(&[("max_turns", "2")]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{}")]);
    harness.result("1", "x");
    harness.calls(&[("2", "read_file", "{}")]);
    assert_eq!(harness.cause(), Cause::TurnLimit);
    harness.prompt("go on");
    let asked = harness.last_request();
    assert_eq!(
        asked[asked.len() - 2]["role"],
        "tool",
        "a call without a result would be rejected: {asked:?}"
    );
}

// P64
#[test]
fn answer_that_violates_the_schema_is_sent_back() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let mut harness = Harness::new(&[("json_schema", schema)]);
    harness.prompt("go");
    assert_eq!(
        harness.commands()[0]["call"]["schema"]["required"],
        json!(["n"])
    );
    harness.text("one");
    harness.text("{\"n\":1}");
    assert_eq!(
        harness.ended()[0].structured.as_ref().unwrap().get(),
        "{\"n\":1}"
    );
    assert_eq!(harness.notices(), ["schema_not_kept"]);
    harness.prompt("again");
    for _ in 0..3 {
        harness.text("no");
    }
    assert_eq!(harness.cause(), Cause::Protocol);
}

#[test]
fn money_is_estimated_with_a_price_and_a_budget_needs_one() {
    let mut harness = Harness::new(&[("price", "10/1/100")]);
    harness.prompt("go");
    harness.text("ok");
    let usage = &harness.ended()[0].usage[0];
    assert_eq!(usage.cost_source, CostSource::Estimated);
    assert!((usage.cost_usd.unwrap() - (60.0 * 10.0 + 40.0 + 10.0 * 100.0) / 1e6).abs() < 1e-12);
    let mut harness = Harness::new(&[("max_budget_usd", "1")]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{}")]);
    assert_eq!(harness.cause(), Cause::Budget);
}

#[test]
fn interrupt_is_acknowledged_before_next_turn() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{}"), ("2", "read_file", "{}")]);
    harness.result("1", "retained");
    harness.interrupt();
    assert_eq!(harness.commands().last().unwrap(), "cancel");
    harness.feed(&json!({"ostler": "cancelled"}));
    assert_eq!(harness.cause(), Cause::Interrupted);
    harness.prompt("go on");
    let tools: Vec<_> = harness
        .last_request()
        .iter()
        .filter(|m| m["role"] == "tool")
        .map(|m| m["content"].clone())
        .collect();
    assert_eq!(tools[0], "retained");
    assert!(
        tools[1].as_str().unwrap().starts_with("no result"),
        "{tools:?}"
    );
}

// Multi-line JSON stays one command and one event.
#[test]
fn line_breaks_in_json_are_handled() {
    let pretty = "{\n  \"type\": \"object\",\n  \"required\": [\"n\"]\n}";
    let mut harness = Harness::new(&[("json_schema", pretty)]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{\r\n  \"path\": \"a\\nb\"\r\n}")]);
    harness.result("1", "x");
    harness.text("{\n  \"n\": 1\n}");
    for out in &harness.outs {
        if let FromConversation::Do(Action::Write(bytes)) = out {
            assert_eq!(
                bytes.iter().filter(|b| **b == b'\n').count(),
                1,
                "{}",
                String::from_utf8_lossy(bytes)
            );
        }
    }
    assert_eq!(harness.commands()[1]["tools"][0]["input"]["path"], "a\nb");
    assert!(
        !harness.ended()[0]
            .structured
            .as_ref()
            .unwrap()
            .get()
            .contains('\n')
    );
}

#[test]
fn cost_of_an_interrupted_answer_is_unknown() {
    let mut harness = Harness::new(&[("price", "1/10")]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{}")]);
    harness.result("1", "x");
    harness.feed(&json!({"choices": [{"delta": {"content": "half"}}]}));
    harness.interrupt();
    harness.feed(&json!({"ostler": "cancelled"}));
    let usage = &harness.ended()[0].usage[0];
    assert_eq!(
        (usage.input, usage.cost_usd, usage.cost_source),
        (Some(60), Some(0.0002), CostSource::Partial)
    );
}

#[test]
fn a_recording_of_an_interrupt_replays_as_one() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.feed(&json!({"choices": [{"delta": {"content": "half"}}]}));
    harness.feed(&json!({"ostler": "cancelled"}));
    assert_eq!(harness.cause(), Cause::Interrupted);
    harness.text("the next turn of the recording");
    assert_eq!(
        (harness.ended().len(), harness.cause()),
        (2, Cause::Completed)
    );
}

#[test]
fn failed_ready_is_retried_with_the_next_prompt() {
    let mut conversation = converse(API, &Launching::new(&Spec::default()));
    let mut out = Outbox::default();
    conversation.send(ToAgent::Prompt("one".into()), &mut out);
    conversation.on_line(
        r#"{"ostler":{"failed":{"kind":"connect","message":"no"}}}"#,
        &mut out,
    );
    conversation.send(ToAgent::Prompt("two".into()), &mut out);
    let all: Vec<FromConversation> = out.drain().collect();
    assert!(
        matches!(&all[0],
            FromConversation::TurnEnded(result) if result.outcome.cause == Cause::Network),
        "{all:?}"
    );
    assert!(
        matches!(&all[1], FromConversation::Do(Action::Write(bytes)) if bytes == b"\"introduce\"\n"),
        "{all:?}"
    );
}

#[test]
fn complete_answer_survives_later_failures() {
    // A connection that fails after the answer is complete.
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.feed(&json!({"choices": [{"delta": {"content": "all"}, "finish_reason": "stop"}]}));
    harness.feed(&json!({"ostler": {"failed": {"kind": "cut", "message": "reset"}}}));
    assert_eq!(harness.cause(), Cause::Completed);
    // A last chunk that repeats the message, and an empty error.
    harness.prompt("again");
    harness.feed(&json!({"choices": [{"delta": {"content": "hello"}}], "error": {}}));
    harness.feed(&json!({"choices": [{"delta": {}, "message": {"content": "hello"}, "finish_reason": "stop"}]}));
    harness.end_answer();
    assert_eq!(harness.ended()[1].text.as_deref(), Some("hello"));
}

#[test]
fn schema_retries_respect_the_step_limit() {
    let mut harness = Harness::new(&[("json_schema", "{\"type\":\"object\"}"), ("max_turns", "1")]);
    harness.prompt("go");
    harness.text("no JSON");
    assert_eq!(
        (harness.cause(), harness.commands().len()),
        (Cause::TurnLimit, 1)
    );
}
