//! Differences of goose and Qwen Code, each on its own.

use ostler_core::dialect::ToAgent;
use ostler_core::outcome::Cause;
use ostler_core::permission::{ToolKind, Verdict};
use ostler_core::spec::{Denials, Spec};
use ostler_dialects::acp::{self, GOOSE, OPENCODE, QWEN};
use serde_json::json;

use super::harness::{Harness, usual};
use crate::harness::offer;

const FAILED: &str = "Ran into this error: Authentication error: Authentication failed. Status: 401 Unauthorized. Response: no.\n\nPlease retry if you think this is a transient or recoverable error.";

#[test]
fn error_text_after_a_reply_is_not_part_of_it() {
    let mut harness = Harness::asked(&GOOSE, &Spec::default());
    harness.text("I begin. ");
    harness.text(FAILED);
    // The counters belong to an earlier turn.
    harness.answer(
        3,
        &json!({"stopReason": "end_turn", "usage": {"inputTokens": 118, "outputTokens": 25}}),
    );
    let over = harness.turn_result().unwrap();
    assert_eq!((over.outcome.cause, over.usage.len()), (Cause::Auth, 0));
    assert_eq!(over.outcome.detail.as_ref().unwrap().http_status, Some(401));
    assert!(
        !over.outcome.message.contains("Please retry"),
        "{}",
        over.outcome.message
    );
    assert_eq!(harness.story(), ["Reply I begin. "]);
    // Text that only resembles it, or that is followed by more, is a reply.
    for (text, more) in [
        ("Ran into this error: it is how it begins.", false),
        (FAILED, true),
    ] {
        let mut harness = Harness::asked(&GOOSE, &Spec::default());
        harness.text(text);
        if more {
            harness.text(" That was a quotation.");
        }
        harness.answer(3, &json!({"stopReason": "end_turn"}));
        assert_eq!(harness.cause(), Some(Cause::Completed), "{text}");
        assert_eq!(harness.story().len(), 1 + usize::from(more), "{text}");
    }
}

#[test]
fn cancelled_turn_reported_as_success_is_interrupted() {
    for (dialect, interrupted, cause) in [
        (&GOOSE, true, Cause::Interrupted),
        (&GOOSE, false, Cause::Completed),
        (&QWEN, true, Cause::Completed),
    ] {
        let mut harness = Harness::asked(dialect, &Spec::default());
        harness.text("One");
        if interrupted {
            harness.send(ToAgent::Interrupt);
        }
        harness.answer(3, &json!({"stopReason": "end_turn"}));
        assert_eq!(harness.cause(), Some(cause), "{interrupted}");
    }
}

#[test]
fn tool_names_come_from_meta_if_the_request_omits_them() {
    let mut harness = Harness::asked(&GOOSE, &Spec::default());
    let meta = json!({"goose": {"toolCall": {"toolName": "shell", "extensionName": "developer"}}});
    harness.update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "shell · ls",
        "rawInput": {"command": "ls"}, "_meta": meta}),
    );
    let call = json!({"toolCallId": "c", "kind": "other", "title": "shell", "rawInput": {"command": "ls"}});
    harness.permission(&call, &usual());
    let wants = &harness.asks()[0].wants;
    assert_eq!(
        (wants.tool.as_str(), wants.kind),
        ("shell", ToolKind::Execute)
    );
    assert_eq!(harness.story(), [r#"call c shell {"command":"ls"}"#]);
}

#[test]
fn qwen_command_calls_are_read() {
    let mut harness = Harness::asked(&QWEN, &Spec::default());
    let meta = json!({"toolName": "run_shell_command"});
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "status": "pending", "title": "Shell",
        "kind": "execute", "rawInput": {}, "_meta": meta}));
    let counted = json!({"usage": {"inputTokens": 118, "outputTokens": 25, "totalTokens": 143}});
    harness.update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}, "_meta": counted}),
    );
    harness.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress",
        "title": "Shell: ls", "kind": "execute", "rawInput": {"command": "ls"}, "_meta": meta}),
    );
    harness.message(
        &json!({"jsonrpc": "2.0", "id": 9, "method": "craft/drainMidTurnQueue", "params": {}}),
    );
    harness.message(
        &json!({"jsonrpc": "2.0", "method": "qwen/notify/session/mode-update", "params": {}}),
    );
    harness.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "Command: ls\nOutput: a"}}],
        "rawOutput": {"type": "shell_result", "output": "a"}, "_meta": meta}));
    harness.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(
        harness.story(),
        [
            r#"call c run_shell_command {"command":"ls"}"#,
            "result c ok a"
        ]
    );
    assert_eq!(harness.turn_result().unwrap().usage[0].input, Some(118));
    let refused = harness
        .writes()
        .into_iter()
        .find(|it| it["id"] == 9)
        .unwrap();
    assert_eq!(refused["error"]["code"], -32601);
    // The HTTP status of the model API is in the details.
    let mut harness = Harness::asked(&QWEN, &Spec::default());
    harness.message(&json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "Internal error", "data": {"details": "503 busy"}}}));
    let outcome = &harness.turn_result().unwrap().outcome;
    assert_eq!(
        (outcome.cause, outcome.message.as_str()),
        (Cause::Overloaded, "Internal error: 503 busy")
    );
    assert_eq!(outcome.detail.as_ref().unwrap().http_status, Some(503));
}

/// Call ids come from the model API. A reused id is a new call, which is judged by its own content.
#[test]
fn reused_id_is_another_call() {
    let mut harness = Harness::asked(&GOOSE, &Spec::default());
    let meta = |tool: &str| json!({"goose": {"toolCall": {"toolName": tool}}});
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "tree", "rawInput": {"depth": 1}, "_meta": meta("tree")}));
    harness.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}),
    );
    let call = json!({"toolCallId": "c", "kind": "other", "title": "shell", "rawInput": {"command": "rm x"}});
    harness.permission(&call, &usual());
    let (wants, about) = (
        harness.asks()[0].wants.clone(),
        harness.asks()[0].call.clone(),
    );
    assert_ne!((wants.tool.as_str(), wants.kind), ("tree", ToolKind::Read));
    assert_eq!(about.as_deref(), Some("c-again-1"));
    harness.verdict(Verdict::Deny("no".into()));
    harness.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}),
    );
    let story = harness.story();
    assert!(
        story[2].starts_with("call c-again-1 ") && story[2].contains("rm x"),
        "{story:?}"
    );
    assert_eq!(story[3], "result c-again-1 denied no");
    // The name in the permission request counts.
    let mut harness = Harness::asked(&QWEN, &Spec::default());
    harness.update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "_meta": {"toolName": "read_file"}}),
    );
    harness.permission(
        &json!({"toolCallId": "c", "title": "y", "_meta": {"toolName": "run_shell_command"}}),
        &usual(),
    );
    assert_eq!(harness.asks()[0].wants.kind, ToolKind::Execute);
}

/// A title is the model's own words: it does not turn a call that has a name into one of the
/// caller's tools.
#[test]
fn title_does_not_identify_a_caller_tool() {
    let add = offer("add", r#"{"type":"object"}"#);
    let spec = Spec::default().bound_tools(vec![add]);
    let mut harness = Harness::asked(&QWEN, &spec);
    let call = json!({"toolCallId": "c", "kind": "other", "title": "ostler_add", "rawInput": {"prompt": "do it"}, "_meta": {"toolName": "agent"}});
    harness.permission(&call, &usual());
    assert_eq!(harness.asks().len(), 1, "permission is requested");
}

/// A call was denied, and then the model API failed: the failure ended the turn.
#[test]
fn failure_after_a_denied_call_fails_the_turn() {
    let mut harness = Harness::asked(&GOOSE, &Spec::default().denials(Denials::Tolerate));
    harness.permission(
        &json!({"toolCallId": "c", "kind": "execute", "title": "shell", "rawInput": {"command": "ls"}}),
        &usual(),
    );
    harness.verdict(Verdict::Deny("no".into()));
    harness.text(FAILED);
    harness.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(harness.cause(), Some(Cause::Auth));
    assert!(
        !harness
            .story()
            .iter()
            .any(|reported| reported.starts_with("Reply")),
        "{:?}",
        harness.story()
    );
}

/// The cost of a turn is known although its tokens are not.
#[test]
fn interrupted_turn_reports_its_cost() {
    let mut harness = Harness::asked(&OPENCODE, &Spec::default());
    harness.update(
        &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "USD"}}),
    );
    harness.send(ToAgent::Interrupt);
    harness.answer(
        3,
        &json!({"stopReason": "cancelled", "usage": {"inputTokens": 118, "outputTokens": 25, "totalTokens": 143}}),
    );
    let over = harness.turn_result().unwrap();
    assert_eq!(over.outcome.cause, Cause::Interrupted);
    let reported: Vec<_> = over
        .usage
        .iter()
        .map(|it| (it.input, it.output, it.cost_usd))
        .collect();
    assert_eq!(reported, [(None, None, Some(0.5))]);
}

#[test]
fn cumulative_thoughts_are_reported_once() {
    let mut spec = Spec::default();
    spec.set("chunks", ["whole"]).unwrap();
    let custom = acp::custom("mine", vec!["mine".to_owned()]).unwrap();
    let mut harness = Harness::asked(custom, &spec);
    for text in ["\nLet", "\nLet me", "\nLet me see"] {
        harness.update(&json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}));
    }
    assert_eq!(
        harness.story(),
        ["Thinking Let", "Thinking  me", "Thinking  see"]
    );
}
