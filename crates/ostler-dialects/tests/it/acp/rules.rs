//! Policy, files, interrupts, and requests before the session is open.

use ostler_core::dialect::Dialect;
use ostler_core::dialect::{
    Action, Change, Exit, FileAccess, FileError, FromConversation, Launching, ToAgent,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::permission::{Fallback, Policy, ToolKind, Verdict};
use ostler_core::spec::{Attendance, Spec, keys};
use ostler_dialects::acp::{self, Acp, CODEX_ACP, COPILOT, GEMINI, OPENCLAW, OPENCODE, QWEN};
use serde_json::{Value, json};

use super::harness::{Harness, hello, usual};

fn file(harness: &mut Harness, method: &str, params: &Value) {
    harness.message(&json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params}));
}

fn with_fs(policy: bool) -> Spec {
    let mut spec = Spec::default();
    spec.policy = policy.then(Policy::default);
    spec.set("fs", ["true"]).unwrap();
    spec
}

// 6
#[test]
fn difference_6_files_are_read_and_written_for_the_agent() {
    let read = json!({"sessionId": "s", "path": "/w/a", "line": 2, "limit": 5});
    let mut harness = Harness::asked(&GEMINI, &with_fs(false));
    file(&mut harness, "fs/read_text_file", &read);
    let Some(FromConversation::Do(Action::AccessFile(order))) = harness.outs.last().cloned() else {
        panic!("{:?}", harness.outs)
    };
    assert_eq!(
        (order.path.as_str(), order.access),
        (
            "/w/a",
            FileAccess::Read {
                line: Some(2),
                limit: Some(5)
            }
        )
    );
    let missing = || {
        Err(FileError {
            missing: true,
            why: "/w/a".into(),
        })
    };
    let gemini = &GEMINI as &dyn Dialect;
    let answers = [
        (
            gemini,
            Ok("text".to_owned()),
            json!({"jsonrpc": "2.0", "id": 9, "result": {"content": "text"}}),
        ),
        // It understands no error and would never create a file.
        (
            gemini,
            missing(),
            json!({"jsonrpc": "2.0", "id": 9, "result": {"content": ""}}),
        ),
        (
            &OPENCODE,
            missing(),
            json!({"jsonrpc": "2.0", "id": 9, "error": {"code": -32002, "message": "Resource not found: /w/a"}}),
        ),
        (
            gemini,
            Err(FileError {
                missing: false,
                why: "outside".into(),
            }),
            json!({"jsonrpc": "2.0", "id": 9, "error": {"code": -32603, "message": "outside"}}),
        ),
    ];
    for (agent, result, answer) in answers {
        let mut harness = Harness::asked(agent, &with_fs(false));
        file(&mut harness, "fs/read_text_file", &read);
        for _ in 0..2 {
            harness.send(ToAgent::FileDone {
                id: order.id.clone(),
                result: result.clone(),
            });
        }
        assert_eq!(harness.writes(), [answer], "once");
    }
    let mut harness = Harness::asked(&GEMINI, &with_fs(false));
    file(
        &mut harness,
        "fs/write_text_file",
        &json!({"path": "/w/a", "content": "new"}),
    );
    harness.send(ToAgent::FileDone {
        id: order.id,
        result: Ok(String::new()),
    });
    assert_eq!(
        harness.writes(),
        [json!({"jsonrpc": "2.0", "id": 9, "result": {}})]
    );
    for (spec, params, code) in [
        (Spec::default(), &read, -32601),
        (with_fs(false), &json!({}), -32602),
    ] {
        let mut harness = Harness::asked(&GEMINI, &spec);
        file(&mut harness, "fs/read_text_file", params);
        assert_eq!(harness.writes()[0]["error"]["code"], code);
    }
}

#[test]
fn policy_is_checked_before_file_access() {
    let write = json!({"path": "/w/a", "content": "new"});
    for (verdict, proceeds) in [
        (Verdict::Allow, true),
        (Verdict::Undecided, true),
        (Verdict::Deny("no".into()), false),
    ] {
        let mut harness = Harness::asked(&GEMINI, &with_fs(true));
        file(&mut harness, "fs/write_text_file", &write);
        let ask = harness.asks()[0].clone();
        assert_eq!(
            (ask.wants.kind, ask.fallback),
            (ToolKind::Edit, Fallback::Agent)
        );
        assert_eq!(ask.wants.paths, ["/w/a"]);
        harness.verdict(verdict);
        assert_eq!(
            matches!(
                harness.outs.last(),
                Some(FromConversation::Do(Action::AccessFile(_)))
            ),
            proceeds
        );
        assert_eq!(harness.writes().len(), usize::from(!proceeds));
    }
}

// P37, P38
#[test]
fn interrupt_is_forwarded_and_cancels_permission_requests() {
    let mut harness = Harness::asked(&OPENCODE, &Spec::default().attendance(Attendance::Attended));
    let call = json!({"toolCallId": "c", "title": "x", "kind": "execute"});
    harness.permission(&call, &usual());
    harness.send(ToAgent::Interrupt);
    assert_eq!(
        harness.writes(),
        [
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
            json!({"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "cancelled"}}}),
        ]
    );
    assert!(
        harness
            .outs
            .iter()
            .any(|out| matches!(out, FromConversation::WithdrawPermission(_)))
    );
    // Another request during cancellation gets the same response, and no one is asked.
    harness.permission(&call, &usual());
    assert_eq!((harness.writes().len(), harness.asks().len()), (3, 1));
    harness.answer(3, &json!({"stopReason": "cancelled"}));
    let outcome = &harness.turn_result().unwrap().outcome;
    assert_eq!(
        (outcome.cause, outcome.detail.as_ref().unwrap().acknowledged),
        (Cause::Interrupted, Some(true))
    );
    // An error is a response too.
    let mut harness = Harness::asked(&OPENCODE, &Spec::default());
    harness.send(ToAgent::Interrupt);
    harness.fail(3, -32603, "aborted");
    assert_eq!(harness.cause(), Some(Cause::Interrupted));
}

// P36, P37
#[test]
fn interrupt_before_the_session_opens_drops_the_prompt() {
    let mut harness = Harness::started(&COPILOT, &Spec::default());
    harness.send(ToAgent::Prompt("hello".into()));
    harness.send(ToAgent::Interrupt);
    assert_eq!(harness.cause(), Some(Cause::Interrupted));
    harness.answer(1, &hello(&json!({})));
    harness.answer(2, &json!({"sessionId": "s"}));
    assert!(
        !harness
            .writes()
            .iter()
            .any(|it| it["method"] == "session/prompt")
    );
    harness.send(ToAgent::Prompt("again".into()));
    harness.text("Hello");
    harness.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(
        harness.turn_result().unwrap().text.as_deref(),
        Some("Hello")
    );
    // Updates between turns belong to none of them.
    harness.text("late");
    assert_eq!(harness.story().last().unwrap(), "notice outside_turn");
}

// P39: neither updates nor silence end the turn here; the silence limit does.
#[test]
fn unanswered_prompt_stays_open() {
    let mut harness = Harness::asked(&OPENCODE, &Spec::default());
    harness.text("Hello");
    harness.update(&json!({"sessionUpdate": "usage_update", "used": 100, "size": 1000}));
    assert_eq!(harness.cause(), None);
    harness.send(ToAgent::Interrupt);
    assert_eq!(harness.writes()[0]["method"], "session/cancel");
}

#[test]
fn thoughts_plans_and_mode_changes_are_handled() {
    let mut harness = Harness::started(&GEMINI, &Spec::default());
    harness.send(ToAgent::Change {
        id: 4,
        change: Change::PermissionMode("yolo".into()),
    });
    harness.send(ToAgent::Prompt("hello".into()));
    harness.answer(1, &hello(&json!({})));
    harness.answer(
        2,
        &json!({"sessionId": "s", "modes": {"availableModes": [{"id": "yolo", "name": "YOLO"}]}}),
    );
    let methods: Vec<Value> = harness
        .writes()
        .iter()
        .map(|it| it["method"].clone())
        .collect();
    assert_eq!(
        methods,
        [
            "initialize",
            "session/new",
            "session/set_mode",
            "session/prompt"
        ]
    );
    harness.text("[MODE_UPDATE] yolo");
    harness.answer(3, &json!({}));
    harness.outs.clear();
    let thought = |text: &str| json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}});
    harness.update(&thought("Hm"));
    harness.text("Hello");
    harness.update(
        &json!({"sessionUpdate": "plan", "entries": [{"content": "look", "status": "completed"}, {"content": "leap"}]}),
    );
    harness.update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}}),
    );
    assert_eq!(
        harness.story(),
        [
            "Thinking Hm",
            "Reply Hello",
            "notice plan",
            "notice unknown_message"
        ]
    );
    harness.send(ToAgent::Change {
        id: 5,
        change: Change::PermissionMode("bogus".into()),
    });
    assert!(matches!(
        harness.outs.last(),
        Some(FromConversation::Changed { id: 5, error: Some(why) })
            if why.contains("Its modes are: yolo.")
    ));
}

// S3-17
#[test]
fn unsupported_settings_name_an_alternative() {
    let why = |dialect: &dyn Dialect, key: &str, value: &str| {
        let mut spec = Spec::default();
        spec.set(key, [value]).unwrap();
        dialect
            .launch(&Launching::new(&spec))
            .map_or_else(|error| error.to_string(), |_| "ok".into())
    };
    assert!(why(&GEMINI, keys::JSON_SCHEMA, "{}").contains("openai-api"));
    assert!(why(&GEMINI, keys::SYSTEM_PROMPT, "x").contains("instructions file"));
    assert!(why(&GEMINI, keys::FORK, "true").contains("needs resume"));
    assert!(why(&GEMINI, keys::MCP_CONFIG, "servers.json").contains("not its path"));
    assert!(why(&GEMINI, "modle", "x").contains("did you mean model?"));
    assert_eq!(why(&COPILOT, keys::MODEL, "gpt-5"), "ok");
    let mut spec = Spec::default().extra_args(vec!["--debug".into()]);
    spec.model = Some("gpt-5".into());
    assert_eq!(
        format!("{:?}", COPILOT.launch(&Launching::new(&spec)).unwrap().args),
        r#"[Plain("--acp"), Plain("--model=gpt-5"), Plain("--debug")]"#
    );
    // opencode asks only if configured to, which it is in attended sessions.
    let env = |spec: &Spec| {
        OPENCODE
            .launch(&Launching::new(spec))
            .unwrap()
            .env
            .iter()
            .any(|(name, _)| *name == "OPENCODE_PERMISSION")
    };
    assert!(!env(&Spec::default()) && env(&Spec::default().policy(Policy::default())));
}

// With a policy, nothing that makes the agent act without asking is accepted.
#[test]
fn policy_rejects_unattended_modes() {
    let with = |policy: bool, mode: Option<&str>, args: &[&str]| {
        let mut spec = Spec::default();
        spec.policy = policy.then(Policy::default);
        mode.into_iter()
            .for_each(|mode| spec.permission_mode = Some(mode.into()));
        spec.extra_args = args.iter().map(|arg| (*arg).to_owned()).collect();
        spec
    };
    for (dialect, mode, args) in [
        (&GEMINI, Some("yolo"), &[][..]),
        (&QWEN, Some("auto-edit"), &[]),
        (&COPILOT, Some("allow-tools"), &[]),
        (&OPENCODE, Some("allow-all"), &[]),
        (&GEMINI, None, &["--debug", "-y"]),
        (&GEMINI, None, &["--approval-mode", "yolo"]),
        (&COPILOT, None, &["--allow-all-tools"]),
    ] {
        let error = dialect
            .launch(&Launching::new(&with(true, mode, args)))
            .unwrap_err()
            .to_string();
        assert!(error.contains("policy"), "{error}");
        assert!(
            dialect
                .launch(&Launching::new(&with(false, mode, args)))
                .is_ok(),
            "{mode:?} {args:?}"
        );
    }
    assert!(
        GEMINI
            .launch(&Launching::new(&with(true, Some("plan"), &["--debug"])))
            .is_ok()
    );
    // Nor in a running session, whatever the mode is called.
    for (policy, error) in [(true, true), (false, false)] {
        let mut harness = Harness::started(&GEMINI, &with(policy, None, &[]));
        harness.answer(1, &hello(&json!({})));
        harness.answer(2, &json!({"sessionId": "s", "modes": {"availableModes": [{"id": "m0", "name": "Default"}, {"id": "m1", "name": "YOLO"}], "currentModeId": "m0"}}));
        harness.send(ToAgent::Change {
            id: 5,
            change: Change::PermissionMode("m1".into()),
        });
        let refused = matches!(
            harness.outs.last(),
            Some(FromConversation::Changed { id: 5, error: Some(why) })
                if why.contains("does not ask")
        );
        assert_eq!(refused, error, "{:?}", harness.outs.last());
    }
    // An agent that never asks declares so, and is not started with a policy.
    assert!(!OPENCLAW.about().capabilities.ask && GEMINI.about().capabilities.ask);
}

#[test]
fn configured_agent_needs_a_name_and_a_command() {
    let command = || vec!["my-agent".to_owned(), "--acp".to_owned()];
    let custom = acp::custom("my-agent_2", command()).unwrap();
    let launch = custom.launch(&Launching::new(&Spec::default())).unwrap();
    assert_eq!(
        (custom.about().name, launch.program),
        ("my-agent_2", "my-agent")
    );
    assert_eq!(format!("{:?}", launch.args), r#"[Plain("--acp")]"#);
    for name in ["", "-x", "My", "a b", "a/b", "\u{e4}"] {
        assert!(acp::custom(name, command()).is_err(), "{name:?}");
    }
    assert!(
        acp::custom("x", Vec::new()).is_err() && acp::custom("x", vec![String::new()]).is_err()
    );
}

#[test]
fn agent_without_acp_is_recognized() {
    let finished = |code, stderr| exit_outcome(&GEMINI, code, stderr).map(|outcome| outcome.cause);
    assert_eq!(
        finished(1, "Unknown argument: acp\n"),
        Some(Cause::BadRequest)
    );
    assert_eq!(
        finished(1, "boom"),
        None,
        "the session driver reports the exit"
    );
    assert_eq!(finished(0, "unknown option"), None);
}

/// Returns the outcome of a turn whose agent exits before it opens a session.
fn exit_outcome(agent: &Acp, code: i32, stderr: &str) -> Option<Outcome> {
    let mut conversation = agent.converse(&Launching::new(&Spec::default()));
    let mut out = ostler_core::dialect::Outbox::default();
    conversation.send(ToAgent::Prompt("hello".into()), &mut out);
    conversation.on_exit(
        &Exit {
            code: Some(code),
            signal: None,
            stderr: stderr.into(),
        },
        &mut out,
    );
    out.drain().find_map(|out| {
        if let FromConversation::TurnEnded(over) = out {
            Some(over.outcome)
        } else {
            None
        }
    })
}

#[test]
fn unreachable_gateway_has_a_hint() {
    for (last, cause) in [
        (
            "ACP bridge failed: connect ECONNREFUSED 127.0.0.1:18789",
            Cause::Network,
        ),
        (
            "ACP bridge failed: unauthorized: gateway token mismatch",
            Cause::Auth,
        ),
        ("ACP bridge failed: gateway closed (1008)", Cause::Network),
    ] {
        let outcome = exit_outcome(&OPENCLAW, 1, &format!("(node) a warning\n{last}\n")).unwrap();
        assert_eq!(outcome.cause, cause, "{last}");
        assert!(
            outcome
                .hint
                .is_some_and(|hint| hint.contains("openclaw gateway run")),
            "{last}"
        );
        assert_eq!(exit_outcome(&GEMINI, 1, last), None, "it has no gateway");
    }
    assert_eq!(exit_outcome(&OPENCLAW, 1, "boom"), None);
}

/// The adapter reads settings from a variable, and they could override the approver.
#[test]
fn codex_settings_are_not_inherited_in_attended_sessions() {
    let never = |spec: &Spec| {
        CODEX_ACP
            .launch(&Launching::new(spec))
            .unwrap()
            .inherits
            .never
    };
    let rules = Spec::default().policy(Policy::default());
    let person = Spec::default().attendance(Attendance::Attended);
    for (spec, withheld) in [(&rules, true), (&person, true), (&Spec::default(), false)] {
        assert_eq!(never(spec).contains(&"CODEX_CONFIG"), withheld);
        assert!(
            never(spec).contains(&"CODEX_THREAD_ID"),
            "marks of an enclosing session are never inherited"
        );
    }
}
