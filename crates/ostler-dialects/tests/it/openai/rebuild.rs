//! A conversation that goes on from the events of an earlier session.

use ostler_core::dialect::Dialect;
use ostler_core::event::{EventKind, Refused, ToolResult};
use ostler_core::permission::Verdict;
use ostler_dialects::openai::{History, OpenAi};
use ostler_dialects::scripted::Scripted;
use serde_json::{Value, json};

use super::stage::{Stage, spec};

/// What the model would be told, without the system prompt.
pub(super) fn rebuilt(stage: &Stage) -> Vec<Value> {
    History::rebuild(&stage.events)
        .messages()
        .iter()
        .map(|message| serde_json::to_value(message).unwrap())
        .collect()
}

fn same_after_all(mut stage: Stage) {
    stage.say("the last one");
    assert_eq!(rebuilt(&stage), stage.asked().split_off(1));
}

// S1-22
#[test]
fn a_session_goes_on_with_all_that_was_said_before() {
    for dialect in [&OpenAi as &dyn Dialect, &Scripted] {
        assert!(dialect.capabilities().resume && dialect.capabilities().fork);
        let mut stage = Stage::of(dialect, &spec(&[]));
        stage.say("my name is Ada");
        stage.calls(&[("call_0", "read_file", "{\"path\":\"a\"}")]);
        stage.result("call_0", "aa");
        stage.text("Hello Ada.");
        // Twice: what is resumed may have been resumed itself, and its log begins with the earlier one's.
        for n in 2..4 {
            let mut next = stage.resumed(dialect);
            next.events.splice(..0, std::mem::take(&mut stage.events));
            next.say("and now?");
            let asked = next.asked();
            assert_eq!(
                (&asked[0]["role"], &asked[1]["content"]),
                (&json!("system"), &json!("my name is Ada"))
            );
            assert_eq!(asked.last().unwrap()["content"], "and now?");
            assert_eq!(rebuilt(&next), asked[1..]);
            // A server that begins anew with its ids is told apart from its earlier self.
            next.calls(&[("call_0", "read_file", "{}")]);
            let calls: std::collections::HashSet<_> = next
                .events
                .iter()
                .filter_map(|w| {
                    if let EventKind::ToolCall(c) = w {
                        Some(&c.id)
                    } else {
                        None
                    }
                })
                .collect();
            assert_eq!(calls.len(), n, "{calls:?}");
            let open = next.open_calls();
            next.result(&open[0], "bb");
            next.text("More.");
            stage = next;
        }
        same_after_all(stage);
    }
}

#[test]
fn what_the_events_say_is_what_the_model_was_told() {
    // An interrupted turn whose calls got no result, and a message that came too late for it.
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{}"), ("2", "read_file", "{}")]);
    stage.steer("kept");
    stage.result("2", "b");
    stage.interrupt();
    stage.hear(&json!({"ostler": "cancelled"}));
    same_after_all(stage);
    // A message while an answer is on its way belongs behind it.
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.steer("between");
    stage.text("done");
    stage.text("really");
    same_after_all(stage);
    // A denied call; a request that was refused was never said.
    let mut stage = Stage::asking();
    stage.say("go");
    stage.calls(&[("1", "write_file", "{}")]);
    stage.verdict("1", Verdict::Deny("no".into()));
    stage.hear(&json!({"ostler": {"result": {"id": "1", "ok": false, "denied": true, "output": "denied: no"}}}));
    stage.text("Too bad.");
    stage.events.push(
        Refused {
            request: "send".into(),
            why: "busy".into(),
            code: "busy".into(),
        }
        .into(),
    );
    same_after_all(stage);
    // An answer that went back for its schema; calls that were cut off and never told.
    let mut stage = Stage::new(&[("json_schema", "{\"type\":\"object\"}")]);
    stage.say("go");
    stage.text("no JSON");
    stage.text("{}");
    stage.say("again");
    stage.hear(&json!({"choices": [{"delta": {"content": "I rea", "tool_calls": [{"id": "1", "function": {"name": "read_file", "arguments": "{"}}]}}]}));
    stage.finish("length");
    same_after_all(stage);
}

// A session that was killed wrote no endings; one that other hands wrote may say anything.
#[test]
fn a_log_that_breaks_off_is_still_a_conversation() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.calls(&[("1", "read_file", "{}")]);
    stage.steer("kept");
    let stranger = ToolResult {
        id: "x".into(),
        name: None,
        ok: true,
        output: "?".into(),
        denied: false,
        content: None,
    };
    stage.events.push(stranger.into());
    let mut next = stage.resumed(&OpenAi);
    next.say("go on");
    let roles: Vec<_> = next.asked()[1..]
        .iter()
        .map(|m| {
            format!(
                "{} {}",
                m["role"].as_str().unwrap(),
                m["content"].as_str().unwrap_or("-")
            )
        })
        .collect();
    assert_eq!(
        roles,
        [
            "user go",
            "assistant -",
            "tool no result: the turn ended",
            "user kept",
            "user go on"
        ]
    );
}

#[test]
fn a_copy_needs_something_to_copy() {
    for dialect in [&OpenAi as &dyn Dialect, &Scripted] {
        assert!(
            dialect
                .launch(&spec(&[("fork", "true")]))
                .unwrap_err()
                .why
                .contains("resume")
        );
        dialect
            .launch(&spec(&[("fork", "true"), ("resume", "s")]))
            .unwrap();
    }
}
