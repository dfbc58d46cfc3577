//! The differences of goose and qwen, each on its own.

use ostler_core::dialect::ToAgent;
use ostler_core::outcome::Cause;
use ostler_core::permission::{ToolKind, Verdict};
use ostler_core::spec::{Denials, Spec};
use ostler_dialects::acp::{self, GOOSE, OPENCODE, QWEN};
use serde_json::json;

use super::stage::{Stage, usual};
use crate::stage::offer;

const FAILED: &str = "Ran into this error: Authentication error: Authentication failed. Status: 401 Unauthorized. Response: no.\n\nPlease retry if you think this is a transient or recoverable error.";

#[test]
fn an_error_after_an_answer_is_no_part_of_it() {
    let mut stage = Stage::asked(&GOOSE, &Spec::default());
    stage.text("I begin. ");
    stage.text(FAILED);
    // The counters are those of an earlier turn.
    stage.answer(
        3,
        &json!({"stopReason": "end_turn", "usage": {"inputTokens": 118, "outputTokens": 25}}),
    );
    let over = stage.over().unwrap();
    assert_eq!((over.outcome.cause, over.usage.len()), (Cause::Auth, 0));
    assert_eq!(over.outcome.detail.as_ref().unwrap().http_status, Some(401));
    assert!(
        !over.outcome.message.contains("Please retry"),
        "{}",
        over.outcome.message
    );
    assert_eq!(stage.story(), ["Reply I begin. "]);
    // What only looks like it, or is followed by more, is an answer.
    for (text, more) in [
        ("Ran into this error: it is how it begins.", false),
        (FAILED, true),
    ] {
        let mut stage = Stage::asked(&GOOSE, &Spec::default());
        stage.text(text);
        if more {
            stage.text(" That was a quotation.");
        }
        stage.answer(3, &json!({"stopReason": "end_turn"}));
        assert_eq!(stage.cause(), Some(Cause::Completed), "{text}");
        assert_eq!(stage.story().len(), 1 + usize::from(more), "{text}");
    }
}

#[test]
fn a_cancelled_turn_that_ended_well_was_interrupted() {
    for (dialect, interrupted, cause) in [
        (&GOOSE, true, Cause::Interrupted),
        (&GOOSE, false, Cause::Completed),
        (&QWEN, true, Cause::Completed),
    ] {
        let mut stage = Stage::asked(dialect, &Spec::default());
        stage.text("One");
        if interrupted {
            stage.say(ToAgent::Interrupt);
        }
        stage.answer(3, &json!({"stopReason": "end_turn"}));
        assert_eq!(stage.cause(), Some(cause), "{interrupted}");
    }
}

#[test]
fn names_are_in_the_notes_although_the_question_leaves_them_out() {
    let mut stage = Stage::asked(&GOOSE, &Spec::default());
    let notes = json!({"goose": {"toolCall": {"toolName": "shell", "extensionName": "developer"}}});
    stage.update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "shell · ls",
        "rawInput": {"command": "ls"}, "_meta": notes}),
    );
    let call = json!({"toolCallId": "c", "kind": "other", "title": "shell", "rawInput": {"command": "ls"}});
    stage.permission(&call, &usual());
    let wants = &stage.asks()[0].wants;
    assert_eq!(
        (wants.tool.as_str(), wants.kind),
        ("shell", ToolKind::Execute)
    );
    assert_eq!(stage.story(), [r#"call c shell {"command":"ls"}"#]);
}

#[test]
fn what_qwen_makes_of_a_command() {
    let mut stage = Stage::asked(&QWEN, &Spec::default());
    let notes = json!({"toolName": "run_shell_command"});
    stage.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "status": "pending", "title": "Shell",
        "kind": "execute", "rawInput": {}, "_meta": notes}));
    let counted = json!({"usage": {"inputTokens": 118, "outputTokens": 25, "totalTokens": 143}});
    stage.update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}, "_meta": counted}),
    );
    stage.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress",
        "title": "Shell: ls", "kind": "execute", "rawInput": {"command": "ls"}, "_meta": notes}),
    );
    stage.hear(
        &json!({"jsonrpc": "2.0", "id": 9, "method": "craft/drainMidTurnQueue", "params": {}}),
    );
    stage.hear(
        &json!({"jsonrpc": "2.0", "method": "qwen/notify/session/mode-update", "params": {}}),
    );
    stage.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
        "content": [{"type": "content", "content": {"type": "text", "text": "Command: ls\nOutput: a"}}],
        "rawOutput": {"type": "shell_result", "output": "a"}, "_meta": notes}));
    stage.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(
        stage.story(),
        [
            r#"call c run_shell_command {"command":"ls"}"#,
            "result c ok a"
        ]
    );
    assert_eq!(stage.over().unwrap().usage[0].input, Some(118));
    let refused = stage.writes().into_iter().find(|it| it["id"] == 9).unwrap();
    assert_eq!(refused["error"]["code"], -32601);
    // The status of the model's service is in the details.
    let mut stage = Stage::asked(&QWEN, &Spec::default());
    stage.hear(&json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32603, "message": "Internal error", "data": {"details": "503 busy"}}}));
    let outcome = &stage.over().unwrap().outcome;
    assert_eq!(
        (outcome.cause, outcome.message.as_str()),
        (Cause::Overloaded, "Internal error: 503 busy")
    );
    assert_eq!(outcome.detail.as_ref().unwrap().http_status, Some(503));
}

/// Ids come from the model's service. Whoever gets one twice is asked about the second call by what it is.
#[test]
fn an_id_that_comes_again_is_another_call() {
    let mut stage = Stage::asked(&GOOSE, &Spec::default());
    let notes = |tool: &str| json!({"goose": {"toolCall": {"toolName": tool}}});
    stage.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "tree", "rawInput": {"depth": 1}, "_meta": notes("tree")}));
    stage.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}),
    );
    let call = json!({"toolCallId": "c", "kind": "other", "title": "shell", "rawInput": {"command": "rm x"}});
    stage.permission(&call, &usual());
    let (wants, about) = (stage.asks()[0].wants.clone(), stage.asks()[0].call.clone());
    assert_ne!((wants.tool.as_str(), wants.kind), ("tree", ToolKind::Read));
    assert_eq!(about.as_deref(), Some("c-again-1"));
    stage.verdict(Verdict::Deny("no".into()));
    stage.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}),
    );
    let story = stage.story();
    assert!(
        story[2].starts_with("call c-again-1 ") && story[2].contains("rm x"),
        "{story:?}"
    );
    assert_eq!(story[3], "result c-again-1 denied no");
    // The name of the question is the one that counts.
    let mut stage = Stage::asked(&QWEN, &Spec::default());
    stage.update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "_meta": {"toolName": "read_file"}}),
    );
    stage.permission(
        &json!({"toolCallId": "c", "title": "y", "_meta": {"toolName": "run_shell_command"}}),
        &usual(),
    );
    assert_eq!(stage.asks()[0].wants.kind, ToolKind::Execute);
}

/// A title is the model's own words: it makes no tool of the caller's of a call that has a name.
#[test]
fn a_title_makes_no_tool_of_the_callers() {
    let add = offer("add", r#"{"type":"object"}"#);
    let spec = Spec {
        tools: vec![add],
        ..Spec::default()
    };
    let mut stage = Stage::asked(&QWEN, &spec);
    let call = json!({"toolCallId": "c", "kind": "other", "title": "ostler_add", "rawInput": {"prompt": "do it"}, "_meta": {"toolName": "agent"}});
    stage.permission(&call, &usual());
    assert_eq!(stage.asks().len(), 1, "somebody is asked");
}

/// A call was denied, and then the service failed: that is what ended the turn.
#[test]
fn a_failure_after_a_denied_call_is_a_failure() {
    let mut stage = Stage::asked(
        &GOOSE,
        &Spec {
            denials: Denials::Tolerate,
            ..Spec::default()
        },
    );
    stage.permission(
        &json!({"toolCallId": "c", "kind": "execute", "title": "shell", "rawInput": {"command": "ls"}}),
        &usual(),
    );
    stage.verdict(Verdict::Deny("no".into()));
    stage.text(FAILED);
    stage.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(stage.cause(), Some(Cause::Auth));
    assert!(
        !stage.story().iter().any(|told| told.starts_with("Reply")),
        "{:?}",
        stage.story()
    );
}

/// What a turn cost is known although its tokens are not.
#[test]
fn an_interrupted_turn_has_its_cost() {
    let mut stage = Stage::asked(&OPENCODE, &Spec::default());
    stage.update(
        &json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "USD"}}),
    );
    stage.say(ToAgent::Interrupt);
    stage.answer(
        3,
        &json!({"stopReason": "cancelled", "usage": {"inputTokens": 118, "outputTokens": 25, "totalTokens": 143}}),
    );
    let over = stage.over().unwrap();
    assert_eq!(over.outcome.cause, Cause::Interrupted);
    let told: Vec<_> = over
        .usage
        .iter()
        .map(|it| (it.input, it.output, it.cost_usd))
        .collect();
    assert_eq!(told, [(None, None, Some(0.5))]);
}

#[test]
fn thoughts_that_repeat_themselves_are_told_once() {
    let mut spec = Spec::default();
    spec.settings.set("chunks", "whole");
    let mine = acp::custom("mine", vec!["mine".to_owned()]).unwrap();
    let mut stage = Stage::asked(mine, &spec);
    for text in ["\nLet", "\nLet me", "\nLet me see"] {
        stage.update(&json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}}));
    }
    assert_eq!(
        stage.story(),
        ["Thinking Let", "Thinking  me", "Thinking  see"]
    );
}
