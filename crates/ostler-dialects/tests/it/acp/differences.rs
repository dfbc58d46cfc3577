//! The numbered differences between agents: each one is handled.

use ostler_core::dialect::{Change, Dialect, Exit, FromConversation, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::{Cause, Reason};
use ostler_core::permission::Verdict;
use ostler_core::spec::{Denials, Spec, keys};
use ostler_dialects::acp::{self, COPILOT, GEMINI, OPENCLAW, OPENCODE, QWEN};
use serde_json::{Value, json};

use super::harness::{Harness, hello, usual};

fn end(harness: &mut Harness, reason: &str) {
    harness.answer(3, &json!({"stopReason": reason}));
}

fn custom() -> &'static dyn Dialect {
    acp::custom("mine", vec!["my-agent".into(), "--acp".into()]).unwrap()
}

// 1
#[test]
#[expect(clippy::too_many_lines, reason = "one flat table")]
fn difference_1_rejected_keys_are_recognized_in_every_form() {
    let errors: &[(&dyn Dialect, i64, &str)] = &[
        (
            &GEMINI,
            401,
            "{\"error\":{\"code\":401,\"message\":\"API key not valid.\",\"status\":\"UNAUTHENTICATED\"}}",
        ),
        (
            &QWEN,
            -32603,
            "Internal error: 401 Incorrect API key provided",
        ),
        (
            &OPENCODE,
            -32603,
            "Internal error: mock authentication_error",
        ),
        (&acp::CLAUDE_AGENT_ACP, -32000, "Authentication required"),
        (&acp::CODEX_ACP, -32000, ""),
    ];
    for (dialect, code, message) in errors {
        let mut harness = Harness::asked(*dialect, &Spec::default());
        harness.fail(3, *code, message);
        assert_eq!(harness.cause(), Some(Cause::Auth), "{code} {message}");
        assert!(harness.turn_result().unwrap().outcome.hint.is_some());
    }
    // The same before there is a session.
    let mut harness = Harness::started(&GEMINI, &Spec::default());
    harness.send(ToAgent::Prompt("hello".into()));
    harness.answer(1, &hello(&json!({})));
    harness.fail(2, -32000, "Authentication required");
    assert_eq!(harness.cause(), Some(Cause::Auth));
    const TEXT: &str = "Error: Authentication failed with provider at http://127.0.0.1:9/v1 (HTTP 401).\n  Check your key.";
    const MODELS: &str = "Error: Authentication is hard. Let me explain.";
    for (dialect, texts, used, cause) in [
        (
            &COPILOT as &dyn Dialect,
            &[
                "Info: Request failed due to a transient API error. Retrying...",
                TEXT,
            ][..],
            0,
            Cause::Auth,
        ),
        (
            &COPILOT,
            &["Error: Too many requests (HTTP 429)"],
            0,
            Cause::RateLimit,
        ),
        (
            &COPILOT,
            &[
                "Error: Failed to get response from the AI model; retried 5 times (total retry wait time: 16.00 seconds) Last error: 500 scripted trouble",
            ],
            0,
            Cause::ServerError,
        ),
        (
            &COPILOT,
            &["Error: 400 scripted trouble"],
            0,
            Cause::BadRequest,
        ),
        // A model may well write such a text.
        (&COPILOT, &[MODELS], 25, Cause::Completed),
        (&COPILOT, &["Error: ", "x"], 0, Cause::Completed),
        (&OPENCODE, &[TEXT], 0, Cause::Completed),
        (&OPENCLAW, &[], 0, Cause::Auth),
        (&OPENCLAW, &["Hello"], 0, Cause::Completed),
        (&GEMINI, &[], 0, Cause::Completed),
    ] {
        let mut harness = Harness::asked(dialect, &Spec::default());
        texts.iter().for_each(|text| harness.text(text));
        harness.answer(
            3,
            &json!({"stopReason": "end_turn", "usage": {"inputTokens": 1, "outputTokens": used}}),
        );
        assert_eq!(
            harness.cause(),
            Some(cause),
            "{}: {texts:?}",
            dialect.about().name
        );
    }
    let other: &[(i64, &str, Cause)] = &[
        (429, "x", Cause::RateLimit),
        (
            -32603,
            "Internal error: rate limit reached",
            Cause::RateLimit,
        ),
        (503, "x", Cause::Overloaded),
        (500, "x", Cause::ServerError),
        (
            -32603,
            "connection to the provider: Server error (HTTP 500)",
            Cause::ServerError,
        ),
        (-32603, "fetch failed: ECONNREFUSED", Cause::Network),
        (400, "x", Cause::BadRequest),
        (-32602, "Model not found: s", Cause::BadRequest),
        (-32603, "Internal error", Cause::Protocol),
    ];
    for (code, message, cause) in other {
        let mut harness = Harness::asked(&GEMINI, &Spec::default());
        harness.fail(3, *code, message);
        assert_eq!(harness.cause(), Some(*cause), "{code} {message}");
    }
}

// P42: an agent that has dropped its session can only be restarted. Its process is ended, and with
// it the turn; the next message starts another, which resumes the session.
#[test]
fn dropped_session_ends_the_process_and_the_next_resumes_it() {
    for (code, message) in [
        (
            -32603,
            "Request session.send failed with message: Session not found: s",
        ),
        (-32002, "Resource not found: Session s not found"),
        (-32602, "Session not found: s"),
    ] {
        let mut harness = Harness::asked(&COPILOT, &Spec::default());
        harness.fail(3, code, message);
        assert_eq!(
            harness.outs,
            [FromConversation::EndProcess],
            "the turn ends when the process has exited: {message}"
        );
        harness.exit(&Exit {
            signal: Some(15),
            ..Exit::default()
        });
        let outcome = &harness.turn_result().unwrap().outcome;
        assert_eq!(outcome.cause, Cause::AgentDied);
        assert!(
            outcome.message.contains(message) && outcome.hint.as_ref().unwrap().contains("again"),
            "{outcome:?}"
        );
        assert_eq!(
            outcome.detail.as_ref().unwrap().native.as_deref(),
            Some(&*code.to_string())
        );
    }
}

// 3
#[test]
fn difference_3_calls_are_reported_once_and_finished_once() {
    // Gemini: no tool_call before the permission request, and no update after a denial.
    let mut harness = Harness::asked(&GEMINI, &Spec::default());
    let call = json!({"toolCallId": "run_shell_command__run_shell_command_1_0", "status": "pending", "title": "touch x", "locations": [], "kind": "execute"});
    harness.permission(&call, &usual());
    assert_eq!(
        format!("{:?}", harness.asks()[0].wants.command),
        r#"Some(Shell("touch x"))"#
    );
    harness.verdict(Verdict::Deny("a rule".into()));
    harness.text("Done.");
    end(&mut harness, "end_turn");
    let id = "run_shell_command__run_shell_command_1_0";
    assert_eq!(
        harness.story(),
        [
            format!("call {id} run_shell_command {{\"title\":\"touch x\",\"locations\":[]}}"),
            format!("result {id} denied a rule"),
            "Reply Done.".to_owned()
        ]
    );
    assert_eq!(harness.cause(), Some(Cause::Denied));
    // opencode: the arguments follow.
    let mut harness = Harness::asked(&OPENCODE, &Spec::default());
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "bash", "kind": "execute", "status": "pending", "rawInput": {}}));
    for status in ["in_progress", "in_progress", "completed", "completed"] {
        harness.update(&json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "touch x",
            "status": status, "rawInput": {"command": "touch x"},
            "content": [{"type": "content", "content": {"type": "text", "text": "(no output)"}}],
        }));
    }
    assert_eq!(
        harness.story(),
        [
            r#"call c bash {"command":"touch x"}"#,
            "result c ok (no output)"
        ]
    );
    // Claude: updates about a call without a status; the name in `_meta`.
    let mut harness = Harness::asked(&acp::CLAUDE_AGENT_ACP, &Spec::default());
    harness.update(&json!({
        "sessionUpdate": "tool_call", "toolCallId": "c", "title": "`ls`", "kind": "execute",
        "status": "pending", "rawInput": {"command": "ls"},
        "_meta": {"claudeCode": {"toolName": "Bash"}},
    }));
    harness.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawOutput": "a.txt"}),
    );
    end(&mut harness, "end_turn");
    assert_eq!(
        harness.story(),
        [r#"call c Bash {"command":"ls"}"#, "result c ok a.txt"]
    );
    // Codex: the output in `_meta`, in pieces.
    let mut harness = Harness::asked(&acp::CODEX_ACP, &Spec::default());
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls", "kind": "execute", "status": "in_progress", "rawInput": {"command": ["ls"]}}));
    for piece in ["a", "b"] {
        harness.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": {"terminal_output": {"terminal_id": "c", "data": piece}}}));
    }
    harness.update(
        &json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}),
    );
    assert_eq!(
        harness.story(),
        [
            r#"call c exec_command {"command":["ls"]}"#,
            "result c failed ab"
        ]
    );
    // A call that was not announced, and one that is not only text.
    let mut harness = Harness::asked(&GEMINI, &Spec::default());
    harness.update(&json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed", "kind": "edit", "content": [{"type": "diff", "path": "/w/a", "newText": "x"}]}));
    assert!(harness.outs.iter().any(|out| matches!(
        out,
        FromConversation::Event(EventKind::ToolResult(it))
            if it.content.is_some()
    )));
}

// 3, P46
#[test]
fn difference_3_options_are_chosen_by_kind() {
    let call = json!({"toolCallId": "c", "title": "x", "kind": "execute"});
    let two = json!([{"optionId": "modify", "kind": "allow_once"}, {"optionId": "proceed_once", "kind": "allow_once"}, {"optionId": "never", "kind": "reject_always"}]);
    let only_always = json!([{"optionId": "always", "kind": "allow_always"}]);
    let chosen = |dialect: &dyn Dialect, options: &Value, verdict: Verdict| {
        let mut harness = Harness::asked(dialect, &Spec::default());
        harness.permission(&call, options);
        harness.verdict(verdict);
        let answer = harness.writes().pop().unwrap();
        assert_eq!(answer["id"], 7);
        let outcome = &answer["result"]["outcome"];
        outcome["optionId"]
            .as_str()
            .unwrap_or(outcome["outcome"].as_str().unwrap())
            .to_owned()
    };
    let deny = || Verdict::Deny("no".into());
    assert_eq!(chosen(&OPENCODE, &usual(), Verdict::Allow), "yes");
    assert_eq!(chosen(&OPENCODE, &usual(), deny()), "no");
    assert_eq!(chosen(&OPENCODE, &usual(), Verdict::Undecided), "no");
    assert_eq!(chosen(&QWEN, &two, Verdict::Allow), "proceed_once");
    assert_eq!(chosen(&OPENCODE, &two, Verdict::Allow), "modify");
    assert_eq!(chosen(&QWEN, &two, deny()), "never");
    assert_eq!(
        chosen(&OPENCODE, &only_always, Verdict::Allow),
        "cancelled",
        "an option that allows more than was asked"
    );
    assert_eq!(chosen(&OPENCODE, &json!([]), deny()), "cancelled");
    // A request without a tool call is denied at once.
    let mut harness = Harness::asked(&OPENCODE, &Spec::default());
    harness.permission(&json!({"title": "x"}), &usual());
    assert_eq!(harness.writes()[0]["result"]["outcome"]["optionId"], "no");
    assert_eq!(harness.story(), ["permission"]);
}

// 4
#[test]
fn difference_4_denial_ends_the_turn_or_not() {
    for (reason, denials, cause) in [
        ("cancelled", Denials::Fail, Cause::Denied),
        ("end_turn", Denials::Fail, Cause::Denied),
        ("cancelled", Denials::Tolerate, Cause::Completed),
        ("end_turn", Denials::Tolerate, Cause::Completed),
    ] {
        let mut harness = Harness::asked(&QWEN, &Spec::default().denials(denials));
        harness.permission(
            &json!({"toolCallId": "c", "title": "x", "kind": "execute"}),
            &usual(),
        );
        harness.verdict(Verdict::Deny("no".into()));
        end(&mut harness, reason);
        assert_eq!(harness.cause(), Some(cause), "{reason} {denials:?}");
        assert!(
            harness.story().contains(&"result c denied no".to_owned()),
            "{:?}",
            harness.story()
        );
    }
    let mut harness = Harness::asked(&QWEN, &Spec::default());
    end(&mut harness, "cancelled");
    assert_eq!(
        harness.cause(),
        Some(Cause::Interrupted),
        "neither asked nor interrupted"
    );
}

fn resuming() -> Spec {
    let mut spec = Spec::default();
    spec.resume = Some("s".into());
    spec
}

// 5, P56, P57
#[test]
fn difference_5_history_is_not_reported_again_and_a_session_is_loaded_once() {
    let mut harness = Harness::started(&GEMINI, &resuming());
    harness.send(ToAgent::Prompt("hello".into()));
    harness.answer(1, &hello(&json!({"loadSession": true})));
    harness.text("old");
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "status": "completed"}));
    harness.answer(
        2,
        &json!({"modes": {"availableModes": [{"id": "default", "name": "Default"}], "currentModeId": "default"}}),
    );
    // With Gemini the history continues after the response; a round trip shows where it ends.
    harness.text("older");
    harness.answer(3, &json!({}));
    harness.text("new");
    harness.answer(4, &json!({"stopReason": "end_turn"}));
    assert_eq!(harness.story(), ["started", "Reply new"]);
    let methods = |harness: &Harness| -> Vec<String> {
        harness
            .writes()
            .iter()
            .filter_map(|it| it["method"].as_str().map(str::to_owned))
            .collect()
    };
    assert_eq!(
        methods(&harness),
        [
            "initialize",
            "session/load",
            "session/set_mode",
            "session/prompt"
        ]
    );
    // Twenty more turns: no second load.
    for turn in 0..20 {
        harness.send(ToAgent::Prompt("more".into()));
        harness.answer(5 + turn, &json!({"stopReason": "end_turn"}));
    }
    assert_eq!(
        methods(&harness)
            .iter()
            .filter(|method| *method == "session/load")
            .count(),
        1
    );
    assert_eq!(harness.cause(), Some(Cause::Completed));
    // An agent that can resume without replaying the history is asked to do so.
    let mut harness = Harness::started(&OPENCODE, &resuming());
    harness.answer(
        1,
        &hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}, "fork": {}}})),
    );
    assert_eq!(harness.writes()[1]["method"], "session/resume");
    // Unless that works only for sessions of the same process, as with OpenClaw's bridge.
    let mut harness = Harness::started(&OPENCLAW, &resuming());
    harness.answer(
        1,
        &hello(&json!({"loadSession": true, "sessionCapabilities": {"resume": {}}})),
    );
    assert_eq!(harness.writes()[1]["method"], "session/load");
    let mut spec = resuming();
    spec.fork = true;
    let mut harness = Harness::started(&OPENCODE, &spec);
    harness.answer(1, &hello(&json!({"sessionCapabilities": {"fork": {}}})));
    harness.answer(2, &json!({"sessionId": "copy"}));
    assert_eq!(harness.writes()[1]["method"], "session/fork");
    assert!(matches!(
        &harness.outs[2],
        FromConversation::Event(EventKind::Started(it))
            if it.native_session.as_deref() == Some("copy")
    ));
}

/// Measured with 2026.9.6: the gateway works in its own directory, and a prompt only mentions the
/// session's.
#[test]
fn fixed_workspace_is_reported() {
    let opened = |dialect: &dyn Dialect| {
        let mut harness = Harness::started(dialect, &Spec::default().dir("/work"));
        harness.answer(1, &hello(&json!({})));
        harness.answer(2, &json!({"sessionId": "s"}));
        harness
    };
    let cwd = |harness: &Harness| {
        harness.outs.iter().find_map(|out| {
            if let FromConversation::Event(EventKind::Started(it)) = out {
                it.cwd.clone()
            } else {
                None
            }
        })
    };
    let (elsewhere, here) = (opened(&OPENCLAW), opened(&GEMINI));
    assert_eq!(elsewhere.story(), ["started", "notice works_elsewhere"]);
    assert_eq!(here.story(), ["started"]);
    assert_eq!(
        (cwd(&elsewhere), cwd(&here).as_deref()),
        (None, Some("/work"))
    );
}

// 5, P57: whatever the code, a session that cannot be resumed is the caller's error, and the hint
// says what to do.
#[test]
fn difference_5_unknown_sessions_have_one_cause() {
    for (dialect, code, message) in [
        (
            &COPILOT as &dyn Dialect,
            -32002,
            "Resource not found: Session x not found",
        ),
        (
            &OPENCODE,
            -32603,
            "Internal error: OpenCode service failure",
        ),
        (&GEMINI, -32603, "Internal error"),
    ] {
        let mut harness = Harness::started(dialect, &resuming());
        harness.send(ToAgent::Prompt("hello".into()));
        harness.answer(1, &hello(&json!({"loadSession": true})));
        harness.fail(2, code, message);
        let outcome = &harness.turn_result().unwrap().outcome;
        assert_eq!(outcome.cause, Cause::BadRequest, "{message}");
        let hint = outcome.hint.as_deref().unwrap();
        assert!(
            hint.contains("leave out resume") || hint.contains("Leave out resume"),
            "{hint}"
        );
        assert_eq!(
            hint.contains("sessionRetention"),
            dialect.about().name == "gemini"
        );
        // The failure is permanent.
        harness.send(ToAgent::Prompt("again".into()));
        assert_eq!(
            harness
                .outs
                .iter()
                .filter(|out| matches!(out, FromConversation::TurnEnded(_)))
                .count(),
            2
        );
    }
    let mut harness = Harness::started(&GEMINI, &resuming());
    harness.send(ToAgent::Prompt("hello".into()));
    harness.answer(1, &hello(&json!({})));
    assert_eq!(
        harness.cause(),
        Some(Cause::BadRequest),
        "it does not announce the capability"
    );
}

// 7
#[test]
fn difference_7_unknown_messages_change_nothing() {
    let mut harness = Harness::asked(&GEMINI, &Spec::default());
    harness.line("Loaded cached credentials.");
    harness.line("[1,2]");
    harness
        .message(&json!({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"x": 1}}));
    harness.message(&json!({"jsonrpc": "2.0", "method": "brand/new", "params": {"x": 1}}));
    harness.update(&json!({"sessionUpdate": "brand_new"}));
    harness.message(&json!({"jsonrpc": "2.0", "id": 99, "result": {}}));
    harness
        .message(&json!({"jsonrpc": "2.0", "id": "t", "method": "terminal/create", "params": {}}));
    harness.text("Hello");
    end(&mut harness, "end_turn");
    let unknown = "notice unknown_message";
    assert_eq!(
        harness.story(),
        [
            "unreadable Loaded cached credentials.",
            "unreadable [1,2]",
            unknown,
            unknown,
            unknown,
            unknown,
            "Reply Hello"
        ]
    );
    assert_eq!(
        harness.writes()[0],
        json!({"jsonrpc": "2.0", "id": "t", "error": {"code": -32601, "message": "no method \"terminal/create\""}})
    );
    assert_eq!(harness.cause(), Some(Cause::Completed));
}

// 8
#[test]
fn difference_8_version_mismatch_ends_the_turn_with_a_reason() {
    for version in [json!(2), json!(0), json!(null), json!("1")] {
        let mut harness = Harness::started(&GEMINI, &Spec::default());
        harness.send(ToAgent::Prompt("hello".into()));
        harness.answer(1, &json!({"protocolVersion": version}));
        assert_eq!(harness.cause(), Some(Cause::Protocol), "{version}");
        assert_eq!(harness.writes().len(), 1, "nothing more is sent");
        harness.send(ToAgent::Change {
            id: 1,
            change: Change::Model("m".into()),
        });
        assert!(matches!(
            harness.outs.last(),
            Some(FromConversation::Changed { error: Some(_), .. })
        ));
    }
}

// P70: ten thousand chunks that each repeat everything are reported as differences. Each is read
// once and compared once with the text so far, so the work grows only with the incoming bytes.
#[test]
fn cumulative_chunks_are_reported_as_differences() {
    let mut spec = Spec::default();
    spec.set("chunks", ["whole"]).unwrap();
    let (mut harness, mut whole) = (Harness::asked(custom(), &spec), String::new());
    for n in 0..10_000_u32 {
        whole.push(char::from_digit(n % 10, 10).unwrap());
        harness.text(&whole);
    }
    let texts = harness.outs.iter().filter_map(|out| {
        if let FromConversation::Event(EventKind::Text(it)) = out {
            Some(it)
        } else {
            None
        }
    });
    let texts: Vec<_> = texts.collect();
    assert!(texts.len() == 10_000 && texts.iter().all(|it| it.text.len() == 1 && it.delta));
    assert_eq!(
        texts.iter().map(|it| it.text.as_str()).collect::<String>(),
        whole
    );
    // Another message starts from the beginning.
    let mut harness = Harness::asked(custom(), &spec);
    for text in ["a", "ab", "ab"] {
        harness.text(text);
    }
    harness.update(&json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "x", "status": "completed"}));
    harness.text("ab");
    end(&mut harness, "end_turn");
    assert_eq!(
        harness.story(),
        [
            "Reply a",
            "Reply b",
            "call c other {\"title\":\"x\",\"locations\":[]}",
            "result c ok ",
            "Reply ab"
        ]
    );
}

#[test]
fn modes_and_models_are_set_as_announced() {
    let opened = json!({"sessionId": "s",
        "modes": {"availableModes": [{"id": "https://x/modes#plan", "name": "Plan"}, {"id": "y", "name": "YOLO"}], "currentModeId": "y"},
        "models": {"availableModels": [{"modelId": "m-1", "name": "One"}], "currentModelId": "m-0"}});
    let configured = json!({"sessionId": "s", "configOptions": [
        {"id": "model", "category": "model", "currentValue": "a/b", "options": [{"value": "a/b", "name": "B"}]},
        {"id": "mode", "category": "mode", "currentValue": "build", "options": [{"value": "build", "name": "build"}]}]});
    let asked = |opened: &Value, key: &str, value: &str| {
        let mut spec = Spec::default();
        spec.set(key, [value]).unwrap();
        let mut harness = Harness::started(custom(), &spec);
        harness.send(ToAgent::Prompt("hello".into()));
        harness.answer(1, &hello(&json!({})));
        harness.answer(2, opened);
        let hint = harness
            .turn_result()
            .and_then(|over| over.outcome.hint.clone());
        let last = harness.writes().pop().unwrap();
        hint.unwrap_or_else(|| format!("{} {}", last["method"].as_str().unwrap(), last["params"]))
    };
    let (mode, model) = (keys::PERMISSION_MODE, keys::MODEL);
    assert_eq!(
        asked(&opened, mode, "plan"),
        r#"session/set_mode {"sessionId":"s","modeId":"https://x/modes#plan"}"#
    );
    assert_eq!(
        asked(&opened, mode, "yolo"),
        r#"session/set_mode {"sessionId":"s","modeId":"y"}"#
    );
    assert_eq!(asked(&opened, mode, "bogus"), "Its modes are: plan, y.");
    assert_eq!(
        asked(&opened, model, "m-1"),
        r#"session/set_model {"sessionId":"s","modelId":"m-1"}"#
    );
    assert_eq!(
        asked(&configured, model, "a/b"),
        r#"session/set_config_option {"sessionId":"s","configId":"model","value":"a/b"}"#
    );
    assert_eq!(
        asked(&configured, mode, "build"),
        r#"session/set_config_option {"sessionId":"s","configId":"mode","value":"build"}"#
    );
    assert_eq!(
        asked(&json!({"sessionId": "s"}), mode, "x"),
        "Remove permission_mode."
    );
}

// A loop over this agent compacts the conversation for this reason.
#[test]
fn turn_without_an_answer_at_the_token_limit_is_a_prompt_that_is_too_long() {
    let mut harness = Harness::asked(&GEMINI, &Spec::default());
    end(&mut harness, "max_tokens");
    let outcome = &harness.turn_result().unwrap().outcome;
    assert_eq!(
        (outcome.cause, outcome.reason()),
        (Cause::BadRequest, Some(&Reason::ContextTooLong))
    );
}
