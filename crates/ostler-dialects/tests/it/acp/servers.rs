//! Tools of the caller's: the bridge among the servers of the session, and MCP on its other end.

use ostler_core::dialect::{FromConversation, ToAgent, ToolJob};
use ostler_core::outcome::Cause;
use ostler_core::permission::{Command, Otherwise, Policy, ToolKind, Verdict};
use ostler_core::spec::{Bridge, Spec, keys};
use ostler_dialects::acp::{COPILOT, OPENCODE};
use serde_json::{Value, json};

use super::stage::{Stage, hello, usual};
use crate::stage::offer;

fn bound(policy: bool) -> Spec {
    Spec {
        tools: vec![offer("add", r#"{"type":"object"}"#)],
        bridge: Some(Bridge {
            program: "/bin/ostler".into(),
            args: vec!["bridge".into()],
        }),
        policy: policy.then(Policy::default),
        ..Spec::default()
    }
}

/// What was said to bridges: which, and what.
fn asides(stage: &Stage) -> Vec<(u32, Value)> {
    let said = stage.outs.iter().filter_map(|out| match out {
        FromConversation::WriteBridge { to, line } => {
            Some((*to, serde_json::from_slice(line).unwrap()))
        }
        _ => None,
    });
    said.collect()
}

#[test]
fn the_bridge_is_among_the_servers_of_the_session() {
    let mut stage = Stage::begun(&OPENCODE, &bound(false));
    stage.answer(1, &hello(&json!({})));
    let server =
        json!([{"name": "ostler", "command": "/bin/ostler", "args": ["bridge"], "env": []}]);
    assert_eq!(stage.writes()[1]["params"]["mcpServers"], server);
}

#[test]
fn servers_over_the_network_only_where_they_are_announced() {
    let mut spec = Spec::default();
    spec.settings.set(
        keys::MCP_CONFIG,
        r#"{"mcpServers":{"a":{"url":"http://h"}}}"#,
    );
    for (able, cause) in [
        (json!({"mcpCapabilities": {"http": true}}), None),
        (json!({}), Some(Cause::BadRequest)),
    ] {
        let mut stage = Stage::begun(&OPENCODE, &spec);
        stage.say(ToAgent::Prompt("hello".into()));
        stage.answer(1, &hello(&able));
        assert_eq!(stage.cause(), cause, "{able}");
    }
}

#[test]
fn several_bridges_speak_mcp_at_once() {
    let mut stage = Stage::asked(&OPENCODE, &bound(false));
    let call = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2}}});
    stage.aside(
        1,
        &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}),
    );
    stage.aside(
        1,
        &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    );
    stage.aside(
        2,
        &json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
    );
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
    let orders: Vec<_> = stage
        .outs
        .iter()
        .filter_map(|out| {
            if let FromConversation::Tool(it) = out {
                Some(it.clone())
            } else {
                None
            }
        })
        .collect();
    assert!(
        orders.len() == 2 && orders[0].id != orders[1].id && orders[0].input.get() == r#"{"a":2}"#
    );
    stage.outs.clear();
    // The same id of two clients: only the one that says so is called off.
    stage.aside(
        1,
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}),
    );
    assert_eq!(
        stage.outs,
        [FromConversation::CancelTool(orders[0].id.clone())]
    );
    for order in &orders {
        stage.say(ToAgent::ToolDone {
            id: order.id.clone(),
            ok: true,
            output: "5".into(),
        });
    }
    let result = json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "5"}], "isError": false}});
    assert_eq!(asides(&stage), [(2, result)]);
}

// P61: clients give a call up after a minute unless they hear of progress: each report goes to the
// client that asked for reports, under its token and with a growing number, for as long as the call
// is open.
#[test]
fn progress_reaches_the_client_that_wants_it() {
    let call = |id: u64, meta: &Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "add", "arguments": {}, "_meta": meta}});
    for (token, stated) in [
        (json!(7), true),
        (json!("p-1"), true),
        (json!(null), false),
        (json!([7]), false),
    ] {
        let mut stage = Stage::asked(&OPENCODE, &bound(false));
        stage.aside(1, &call(5, &json!({})));
        stage.aside(2, &call(6, &json!({"progressToken": token})));
        let orders: Vec<String> = stage
            .outs
            .iter()
            .filter_map(|out| {
                if let FromConversation::Tool(it) = out {
                    Some(it.id.clone())
                } else {
                    None
                }
            })
            .collect();
        stage.outs.clear();
        for minute in 1..=10 {
            for id in &orders {
                stage.say(ToAgent::ToolProgress {
                    id: id.clone(),
                    message: format!("minute {minute}"),
                });
            }
        }
        let said = asides(&stage);
        let report = |minute: u64| {
            let params = json!({"progressToken": token, "progress": minute, "message": format!("minute {minute}")});
            (
                2,
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}),
            )
        };
        let expected: Vec<_> = (1..=10).filter(|_| stated).map(report).collect();
        assert_eq!(said, expected, "{token}");
        stage.say(ToAgent::ToolDone {
            id: orders[1].clone(),
            ok: true,
            output: "5".into(),
        });
        stage.outs.clear();
        stage.say(ToAgent::ToolProgress {
            id: orders[1].clone(),
            message: "too late".into(),
        });
        assert_eq!(asides(&stage), []);
    }
}

// A tool of the caller's needs nobody's leave but that of rules, and has the caller's name.
#[test]
fn bound_tools_are_the_caller_s() {
    let mut stage = Stage::asked(&OPENCODE, &bound(false));
    stage.permission(
        &json!({"toolCallId": "c", "title": "ostler_add", "kind": "other", "rawInput": {}}),
        &usual(),
    );
    assert_eq!(stage.story(), [""; 0]);
    stage.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "in_progress", "rawInput": {"a": 2}}),
    );
    assert_eq!(stage.story(), [r#"call c add {"a":2}"#]);
    assert_eq!(stage.writes()[0]["result"]["outcome"]["optionId"], "yes");
}

fn order(id: u64, a: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "add", "arguments": {"a": a, "b": 1}}})
}

fn orders(stage: &Stage) -> Vec<ToolJob> {
    stage
        .outs
        .iter()
        .filter_map(|out| {
            if let FromConversation::Tool(it) = out {
                Some(it.clone())
            } else {
                None
            }
        })
        .collect()
}

// Rules decide where the tool runs, once, whatever the agent asked before.
#[test]
fn rules_decide_on_tools_that_come_over_the_bridge() {
    let call = json!({"toolCallId": "c", "title": "ostler_add", "kind": "other", "rawInput": {"b": 1, "a": 2}});
    for (verdict, runs) in [
        (Verdict::Undecided, true),
        (Verdict::Allow, true),
        (Verdict::Deny("no".into()), false),
    ] {
        let mut stage = Stage::asked(&OPENCODE, &bound(true));
        stage.permission(&call, &usual());
        assert_eq!(
            (
                stage.asks().len(),
                &stage.writes()[0]["result"]["outcome"]["optionId"]
            ),
            (0, &json!("yes"))
        );
        stage.aside(1, &order(5, 2));
        assert!(
            orders(&stage).is_empty(),
            "not before the rules have spoken"
        );
        let ask = stage.asks()[0];
        let wants = (
            ask.wants.tool.as_str(),
            ask.wants.kind,
            ask.otherwise,
            ask.call.as_deref(),
        );
        assert_eq!(wants, ("add", ToolKind::Other, Otherwise::Agent, Some("c")));
        stage.verdict(verdict);
        assert_eq!(orders(&stage).len(), usize::from(runs));
        if !runs {
            let result = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
            assert_eq!(
                asides(&stage),
                [(1, json!({"jsonrpc": "2.0", "id": 5, "result": result}))]
            );
            stage.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}));
            assert_eq!(
                stage.story(),
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
fn a_title_makes_no_command_a_tool_of_the_caller_s() {
    for (kind, input) in [
        (json!("execute"), json!({"command": "rm x"})),
        (json!("execute"), json!({})),
        (json!("other"), json!({"cmd": "rm x"})),
        (Value::Null, json!({"command": ["rm", "x"]})),
    ] {
        let mut stage = Stage::asked(&COPILOT, &bound(false));
        let call =
            json!({"toolCallId": "c", "title": "ostler_add", "kind": kind, "rawInput": input});
        stage.permission(&call, &usual());
        assert_eq!((stage.asks().len(), stage.writes().len()), (1, 0), "{call}");
        assert_ne!(stage.asks()[0].wants.tool, "add");
    }
}

// What the question says is what is decided on.
#[test]
fn a_question_is_about_what_it_says_itself() {
    let mut stage = Stage::asked(&COPILOT, &bound(true));
    let said = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "kind": "read", "status": "pending", "rawInput": {"path": "a"}});
    stage.update(&said);
    stage.permission(
        &json!({"toolCallId": "c", "title": "x", "kind": "execute", "rawInput": {"command": "rm x"}}),
        &usual(),
    );
    let wants = &stage.asks()[0].wants;
    assert_eq!(
        (wants.tool.as_str(), wants.kind),
        ("execute", ToolKind::Execute)
    );
    assert_eq!(wants.command, Some(Command::Shell("rm x".into())));
}

// A caller that runs its tools itself knows calls by the ids of the events.
#[test]
fn an_order_belongs_to_the_call_of_the_events() {
    let told = |id: &str, a: u64| json!({"sessionUpdate": "tool_call", "toolCallId": id, "title": "ostler_add", "kind": "other", "status": "in_progress", "rawInput": {"b": 1, "a": a}});
    let over = |id: &str| json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "status": "completed", "content": [{"type": "content", "content": {"type": "text", "text": "3"}}]});
    let mut stage = Stage::asked(&OPENCODE, &bound(false));
    // The same arguments in another order.
    let line = json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": told("c1", 1)}});
    stage.line(
        &line
            .to_string()
            .replace(r#"{"a":1,"b":1}"#, r#"{"b":1, "a":1}"#),
    );
    stage.update(&told("c2", 2));
    stage.aside(1, &order(5, 2));
    stage.aside(1, &order(6, 1));
    let calls: Vec<_> = orders(&stage)
        .into_iter()
        .map(|it| it.call.unwrap())
        .collect();
    assert_eq!(calls, ["c2", "c1"]);
    // The order comes before the agent's first word: one call all the same.
    let mut stage = Stage::asked(&OPENCODE, &bound(false));
    stage.aside(1, &order(5, 2));
    let early = orders(&stage)[0].clone();
    assert_eq!(early.call.as_ref(), Some(&early.id));
    stage.update(&told("c", 2));
    stage.say(ToAgent::ToolDone {
        id: early.id.clone(),
        ok: true,
        output: "3".into(),
    });
    stage.update(&over("c"));
    let id = &early.id;
    let story = [
        format!("call {id} add {{\"a\":2,\"b\":1}}"),
        format!("result {id} ok 3"),
    ];
    assert_eq!(stage.story(), story);
    // The agent says nothing at all about it.
    let mut stage = Stage::asked(&OPENCODE, &bound(false));
    stage.aside(1, &order(5, 2));
    stage.say(ToAgent::ToolDone {
        id: early.id.clone(),
        ok: true,
        output: "3".into(),
    });
    stage.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(stage.story(), story);
}

// A bridge that is gone waits for nothing; its tools are called off, and nobody else's.
#[test]
fn tools_are_called_off_with_the_bridge_that_wanted_them() {
    for policy in [false, true] {
        let mut stage = Stage::asked(&OPENCODE, &bound(policy));
        stage.aside(1, &order(5, 2));
        stage.aside(2, &order(5, 3));
        assert!(stage.owes(1) && stage.owes(2) && !stage.owes(3));
        let mut ids: Vec<String> = orders(&stage).into_iter().map(|it| it.id).collect();
        ids.extend(stage.asks().iter().map(|ask| ask.id.clone()));
        stage.gone(1);
        stage.gone(3);
        let off = |id: &String| {
            if policy {
                FromConversation::Withdraw(id.clone())
            } else {
                FromConversation::CancelTool(id.clone())
            }
        };
        assert!(
            stage.outs.contains(&off(&ids[0])) && !stage.outs.contains(&off(&ids[1])),
            "{:?}",
            stage.outs
        );
        assert!(!stage.owes(1) && stage.owes(2));
        for id in &ids {
            stage.say(ToAgent::Verdict {
                id: id.clone(),
                verdict: Verdict::Allow,
            });
            stage.say(ToAgent::ToolDone {
                id: id.clone(),
                ok: true,
                output: "3".into(),
            });
        }
        let said = asides(&stage);
        assert_eq!(
            said.iter().map(|(to, _)| *to).collect::<Vec<_>>(),
            [2],
            "the other one has its answer"
        );
        assert!(!stage.owes(2));
    }
}

#[test]
fn tools_are_called_off_with_the_turn() {
    for (policy, ends) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut stage = Stage::asked(&OPENCODE, &bound(policy));
        stage.aside(1, &order(5, 2));
        let id = orders(&stage).first().map(|it| it.id.clone());
        let id = id.unwrap_or_else(|| stage.asks()[0].id.clone());
        match ends {
            true => stage.answer(3, &json!({"stopReason": "end_turn"})),
            false => stage.say(ToAgent::Interrupt),
        }
        let off = if policy {
            FromConversation::Withdraw(id.clone())
        } else {
            FromConversation::CancelTool(id.clone())
        };
        assert!(stage.outs.contains(&off), "{:?}", stage.outs);
        let said = asides(&stage);
        assert_eq!(
            (
                said.len(),
                &said[0].1["id"],
                &said[0].1["result"]["isError"]
            ),
            (1, &json!(5), &json!(true))
        );
        stage.say(ToAgent::ToolDone {
            id: id.clone(),
            ok: true,
            output: "3".into(),
        });
        stage.say(ToAgent::Verdict {
            id,
            verdict: Verdict::Allow,
        });
        assert_eq!(asides(&stage).len(), 1, "nobody waits");
    }
}

#[test]
fn an_answer_may_have_our_number_as_text() {
    let mut stage = Stage::asked(&OPENCODE, &Spec::default());
    stage.hear(&json!({"jsonrpc": "2.0", "id": "3", "result": {"stopReason": "end_turn"}}));
    assert_eq!(stage.cause(), Some(Cause::Completed));
}
