//! Tools of the caller's inside Claude Code: MCP over the control channel, and what becomes of their schemas.

use ostler_core::dialect::{Conversation, FromConversation, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::permission::{Policy, ToolKind};
use ostler_core::spec::Spec;
use serde_json::{Value, json};

use crate::control::{feed, send, started, writes};
use crate::stage::{claude, offer};

fn bound() -> Spec {
    Spec {
        tools: vec![
            offer("add", r#"{"type":"object"}"#),
            offer("look up!", "{}"),
        ],
        ..Spec::default()
    }
}

fn message(id: &str, message: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "mcp_message", "server_name": "ostler", "message": message}})
}

/// What the server answers to one message.
fn answered(talk: &mut dyn Conversation, rpc: &Value) -> Value {
    let outs = feed(talk, &message("m", rpc));
    assert!(
        matches!(&outs[..], [FromConversation::Write(_)]),
        "{outs:?}"
    );
    let line = writes(&outs).remove(0);
    assert_eq!(
        (
            &line["response"]["subtype"],
            &line["response"]["request_id"]
        ),
        (&json!("success"), &json!("m"))
    );
    let answer = &line["response"]["response"]["mcp_response"];
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(answer.get("id"), rpc.get("id"));
    answer.clone()
}

fn call(name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": name, "arguments": {"a": 2}, "_meta": {"claudecode/toolUseId": "t1", "progressToken": 5}}})
}

#[test]
fn the_server_speaks_mcp() {
    let (mut talk, _) = started(&bound());
    let rpc = |id: Value, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let hello = answered(
        &mut *talk,
        &rpc(
            json!(0),
            "initialize",
            json!({"protocolVersion": "2025-11-25"}),
        ),
    );
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello["result"]["capabilities"], json!({"tools": {}}));
    assert_eq!(
        answered(&mut *talk, &rpc(json!("p"), "ping", json!(null)))["result"],
        json!({})
    );
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(answered(&mut *talk, &note)["result"], json!({}));
    for method in ["resources/list", ""] {
        assert_eq!(
            answered(&mut *talk, &rpc(json!(1), method, json!({})))["error"]["code"],
            -32601
        );
    }
    for wrong in [
        call("sub"),
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call"}),
    ] {
        assert_eq!(answered(&mut *talk, &wrong)["error"]["code"], -32602);
    }
    let tools = &answered(&mut *talk, &rpc(json!(2), "tools/list", json!({})))["result"]["tools"];
    assert_eq!(
        tools[0],
        json!({"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}, "_meta": {"anthropic/alwaysLoad": true, "anthropic/maxResultSizeChars": 500_000}})
    );
    assert_eq!(
        (&tools[1]["name"], tools.as_array().unwrap().len()),
        (&json!("look up!"), 2)
    );
}

#[test]
fn a_call_is_ordered_and_answered_once() {
    let (mut talk, _) = started(&bound());
    let talk = &mut *talk;
    let done = |id: &str, ok: bool| ToAgent::ToolDone {
        id: id.into(),
        ok,
        output: "5\n\"".into(),
    };
    for (id, ok) in [("m1", true), ("m2", false)] {
        let outs = feed(talk, &message(id, &call("add")));
        let [FromConversation::Tool(order)] = &outs[..] else {
            panic!("{outs:?}")
        };
        assert_eq!(
            (
                order.id.as_str(),
                order.call.as_deref(),
                order.name.as_str()
            ),
            (id, Some("t1"), "add")
        );
        assert_eq!(order.input.get(), r#"{"a":2}"#);
        assert_eq!(
            send(
                talk,
                ToAgent::ToolProgress {
                    id: id.into(),
                    message: "half".into()
                }
            ),
            []
        );
        let line = writes(&send(talk, done(id, ok))).remove(0);
        let result = json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "5\n\""}], "isError": !ok}});
        assert_eq!(line["response"]["response"]["mcp_response"], result);
        assert_eq!(send(talk, done(id, ok)), [], "once");
    }
    // Called off in either way: told once, and no answer afterwards.
    let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5, "reason": "x"}});
    let cancel = json!({"type": "control_cancel_request", "request_id": "m4"});
    for (id, off) in [("m3", message("n", &note)), ("m4", cancel)] {
        feed(talk, &message(id, &call("add")));
        assert!(
            feed(talk, &off).contains(&FromConversation::CancelTool(id.into())),
            "{id}"
        );
        assert!(
            !feed(talk, &off).contains(&FromConversation::CancelTool(id.into())),
            "{id}"
        );
        assert_eq!(send(talk, done(id, true)), []);
    }
}

#[test]
fn another_server_is_not_ours() {
    let line = message("m", &call("add"));
    let mut other = line.clone();
    other["request"]["server_name"] = "other".into();
    for (spec, line) in [(bound(), other), (Spec::default(), line)] {
        let outs = feed(&mut *started(&spec).0, &line);
        assert_eq!(writes(&outs)[0]["response"]["subtype"], "error");
    }
}

// The caller's tools have the caller's names, wherever they show.
#[test]
fn names_are_the_caller_s() {
    let (mut talk, _) = started(&Spec {
        policy: Some(Policy::default()),
        ..bound()
    });
    let talk = &mut *talk;
    let native = "mcp__ostler__look_up_";
    let line = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": "t", "name": native, "input": {}}]}});
    assert!(
        matches!(&feed(talk, &line)[..], [FromConversation::Event(EventKind::ToolCall(it))] if it.name == "look up!")
    );
    let line = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "5"}]}});
    assert!(
        matches!(&feed(talk, &line)[..], [FromConversation::Event(EventKind::ToolResult(it))] if it.name.as_deref() == Some("look up!"))
    );
    let hook = json!({"type": "control_request", "request_id": "h", "request": {"subtype": "hook_callback", "callback_id": "ostler-policy", "input": {"tool_name": native, "tool_input": {}}}});
    let outs = feed(talk, &hook);
    assert!(
        matches!(&outs[..], [FromConversation::Ask(ask)] if ask.wants.tool == "look up!" && ask.wants.kind == ToolKind::Other),
        "{outs:?}"
    );
    let line = json!({"type": "system", "subtype": "permission_denied", "tool_name": native, "tool_use_id": "t2"});
    assert!(
        matches!(&feed(talk, &line)[..], [FromConversation::Event(EventKind::Permission(it))] if it.tool == "look up!")
    );
    let line = json!({"type": "system", "subtype": "init", "tools": ["Bash", native, "mcp__ostler__other"]});
    let outs = feed(talk, &line);
    assert!(
        matches!(&outs[0], FromConversation::Event(EventKind::Started(it)) if it.tools == ["Bash", "look up!", "mcp__ostler__other"]),
        "{outs:?}"
    );
    let line = json!({"type": "result", "subtype": "success", "result": "x", "permission_denials": [{"tool_name": native}]});
    let outs = feed(talk, &line);
    assert!(outs.iter().any(|out| matches!(out, FromConversation::TurnEnded(over) if over.outcome.message.contains("look up!"))));
}

// Only what the caller bound is the caller's: a server of another's can have the same name, and a tool the name of Bash.
#[test]
fn what_is_not_bound_keeps_its_whole_name() {
    let tools = vec![
        offer("add", "{}"),
        offer("Bash", "{}"),
        offer("mcp__x__y", "{}"),
    ];
    let (mut talk, _) = started(&Spec {
        policy: Some(Policy::default()),
        tools,
        ..Spec::default()
    });
    for (native, name, kind) in [
        ("mcp__ostler__add", "add", ToolKind::Other),
        ("mcp__ostler__sub", "mcp__ostler__sub", ToolKind::Mcp),
        ("mcp__ostler__Read", "mcp__ostler__Read", ToolKind::Mcp),
        ("mcp__ostler__Bash", "mcp__ostler__Bash", ToolKind::Mcp),
        (
            "mcp__ostler__mcp__x__y",
            "mcp__ostler__mcp__x__y",
            ToolKind::Mcp,
        ),
    ] {
        let call = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": native, "name": native, "input": {}}]}});
        let outs = feed(&mut *talk, &call);
        assert!(
            matches!(&outs[..], [FromConversation::Event(EventKind::ToolCall(it))] if it.name == name),
            "{outs:?}"
        );
        let hook = json!({"callback_id": "ostler-policy", "subtype": "hook_callback", "input": {"tool_name": native, "tool_input": {}}});
        let layer = json!({"subtype": "can_use_tool", "tool_name": native, "input": {}});
        for (id, request) in [("h", hook), ("l", layer)] {
            let id = format!("{id}{native}");
            let outs = feed(
                &mut *talk,
                &json!({"type": "control_request", "request_id": id, "request": request}),
            );
            let [FromConversation::Ask(ask)] = &outs[..] else {
                panic!("{outs:?}")
            };
            assert_eq!((ask.wants.tool.as_str(), ask.wants.kind), (name, kind));
        }
        // What the machine expects of a call that an event shows is what the question says.
        assert_eq!(
            claude()
                .tool_use(name, &ostler_core::raw_json::RawJson::null())
                .kind,
            kind,
            "{name}"
        );
    }
}

/// A schema as it is offered to Claude Code.
fn offered(schema: &Value) -> Value {
    let (mut talk, _) = started(&Spec {
        tools: vec![offer("x", &schema.to_string())],
        ..Spec::default()
    });
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    answered(&mut *talk, &list)["result"]["tools"][0]["inputSchema"].clone()
}

// P62: what Claude Code would drop without a word is brought into a form that it takes; all else stays.
#[test]
fn schemas_are_adapted() {
    let number = json!({"type": "number"});
    let plain = json!({"type": "object"});
    let a = json!({"type": "object", "properties": {"a": number}, "required": ["a"]});
    let nested = json!({"type": "object", "properties": {"e": {"$ref": "#/$defs/E"}, "n": {"type": ["integer", "null"], "format": "uint32"}}, "$defs": {"E": {"oneOf": [{"const": "a"}, {"$ref": "#/$defs/E"}]}}});
    let mut dated = nested.clone();
    dated["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    for (given, wanted) in [
        (json!(true), plain.clone()),
        (json!({}), plain.clone()),
        (json!({"type": "string", "enum": ["a"]}), plain.clone()),
        (
            json!({"type": "object", "properties": [1], "required": "a"}),
            plain.clone(),
        ),
        (json!({"$ref": "#"}), plain.clone()),
        (
            json!({"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/X"}}}),
            plain,
        ),
        (
            json!({"type": ["object", "null"], "properties": {"a": number}, "required": ["a"]}),
            a.clone(),
        ),
        (
            json!({"properties": {"a": number}, "required": ["a"]}),
            a.clone(),
        ),
        (json!({"anyOf": [a, {"type": "null"}]}), a),
        (dated, nested),
    ] {
        assert_eq!(offered(&given), wanted, "{given}");
    }
}

// P62: an enum with fields, flattened into a struct, as schemars writes it.
#[test]
fn alternatives_become_one_object() {
    let given = json!({
        "title": "Request", "description": "What to do.", "type": "object", "$ref": "#/$defs/Common",
        "properties": {"note": {"type": "string"}},
        "oneOf": [
            {"type": "object", "properties": {"kind": {"type": "string", "const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
            {"$ref": "#/$defs/Square"},
        ],
        "$defs": {
            "Common": {"allOf": [{"properties": {"id": {"type": "integer"}}, "required": ["id"]}]},
            "Square": {"type": "object", "properties": {"kind": {"type": "string", "const": "square"}, "r": {"type": "string"}, "side": {"$ref": "#/$defs/Length"}}, "required": ["kind", "side"]},
            "Length": {"type": "number"},
        },
    });
    let mut wanted = json!({
        "title": "Request", "type": "object",
        "description": "What to do.\nThe arguments must at least have one of these forms: {kind, r} or {kind, side}.",
        "properties": {
            "note": {"type": "string"}, "id": {"type": "integer"},
            "kind": {"anyOf": [{"type": "string", "const": "circle"}, {"type": "string", "const": "square"}]},
            "r": {"anyOf": [{"type": "number"}, {"type": "string"}]}, "side": {"$ref": "#/$defs/Length"},
        },
        "required": ["id", "kind"],
    });
    wanted["$defs"] = given["$defs"].clone();
    assert_eq!(offered(&given), wanted);
}

// P61, P45: what the launch adds for tools and for questions, and what it refuses.
#[test]
fn the_launch_makes_ostler_the_host() {
    let launched = |set: fn(&mut Spec)| {
        let mut spec = Spec::default();
        set(&mut spec);
        claude().launch(&spec).map(|launch| {
            let args: Vec<String> = launch.args.iter().map(|arg| format!("{arg:?}")).collect();
            let has = |part: &str| args.iter().any(|arg| arg.contains(part));
            let env = |name: &str| {
                launch
                    .env
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.clone())
            };
            (
                has("prompt-tool=stdio"),
                has("allowed-tools=mcp__ostler__*"),
                env("MCP_TOOL_TIMEOUT"),
                env("CLAUDE_CODE_SIMPLE"),
            )
        })
    };
    let forever = Some("2147483647".to_owned());
    assert_eq!(launched(|_| {}).unwrap(), (false, false, None, None));
    assert_eq!(
        launched(|s| s.attendance = ostler_core::spec::Attendance::Attended).unwrap(),
        (true, false, None, None)
    );
    assert_eq!(
        launched(|s| s.policy = Some(Policy::default())).unwrap(),
        (true, false, None, Some(String::new()))
    );
    assert_eq!(
        launched(|s| s.tools = bound().tools).unwrap(),
        (false, true, forever, None)
    );
    for own in [
        |s: &mut Spec| s.settings.set("permission_prompt", "none"),
        |s: &mut Spec| s.extra_args.push("--permission-prompts=none".into()),
    ] {
        let mut spec = Spec {
            policy: Some(Policy::default()),
            ..Spec::default()
        };
        own(&mut spec);
        let launch = claude().launch(&spec).unwrap();
        assert!(
            !format!("{:?}", launch.args).contains("prompt-tool=stdio"),
            "the caller's own word"
        );
    }
    for (bad, word) in [
        (
            (|s| {
                (
                    s.policy = Some(Policy::default()),
                    s.settings.set("bare", "true"),
                )
                    .1
            }) as fn(&mut Spec),
            "bare",
        ),
        (
            |s| {
                (
                    s.policy = Some(Policy::default()),
                    s.extra_args.push("--bare".into()),
                )
                    .1
            },
            "bare",
        ),
        (
            |s| {
                (
                    s.policy = Some(Policy::default()),
                    s.env.insert("CLAUDE_CODE_SIMPLE".into(), "1".into()),
                )
                    .0
            },
            "bare",
        ),
        (
            |s| s.tools = vec![offer("a b", "{}"), offer("a_b", "{}")],
            "bound tools",
        ),
        (
            |s| s.tools = vec![offer(&"n".repeat(116), "{}")],
            "bound tools",
        ),
        (|s| s.tools = vec![offer("", "{}")], "bound tools"),
        (|s| s.tools = vec![offer("Bash", "{}")], "bound tools"),
        (|s| s.tools = vec![offer("mcp__x__y", "{}")], "bound tools"),
    ] {
        assert_eq!(launched(bad).expect_err(word).key, word);
    }
}
