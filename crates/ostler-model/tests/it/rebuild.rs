//! Conversations resumed from the events of an earlier session.

use ostler_core::event::{EventKind, Refused, ToolResult};
use ostler_core::permission::Verdict;
use ostler_model::{History, ModelRequest};
use serde_json::{Value, json};

use super::harness::{API, Harness, SCRIPTED, spec, wire_messages};

/// Returns the messages that the model would get, without the system prompt.
pub(super) fn rebuilt(harness: &Harness) -> Vec<Value> {
    let history = History::rebuild(&harness.events);
    wire_messages(&ModelRequest {
        messages: history.messages().collect(),
        ..ModelRequest::default()
    })
}

fn same_after_all(mut harness: Harness) {
    harness.prompt("the last one");
    assert_eq!(rebuilt(&harness), harness.last_request().split_off(1));
}

// S1-22
#[test]
fn resumed_session_includes_the_whole_history() {
    for agent in [API, SCRIPTED] {
        let mut harness = Harness::of(agent, &spec(&[]));
        harness.prompt("my name is Ada");
        harness.calls(&[("call_0", "read_file", "{\"path\":\"a\"}")]);
        harness.result("call_0", "aa");
        harness.text("Hello Ada.");
        // Twice: a resumed session may itself have been resumed, and its log begins with the
        // earlier one.
        for n in 2..4 {
            let mut next = harness.resumed(agent);
            next.events.splice(..0, std::mem::take(&mut harness.events));
            next.prompt("and now?");
            let asked = next.last_request();
            assert_eq!(
                (&asked[0]["role"], &asked[1]["content"]),
                (&json!("system"), &json!("my name is Ada"))
            );
            assert_eq!(asked.last().unwrap()["content"], "and now?");
            assert_eq!(rebuilt(&next), asked[1..]);
            // Ids of a server that restarts its numbering are made unique.
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
            harness = next;
        }
        same_after_all(harness);
    }
}

#[test]
fn history_rebuilt_from_events_matches_the_requests() {
    // An interrupted turn with calls without results, and a message that came too late for it.
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{}"), ("2", "read_file", "{}")]);
    harness.steer("late");
    harness.result("2", "b");
    harness.interrupt();
    harness.feed(&json!({"ostler": "cancelled"}));
    same_after_all(harness);
    // A message sent while an answer arrives belongs after it.
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.steer("between");
    harness.text("done");
    harness.text("really");
    same_after_all(harness);
    // A denied call, and a request that the server rejected and that is not part of the history.
    let mut harness = Harness::attended();
    harness.prompt("go");
    harness.calls(&[("1", "write_file", "{}")]);
    harness.verdict("1", Verdict::Deny("no".into()));
    harness.feed(&json!({"ostler": {"result": {"id": "1", "ok": false, "denied": true, "output": "denied: no"}}}));
    harness.text("Too bad.");
    harness.events.push(
        Refused {
            request: "send".into(),
            why: "busy".into(),
            code: "busy".into(),
        }
        .into(),
    );
    same_after_all(harness);
    // An answer rejected for its schema, and truncated calls that were never emitted.
    let mut harness = Harness::new(&[("json_schema", "{\"type\":\"object\"}")]);
    harness.prompt("go");
    harness.text("no JSON");
    harness.text("{}");
    harness.prompt("again");
    harness.feed(&json!({"choices": [{"delta": {"content": "I rea", "tool_calls": [{"id": "1", "function": {"name": "read_file", "arguments": "{"}}]}}]}));
    harness.finish("length");
    same_after_all(harness);
}

// A killed session wrote no end events, and a log from elsewhere can contain anything.
#[test]
fn truncated_log_is_still_a_valid_conversation() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.calls(&[("1", "read_file", "{}")]);
    harness.steer("late");
    let stranger = ToolResult {
        id: "x".into(),
        name: None,
        ok: true,
        output: "?".into(),
        denied: false,
        content: None,
    };
    harness.events.push(stranger.into());
    let mut next = harness.resumed(API);
    next.prompt("go on");
    let roles: Vec<_> = next.last_request()[1..]
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
            "user late",
            "user go on"
        ]
    );
}
