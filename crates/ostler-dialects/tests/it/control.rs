//! The control channel of Claude Code: who may do what, what is changed, what is said into a turn.

use ostler_core::dialect::{Change, Conversation, FromConversation, Outbox, ToAgent};
use ostler_core::event::{Decision, EventKind};
use ostler_core::permission::{Otherwise, Policy, ToolKind, Verdict};
use ostler_core::spec::{Attendance, Spec};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::stage::{claude, offer};

/// A conversation as it is after its prompt, with all that came before.
pub(crate) fn begun(spec: &Spec) -> (Box<dyn Conversation>, Vec<Value>) {
    let (mut talk, mut out) = (claude().converse(spec), Outbox::default());
    talk.on_start(&mut out);
    let first = writes(&out.drain().collect::<Vec<_>>());
    talk.send(ToAgent::Prompt("hello".into()), &mut out);
    (talk, first)
}

pub(crate) fn writes(outs: &[FromConversation]) -> Vec<Value> {
    let lines = outs.iter().filter_map(|out| {
        if let FromConversation::Write(bytes) = out {
            Some(bytes)
        } else {
            None
        }
    });
    lines
        .map(|bytes| serde_json::from_slice(bytes).unwrap())
        .collect()
}

pub(crate) fn heard(talk: &mut dyn Conversation, line: &Value) -> Vec<FromConversation> {
    let mut out = Outbox::default();
    talk.on_line(&line.to_string(), &mut out);
    out.drain().collect()
}

pub(crate) fn said(talk: &mut dyn Conversation, say: ToAgent) -> Vec<FromConversation> {
    let mut out = Outbox::default();
    talk.send(say, &mut out);
    out.drain().collect()
}

fn verdict(talk: &mut dyn Conversation, id: &str, verdict: Verdict) -> Vec<Value> {
    writes(&said(
        talk,
        ToAgent::Verdict {
            id: id.to_owned(),
            verdict,
        },
    ))
}

fn ruled() -> Spec {
    Spec {
        policy: Some(Policy::default()),
        attendance: Attendance::Attended,
        ..Spec::default()
    }
}

fn asks() -> Spec {
    Spec {
        attendance: Attendance::Attended,
        ..Spec::default()
    }
}

fn can(id: &str, call: &str, command: &str) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": command}, "tool_use_id": call}})
}

fn hook(id: &str, call: &str, command: &str) -> Value {
    json!({"type": "control_request", "request_id": id, "request": {"subtype": "hook_callback", "callback_id": "ostler-policy", "tool_use_id": call,
        "input": {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call}}})
}

fn success(id: &str, response: &Value) -> Value {
    json!({"type": "control_response", "response": {"subtype": "success", "request_id": id, "response": response}})
}

fn hooked(decision: &str) -> Value {
    json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": decision}})
}

// P45: every call is put before the rules; nothing is announced that nobody needs.
#[test]
fn hooks_and_tools_are_announced_when_there_are_any() {
    let hooks =
        json!({"PreToolUse": [{"hookCallbackIds": ["ostler-policy"], "timeout": 2_000_000}]});
    let initialize = |more: Value| {
        let mut request = json!({"subtype": "initialize"});
        request
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        vec![
            json!({"type": "control_request", "request_id": "ostler-initialize", "request": request}),
        ]
    };
    let tools = Spec {
        tools: vec![offer("add", "{}")],
        ..Spec::default()
    };
    let both = Spec {
        tools: vec![offer("add", "{}")],
        ..ruled()
    };
    assert_eq!(begun(&Spec::default()).1, [Value::Null; 0]);
    assert_eq!(begun(&asks()).1, [Value::Null; 0]);
    assert_eq!(begun(&ruled()).1, initialize(json!({"hooks": hooks})));
    assert_eq!(
        begun(&tools).1,
        initialize(json!({"sdkMcpServers": ["ostler"]}))
    );
    assert_eq!(
        begun(&both).1,
        initialize(json!({"hooks": hooks, "sdkMcpServers": ["ostler"]}))
    );
}

// P44: several at once, answered in any order, each once; a late answer writes nothing.
#[test]
fn questions_are_asked_and_each_answer_finds_its_own() {
    let (mut talk, _) = begun(&asks());
    let talk = &mut *talk;
    for (id, call) in [("q1", "t1"), ("q2", "t2"), ("q3", "t3")] {
        let outs = heard(talk, &can(id, call, "ls"));
        let [FromConversation::Ask(ask)] = &outs[..] else {
            panic!("{outs:?}")
        };
        assert_eq!(
            (ask.id.as_str(), ask.call.as_deref(), ask.otherwise),
            (id, Some(call), Otherwise::Person)
        );
        assert_eq!(
            (ask.wants.kind, ask.input.as_ref().unwrap().get()),
            (ToolKind::Execute, r#"{"command":"ls"}"#)
        );
    }
    let deny = |why: &str| json!({"behavior": "deny", "message": why});
    assert_eq!(
        verdict(talk, "q2", Verdict::Deny("no".into())),
        [success("q2", &deny("no"))]
    );
    let yes = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    assert_eq!(verdict(talk, "q1", Verdict::Allow), [success("q1", &yes)]);
    assert_eq!(
        verdict(talk, "q1", Verdict::Allow),
        [Value::Null; 0],
        "answered already"
    );
    assert_eq!(
        verdict(talk, "q9", Verdict::Allow),
        [Value::Null; 0],
        "nobody asked"
    );
    let cancel = json!({"type": "control_cancel_request", "request_id": "q3"});
    assert_eq!(
        heard(talk, &cancel),
        [FromConversation::Withdraw("q3".into())]
    );
    assert_eq!(heard(talk, &cancel), [], "once");
    assert_eq!(
        verdict(talk, "q3", Verdict::Allow),
        [Value::Null; 0],
        "withdrawn"
    );
    heard(talk, &can("q4", "t4", "ls"));
    let answer = &verdict(talk, "q4", Verdict::Undecided)[0]["response"]["response"];
    assert_eq!(answer["behavior"], "deny", "no decision is no yes");
}

// P45, P48: the hook asks before anything runs, and says nothing where no rule does.
#[test]
fn a_hook_is_asked_first_and_its_answer_holds() {
    let (mut talk, _) = begun(&ruled());
    let talk = &mut *talk;
    let outs = heard(talk, &hook("h1", "t1", "ls"));
    assert!(
        matches!(&outs[..], [FromConversation::Ask(ask)] if ask.otherwise == Otherwise::Agent && ask.call.as_deref() == Some("t1"))
    );
    assert_eq!(
        verdict(talk, "h1", Verdict::Allow),
        [success("h1", &hooked("allow"))]
    );
    // A rule of Claude Code's own asks all the same: no second question, no second event.
    let yes = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    assert_eq!(
        writes(&heard(talk, &can("q1", "t1", "ls"))),
        [success("q1", &yes)]
    );
    assert!(
        matches!(
            &heard(talk, &can("q2", "t1", "rm -r /"))[..],
            [FromConversation::Ask(_)]
        ),
        "another input is another question"
    );
    heard(talk, &hook("h2", "t2", "rm"));
    let mut denied = hooked("deny");
    denied["hookSpecificOutput"]["permissionDecisionReason"] = "a rule".into();
    assert_eq!(
        verdict(talk, "h2", Verdict::Deny("a rule".into())),
        [success("h2", &denied)]
    );
    let result = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": "x"}]}});
    assert!(
        matches!(&heard(talk, &result)[..], [FromConversation::Event(EventKind::ToolResult(it))] if it.denied)
    );
    heard(talk, &hook("h3", "t3", "ls"));
    assert_eq!(
        verdict(talk, "h3", Verdict::Undecided),
        [success("h3", &json!({}))]
    );
    assert!(
        matches!(&heard(talk, &can("q3", "t3", "ls"))[..], [FromConversation::Ask(ask)] if ask.otherwise == Otherwise::Person)
    );
    let other = json!({"type": "control_request", "request_id": "h4", "request": {"subtype": "hook_callback", "callback_id": "not-ours", "input": {}}});
    assert_eq!(writes(&heard(talk, &other)), [success("h4", &json!({}))]);
}

// P46: an error would be taken for an empty answer, and the tool would run.
#[test]
fn what_does_not_say_what_it_is_about_is_denied_at_once() {
    let request =
        |request: Value| json!({"type": "control_request", "request_id": "q", "request": request});
    let ours = |input: Value| {
        request(json!({"subtype": "hook_callback", "callback_id": "ostler-policy", "input": input}))
    };
    for line in [
        request(json!({"subtype": "can_use_tool", "input": {}, "tool_use_id": "t"})),
        request(json!({"subtype": "can_use_tool", "tool_name": "Bash"})),
        request(json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": "allow"})),
        request(json!({"subtype": "can_use_tool", "tool_name": ["Bash"], "input": {}})),
        request(json!({"subtype": "hook_callback", "input": {"tool_name": "Bash"}})),
        ours(json!(["Bash", {}, "t"])),
        ours(json!({"tool_input": {}})),
        ours(json!({"tool_name": "Bash", "tool_input": null})),
    ] {
        let outs = heard(&mut *begun(&ruled()).0, &line);
        let [
            FromConversation::Write(_),
            FromConversation::Event(EventKind::Permission(it)),
        ] = &outs[..]
        else {
            panic!("{line}: {outs:?}")
        };
        assert_eq!(it.decision, Decision::Denied);
        let answer = &writes(&outs)[0]["response"]["response"];
        let decision = [
            &answer["behavior"],
            &answer["hookSpecificOutput"]["permissionDecision"],
        ];
        assert!(decision.contains(&&json!("deny")), "{line}: {answer}");
    }
    let (mut talk, _) = begun(&asks());
    let mut nameless = can("q", "t", "ls");
    nameless["request_id"] = Value::Null;
    assert!(writes(&heard(&mut *talk, &nameless)).is_empty());
    heard(&mut *talk, &can("q", "t", "ls"));
    let twice = heard(&mut *talk, &can("q", "t2", "rm"));
    assert!(
        matches!(&twice[..], [FromConversation::Event(EventKind::Notice(it))] if it.code == "control_malformed"),
        "{twice:?}"
    );
}

// P47: whoever of its sub-agents asks, it is asked.
#[test]
fn a_sub_agent_s_question_is_one_too() {
    let (mut talk, _) = begun(&asks());
    let mut line = can("q", "t", "ls");
    line["session_id"] = "another".into();
    line["parent_tool_use_id"] = "parent".into();
    line["request"]["agent_id"] = "a1".into();
    assert!(matches!(
        &heard(&mut *talk, &line)[..],
        [FromConversation::Ask(_)]
    ));
    heard(
        &mut *talk,
        &json!({"type": "result", "subtype": "success", "result": "x"}),
    );
    assert_eq!(
        verdict(&mut *talk, "q", Verdict::Allow).len(),
        1,
        "also when the turn is over and it works on"
    );
}

#[test]
fn changes_are_asked_for_and_answered() {
    let (mut talk, _) = begun(&Spec::default());
    let ask = |talk: &mut dyn Conversation, id, change| {
        writes(&said(talk, ToAgent::Change { id, change })).remove(0)
    };
    let model = ask(&mut *talk, 7, Change::Model("haiku".into()));
    assert_eq!(
        model["request"],
        json!({"subtype": "set_model", "model": "haiku"})
    );
    let mode = ask(&mut *talk, 8, Change::PermissionMode("plan".into()));
    assert_eq!(
        mode["request"],
        json!({"subtype": "set_permission_mode", "mode": "plan"})
    );
    let answer = |request: &Value, subtype: &str| json!({"type": "control_response", "response": {"subtype": subtype, "request_id": request["request_id"], "error": "no such model"}});
    assert_eq!(
        heard(&mut *talk, &answer(&mode, "success")),
        [FromConversation::Changed { id: 8, error: None }]
    );
    let error = Some("no such model".to_owned());
    assert_eq!(
        heard(&mut *talk, &answer(&model, "error")),
        [FromConversation::Changed { id: 7, error }]
    );
}

// Rules that cannot be enforced: the turn does not go on as if they were.
#[test]
fn a_refused_handshake_ends_the_turn() {
    let (mut talk, _) = begun(&ruled());
    heard(&mut *talk, &init("11111111-1111-4111-8111-111111111111"));
    let refused = json!({"type": "control_response", "response": {"subtype": "error", "request_id": "ostler-initialize", "error": "x"}});
    assert_eq!(
        writes(&heard(&mut *talk, &refused))[0]["request"]["subtype"],
        "interrupt"
    );
}

fn init(uuid: &str) -> Value {
    json!({"type": "system", "subtype": "init", "session_id": "s", "uuid": uuid, "capabilities": ["msg_lifecycle_v1"]})
}

fn lifecycle(uuid: &Value, state: &str) -> Value {
    json!({"type": "command_lifecycle", "command_uuid": uuid, "state": state})
}

const RESULT: &str = r#"{"type":"result","subtype":"success","result":"x"}"#;

fn shape(outs: &[FromConversation]) -> Vec<&'static str> {
    let word = |out: &FromConversation| match out {
        FromConversation::Write(_) => "write",
        FromConversation::TurnBegan => "began",
        FromConversation::TurnOver(_) => "over",
        FromConversation::Background(0) => "background 0",
        FromConversation::Background(_) => "background",
        _ => "other",
    };
    outs.iter()
        .map(word)
        .filter(|word| *word != "other")
        .collect()
}

// P36: a message that comes too late for its turn gets one of its own, and no other turn is taken for it.
#[test]
fn a_message_for_the_turn_reaches_it_or_gets_its_own() {
    let steer = |talk: &mut dyn Conversation| writes(&said(talk, ToAgent::Steer("more".into())));
    let (seed, result) = (
        "11111111-1111-4111-8111-111111111111",
        serde_json::from_str::<Value>(RESULT).unwrap(),
    );
    let start = || {
        let (mut talk, _) = begun(&Spec::default());
        assert!(
            steer(&mut *talk).is_empty(),
            "before the agent is heard it would become a part of the prompt"
        );
        let line = writes(&heard(&mut *talk, &init(seed))).remove(0);
        assert_eq!(line["message"]["content"], "more");
        let uuid = line["uuid"].clone();
        assert_ne!(uuid, steer(&mut *talk)[0]["uuid"]);
        heard(
            &mut *talk,
            &lifecycle(&"11111111-1111-4111-8111-000000000002".into(), "completed"),
        );
        heard(&mut *talk, &lifecycle(&uuid, "queued"));
        (talk, uuid)
    };
    // It reached the model.
    let (mut talk, uuid) = start();
    heard(&mut *talk, &lifecycle(&uuid, "started"));
    assert_eq!(shape(&heard(&mut *talk, &result)), ["over"]);
    // It did not: something is still to come, and then a turn of the agent's.
    let (mut talk, uuid) = start();
    assert_eq!(shape(&heard(&mut *talk, &result)), ["background", "over"]);
    assert_eq!(
        shape(&heard(&mut *talk, &lifecycle(&uuid, "started"))),
        [""; 0]
    );
    assert_eq!(
        shape(&heard(&mut *talk, &init(seed))),
        ["began", "background 0"]
    );
    assert_eq!(shape(&heard(&mut *talk, &result)), ["over"]);
    // The next prompt waits for that turn, whose end is not its own.
    let (mut talk, uuid) = start();
    heard(&mut *talk, &result);
    assert_eq!(said(&mut *talk, ToAgent::Prompt("next".into())), []);
    heard(&mut *talk, &lifecycle(&uuid, "started"));
    assert_eq!(
        shape(&heard(&mut *talk, &init(seed))),
        ["began", "background 0"]
    );
    let mut failed = result.clone();
    failed["is_error"] = true.into();
    let outs = heard(&mut *talk, &failed);
    assert_eq!(shape(&outs), ["write"]);
    assert!(outs.iter().any(|out| matches!(out, FromConversation::Event(EventKind::Notice(it)) if it.code == "steer_failed")));
    assert_eq!(shape(&heard(&mut *talk, &result)), ["over"]);
    // Unless that turn is interrupted: then there is nothing to wait for any more.
    let (mut talk, _) = start();
    heard(&mut *talk, &result);
    said(&mut *talk, ToAgent::Prompt("next".into()));
    heard(&mut *talk, &init(seed));
    said(&mut *talk, ToAgent::Interrupt);
    let mut interrupted = failed;
    interrupted["terminal_reason"] = "aborted_streaming".into();
    assert!(shape(&heard(&mut *talk, &interrupted)).contains(&"over"));
    // It was dropped: nothing is still to come, and the prompt goes out.
    let (mut talk, uuid) = start();
    heard(&mut *talk, &result);
    said(&mut *talk, ToAgent::Prompt("next".into()));
    assert_eq!(
        shape(&heard(&mut *talk, &lifecycle(&uuid, "cancelled"))),
        ["background 0", "write"]
    );
    // An interrupt takes it along.
    let (mut talk, _) = start();
    assert_eq!(
        writes(&said(&mut *talk, ToAgent::Interrupt))[0]["request"],
        json!({"subtype": "interrupt", "cancel_queued": true})
    );
    // An agent that does not tell what becomes of it is not waited for.
    let (mut talk, _) = begun(&Spec::default());
    heard(
        &mut *talk,
        &json!({"type": "system", "subtype": "init", "uuid": seed}),
    );
    assert_eq!(
        steer(&mut *talk),
        [json!({"type": "user", "message": {"role": "user", "content": "more"}})]
    );
    assert_eq!(shape(&heard(&mut *talk, &result)), ["over"]);
}

fn odd() -> impl Strategy<Value = Value> {
    let word = proptest::sample::select(vec![
        "q",
        "q2",
        "Bash",
        "allow",
        "can_use_tool",
        "hook_callback",
        "ostler",
        "tools/call",
        "ostler-policy",
        "add",
        "",
    ]);
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        word.prop_map(Into::into),
        Just(json!({})),
        Just(json!({"command": "ls"})),
        Just(json!({"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t"})),
        Just(
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {}}})
        ),
        Just(json!(["can_use_tool", "Bash"])),
    ]
}

fn control_line() -> impl Strategy<Value = Value> {
    let kind = proptest::sample::select(vec![
        "control_request",
        "control_cancel_request",
        "control_response",
        "command_lifecycle",
    ]);
    let subtype = proptest::sample::select(vec![
        "can_use_tool",
        "hook_callback",
        "mcp_message",
        "initialize",
    ]);
    let key = proptest::sample::select(vec![
        "tool_name",
        "input",
        "tool_use_id",
        "callback_id",
        "server_name",
        "message",
    ]);
    (kind, odd(), subtype, proptest::collection::vec((key, odd()), 0..6)).prop_map(|(kind, id, subtype, fields)| {
        let mut request = json!({"subtype": subtype});
        request.as_object_mut().unwrap().extend(fields.into_iter().map(|(key, value)| (key.to_owned(), value)));
        json!({"type": kind, "request_id": id, "request": request, "response": {"request_id": id, "subtype": "error"}})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // P46: whatever comes, nothing is allowed to which nobody said yes.
    #[test]
    fn nothing_is_allowed_without_a_yes(lines in proptest::collection::vec(control_line(), 1..20), ruled_too in any::<bool>()) {
        let mut spec = if ruled_too { ruled() } else { asks() };
        spec.tools.push(offer("add", "{}"));
        let (mut talk, _) = begun(&spec);
        let yes = |values: &[Value]| {
            let said = values.iter().map(|value| &value["response"]["response"]);
            let words = |it: &Value| [it["behavior"].clone(), it["hookSpecificOutput"]["permissionDecision"].clone()];
            said.flat_map(words).any(|word| word == "allow")
        };
        for line in &lines {
            let outs = heard(&mut *talk, line);
            prop_assert!(!yes(&writes(&outs)), "{}", line);
            for out in outs {
                if let FromConversation::Ask(ask) = out {
                    prop_assert!(!yes(&verdict(&mut *talk, &ask.id, Verdict::Deny("no".into()))));
                }
            }
        }
    }
}
