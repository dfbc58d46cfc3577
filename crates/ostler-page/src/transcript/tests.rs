//! Items of small stories.

use ostler_core::event::{DecidedBy, Ended, Origin, RefusalCode, RequestKind, Started, Unreadable};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::raw_json::RawJson;
use ostler_core::usage::{Scope, Usage};
use serde_json::{Value, json};

use super::*;

pub(crate) fn event(seq: u64, kind: impl Into<EventKind>) -> Event {
    Event {
        seq,
        at: Timestamp(1_000 * i64::try_from(seq).unwrap()),
        session: "s".into(),
        turn: 1,
        kind: kind.into(),
    }
}

pub(crate) fn text(kind: TextKind, text: &str, delta: bool, parent: Option<&str>) -> EventKind {
    Text {
        kind,
        text: text.into(),
        delta,
        message: Some("m".into()),
        parent: parent.map(str::to_owned),
    }
    .into()
}

pub(crate) fn call(id: &str, name: &str, input: &Value, parent: Option<&str>) -> EventKind {
    ToolCall {
        id: id.into(),
        name: name.into(),
        input: RawJson::of(input),
        parent: parent.map(str::to_owned),
    }
    .into()
}

pub(crate) fn result(id: &str, ok: bool, output: &str) -> EventKind {
    ToolResult {
        id: id.into(),
        name: Some("Bash".into()),
        ok,
        output: output.into(),
        denied: false,
        content: None,
    }
    .into()
}

fn permission(id: &str, decision: Decision) -> EventKind {
    Permission {
        id: id.into(),
        tool: "Bash".into(),
        kind: None,
        input: None,
        decision,
        by: DecidedBy::Person,
        message: None,
    }
    .into()
}

pub(crate) fn prompt(text: &str) -> EventKind {
    TurnStarted {
        origin: Origin::Caller,
        prompt: Some(text.into()),
    }
    .into()
}

pub(crate) fn turn_ended(text: &str) -> EventKind {
    TurnEnded {
        outcome: Outcome::new(Cause::Completed, ""),
        text: text.into(),
        structured: None,
        usage: None,
    }
    .into()
}

/// Folds events, and returns the items as JSON.
fn folded(kinds: impl IntoIterator<Item = EventKind>) -> Vec<Value> {
    let mut transcript = Transcript::default();
    for (seq, kind) in (1..).zip(kinds) {
        transcript.push(&event(seq, kind));
    }
    let items = transcript.items();
    items
        .iter()
        .map(|it| serde_json::to_value(it).unwrap())
        .collect()
}

/// The type, first and last event of each item.
fn shape(items: &[Value]) -> Vec<String> {
    let item = |it: &Value| {
        format!(
            "{} {}-{}",
            it["type"].as_str().unwrap(),
            it["seq"],
            it["last_seq"]
        )
    };
    items.iter().map(item).collect()
}

#[test]
fn deltas_of_a_message_become_one_item() {
    use TextKind::{Reply, Thinking};
    let items = folded([
        prompt("Do *it*"),
        text(Thinking, "hm", true, None),
        text(Thinking, "m", true, None),
        text(Reply, "**a", true, None),
        Usage::unknown(Scope::Turn).into(),
        text(Reply, "b**", true, None),
        call("1", "Bash", &json!({"command": "ls"}), None),
        text(Reply, "sub", true, Some("1")),
        text(Reply, "agent", true, Some("1")),
        result("1", true, "out"),
        text(Reply, "whole", false, None),
        text(Reply, "open", true, None),
    ]);
    assert_eq!(
        shape(&items),
        [
            "prompt 1-1",
            "thinking 2-3",
            "reply 4-6",
            "usage 5-5",
            "tool 7-10",
            "reply 8-9",
            "reply 11-11",
            "reply 12-12",
        ]
    );
    assert!(items[0].get("html").is_none(), "prompts stay as typed");
    assert_eq!(
        (&items[1]["text"], &items[1]["open"]),
        (&json!("hmm"), &json!(false))
    );
    assert!(items[1].get("html").is_none());
    assert_eq!(items[2]["text"], "**ab**");
    assert_eq!(
        items[2]["html"].as_str().unwrap().trim(),
        "<p><strong>ab</strong></p>"
    );
    assert_eq!(
        (&items[5]["text"], &items[5]["parent"]),
        (&json!("subagent"), &json!("1"))
    );
    // The last message is still being written.
    assert_eq!(
        (&items[7]["open"], items[7].get("html")),
        (&json!(true), None)
    );
    assert_eq!(items[7]["message"], "m");
}

#[test]
fn a_call_its_permission_and_its_result_become_one_item() {
    let items = folded([
        call("1", "Bash", &json!({"command": "ls"}), None),
        permission("1", Decision::Asked),
        permission("2", Decision::Asked),
        permission("1", Decision::Allowed),
        result("1", true, "out"),
        permission("2", Decision::Denied),
        call("2", "Bash", &json!({}), None),
        permission("3", Decision::Asked),
        result("9", true, "no call"),
    ]);
    assert_eq!(
        shape(&items),
        ["tool 1-5", "tool 3-7", "permission 8-8", "tool 9-9"]
    );
    let tool = &items[0];
    assert_eq!(
        tool["permission"],
        json!({"decision": "allowed", "by": "person"})
    );
    assert_eq!(
        (&tool["ok"], &tool["output"]),
        (&json!(true), &json!("out"))
    );
    assert_eq!(
        (&tool["duration_ms"], &tool["summary"]),
        (&json!(4_000), &json!("ls"))
    );
    assert_eq!(
        (&tool["started_at"], &tool["ended_at"]),
        (
            &json!("1970-01-01T00:00:01.000Z"),
            &json!("1970-01-01T00:00:05.000Z")
        )
    );
    assert!(tool.get("denied").is_none() && tool.get("output_truncated").is_none());
    assert_eq!(items[1]["permission"]["decision"], "denied");
    assert!(items[1].get("ok").is_none(), "it has no result");
    assert_eq!(
        (&items[2]["decision"], &items[2]["tool"]),
        (&json!("asked"), &json!("Bash"))
    );
}

#[test]
fn other_events_become_items() {
    let outcome = Outcome::new(Cause::AgentDied, "It died.");
    let state = |from, to| EventKind::State(State { from, to });
    let refused = Refused {
        request: RequestKind::Interrupt,
        why: "No turn.".into(),
        code: RefusalCode::NoTurn,
    };
    let unreadable = Unreadable {
        raw: "x".into(),
        why: "y".into(),
        length: 1,
        lossy: false,
    };
    let started = Started {
        agent: "a".into(),
        agent_version: None,
        native_session: None,
        model: None,
        cwd: None,
        tools: Vec::new(),
    };
    let items = folded([
        started.into(),
        state(SessionState::Starting, SessionState::Idle),
        prompt("p"),
        state(SessionState::Idle, SessionState::Paused),
        refused.into(),
        unreadable.into(),
        Usage::unknown(Scope::Turn).into(),
        Usage::unknown(Scope::Session).into(),
        turn_ended("only at the end"),
        Ended {
            outcome,
            exit_code: None,
            signal: None,
            usage: None,
        }
        .into(),
    ]);
    assert_eq!(
        shape(&items),
        [
            "prompt 3-3",
            "state 4-4",
            "notice 5-5",
            "unreadable 6-6",
            "usage 7-8",
            "reply 9-9",
            "turn_ended 9-9",
            "ended 10-10",
        ]
    );
    assert_eq!(items[1]["to"], "paused");
    assert_eq!(
        (&items[2]["level"], &items[2]["code"]),
        (&json!("warning"), &json!("no_turn"))
    );
    assert_eq!(items[4]["usage"]["scope"], "session");
    assert_eq!(items[5]["text"], "only at the end");
    assert_eq!(items[6]["duration_ms"], 6_000);
    assert_eq!(items[7]["outcome"]["cause"], "agent_died");
}

#[test]
fn large_outputs_are_clipped() {
    let output = format!("{}{}", "é".repeat(40_000), "z".repeat(40_000));
    let items = folded([
        call("1", "x", &json!({}), None),
        result("1", false, &output),
    ]);
    let shown = items[0]["output"].as_str().unwrap();
    assert!(
        shown.len() < 66_000 && shown.starts_with('é') && shown.ends_with('z'),
        "{}",
        shown.len()
    );
    assert!(shown.contains("bytes left out"));
    assert_eq!(items[0]["output_truncated"], true);
}

#[test]
fn what_continues_after_a_cut_is_recognized() {
    let mut transcript = Transcript::default();
    let reply = |seq, it: &str| event(seq, text(TextKind::Reply, it, true, None));
    transcript.push(&event(1, call("1", "x", &json!({}), None)));
    transcript.push(&reply(2, "a"));
    transcript.cut();
    assert!(transcript.is_empty());
    transcript.push(&event(3, result("1", true, "")));
    transcript.push(&reply(4, "b"));
    transcript.push(&reply(5, "c"));
    transcript.finish();
    let items = transcript.items();
    let [item] = &items[..] else {
        panic!("{items:?}")
    };
    let json = serde_json::to_value(item).unwrap();
    assert_eq!(
        (&json["text"], &json["continued"]),
        (&json!("bc"), &json!(true))
    );
    assert!(json.get("html").is_none(), "half a message is not rendered");
}
