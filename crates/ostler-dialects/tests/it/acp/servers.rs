//! The caller's tools: the bridge among the session's servers, and MCP on its other end.

use ostler_core::dialect::{Action, FromConversation, ToAgent, ToolJob};
use ostler_core::outcome::Cause;
use ostler_core::permission::{Command, Fallback, Policy, ToolKind, Verdict};
use ostler_core::spec::{Spec, keys};
use ostler_dialects::acp::{COPILOT, OPENCODE};
use serde_json::{Value, json};

use super::harness::{Harness, hello, usual};
use crate::harness::offer;

fn bound(policy: bool) -> Spec {
    Spec::default()
        .bound_tools(vec![offer("add", r#"{"type":"object"}"#)])
        .policy(policy.then(Policy::default))
}

/// Returns the messages written to bridges, with the client each went to.
fn bridge_writes(harness: &Harness) -> Vec<(u32, Value)> {
    let writes = harness.outs.iter().filter_map(|out| match out {
        FromConversation::Do(Action::WriteBridge { to, line }) => {
            Some((*to, serde_json::from_slice(line).unwrap()))
        }
        _ => None,
    });
    writes.collect()
}

#[test]
fn bridge_is_one_of_the_session_servers() {
    let mut harness = Harness::bridged(&OPENCODE, &bound(false));
    harness.answer(1, &hello(&json!({})));
    let server =
        json!([{"name": "ostler", "command": "/bin/ostler", "args": ["bridge"], "env": []}]);
    assert_eq!(harness.writes()[1]["params"]["mcpServers"], server);
}

#[test]
fn remote_servers_require_the_capability() {
    let mut spec = Spec::default();
    let servers = r#"{"mcpServers":{"a":{"url":"http://h"}}}"#;
    spec.set(keys::MCP_CONFIG, [servers]).unwrap();
    for (able, cause) in [
        (json!({"mcpCapabilities": {"http": true}}), None),
        (json!({}), Some(Cause::BadRequest)),
    ] {
        let mut harness = Harness::started(&OPENCODE, &spec);
        harness.send(ToAgent::Prompt("hello".into()));
        harness.answer(1, &hello(&able));
        assert_eq!(harness.cause(), cause, "{able}");
    }
}

#[test]
fn several_bridges_are_served_at_once() {
    let mut harness = Harness::bridged(&OPENCODE, &bound(false)).in_turn();
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2}}});
    harness.bridge_line(
        1,
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
    );
    harness.bridge_line(
        1,
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    harness.bridge_line(
        2,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    );
    harness.bridge_line(1, &call);
    harness.bridge_line(2, &call);
    let writes = bridge_writes(&harness);
    assert_eq!(
        writes.len(),
        2,
        "a notification has no response: {writes:?}"
    );
    assert_eq!(
        writes[1],
        (
            2,
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}]}})
        )
    );
    let jobs: Vec<_> = harness
        .outs
        .iter()
        .filter_map(|out| {
            if let FromConversation::Do(Action::RunTool(it)) = out {
                Some(it.clone())
            } else {
                None
            }
        })
        .collect();
    assert!(jobs.len() == 2 && jobs[0].id != jobs[1].id && jobs[0].input.get() == r#"{"a":2}"#);
    harness.outs.clear();
    // Two clients use the same id: only the call of the one that cancels is cancelled.
    harness.bridge_line(
        1,
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}),
    );
    assert_eq!(
        harness.outs,
        [FromConversation::Do(Action::CancelTool(jobs[0].id.clone()))]
    );
    for call_request in &jobs {
        harness.send(ToAgent::ToolDone {
            id: call_request.id.clone(),
            ok: true,
            output: "5".into(),
        });
    }
    let result = json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "5"}], "isError": false}});
    assert_eq!(bridge_writes(&harness), [(2, result)]);
}

// P61: clients abandon a call after a minute without progress. Each report goes to the client that
// asked for progress, under its token and with an increasing number, while the call is open.
#[test]
fn progress_reaches_the_client_that_asked_for_it() {
    let call = |id: u64, meta: &Value| {
        let params = json!({"name": "add", "arguments": {}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    for (token, expects_progress) in [
        (json!(7), true),
        (json!("p-1"), true),
        (json!(null), false),
        (json!([7]), false),
    ] {
        let mut harness = Harness::bridged(&OPENCODE, &bound(false)).in_turn();
        harness.bridge_line(1, &call(5, &json!({})));
        harness.bridge_line(2, &call(6, &json!({"progressToken": token})));
        let jobs: Vec<String> = harness
            .outs
            .iter()
            .filter_map(|out| {
                if let FromConversation::Do(Action::RunTool(it)) = out {
                    Some(it.id.clone())
                } else {
                    None
                }
            })
            .collect();
        harness.outs.clear();
        for minute in 1..=10 {
            for id in &jobs {
                harness.send(ToAgent::ToolProgress {
                    id: id.clone(),
                    message: format!("minute {minute}"),
                });
            }
        }
        let writes = bridge_writes(&harness);
        let report = |minute: u64| {
            let params = json!({"progressToken": token, "progress": minute, "message": format!("minute {minute}")});
            (
                2,
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
            )
        };
        let expected: Vec<_> = (1..=10).filter(|_| expects_progress).map(report).collect();
        assert_eq!(writes, expected, "{token}");
        harness.send(ToAgent::ToolDone {
            id: jobs[1].clone(),
            ok: true,
            output: "5".into(),
        });
        harness.outs.clear();
        harness.send(ToAgent::ToolProgress {
            id: jobs[1].clone(),
            message: "too late".into(),
        });
        assert_eq!(bridge_writes(&harness), []);
    }
}

// The caller's tools need no permission except from the policy, and keep the caller's names.
#[test]
fn bound_tools_keep_the_caller_name() {
    let mut harness = Harness::bridged(&OPENCODE, &bound(false)).in_turn();
    harness.permission(
        &json!({"toolCallId": "c", "title": "ostler_add", "kind": "other", "rawInput": {}}),
        &usual(),
    );
    assert_eq!(harness.story(), [""; 0]);
    harness.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress", "rawInput": {"a": 2}}),
    );
    assert_eq!(harness.story(), [r#"call c add {"a":2}"#]);
    assert_eq!(harness.writes()[0]["result"]["outcome"]["optionId"], "yes");
}

fn call_request(id: u64, a: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "add", "arguments": {"a": a, "b": 1}}})
}

fn jobs(harness: &Harness) -> Vec<ToolJob> {
    harness
        .outs
        .iter()
        .filter_map(|out| {
            if let FromConversation::Do(Action::RunTool(it)) = out {
                Some(it.clone())
            } else {
                None
            }
        })
        .collect()
}

// The policy decides when the tool runs, once, whatever the agent asked before.
#[test]
fn policy_decides_on_bridged_tools() {
    let call = json!({"toolCallId": "c", "title": "ostler_add", "kind": "other", "rawInput": {"b": 1, "a": 2}});
    for (verdict, runs) in [
        (Verdict::Undecided, true),
        (Verdict::Allow, true),
        (Verdict::Deny("no".into()), false),
    ] {
        let mut harness = Harness::bridged(&OPENCODE, &bound(true)).in_turn();
        harness.permission(&call, &usual());
        assert_eq!(
            (
                harness.asks().len(),
                &harness.writes()[0]["result"]["outcome"]["optionId"]
            ),
            (0, &json!("yes"))
        );
        harness.bridge_line(1, &call_request(5, 2));
        assert!(jobs(&harness).is_empty(), "not before the policy's verdict");
        let ask = harness.asks()[0];
        let wants = (
            ask.wants.tool.as_str(),
            ask.wants.kind,
            ask.fallback,
            ask.call.as_deref(),
        );
        assert_eq!(wants, ("add", ToolKind::Other, Fallback::Agent, Some("c")));
        harness.verdict(verdict);
        assert_eq!(jobs(&harness).len(), usize::from(runs));
        if !runs {
            let result = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
            assert_eq!(
                bridge_writes(&harness),
                [(1, json!({"jsonrpc": "2.0", "id": 5, "result": result}))]
            );
            harness.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}));
            assert_eq!(
                harness.story(),
                [
                    format!("call c add {}", call["rawInput"]).as_str(),
                    "result c denied no"
                ]
            );
        }
    }
}

// The title can be the model's own words.
#[test]
fn title_does_not_turn_a_command_into_a_caller_tool() {
    for (kind, input) in [
        (json!("execute"), json!({"command": "rm x"})),
        (json!("execute"), json!({})),
        (json!("other"), json!({"cmd": "rm x"})),
        (Value::Null, json!({"command": ["rm", "x"]})),
    ] {
        let mut harness = Harness::bridged(&COPILOT, &bound(false)).in_turn();
        let call =
            json!({"toolCallId": "c", "title": "ostler_add", "kind": kind, "rawInput": input});
        harness.permission(&call, &usual());
        assert_eq!(
            (harness.asks().len(), harness.writes().len()),
            (1, 0),
            "{call}"
        );
        assert_ne!(harness.asks()[0].wants.tool, "add");
    }
}

// The content of the permission request is what is decided on.
#[test]
fn permission_request_overrides_earlier_updates() {
    let mut harness = Harness::bridged(&COPILOT, &bound(true)).in_turn();
    let writes = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "kind": "read", "status": "pending", "rawInput": {"path": "a"}});
    harness.update(&writes);
    harness.permission(
        &json!({"toolCallId": "c", "title": "x", "kind": "execute", "rawInput": {"command": "rm x"}}),
        &usual(),
    );
    let wants = &harness.asks()[0].wants;
    assert_eq!(
        (wants.tool.as_str(), wants.kind),
        ("execute", ToolKind::Execute)
    );
    assert_eq!(wants.command, Some(Command::Shell("rm x".into())));
}

// A caller that runs its tools itself knows calls by the ids of the events.
#[test]
fn job_is_matched_to_the_call_in_the_events() {
    let announced = |id: &str, a: u64| {
        json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": "ostler_add", "kind": "other",
            "status": "in_progress", "rawInput": {"b": 1, "a": a},
        })
    };
    let over = |id: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "3"}}]});
    let mut harness = Harness::bridged(&OPENCODE, &bound(false)).in_turn();
    // The same arguments in another order.
    let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": announced("c1", 1)}});
    harness.line(
        &line
            .to_string()
            .replace(r#"{"a":1,"b":1}"#, r#"{"b":1, "a":1}"#),
    );
    harness.update(&announced("c2", 2));
    harness.bridge_line(1, &call_request(5, 2));
    harness.bridge_line(1, &call_request(6, 1));
    let calls: Vec<_> = jobs(&harness)
        .into_iter()
        .map(|it| it.call.unwrap())
        .collect();
    assert_eq!(calls, ["c2", "c1"]);
    // The job starts before the agent announces the call: it is still one call.
    let mut harness = Harness::bridged(&OPENCODE, &bound(false)).in_turn();
    harness.bridge_line(1, &call_request(5, 2));
    let early = jobs(&harness)[0].clone();
    assert_eq!(early.call.as_ref(), Some(&early.id));
    harness.update(&announced("c", 2));
    harness.send(ToAgent::ToolDone {
        id: early.id.clone(),
        ok: true,
        output: "3".into(),
    });
    harness.update(&over("c"));
    let id = &early.id;
    let story = [
        format!("call {id} add {{\"a\":2,\"b\":1}}"),
        format!("result {id} ok 3"),
    ];
    assert_eq!(harness.story(), story);
    // The agent never reports the call.
    let mut harness = Harness::bridged(&OPENCODE, &bound(false)).in_turn();
    harness.bridge_line(1, &call_request(5, 2));
    harness.send(ToAgent::ToolDone {
        id: early.id.clone(),
        ok: true,
        output: "3".into(),
    });
    harness.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(harness.story(), story);
}

// The tools of a closed bridge are cancelled, and only those.
#[test]
fn tools_are_cancelled_with_their_bridge() {
    for policy in [false, true] {
        let mut harness = Harness::bridged(&OPENCODE, &bound(policy)).in_turn();
        harness.bridge_line(1, &call_request(5, 2));
        harness.bridge_line(2, &call_request(5, 3));
        assert!(
            harness.owes_bridge_reply(1)
                && harness.owes_bridge_reply(2)
                && !harness.owes_bridge_reply(3)
        );
        let mut ids: Vec<String> = jobs(&harness).into_iter().map(|it| it.id).collect();
        ids.extend(harness.asks().iter().map(|ask| ask.id.clone()));
        harness.bridge_closed(1);
        harness.bridge_closed(3);
        let off = |id: &String| {
            if policy {
                FromConversation::WithdrawPermission(id.clone())
            } else {
                FromConversation::Do(Action::CancelTool(id.clone()))
            }
        };
        assert!(
            harness.outs.contains(&off(&ids[0])) && !harness.outs.contains(&off(&ids[1])),
            "{:?}",
            harness.outs
        );
        assert!(!harness.owes_bridge_reply(1) && harness.owes_bridge_reply(2));
        for id in &ids {
            harness.send(ToAgent::Verdict {
                id: id.clone(),
                verdict: Verdict::Allow,
            });
            harness.send(ToAgent::ToolDone {
                id: id.clone(),
                ok: true,
                output: "3".into(),
            });
        }
        let writes = bridge_writes(&harness);
        assert_eq!(
            writes.iter().map(|(to, _)| *to).collect::<Vec<_>>(),
            [2],
            "the other one gets its response"
        );
        assert!(!harness.owes_bridge_reply(2));
    }
}

#[test]
fn tools_are_cancelled_with_the_turn() {
    for (policy, ends) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut harness = Harness::bridged(&OPENCODE, &bound(policy)).in_turn();
        harness.bridge_line(1, &call_request(5, 2));
        let id = jobs(&harness).first().map(|it| it.id.clone());
        let id = id.unwrap_or_else(|| harness.asks()[0].id.clone());
        match ends {
            true => harness.answer(3, &json!({"stopReason": "end_turn"})),
            false => harness.send(ToAgent::Interrupt),
        }
        let off = if policy {
            FromConversation::WithdrawPermission(id.clone())
        } else {
            FromConversation::Do(Action::CancelTool(id.clone()))
        };
        assert!(harness.outs.contains(&off), "{:?}", harness.outs);
        let writes = bridge_writes(&harness);
        assert_eq!(
            (
                writes.len(),
                &writes[0].1["id"],
                &writes[0].1["result"]["isError"]
            ),
            (1, &json!(5), &json!(true))
        );
        harness.send(ToAgent::ToolDone {
            id: id.clone(),
            ok: true,
            output: "3".into(),
        });
        harness.send(ToAgent::Verdict {
            id,
            verdict: Verdict::Allow,
        });
        assert_eq!(
            bridge_writes(&harness).len(),
            1,
            "the call is no longer pending"
        );
    }
}

#[test]
fn response_id_may_be_a_string() {
    let mut harness = Harness::asked(&OPENCODE, &Spec::default());
    harness.message(&json!({"jsonrpc": "2.0", "id": "3", "result": {"stopReason": "end_turn"}}));
    assert_eq!(harness.cause(), Some(Cause::Completed));
}
