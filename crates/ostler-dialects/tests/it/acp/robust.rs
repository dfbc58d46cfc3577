//! Robustness: whatever an agent sends, nothing panics, no message is lost, and the response to the
//! prompt ends the turn.

use ostler_core::dialect::FromConversation;
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::spec::Spec;
use ostler_dialects::acp::{COPILOT, GEMINI, OPENCODE};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::harness::Harness;

/// Strings that the dialect looks for, so that random objects resemble real messages.
fn word() -> impl Strategy<Value = String> {
    let words = vec![
        "sessionUpdate",
        "content",
        "type",
        "text",
        "toolCallId",
        "title",
        "kind",
        "status",
        "completed",
        "failed",
        "pending",
        "rawInput",
        "rawOutput",
        "locations",
        "path",
        "_meta",
        "terminal_output",
        "data",
        "options",
        "optionId",
        "allow_once",
        "reject_once",
        "toolCall",
        "update",
        "cost",
        "amount",
        "currency",
        "entries",
        "configOptions",
        "category",
        "sessionId",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
        "c",
    ];
    prop_oneof![
        proptest::sample::select(words).prop_map(str::to_owned),
        ".{0,6}"
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        word().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::vec((word(), inner), 0..6)
                .prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn update() -> impl Strategy<Value = Value> {
    let kinds = vec![
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
        "config_option_update",
        "x",
    ];
    (
        proptest::sample::select(kinds),
        proptest::collection::vec((word(), any_json()), 0..6),
    )
        .prop_map(|(kind, fields)| {
            let mut object: serde_json::Map<String, Value> = fields.into_iter().collect();
            object.insert("sessionUpdate".into(), kind.into());
            object.into()
        })
}

/// Returns true if every tool call has at most one result, which comes after the call.
fn calls_are_paired(outs: &[FromConversation]) -> bool {
    let (mut called, mut finished) = (Vec::new(), Vec::new());
    outs.iter().all(|out| match out {
        FromConversation::Event(EventKind::ToolCall(it)) => {
            let new = !called.contains(&it.id);
            called.push(it.id.clone());
            new
        }
        FromConversation::Event(EventKind::ToolResult(it)) => {
            let new = called.contains(&it.id) && !finished.contains(&it.id);
            finished.push(it.id.clone());
            new
        }
        _ => true,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_updates_are_handled(
        updates in proptest::collection::vec(update(), 1..8),
        agent in 0..3_usize,
    ) {
        let agents = [&GEMINI as &dyn ostler_core::dialect::Dialect, &OPENCODE, &COPILOT];
        let mut harness = Harness::asked(agents[agent], &Spec::default());
        for update in &updates {
            harness.update(update);
            let params = json!({"toolCall": update, "options": update});
            harness.message(&json!({
                "jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params
            }));
        }
        harness.answer(3, &json!({"stopReason": "refusal"}));
        prop_assert_eq!(harness.cause(), Some(Cause::Refused));
        prop_assert!(calls_are_paired(&harness.outs), "{:?}", harness.outs);
        prop_assert!(!harness.story().iter().any(|it| it.starts_with("unreadable")));
    }

    #[test]
    fn any_lines_are_handled(
        values in proptest::collection::vec(any_json(), 1..6),
        noise in ".{0,40}",
    ) {
        let mut harness = Harness::asked(&OPENCODE, &Spec::default());
        values.iter().for_each(|value| harness.message(value));
        harness.line(&noise);
        harness.text("the last word");
        harness.answer(3, &json!({"stopReason": "end_turn"}));
        let text = harness.turn_result().and_then(|over| over.text.as_deref());
        prop_assert_eq!(text, Some("the last word"));
    }
}
