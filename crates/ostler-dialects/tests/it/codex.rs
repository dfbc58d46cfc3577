//! Codex: whatever it sends, nothing panics, no line is lost, and each turn ends once.

use ostler_core::dialect::{
    Action, Arg, Conversation, Dialect, FromConversation, Launch, Launching, Outbox, ToAgent,
};
use ostler_core::event::EventKind;
use ostler_core::permission::{Policy, Verdict};
use ostler_core::spec::{Attendance, Spec};
use ostler_dialects::find;
use proptest::prelude::*;

use crate::harness::{offer, recordings, replay_as};

fn codex() -> &'static dyn Dialect {
    find("codex").unwrap()
}

fn spec(settings: &[(&str, &str)]) -> Spec {
    let mut spec = Spec::default().dir("/work");
    spec.apply(&settings.iter().copied().collect()).unwrap();
    spec
}

/// Returns the launch command of the transport that the settings select.
fn launched(spec: &Spec) -> Result<Launch, String> {
    codex()
        .select_transport(spec)
        .unwrap_or(codex())
        .launch(&Launching::new(spec))
        .map_err(|error| error.to_string())
}

fn args(settings: &[(&str, &str)]) -> Vec<String> {
    let shown = |arg: &Arg| match arg {
        Arg::Plain(arg) => arg.clone(),
        Arg::InFile { prefix, text } => format!("{prefix}<{text}>"),
    };
    launched(&spec(settings))
        .unwrap()
        .args
        .iter()
        .map(shown)
        .collect()
}

// S2-15
#[test]
fn settings_become_arguments() {
    assert_eq!(args(&[]), ["app-server"]);
    assert_eq!(
        args(&[("model", "m"), ("system_prompt", "secret")]),
        ["app-server"],
        "they are sent over stdin"
    );
    assert_eq!(
        args(&[("config", "a.b=1"), ("config", "c=\"d\"")]),
        ["app-server", "--config=a.b=1", "--config=c=\"d\""]
    );
    assert_eq!(
        args(&[("transport", "exec")]),
        ["exec", "--json", "--skip-git-repo-check", "-"]
    );
    let all = args(&[
        ("transport", "exec"),
        ("model", "m"),
        ("effort", "low"),
        ("permission_mode", "read-only"),
        ("add_dir", "x"),
        ("system_prompt", "Be."),
        ("json_schema", "{}"),
        ("ephemeral", "true"),
        ("resume", "id"),
        ("fork", "true"),
    ]);
    let rest = [
        "--model=m",
        "--config=model_reasoning_effort=low",
        "--config=sandbox_mode=read-only",
        "--config=sandbox_workspace_write.writable_roots=[\"/work/x\"]",
        "--config=model_instructions_file=<Be.>",
        "--output-schema=<{}>",
        "--ephemeral",
        "fork",
        "id",
        "-",
    ];
    assert_eq!(all[3..], rest);
}

#[test]
fn unsupported_settings_name_an_alternative() {
    for (settings, part) in [
        (&[("max_turns", "3")][..], "--budget-tokens"),
        (&[("max_budget_usd", "3")], "--budget-tokens"),
        (&[("tools", "x")], "--permissions"),
        (&[("session_id", "x")], "native_session"),
        (&[("sandbox", "read-only")], "permission_mode"),
        (&[("permission_mode", "plan")], "workspace-write"),
        (&[("fork", "true")], "resume"),
        (&[("config", "novalue")], "key=value"),
        (&[("mcp_config", "file.json")], "mcpServers"),
        (
            &[("transport", "exec"), ("append_system_prompt", "x")],
            "leave out transport=exec",
        ),
        (
            &[("transport", "exec"), ("mcp_config", "{\"mcpServers\":{}}")],
            "leave out transport=exec",
        ),
        (
            &[("transport", "exec"), ("approval_policy", "untrusted")],
            "never asks",
        ),
        (&[("moddel", "x")], "did you mean model?"),
    ] {
        let error = launched(&spec(settings)).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    let with_rules = |settings: &[(&str, &str)]| spec(settings).policy(Policy::default());
    assert!(
        launched(&with_rules(&[("approval_policy", "never")]))
            .unwrap_err()
            .contains("every command")
    );
    assert!(
        launched(&with_rules(&[("transport", "exec")]))
            .unwrap_err()
            .contains("transport=exec")
    );
    for (name, part) in [
        ("exec_command", "choose another"),
        ("a b", "letters"),
        ("", "letters"),
    ] {
        let spec = spec(&[]).bound_tools(vec![offer(name, "{}")]);
        assert!(launched(&spec).unwrap_err().contains(part));
    }
    for extra in ["--json", "prompt", "--listen=x", "-"] {
        let spec = spec(&[]).extra_args(vec![extra.to_owned()]);
        assert!(launched(&spec).is_err(), "{extra}");
    }
}

// P17, P24
#[test]
fn every_split_of_a_recording_gives_the_same_events() {
    for (name, stdout) in recordings("codex") {
        let whole = replay_as(codex(), &[&stdout]);
        for at in (0..stdout.len()).step_by(stdout.len() / 40 + 1) {
            assert_eq!(
                replay_as(codex(), &[&stdout[..at], &stdout[at..]]),
                whole,
                "{name} at {at}"
            );
        }
    }
}

const UNKNOWN_LINES: [&str; 5] = [
    r#"{"method":"brand/new","params":{"threadId":"other","item":[1,{"a":null}]}}"#,
    r#"{"method":"item/completed","params":{"item":{"type":"brandNew","id":"x"}}}"#,
    r#"{"id":"brand-new","result":{"turn":7}}"#,
    r#"{"type":"brand.new"}"#,
    "plain words, \u{1b}[31mred\u{1b}[0m",
];

// P22, S3-29, S3-30
#[test]
fn unknown_lines_change_nothing() {
    let known = |outs: Vec<FromConversation>| -> Vec<FromConversation> {
        let unknown = |out: &FromConversation| match out {
            FromConversation::Event(EventKind::Notice(notice)) => {
                notice.code.as_str() == "unknown_message"
            }
            FromConversation::Event(EventKind::Unreadable(_)) => true,
            _ => false,
        };
        outs.into_iter().filter(|out| !unknown(out)).collect()
    };
    for (name, stdout) in recordings("codex") {
        let text = String::from_utf8(stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let whole = known(replay_as(codex(), &[text.as_bytes()]));
        for at in 0..=lines.len() {
            for unknown in UNKNOWN_LINES {
                let mut with = lines.clone();
                with.insert(at, unknown);
                assert_eq!(
                    known(replay_as(codex(), &[with.join("\n").as_bytes()])),
                    whole,
                    "{name} at {at}: {unknown}"
                );
            }
        }
    }
}

/// Returns every recorded line and broken variants of them, from which random conversations are
/// made.
fn line_pool() -> Vec<String> {
    let lines = recordings("codex")
        .into_iter()
        .map(|(_, stdout)| String::from_utf8(stdout).unwrap());
    let mut all: Vec<String> = lines
        .flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let odd = |line: &String| line.replace(":\"", ":[\"").replace("\",", "\"],");
    let strange: Vec<String> = all
        .iter()
        .map(odd)
        .chain(UNKNOWN_LINES.map(str::to_owned))
        .collect();
    all.extend(strange);
    all
}

/// Returns a message of the caller.
fn caller_message(which: u8) -> ToAgent {
    let id = (which / 8).to_string();
    match which % 8 {
        0 => ToAgent::Prompt("hello".into()),
        1 => ToAgent::Steer("more".into()),
        2 => ToAgent::Interrupt,
        3 => ToAgent::Verdict {
            id,
            verdict: Verdict::Allow,
        },
        4 => ToAgent::Verdict {
            id,
            verdict: Verdict::Deny("no".into()),
        },
        5 => ToAgent::Verdict {
            id,
            verdict: Verdict::Undecided,
        },
        6 => ToAgent::ToolDone {
            id,
            ok: true,
            output: "5".into(),
        },
        _ => ToAgent::Change {
            id: 1,
            change: ostler_core::dialect::Change::Model("m".into()),
        },
    }
}

/// Tracks the turns: a turn ends only if it is open.
#[derive(Default)]
struct TurnTracker {
    open: bool,
}

impl TurnTracker {
    fn check(&mut self, out: &mut Outbox) {
        for item in out.drain() {
            match item {
                FromConversation::TurnStarted => self.open = true,
                FromConversation::TurnEnded(_) => assert!(
                    std::mem::take(&mut self.open),
                    "a turn ended without being open"
                ),
                FromConversation::Do(Action::Write(bytes)) => {
                    let text = String::from_utf8(bytes).unwrap();
                    assert!(
                        text.ends_with('\n') && text.matches('\n').count() == 1,
                        "{text}"
                    );
                    assert!(
                        serde_json::from_str::<serde_json::Value>(&text).is_ok(),
                        "{text}"
                    );
                }
                _ => {}
            }
        }
    }
}

const LAST: &str =
    r#"{"method":"turn/completed","params":{"turn":{"id":"x","status":"completed"}}}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // Every turn ends once, in whatever order messages are received and sent.
    #[test]
    fn any_order_ends_every_turn_once(
        steps in proptest::collection::vec(
            (any::<prop::sample::Index>(), any::<u8>(), 0_u8..5),
            0..120,
        ),
        policy in any::<bool>(),
    ) {
        let line_pool = line_pool();
        let spec = spec(&[])
            .attendance(Attendance::Attended)
            .bound_tools(vec![offer("add", "{}")])
            .policy(policy.then(Policy::default));
        let mut conversation = codex().converse(&Launching::new(&spec));
        let (mut out, mut tracker) = (Outbox::default(), TurnTracker::default());
        conversation.on_start(&mut out);
        for (line, which, speaks) in steps {
            if speaks == 0 {
                let say = caller_message(which);
                if matches!(say, ToAgent::Prompt(_)) {
                    // The session machine sends one prompt at a time.
                    if tracker.open { continue; }
                    tracker.open = true;
                }
                conversation.send(say, &mut out);
            } else {
                conversation.on_line(line.get::<String>(&line_pool), &mut out);
            }
            tracker.check(&mut out);
        }
        conversation.on_line(LAST, &mut out);
        conversation.on_exit(&ostler_core::dialect::Exit::default(), &mut out);
        tracker.check(&mut out);
    }
}

/// A started turn ends when Codex completes it, which the property above cannot show on its own.
#[test]
fn turn_completed_ends_the_turn() {
    let hello = recordings("codex")
        .into_iter()
        .find(|(name, _)| name == "hello")
        .unwrap()
        .1;
    let text = String::from_utf8(hello).unwrap();
    let before: Vec<&str> = text
        .lines()
        .take_while(|line| !line.contains("turn/completed"))
        .collect();
    let with = format!("{}\n{LAST}\n", before.join("\n"));
    let over = |text: &str| {
        replay_as(codex(), &[text.as_bytes()])
            .into_iter()
            .filter(|out| matches!(out, FromConversation::TurnEnded(_)))
            .count()
    };
    assert_eq!(
        (over(&before.join("\n")), over(&with), over(&text)),
        (0, 1, 1)
    );
}

#[test]
fn model_change_takes_effect_with_the_next_turn() {
    let (mut conversation, mut out) = ready(&spec(&[]));
    let said = |conversation: &mut dyn Conversation, out: &mut Outbox, say: ToAgent| -> String {
        conversation.send(say, out);
        let text_of = |item: FromConversation| {
            if let FromConversation::Do(Action::Write(bytes)) = item {
                String::from_utf8(bytes).ok()
            } else {
                None
            }
        };
        out.drain().filter_map(text_of).collect()
    };
    let change = |change| ToAgent::Change { id: 7, change };
    assert_eq!(
        said(
            &mut *conversation,
            &mut out,
            change(ostler_core::dialect::Change::Model("new".into()))
        ),
        ""
    );
    said(
        &mut *conversation,
        &mut out,
        change(ostler_core::dialect::Change::PermissionMode(
            "read-only".into(),
        )),
    );
    let written = said(&mut *conversation, &mut out, ToAgent::Prompt("hi".into()));
    assert!(
        written.contains(r#""model":"new","sandboxPolicy":{"type":"readOnly"}"#),
        "{written}"
    );
    conversation.on_line(
        r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#,
        &mut out,
    );
    let started = |item: FromConversation| {
        if let FromConversation::Event(EventKind::Started(it)) = item {
            it.model
        } else {
            None
        }
    };
    assert_eq!(out.drain().find_map(started).as_deref(), Some("new"));
    conversation.send(
        change(ostler_core::dialect::Change::PermissionMode("plan".into())),
        &mut out,
    );
    assert!(matches!(
        out.drain().next(),
        Some(FromConversation::Changed {
            id: 7,
            error: Some(_)
        })
    ));
}

/// Returns a conversation that has opened the thread `t`, and its outbox.
fn ready(spec: &Spec) -> (Box<dyn Conversation>, Outbox) {
    let (mut conversation, mut out) = (codex().converse(&Launching::new(spec)), Outbox::default());
    conversation.on_start(&mut out);
    conversation.on_line(r#"{"id":"initialize","result":{}}"#, &mut out);
    conversation.on_line(
        r#"{"id":"thread","result":{"thread":{"id":"t"},"model":"old"}}"#,
        &mut out,
    );
    out.drain().count();
    (conversation, out)
}

fn written(out: &mut Outbox) -> String {
    let text_of = |item: FromConversation| {
        if let FromConversation::Do(Action::Write(bytes)) = item {
            String::from_utf8(bytes).ok()
        } else {
            None
        }
    };
    out.drain().filter_map(text_of).collect()
}

#[test]
fn sandbox_change_survives_a_turn_that_failed_to_start() {
    let (mut conversation, mut out) = ready(&spec(&[]));
    let change = ostler_core::dialect::Change::PermissionMode("read-only".into());
    conversation.send(ToAgent::Change { id: 7, change }, &mut out);
    let sandbox = r#""sandboxPolicy":{"type":"readOnly"}"#;
    conversation.send(ToAgent::Prompt("hi".into()), &mut out);
    assert!(written(&mut out).contains(sandbox));
    conversation.on_line(
        r#"{"id":"turn-1","error":{"code":-32600,"message":"no"}}"#,
        &mut out,
    );
    conversation.send(ToAgent::Prompt("hi".into()), &mut out);
    assert!(
        written(&mut out).contains(sandbox),
        "the change did not take effect yet"
    );
    conversation.on_line(
        r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#,
        &mut out,
    );
    conversation.on_line(LAST, &mut out);
    conversation.send(ToAgent::Prompt("hi".into()), &mut out);
    assert!(!written(&mut out).contains(sandbox), "it is sent only once");
}

#[test]
fn caller_tool_runs_unless_it_is_denied() {
    for (verdict, runs) in [
        (Verdict::Allow, true),
        (Verdict::Undecided, true),
        (Verdict::Deny("not today".into()), false),
    ] {
        let mut spec = spec(&[]).policy(Policy::default());
        spec.bound_tools = vec![offer("adder", "{}")];
        let (mut conversation, mut out) = ready(&spec);
        conversation.send(ToAgent::Prompt("hi".into()), &mut out);
        out.drain().count();
        let call = r#"{"id":9,"method":"item/tool/call","params":{"threadId":"t","callId":"c","tool":"adder","arguments":{"a":1}}}"#;
        conversation.on_line(call, &mut out);
        let asked: Vec<FromConversation> = out.drain().collect();
        assert!(
            matches!(&asked[..], [FromConversation::AskPermission(ask)] if ask.id == "9"),
            "{asked:?}"
        );
        let id = "9".to_owned();
        conversation.send(ToAgent::Verdict { id, verdict }, &mut out);
        let answered = format!("{:?}", out.drain().collect::<Vec<_>>());
        assert_eq!(
            answered.matches("RunTool").count(),
            usize::from(runs),
            "{answered}"
        );
        // A denied call is answered at once, with the reason.
        assert_eq!(
            answered.matches("Write").count(),
            usize::from(!runs),
            "{answered}"
        );
    }
}

// Codex asks about an MCP server's tool without naming it.
#[test]
fn ambiguous_mcp_tool_is_denied() {
    let of = |thread: &str, id: &str, server: &str, tool: &str| {
        format!(
            r#"{{"method":"item/started","params":{{"threadId":"{thread}","item":{{"type":"mcpToolCall","id":"{id}","server":"{server}","tool":"{tool}","arguments":{{"a":1}}}}}}}}"#
        )
    };
    let item = |id: &str, server: &str, tool: &str| of("t", id, server, tool);
    let question = |thread: &str| {
        format!(
            r#"{{"id":9,"method":"mcpServer/elicitation/request","params":{{"threadId":"{thread}","serverName":"x","_meta":{{"codex_approval_kind":"mcp_tool_call","tool_params":{{"a":1}}}}}}}}"#
        )
    };
    for (items, thread, asked) in [
        (vec![item("1", "x", "look")], "t", Some("mcp__x__look")),
        (
            vec![item("1", "x", "look"), item("2", "x", "look")],
            "t",
            Some("mcp__x__look"),
        ),
        (
            vec![item("1", "x__y", "look"), item("2", "x", "rm")],
            "t",
            Some("mcp__x__rm"),
        ),
        (
            vec![item("1", "x", "look"), item("2", "x", "rm")],
            "t",
            None,
        ),
        (vec![item("1", "x", "look")], "other", None),
        (
            vec![of("other", "1", "x", "look"), item("2", "x", "rm")],
            "other",
            Some("mcp__x__look"),
        ),
        (
            vec![of("other", "1", "x", "look"), of("third", "2", "x", "rm")],
            "other",
            Some("mcp__x__look"),
        ),
        (
            vec![of("other", "1", "x", "look"), of("other", "2", "x", "rm")],
            "other",
            None,
        ),
    ] {
        let (mut conversation, mut out) = ready(&spec(&[]).policy(Policy::default()));
        conversation.send(ToAgent::Prompt("hi".into()), &mut out);
        conversation.on_line(
            r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#,
            &mut out,
        );
        items
            .iter()
            .for_each(|item| conversation.on_line(item, &mut out));
        out.drain().count();
        conversation.on_line(&question(thread), &mut out);
        let all: Vec<FromConversation> = out.drain().collect();
        let ask = all.iter().find_map(|out| {
            if let FromConversation::AskPermission(ask) = out {
                Some(ask.wants.tool.as_str())
            } else {
                None
            }
        });
        assert_eq!(ask, asked, "{items:?} {all:?}");
        let decline = |out: &FromConversation| {
            matches!(
                out,
                FromConversation::Do(Action::Write(bytes))
                    if String::from_utf8_lossy(bytes).contains(r#""action":"decline""#)
            )
        };
        assert_eq!(all.iter().any(decline), asked.is_none(), "{all:?}");
    }
}

// The files that a sub-agent wants to change are in an item of its own thread: it is judged like
// any other, and not shown.
#[test]
fn sub_agent_file_change_is_judged_by_its_own_item() {
    const QUESTION: &str = r#"{"id":9,"method":"item/fileChange/requestApproval","params":{"threadId":"other","itemId":"c"}}"#;
    let note = |method: &str, thread: &str, rest: &str| {
        format!(r#"{{"method":"{method}","params":{{"threadId":"{thread}",{rest}}}}}"#)
    };
    let changes = |path: &str| {
        format!(r#""changes":[{{"path":"{path}","kind":{{"type":"update"}},"diff":""}}]"#)
    };
    let item = |path: &str| {
        format!(
            r#""item":{{"type":"fileChange","id":"c","status":"inProgress",{}}}"#,
            changes(path)
        )
    };
    let item_started = note("item/started", "other", &item("/work/a"));
    let patched = note(
        "item/fileChange/patchUpdated",
        "other",
        &format!(r#""itemId":"c",{}"#, changes("/work/b")),
    );
    let done = note("item/completed", "other", &item("/work/a"));
    let over = note(
        "turn/completed",
        "other",
        r#""turn":{"id":"v","status":"completed"}"#,
    );
    let elsewhere = note("item/started", "third", &item("/work/a"));
    for (notes, asked) in [
        (vec![&item_started], Some("/work/a")),
        (vec![&item_started, &patched], Some("/work/b")),
        (vec![&item_started, &done], None),
        (vec![&item_started, &over], None),
        (vec![&elsewhere], None),
        (vec![], None),
    ] {
        let (mut conversation, mut out) = ready(&spec(&[]).policy(Policy::default()));
        conversation.send(ToAgent::Prompt("hi".into()), &mut out);
        conversation.on_line(
            r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#,
            &mut out,
        );
        out.drain().count();
        notes
            .iter()
            .for_each(|note| conversation.on_line(note, &mut out));
        assert_eq!(out.drain().count(), 0, "none of it is shown: {notes:?}");
        conversation.on_line(QUESTION, &mut out);
        let all: Vec<FromConversation> = out.drain().collect();
        let ask = all.iter().find_map(|out| {
            if let FromConversation::AskPermission(ask) = out {
                Some(ask)
            } else {
                None
            }
        });
        let path =
            |ask: &ostler_core::permission::PermissionRequest| ask.wants.paths.first().cloned();
        assert_eq!(ask.and_then(path).as_deref(), asked, "{notes:?} {all:?}");
        let message = all.iter().find_map(|out| match out {
            FromConversation::Event(EventKind::Permission(it)) => it.message.as_deref(),
            _ => None,
        });
        assert_eq!(
            message.is_some_and(|why| why.contains("sub-agent")),
            asked.is_none(),
            "{all:?}"
        );
        conversation.send(
            ToAgent::Verdict {
                id: "9".into(),
                verdict: Verdict::Deny("no".into()),
            },
            &mut out,
        );
        let decline = |out: &FromConversation| {
            matches!(
                out,
                FromConversation::Do(Action::Write(bytes))
                    if String::from_utf8_lossy(bytes).contains(r#""decision":"decline""#)
            )
        };
        assert!(
            all.iter()
                .chain(&out.drain().collect::<Vec<_>>())
                .any(decline),
            "{all:?}"
        );
        conversation.on_line(LAST, &mut out);
        let cause = |out: FromConversation| {
            if let FromConversation::TurnEnded(over) = out {
                Some(over.outcome.cause)
            } else {
                None
            }
        };
        assert_eq!(
            out.drain().find_map(cause),
            Some(ostler_core::outcome::Cause::Denied),
            "the denial counts"
        );
    }
}

// A sub-agent's call may have the same id as a call of the main thread, which was not denied with
// it.
#[test]
fn sub_agent_denial_does_not_affect_main_thread_calls() {
    let of = |thread: &str, item: &str| {
        format!(r#"{{"method":"item/started","params":{{"threadId":"{thread}","item":{item}}}}}"#)
    };
    let change = r#"{"type":"fileChange","id":"c","changes":[{"path":"/work/b","kind":{"type":"update"},"diff":""}]}"#;
    let look = r#"{"type":"mcpToolCall","id":"c","server":"x","tool":"look","arguments":{"a":1}}"#;
    let own_item = r#"{"type":"commandExecution","id":"c","command":"ls","cwd":"/work","status":"inProgress"}"#;
    let done = r#"{"method":"item/completed","params":{"threadId":"t","item":{"type":"commandExecution","id":"c","command":"ls","cwd":"/work","status":"completed","exitCode":0,"aggregatedOutput":"a"}}}"#;
    for (subagent_item, method, rest) in [
        (
            look,
            "item/commandExecution/requestApproval",
            r#""itemId":"c","command":"rm a","cwd":"/work""#,
        ),
        (change, "item/fileChange/requestApproval", r#""itemId":"c""#),
        (
            look,
            "item/permissions/requestApproval",
            r#""itemId":"c","permissions":{"network":{"enabled":true}}"#,
        ),
        (
            look,
            "mcpServer/elicitation/request",
            r#""serverName":"x","_meta":{"codex_approval_kind":"mcp_tool_call","tool_params":{"a":1}}"#,
        ),
    ] {
        for attended in [true, false] {
            let policy = attended.then(Policy::default);
            let (mut conversation, mut out) = ready(&{
                let mut spec = spec(&[]);
                spec.policy = policy;
                spec
            });
            conversation.send(ToAgent::Prompt("hi".into()), &mut out);
            conversation.on_line(
                r#"{"method":"turn/started","params":{"threadId":"t","turn":{"id":"u"}}}"#,
                &mut out,
            );
            conversation.on_line(&of("t", own_item), &mut out);
            conversation.on_line(&of("other", subagent_item), &mut out);
            out.drain().count();
            conversation.on_line(
                &format!(
                    r#"{{"id":9,"method":"{method}","params":{{"threadId":"other",{rest}}}}}"#
                ),
                &mut out,
            );
            let all: Vec<FromConversation> = out.drain().collect();
            let is_asked = all.iter().any(
                |out| matches!(out, FromConversation::AskPermission(ask) if ask.call.is_none()),
            );
            let is_reported = all.iter().any(|out| {
                matches!(
                    out,
                    FromConversation::Event(EventKind::Permission(it))
                        if it.id != "c"
                )
            });
            assert_eq!(
                (is_asked, is_reported),
                (attended, !attended),
                "{method}: {all:?}"
            );
            conversation.send(
                ToAgent::Verdict {
                    id: "9".into(),
                    verdict: Verdict::Deny("no".into()),
                },
                &mut out,
            );
            conversation.on_line(done, &mut out);
            let denied = out.drain().find_map(|out| match out {
                FromConversation::Event(EventKind::ToolResult(result)) => Some(result.denied),
                _ => None,
            });
            assert_eq!(denied, Some(false), "{method}");
            conversation.on_line(LAST, &mut out);
            let cause = |out: FromConversation| {
                if let FromConversation::TurnEnded(over) = out {
                    Some(over.outcome.cause)
                } else {
                    None
                }
            };
            assert_eq!(
                out.drain().find_map(cause),
                Some(ostler_core::outcome::Cause::Denied),
                "the denial counts"
            );
        }
    }
}

#[test]
fn exec_is_interrupted_by_termination() {
    let spec = spec(&[("transport", "exec")]);
    let (mut conversation, mut out) = (
        codex()
            .select_transport(&spec)
            .unwrap()
            .converse(&Launching::new(&spec)),
        Outbox::default(),
    );
    conversation.send(ToAgent::Prompt("hi".into()), &mut out);
    conversation.send(ToAgent::Interrupt, &mut out);
    assert!(
        out.drain()
            .any(|out| out == FromConversation::Do(Action::Terminate))
    );
    conversation.on_exit(
        &ostler_core::dialect::Exit {
            signal: Some(15),
            ..Default::default()
        },
        &mut out,
    );
    let cause = |out: FromConversation| {
        if let FromConversation::TurnEnded(over) = out {
            Some(over.outcome.cause)
        } else {
            None
        }
    };
    assert_eq!(
        out.drain().find_map(cause),
        Some(ostler_core::outcome::Cause::Interrupted)
    );
}
