//! The caller's tools in Claude Code: MCP over the control channel, and the adaptation of their
//! schemas.

use ostler_core::dialect::{Action, Conversation, FromConversation, Launching, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::permission::{Policy, ToolKind};
use ostler_core::spec::Spec;
use serde_json::{Value, json};

use crate::control::{feed, send, started, writes};
use crate::harness::{claude, offer};

fn bound() -> Spec {
    Spec::default().bound_tools(vec![
        offer("add", r#"{"type":"object"}"#),
        offer("look up!", "{}"),
    ])
}

fn message(id: &str, message: &Value) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "mcp_message", "server_name": "ostler", "message": message}})
}

/// Returns the server's response to one message.
fn response_to(conversation: &mut dyn Conversation, rpc: &Value) -> Value {
    let outs = feed(conversation, &message("m", rpc));
    assert!(
        matches!(&outs[..], [FromConversation::Do(Action::Write(_))]),
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
fn server_implements_mcp() {
    let (mut conversation, _) = started(&bound());
    let rpc = |id: Value, method: &str, params: Value| -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    };
    let hello = response_to(
        &mut *conversation,
        &rpc(
            json!(0),
            "initialize",
            json!({"protocolVersion": "2025-11-25"}),
        ),
    );
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello["result"]["capabilities"], json!({"tools": {}}));
    assert_eq!(
        response_to(&mut *conversation, &rpc(json!("p"), "ping", json!(null)))["result"],
        json!({})
    );
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(
        response_to(&mut *conversation, &notification)["result"],
        json!({})
    );
    for method in ["resources/list", ""] {
        assert_eq!(
            response_to(&mut *conversation, &rpc(json!(1), method, json!({})))["error"]["code"],
            -32601
        );
    }
    for wrong in [
        call("sub"),
        json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call"}),
    ] {
        assert_eq!(
            response_to(&mut *conversation, &wrong)["error"]["code"],
            -32602
        );
    }
    let tools = &response_to(&mut *conversation, &rpc(json!(2), "tools/list", json!({})))["result"]
        ["tools"];
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
fn call_is_started_and_answered_once() {
    let (mut conversation, _) = started(&bound());
    let conversation = &mut *conversation;
    let done = |id: &str, ok: bool| ToAgent::ToolDone {
        id: id.into(),
        ok,
        output: "5\n\"".into(),
    };
    for (id, ok) in [("m1", true), ("m2", false)] {
        let outs = feed(conversation, &message(id, &call("add")));
        let [FromConversation::Do(Action::RunTool(order))] = &outs[..] else {
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
                conversation,
                ToAgent::ToolProgress {
                    id: id.into(),
                    message: "half".into()
                }
            ),
            []
        );
        let line = writes(&send(conversation, done(id, ok))).remove(0);
        let result = json!({"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "5\n\""}], "isError": !ok}});
        assert_eq!(line["response"]["response"]["mcp_response"], result);
        assert_eq!(send(conversation, done(id, ok)), [], "once");
    }
    // Cancelled either way: reported once, and without a response afterwards.
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5, "reason": "x"}});
    let cancel = json!({"type": "control_cancel_request", "request_id": "m4"});
    for (id, off) in [("m3", message("n", &notification)), ("m4", cancel)] {
        feed(conversation, &message(id, &call("add")));
        assert!(
            feed(conversation, &off).contains(&FromConversation::Do(Action::CancelTool(id.into()))),
            "{id}"
        );
        assert!(
            !feed(conversation, &off)
                .contains(&FromConversation::Do(Action::CancelTool(id.into()))),
            "{id}"
        );
        assert_eq!(send(conversation, done(id, true)), []);
    }
}

#[test]
fn other_servers_are_rejected() {
    let line = message("m", &call("add"));
    let mut other = line.clone();
    other["request"]["server_name"] = "other".into();
    for (spec, line) in [(bound(), other), (Spec::default(), line)] {
        let outs = feed(&mut *started(&spec).0, &line);
        assert_eq!(writes(&outs)[0]["response"]["subtype"], "error");
    }
}

// The caller's tools have the caller's names wherever they appear.
#[test]
fn tools_keep_the_caller_names() {
    let (mut conversation, _) = started(&bound().policy(Policy::default()));
    let conversation = &mut *conversation;
    let native = "mcp__ostler__look_up_";
    let line = json!({"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": "t", "name": native, "input": {}}]}});
    assert!(matches!(
        &feed(conversation, &line)[..],
        [FromConversation::Event(EventKind::ToolCall(it))]
            if it.name == "look up!"
    ));
    let line = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "content": "5"}]}});
    assert!(matches!(
        &feed(conversation, &line)[..],
        [FromConversation::Event(EventKind::ToolResult(it))]
            if it.name.as_deref() == Some("look up!")
    ));
    let hook = json!({"type": "control_request", "request_id": "h", "request": {"subtype": "hook_callback", "callback_id": "ostler-policy", "input": {"tool_name": native, "tool_input": {}}}});
    let outs = feed(conversation, &hook);
    assert!(
        matches!(
            &outs[..],
            [FromConversation::AskPermission(ask)]
                if ask.wants.tool == "look up!" && ask.wants.kind == ToolKind::Other
        ),
        "{outs:?}"
    );
    let line = json!({"type": "system", "subtype": "permission_denied", "tool_name": native, "tool_use_id": "t2"});
    assert!(matches!(
        &feed(conversation, &line)[..],
        [FromConversation::Event(EventKind::Permission(it))]
            if it.tool == "look up!"
    ));
    let line = json!({"type": "system", "subtype": "init", "tools": ["Bash", native, "mcp__ostler__other"]});
    let outs = feed(conversation, &line);
    assert!(
        matches!(
            &outs[0],
            FromConversation::Event(EventKind::Started(it))
                if it.tools == ["Bash", "look up!", "mcp__ostler__other"]
        ),
        "{outs:?}"
    );
    let line = json!({"type": "result", "subtype": "success", "result": "x", "permission_denials": [{"tool_name": native}]});
    let outs = feed(conversation, &line);
    assert!(outs.iter().any(|out| matches!(
        out,
        FromConversation::TurnEnded(over)
            if over.outcome.message.contains("look up!")
    )));
}

// Only bound tools have the caller's names: another server can have the same name, and a tool can
// be called Bash.
#[test]
fn unbound_tools_keep_their_full_name() {
    let tools = vec![
        offer("add", "{}"),
        offer("Bash", "{}"),
        offer("mcp__x__y", "{}"),
    ];
    let (mut conversation, _) =
        started(&Spec::default().policy(Policy::default()).bound_tools(tools));
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
        let outs = feed(&mut *conversation, &call);
        assert!(
            matches!(
                &outs[..],
                [FromConversation::Event(EventKind::ToolCall(it))]
                    if it.name == name
            ),
            "{outs:?}"
        );
        let hook = json!({"callback_id": "ostler-policy", "subtype": "hook_callback", "input": {"tool_name": native, "tool_input": {}}});
        let layer = json!({"subtype": "can_use_tool", "tool_name": native, "input": {}});
        for (id, request) in [("h", hook), ("l", layer)] {
            let id = format!("{id}{native}");
            let outs = feed(
                &mut *conversation,
                &json!({"type": "control_request", "request_id": id, "request": request}),
            );
            let [FromConversation::AskPermission(ask)] = &outs[..] else {
                panic!("{outs:?}")
            };
            assert_eq!((ask.wants.tool.as_str(), ask.wants.kind), (name, kind));
        }
        // The policy judges a call in the events like the permission request.
        assert_eq!(
            claude()
                .tool_use(name, &ostler_core::raw_json::RawJson::null())
                .kind,
            kind,
            "{name}"
        );
    }
}

/// Returns a schema as it is offered to Claude Code.
fn offered(schema: &Value) -> Value {
    let (mut conversation, _) =
        started(&Spec::default().bound_tools(vec![offer("x", &schema.to_string())]));
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    response_to(&mut *conversation, &list)["result"]["tools"][0]["inputSchema"].clone()
}

// P62: schemas that Claude Code would silently drop are rewritten into an accepted form; all others
// are unchanged.
#[test]
fn schemas_are_adapted() {
    let number = json!({"type": "number"});
    let plain = json!({"type": "object"});
    let a = json!({"type": "object", "properties": {"a": number}, "required": ["a"]});
    let nested = json!({
        "type": "object",
        "properties": {
            "e": {"$ref": "#/$defs/E"},
            "n": {"type": ["integer", "null"], "format": "uint32"},
        },
        "$defs": {"E": {"oneOf": [{"const": "a"}, {"$ref": "#/$defs/E"}]}},
    });
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
fn alternatives_are_merged_into_one_object() {
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

// P61, P45: what the launch adds for tools and for permission prompts, and what it rejects.
#[test]
fn launch_makes_ostler_the_host() {
    let launched = |set: fn(&mut Spec)| {
        let mut spec = Spec::default();
        set(&mut spec);
        claude().launch(&Launching::new(&spec)).map(|launch| {
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
        launched(|s| s.bound_tools = bound().bound_tools).unwrap(),
        (false, true, forever, None)
    );
    for own in [
        |s: &mut Spec| s.set("permission_prompt", ["none"]).unwrap(),
        |s: &mut Spec| s.extra_args.push("--permission-prompts=none".into()),
    ] {
        let mut spec = Spec::default().policy(Policy::default());
        own(&mut spec);
        let launch = claude().launch(&Launching::new(&spec)).unwrap();
        assert!(
            !format!("{:?}", launch.args).contains("prompt-tool=stdio"),
            "the caller's own setting wins"
        );
    }
    for (bad, word) in [
        (
            (|s| {
                s.policy = Some(Policy::default());
                s.set("bare", ["true"]).unwrap();
            }) as fn(&mut Spec),
            "bare",
        ),
        (
            |s| {
                s.policy = Some(Policy::default());
                s.extra_args.push("--bare".into());
            },
            "bare",
        ),
        (
            |s| {
                s.policy = Some(Policy::default());
                s.env.insert("CLAUDE_CODE_SIMPLE".into(), "1".into());
            },
            "bare",
        ),
        (
            |s| s.bound_tools = vec![offer("a b", "{}"), offer("a_b", "{}")],
            "bound tools",
        ),
        (
            |s| s.bound_tools = vec![offer(&"n".repeat(116), "{}")],
            "bound tools",
        ),
        (|s| s.bound_tools = vec![offer("", "{}")], "bound tools"),
        (|s| s.bound_tools = vec![offer("Bash", "{}")], "bound tools"),
        (
            |s| s.bound_tools = vec![offer("mcp__x__y", "{}")],
            "bound tools",
        ),
    ] {
        assert_eq!(launched(bad).expect_err(word).key, word);
    }
}
