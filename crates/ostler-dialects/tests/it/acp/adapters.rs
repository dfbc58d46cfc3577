//! Claude Code and Codex behind the editors' adapters: their measured deviations from the protocol.

use ostler_core::dialect::{Dialect, Launching};
use ostler_core::outcome::Cause;
use ostler_core::permission::{Policy, ToolKind, Verdict};
use ostler_core::spec::{Attendance, Spec, ToolOffer};
use ostler_dialects::acp::{CLAUDE_AGENT_ACP, CODEX_ACP};
use serde_json::{Value, json};

use super::harness::{Harness, usual};

const PROMPT: u64 = 3;

fn end_turn(harness: &mut Harness) {
    harness.answer(PROMPT, &json!({"stopReason": "end_turn"}));
}

/// Sends a chunk of the reply with this message id.
fn chunk(harness: &mut Harness, id: &str, text: &str) {
    let content = json!({"type": "text", "text": text});
    harness.update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": content, "messageId": id}),
    );
}

// The call is announced before its arguments, then with a description, and its output in a code
// fence.
#[test]
fn claude_calls_have_names_arguments_and_outputs() {
    let mut harness = Harness::asked(&CLAUDE_AGENT_ACP, &Spec::default());
    let about = |more: Value| {
        let mut all = json!({"sessionUpdate": "tool_call_update", "toolCallId": "c"});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        all
    };
    harness.update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "name": "Bash", "kind": "execute",
        "status": "pending", "title": "Terminal", "rawInput": {}, "content": []}),
    );
    let says = |text: &str| json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    harness.update(&about(
        json!({"rawInput": {"command": "echo 42"}, "title": "echo 42", "content": says("why")}),
    ));
    // The permission request has the kind, and no name.
    let call = json!({"toolCallId": "c", "kind": "execute", "status": "pending", "rawInput": {"command": "echo 42"}});
    harness.permission(&call, &usual());
    assert_eq!(
        (
            harness.asks()[0].wants.tool.as_str(),
            harness.asks()[0].wants.kind
        ),
        ("Bash", ToolKind::Execute)
    );
    harness.verdict(Verdict::Allow);
    harness.update(&about(
        json!({"status": "completed", "rawOutput": "42", "content": says("```console\n42\n```")}),
    ));
    end_turn(&mut harness);
    assert_eq!(
        harness.story(),
        [r#"call c Bash {"command":"echo 42"}"#, "result c ok 42"]
    );
}

#[test]
fn claude_compactions_are_not_tool_calls() {
    for (status, code) in [("completed", "compacted"), ("failed", "not_compacted")] {
        let mut harness = Harness::asked(&CLAUDE_AGENT_ACP, &Spec::default());
        let meta = json!({"claudeCode": {"toolName": "compact"}});
        harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "Compact conversation",
            "kind": "think", "status": "in_progress", "_meta": meta}));
        harness.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": status, "_meta": meta}));
        end_turn(&mut harness);
        assert_eq!(harness.story(), [format!("notice {code}")]);
    }
}

// The program's own texts have UUIDs as ids. They are error texts only if an error follows.
#[test]
fn claude_error_texts_are_not_replies() {
    const OWN: &str = "32fcde85-7913-4966-bc84-7d8ddfd68591";
    let table = [
        (
            -32000,
            "Authentication required",
            "Failed to authenticate. API Error: 401 no",
            Cause::Auth,
            401,
        ),
        (
            -32603,
            "Internal error: API Error: 529 no (127.0.0.1:34291)",
            "API Error: 529 no (127.0.0.1:34291)",
            Cause::Overloaded,
            529,
        ),
        (
            -32603,
            "Internal error: API Error: Request rejected (429) · no",
            "API Error: Request rejected (429) · no",
            Cause::RateLimit,
            429,
        ),
    ];
    for (code, message, words, cause, status) in table {
        let mut harness = Harness::asked(&CLAUDE_AGENT_ACP, &Spec::default());
        chunk(&mut harness, OWN, words);
        harness.fail(PROMPT, code, message);
        let outcome = &harness.turn_result().unwrap().outcome;
        assert_eq!(
            (harness.story(), outcome.cause),
            (vec![], cause),
            "{message}"
        );
        assert!(outcome.message.contains(words), "{}", outcome.message);
        assert_eq!(outcome.detail.as_ref().unwrap().http_status, Some(status));
    }
    let mut harness = Harness::asked(&CLAUDE_AGENT_ACP, &Spec::default());
    chunk(&mut harness, OWN, "Set the model.");
    end_turn(&mut harness);
    assert_eq!(harness.story(), ["Reply Set the model."]);
    // Text of the model before an error is still reported.
    let mut harness = Harness::asked(&CLAUDE_AGENT_ACP, &Spec::default());
    chunk(&mut harness, "msg_1", "Half an answer");
    chunk(&mut harness, OWN, "API Error: 500 no");
    harness.fail(PROMPT, -32603, "Internal error: API Error: 500 no");
    assert_eq!(harness.story(), ["Reply Half an answer"]);
}

#[test]
fn codex_calls_have_the_same_name_with_and_without_approval() {
    let mut harness = Harness::asked(&CODEX_ACP, &Spec::default());
    let terminal = json!([{"type": "terminal", "terminalId": "c"}]);
    harness.update(
        &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute", "title": "ls",
        "status": "in_progress", "content": terminal, "rawInput": {"command": "ls", "cwd": "/w"}}),
    );
    let call = json!({"toolCallId": "c", "title": "ls", "kind": "execute", "status": "pending", "rawInput": {"command": "ls", "cwd": "/w"}});
    harness.permission(&call, &usual());
    assert_eq!(
        (
            harness.asks()[0].wants.tool.as_str(),
            harness.asks()[0].wants.kind
        ),
        ("exec_command", ToolKind::Execute)
    );
    harness.verdict(Verdict::Allow);
    let printed = json!({"terminal_output_delta": {"data": "a.txt\n", "terminal_id": "c"}, "terminal_exit": {"exit_code": 0}});
    harness.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "name": "exec_command", "status": "completed", "_meta": printed}));
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "d", "name": "exec_command", "kind": "execute",
        "title": "pwd", "status": "in_progress", "content": terminal, "rawInput": {"command": "pwd"}}));
    harness.permission(
        &json!({"toolCallId": "d", "kind": "execute", "rawInput": {"command": "pwd"}}),
        &usual(),
    );
    harness.verdict(Verdict::Deny("a rule".into()));
    harness.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "d", "status": "failed"}),
    );
    harness.answer(PROMPT, &json!({"stopReason": "cancelled"}));
    assert_eq!(
        harness.story(),
        [
            r#"call c exec_command {"command":"ls","cwd":"/w"}"#,
            "result c ok a.txt\n",
            r#"call d exec_command {"command":"pwd"}"#,
            "result d denied a rule"
        ]
    );
    assert_eq!(harness.cause(), Some(Cause::Denied));
}

// The content has the changes; only the permission request lists them as locations.
#[test]
fn codex_edits_are_reported_with_their_files() {
    let mut harness = Harness::asked(&CODEX_ACP, &Spec::default());
    let diff = json!([{"type": "diff", "oldText": null, "newText": "hello", "path": "/w/new.txt"}]);
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "edit", "title": "Editing files",
        "status": "in_progress", "content": diff}));
    let place = json!([{"path": "/w/new.txt"}]);
    harness.permission(
        &json!({"toolCallId": "c", "title": "Edit files", "locations": place, "kind": "edit"}),
        &usual(),
    );
    let wants = &harness.asks()[0].wants;
    assert_eq!(
        (wants.tool.as_str(), wants.kind, wants.paths[0].as_str()),
        ("apply_patch", ToolKind::Edit, "/w/new.txt")
    );
    assert_eq!(
        harness.story(),
        [r#"call c apply_patch {"title":"Editing files","locations":["/w/new.txt"]}"#]
    );
}

// Codex calls everything it runs an execution, and wraps the input and output of MCP servers.
#[test]
fn codex_mcp_calls_are_named_after_their_servers() {
    let offer = ToolOffer {
        name: "add".into(),
        description: "Adds.".into(),
        parameters: ostler_core::raw_json::RawJson::parse(r#"{"type":"object"}"#).unwrap(),
    };
    for (server, story) in [
        ("ostler", "call c add"),
        ("other", "call c mcp__other__add"),
    ] {
        let mut harness = Harness::asked(
            &CODEX_ACP,
            &Spec::default().bound_tools(vec![offer.clone()]),
        );
        harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "execute",
            "title": format!("mcp.{server}.add"), "status": "in_progress",
            "rawInput": {"server": server, "tool": "add", "arguments": {"a": 1}}, "_meta": {"is_mcp_tool_call": true}}));
        harness.permission(
            &json!({"toolCallId": "c", "kind": "execute", "status": "pending"}),
            &usual(),
        );
        if server == "other" {
            assert_eq!(harness.asks()[0].wants.kind, ToolKind::Mcp);
            harness.verdict(Verdict::Allow);
        }
        assert_eq!(
            harness.writes().last().unwrap()["result"]["outcome"]["optionId"],
            "yes"
        );
        let result =
            json!({"content": [{"type": "text", "text": "42"}], "structuredContent": null});
        harness.update(
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
            "rawOutput": {"result": result, "error": null}}),
        );
        end_turn(&mut harness);
        assert_eq!(
            harness.story(),
            [format!("{story} {{\"a\":1}}").as_str(), "result c ok 42"]
        );
    }
}

// A failed turn is reported as successful: its status comes before, and the reason as text without
// an id.
#[test]
fn codex_failures_reported_as_success_fail_the_turn() {
    let info =
        |kind: Value| json!({"sessionUpdate": "session_info_update", "_meta": {"codex": kind}});
    let mut harness = Harness::asked(&CODEX_ACP, &Spec::default());
    harness.text("Warning: Model metadata for `x` not found.\n\n");
    harness.update(&info(
        json!({"error": {"message": "Reconnecting... 1/1", "willRetry": true, "additionalDetails": "429",
        "codexErrorInfo": {"responseStreamDisconnected": {"httpStatusCode": 429}}}}),
    ));
    harness.update(&info(json!({"threadStatus": {"type": "systemError"}})));
    harness.text("exceeded retry limit, last status: 429 Too Many Requests\n\n");
    harness.answer(PROMPT, &json!({"stopReason": "end_turn", "usage": null}));
    assert_eq!(harness.story(), ["notice agent_info", "notice api_retry"]);
    let outcome = &harness.turn_result().unwrap().outcome;
    assert_eq!(
        (outcome.cause, outcome.detail.as_ref().unwrap().http_status),
        (Cause::RateLimit, Some(429))
    );
    assert_eq!(
        outcome.message,
        "exceeded retry limit, last status: 429 Too Many Requests"
    );
    // From the model it is a reply, whatever it begins with.
    let mut harness = Harness::asked(&CODEX_ACP, &Spec::default());
    chunk(&mut harness, "msg_1", "Warning: wet paint.");
    end_turn(&mut harness);
    assert_eq!(
        (harness.story(), harness.cause()),
        (
            vec!["Reply Warning: wet paint.".to_owned()],
            Some(Cause::Completed)
        )
    );
}

#[test]
fn leading_paragraph_break_of_a_thought_is_dropped() {
    let mut harness = Harness::asked(&CODEX_ACP, &Spec::default());
    for text in ["\n\n", "Hm.", "\n\n", "Well."] {
        let content = json!({"type": "text", "text": text});
        harness.update(&json!({"sessionUpdate": "agent_thought_chunk", "messageId": "rs_1", "content": content}));
    }
    end_turn(&mut harness);
    assert_eq!(
        harness.story(),
        ["Thinking Hm.", "Thinking \n\n", "Thinking Well."]
    );
}

// By default a model of Codex decides. With a policy or a person, Codex has to ask about every
// change.
#[test]
fn codex_asks_the_approver_instead_of_a_model() {
    let mode = |spec: &Spec| {
        let env = CODEX_ACP.launch(&Launching::new(spec)).unwrap().env;
        let found: Vec<String> = env
            .into_iter()
            .filter(|(name, _)| *name == "INITIAL_AGENT_MODE")
            .map(|(_, value)| value)
            .collect();
        found
    };
    let policy = || Spec::default().policy(Policy::default());
    assert_eq!(mode(&Spec::default()), ["workspace-write"]);
    assert_eq!(mode(&policy()), ["read-only"]);
    assert_eq!(
        mode(&Spec::default().attendance(Attendance::Attended)),
        ["read-only"]
    );
    for (word, allowed) in [
        ("read-only", true),
        ("agent", false),
        ("workspace-write", false),
        ("agent-full-access", false),
    ] {
        let mut spec = policy();
        spec.permission_mode = Some(word.into());
        assert_eq!(
            CODEX_ACP.launch(&Launching::new(&spec)).is_ok(),
            allowed,
            "{word}"
        );
    }
    for name in ["INITIAL_AGENT_MODE", "CODEX_CONFIG"] {
        let mut spec = policy();
        spec.env.insert(name.into(), "x".into());
        assert!(CODEX_ACP.launch(&Launching::new(&spec)).is_err(), "{name}");
    }
}
