//! Tools of the caller's: the bridge among the servers of the session, and MCP on its other end.

use ostler_core::dialect::{Out, Say};
use ostler_core::outcome::Cause;
use ostler_core::permission::{Otherwise, Policy, ToolKind, Verdict};
use ostler_core::spec::{Bridge, Spec, keys};
use ostler_dialects::acp::OPENCODE;
use serde_json::{Value, json};

use super::stage::{Stage, hello, usual};
use crate::stage::offer;

fn bound(policy: bool) -> Spec {
    Spec {
        tools: vec![offer("add", r#"{"type":"object"}"#)],
        bridge: Some(Bridge { program: "/bin/ostler".into(), args: vec!["bridge".into()] }),
        policy: policy.then(Policy::default),
        ..Spec::default()
    }
}

/// What was said to bridges: which, and what.
fn asides(stage: &Stage) -> Vec<(u32, Value)> {
    let said = stage.outs.iter().filter_map(|out| match out {
        Out::WriteAside { to, line } => Some((*to, serde_json::from_slice(line).unwrap())),
        _ => None,
    });
    said.collect()
}

#[test]
fn the_bridge_is_among_the_servers_of_the_session() {
    let mut stage = Stage::begun(&OPENCODE, &bound(false));
    stage.answer(1, &hello(&json!({})));
    let server = json!([{"name": "ostler", "command": "/bin/ostler", "args": ["bridge"], "env": []}]);
    assert_eq!(stage.writes()[1]["params"]["mcpServers"], server);
}

#[test]
fn servers_over_the_network_only_where_they_are_announced() {
    let mut spec = Spec::default();
    spec.settings.set(keys::MCP_CONFIG, r#"{"mcpServers":{"a":{"url":"http://h"}}}"#);
    for (able, cause) in [(json!({"mcpCapabilities": {"http": true}}), None), (json!({}), Some(Cause::BadRequest))] {
        let mut stage = Stage::begun(&OPENCODE, &spec);
        stage.say(Say::Prompt("hello".into()));
        stage.answer(1, &hello(&able));
        assert_eq!(stage.cause(), cause, "{able}");
    }
}

#[test]
fn several_bridges_speak_mcp_at_once() {
    let mut stage = Stage::asked(&OPENCODE, &bound(false));
    let call =
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2}}});
    stage.aside(
        1,
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
    );
    stage.aside(1, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    stage.aside(2, &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}));
    stage.aside(1, &call);
    stage.aside(2, &call);
    let said = asides(&stage);
    assert_eq!(said.len(), 2, "a notification has no answer: {said:?}");
    assert_eq!(
        said[1],
        (
            2,
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]}})
        )
    );
    let orders: Vec<_> =
        stage.outs.iter().filter_map(|out| if let Out::Tool(it) = out { Some(it.clone()) } else { None }).collect();
    assert!(orders.len() == 2 && orders[0].id != orders[1].id && orders[0].input.get() == r#"{"a":2}"#);
    stage.outs.clear();
    // The same id of two clients: only the one that says so is called off.
    stage.aside(1, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    assert_eq!(stage.outs, [Out::ToolOff(orders[0].id.clone())]);
    for order in &orders {
        stage.say(Say::ToolDone { id: order.id.clone(), ok: true, output: "5".into() });
    }
    let result =
        json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "5"}], "isError": false}});
    assert_eq!(asides(&stage), [(2, result)]);
}

// A tool of the caller's needs nobody's leave but that of rules, and has the caller's name.
#[test]
fn bound_tools_are_the_caller_s() {
    let call = json!({"toolCallId": "c", "title": "ostler_add", "kind": "other", "rawInput": {"a": 2}});
    let mut stage = Stage::asked(&OPENCODE, &bound(false));
    stage.permission(&json!({"toolCallId": "c", "title": "ostler_add", "kind": "other", "rawInput": {}}), &usual());
    assert_eq!(stage.story(), [""; 0]);
    stage.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress", "rawInput": {"a": 2}}),
    );
    assert_eq!(stage.story(), [r#"call c add {"a":2}"#]);
    assert_eq!(stage.writes()[0]["result"]["outcome"]["optionId"], "yes");
    for (verdict, option) in [(Verdict::Undecided, "yes"), (Verdict::Allow, "yes"), (Verdict::Deny("no".into()), "no")]
    {
        let mut stage = Stage::asked(&OPENCODE, &bound(true));
        stage.permission(&call, &usual());
        let ask = stage.asks()[0];
        assert_eq!(
            (ask.wants.tool.as_str(), ask.wants.kind, ask.otherwise),
            ("add", ToolKind::Other, Otherwise::Agent)
        );
        stage.verdict(verdict);
        assert_eq!(stage.writes()[0]["result"]["outcome"]["optionId"], option);
    }
}
