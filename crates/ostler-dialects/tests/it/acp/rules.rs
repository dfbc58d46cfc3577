//! Who decides, files, interrupts, and what is said before a session is there.

use ostler_core::dialect::Dialect;
use ostler_core::dialect::{Change, Exit, FileAccess, FileError, FromConversation, ToAgent};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::permission::{Otherwise, Policy, ToolKind, Verdict};
use ostler_core::spec::{Attendance, Spec, keys};
use ostler_dialects::acp::{self, Acp, CODEX_ACP, COPILOT, GEMINI, OPENCLAW, OPENCODE, QWEN};
use serde_json::{Value, json};

use super::stage::{Stage, hello, usual};

fn file(stage: &mut Stage, method: &str, params: &Value) {
    stage.hear(&json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params}));
}

fn with_fs(policy: bool) -> Spec {
    let mut spec = Spec {
        policy: policy.then(Policy::default),
        ..Spec::default()
    };
    spec.settings.set("fs", "true");
    spec
}

// 6
#[test]
fn difference_6_files_are_read_and_written_for_the_agent() {
    let read = json!({"sessionId": "s", "path": "/w/a", "line": 2, "limit": 5});
    let mut stage = Stage::asked(&GEMINI, &with_fs(false));
    file(&mut stage, "fs/read_text_file", &read);
    let Some(FromConversation::File(order)) = stage.outs.last().cloned() else {
        panic!("{:?}", stage.outs)
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
        // It understands no error, and would never create a file.
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
        let mut stage = Stage::asked(agent, &with_fs(false));
        file(&mut stage, "fs/read_text_file", &read);
        for _ in 0..2 {
            stage.say(ToAgent::FileDone {
                id: order.id.clone(),
                result: result.clone(),
            });
        }
        assert_eq!(stage.writes(), [answer], "once");
    }
    let mut stage = Stage::asked(&GEMINI, &with_fs(false));
    file(
        &mut stage,
        "fs/write_text_file",
        &json!({"path": "/w/a", "content": "new"}),
    );
    stage.say(ToAgent::FileDone {
        id: order.id,
        result: Ok(String::new()),
    });
    assert_eq!(
        stage.writes(),
        [json!({"jsonrpc": "2.0", "id": 9, "result": {}})]
    );
    for (spec, params, code) in [
        (Spec::default(), &read, -32601),
        (with_fs(false), &json!({}), -32602),
    ] {
        let mut stage = Stage::asked(&GEMINI, &spec);
        file(&mut stage, "fs/read_text_file", params);
        assert_eq!(stage.writes()[0]["error"]["code"], code);
    }
}

#[test]
fn rules_are_asked_about_files_first() {
    let write = json!({"path": "/w/a", "content": "new"});
    for (verdict, goes_on) in [
        (Verdict::Allow, true),
        (Verdict::Undecided, true),
        (Verdict::Deny("no".into()), false),
    ] {
        let mut stage = Stage::asked(&GEMINI, &with_fs(true));
        file(&mut stage, "fs/write_text_file", &write);
        let ask = stage.asks()[0].clone();
        assert_eq!(
            (ask.wants.kind, ask.otherwise),
            (ToolKind::Edit, Otherwise::Agent)
        );
        assert_eq!(ask.wants.paths, ["/w/a"]);
        stage.verdict(verdict);
        assert_eq!(
            matches!(stage.outs.last(), Some(FromConversation::File(_))),
            goes_on
        );
        assert_eq!(stage.writes().len(), usize::from(!goes_on));
    }
}

// P37, P38
#[test]
fn an_interrupt_is_passed_on_and_questions_are_cancelled() {
    let mut stage = Stage::asked(
        &OPENCODE,
        &Spec {
            attendance: Attendance::Attended,
            ..Spec::default()
        },
    );
    let call = json!({"toolCallId": "c", "title": "x", "kind": "execute"});
    stage.permission(&call, &usual());
    stage.say(ToAgent::Interrupt);
    assert_eq!(
        stage.writes(),
        [
            json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "s"}}),
            json!({"jsonrpc": "2.0", "id": 7, "result": {"outcome": {"outcome": "cancelled"}}}),
        ]
    );
    assert!(
        stage
            .outs
            .iter()
            .any(|out| matches!(out, FromConversation::Withdraw(_)))
    );
    // Asked again although it is to end: the same answer, and nobody is bothered.
    stage.permission(&call, &usual());
    assert_eq!((stage.writes().len(), stage.asks().len()), (3, 1));
    stage.answer(3, &json!({"stopReason": "cancelled"}));
    let outcome = &stage.over().unwrap().outcome;
    assert_eq!(
        (outcome.cause, outcome.detail.as_ref().unwrap().acknowledged),
        (Cause::Interrupted, Some(true))
    );
    // An error is an answer, too.
    let mut stage = Stage::asked(&OPENCODE, &Spec::default());
    stage.say(ToAgent::Interrupt);
    stage.fail(3, -32603, "aborted");
    assert_eq!(stage.cause(), Some(Cause::Interrupted));
}

// P36, P37
#[test]
fn an_interrupt_before_there_is_a_session_calls_the_message_off() {
    let mut stage = Stage::begun(&COPILOT, &Spec::default());
    stage.say(ToAgent::Prompt("hello".into()));
    stage.say(ToAgent::Interrupt);
    assert_eq!(stage.cause(), Some(Cause::Interrupted));
    stage.answer(1, &hello(&json!({})));
    stage.answer(2, &json!({"sessionId": "s"}));
    assert!(
        !stage
            .writes()
            .iter()
            .any(|it| it["method"] == "session/prompt")
    );
    stage.say(ToAgent::Prompt("again".into()));
    stage.text("Hello");
    stage.answer(3, &json!({"stopReason": "end_turn"}));
    assert_eq!(stage.over().unwrap().text.as_deref(), Some("Hello"));
    // What comes between turns belongs to none of them.
    stage.text("late");
    assert_eq!(stage.story().last().unwrap(), "notice outside_turn");
}

// P39: updates and silence; nothing here ends the turn, the limit on silence does.
#[test]
fn a_prompt_that_is_never_answered_stays_open() {
    let mut stage = Stage::asked(&OPENCODE, &Spec::default());
    stage.text("Hello");
    stage.update(&json!({"sessionUpdate": "usage_update", "used": 100, "size": 1000}));
    assert_eq!(stage.cause(), None);
    stage.say(ToAgent::Interrupt);
    assert_eq!(stage.writes()[0]["method"], "session/cancel");
}

#[test]
fn thoughts_plans_and_changes() {
    let mut stage = Stage::begun(&GEMINI, &Spec::default());
    stage.say(ToAgent::Change {
        id: 4,
        change: Change::PermissionMode("yolo".into()),
    });
    stage.say(ToAgent::Prompt("hello".into()));
    stage.answer(1, &hello(&json!({})));
    stage.answer(
        2,
        &json!({"sessionId": "s", "modes": {"availableModes": [{"id": "yolo", "name": "YOLO"}]}}),
    );
    let methods: Vec<Value> = stage
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
    stage.text("[MODE_UPDATE] yolo");
    stage.answer(3, &json!({}));
    stage.outs.clear();
    let thought = |text: &str| json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": text}});
    stage.update(&thought("Hm"));
    stage.text("Hello");
    stage.update(
        &json!({"sessionUpdate": "plan", "entries": [{"content": "look", "status": "completed"}, {"content": "leap"}]}),
    );
    stage.update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "x"}}),
    );
    assert_eq!(
        stage.story(),
        [
            "Thinking Hm",
            "Reply Hello",
            "notice plan",
            "notice unknown_message"
        ]
    );
    stage.say(ToAgent::Change {
        id: 5,
        change: Change::PermissionMode("bogus".into()),
    });
    assert!(
        matches!(stage.outs.last(), Some(FromConversation::Changed { id: 5, error: Some(why) }) if why.contains("Its modes are: yolo."))
    );
}

// S3-17
#[test]
fn what_acp_does_not_have_is_refused_with_what_to_use_instead() {
    let why = |dialect: &dyn Dialect, key: &str, value: &str| {
        let mut spec = Spec::default();
        spec.settings.set(key, value);
        dialect
            .launch(&spec)
            .map_or_else(|error| error.to_string(), |_| "ok".into())
    };
    assert!(why(&GEMINI, keys::JSON_SCHEMA, "{}").contains("openai-api"));
    assert!(why(&GEMINI, keys::SYSTEM_PROMPT, "x").contains("file of instructions"));
    assert!(why(&GEMINI, keys::FORK, "true").contains("needs resume"));
    assert!(why(&GEMINI, keys::MCP_CONFIG, "servers.json").contains("not its path"));
    assert!(why(&GEMINI, "modle", "x").contains("did you mean model?"));
    assert_eq!(why(&COPILOT, keys::MODEL, "gpt-5"), "ok");
    let mut spec = Spec {
        extra_args: vec!["--debug".into()],
        ..Spec::default()
    };
    spec.settings.set(keys::MODEL, "gpt-5");
    assert_eq!(
        format!("{:?}", COPILOT.launch(&spec).unwrap().args),
        r#"[Plain("--acp"), Plain("--model=gpt-5"), Plain("--debug")]"#
    );
    // opencode asks only when it is told to, and it is told when somebody decides.
    let env = |spec: &Spec| {
        OPENCODE
            .launch(spec)
            .unwrap()
            .env
            .iter()
            .any(|(name, _)| *name == "OPENCODE_PERMISSION")
    };
    assert!(
        !env(&Spec::default())
            && env(&Spec {
                policy: Some(Policy::default()),
                ..Spec::default()
            })
    );
}

// With rules, nothing that makes the agent not ask is taken.
#[test]
fn with_rules_the_agent_has_to_ask() {
    let with = |policy: bool, mode: Option<&str>, args: &[&str]| {
        let mut spec = Spec {
            policy: policy.then(Policy::default),
            ..Spec::default()
        };
        mode.into_iter()
            .for_each(|mode| spec.settings.set(keys::PERMISSION_MODE, mode));
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
            .launch(&with(true, mode, args))
            .unwrap_err()
            .to_string();
        assert!(error.contains("policy"), "{error}");
        assert!(
            dialect.launch(&with(false, mode, args)).is_ok(),
            "{mode:?} {args:?}"
        );
    }
    assert!(
        GEMINI
            .launch(&with(true, Some("plan"), &["--debug"]))
            .is_ok()
    );
    // Nor in a live session, whatever the mode is called.
    for (policy, error) in [(true, true), (false, false)] {
        let mut stage = Stage::begun(&GEMINI, &with(policy, None, &[]));
        stage.answer(1, &hello(&json!({})));
        stage.answer(2, &json!({"sessionId": "s", "modes": {"availableModes": [{"id": "m0", "name": "Default"}, {"id": "m1", "name": "YOLO"}], "currentModeId": "m0"}}));
        stage.say(ToAgent::Change {
            id: 5,
            change: Change::PermissionMode("m1".into()),
        });
        let refused = matches!(stage.outs.last(), Some(FromConversation::Changed { id: 5, error: Some(why) }) if why.contains("does not ask"));
        assert_eq!(refused, error, "{:?}", stage.outs.last());
    }
    // One that never asks says so, and is not started with a policy.
    assert!(!OPENCLAW.capabilities().ask && GEMINI.capabilities().ask);
}

#[test]
fn a_configured_agent_has_a_name_and_a_command() {
    let command = || vec!["my-agent".to_owned(), "--acp".to_owned()];
    let mine = acp::custom("my-agent_2", command()).unwrap();
    let launch = mine.launch(&Spec::default()).unwrap();
    assert_eq!((mine.name(), launch.program), ("my-agent_2", "my-agent"));
    assert_eq!(format!("{:?}", launch.args), r#"[Plain("--acp")]"#);
    for name in ["", "-x", "My", "a b", "a/b", "\u{e4}"] {
        assert!(acp::custom(name, command()).is_err(), "{name:?}");
    }
    assert!(
        acp::custom("x", Vec::new()).is_err() && acp::custom("x", vec![String::new()]).is_err()
    );
}

#[test]
fn an_agent_that_does_not_know_acp_says_so() {
    let finished = |code, stderr| gone(&GEMINI, code, stderr).map(|outcome| outcome.cause);
    assert_eq!(
        finished(1, "Unknown argument: acp\n"),
        Some(Cause::BadRequest)
    );
    assert_eq!(finished(1, "boom"), None, "others say how it died");
    assert_eq!(finished(0, "unknown option"), None);
}

/// How a turn ends whose agent goes before there is a session.
fn gone(agent: &Acp, code: i32, stderr: &str) -> Option<Outcome> {
    let mut talk = agent.converse(&Spec::default());
    let mut out = ostler_core::dialect::Outbox::default();
    talk.send(ToAgent::Prompt("hello".into()), &mut out);
    talk.on_exit(
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
fn a_bridge_that_reaches_nobody_says_what_to_start() {
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
        let outcome = gone(&OPENCLAW, 1, &format!("(node) a warning\n{last}\n")).unwrap();
        assert_eq!(outcome.cause, cause, "{last}");
        assert!(
            outcome
                .hint
                .is_some_and(|hint| hint.contains("openclaw gateway run")),
            "{last}"
        );
        assert_eq!(gone(&GEMINI, 1, last), None, "it is no bridge");
    }
    assert_eq!(gone(&OPENCLAW, 1, "boom"), None);
}

/// The adapter takes settings from a variable, and they could decide in the place of those who do.
#[test]
fn settings_of_codex_are_not_inherited_where_somebody_decides() {
    let never = |spec: &Spec| CODEX_ACP.launch(spec).unwrap().inherits.never;
    let rules = Spec {
        policy: Some(Policy::default()),
        ..Spec::default()
    };
    let person = Spec {
        attendance: Attendance::Attended,
        ..Spec::default()
    };
    for (spec, held_back) in [(&rules, true), (&person, true), (&Spec::default(), false)] {
        assert_eq!(never(spec).contains(&"CODEX_CONFIG"), held_back);
        assert!(
            never(spec).contains(&"CODEX_THREAD_ID"),
            "marks of an enclosing session never are"
        );
    }
}
