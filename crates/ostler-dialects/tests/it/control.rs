//! Claude Code's control channel: permissions, changes and steering.

use ostler_core::dialect::{
    Action, Change, Conversation, FromConversation, Launching, Outbox, ToAgent,
};
use ostler_core::event::{Decision, EventKind};
use ostler_core::permission::{Fallback, Policy, ToolKind, Verdict};
use ostler_core::spec::{Attendance, Spec};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{claude, offer};

/// Returns a conversation after its prompt, and the messages sent before it.
pub(crate) fn started(spec: &Spec) -> (Box<dyn Conversation>, Vec<Value>) {
    let (mut conversation, mut out) = (claude().converse(&Launching::new(spec)), Outbox::default());
    conversation.on_start(&mut out);
    let first = writes(&out.drain().collect::<Vec<_>>());
    conversation.send(ToAgent::Prompt("hello".into()), &mut out);
    (conversation, first)
}

pub(crate) fn writes(outs: &[FromConversation]) -> Vec<Value> {
    let lines = outs.iter().filter_map(|out| {
        if let FromConversation::Do(Action::Write(bytes)) = out {
            Some(bytes)
        } else {
            None
        }
    });
    lines
        .map(|bytes| serde_json::from_slice(bytes).unwrap())
        .collect()
}

pub(crate) fn feed(conversation: &mut dyn Conversation, line: &Value) -> Vec<FromConversation> {
    let mut out = Outbox::default();
    conversation.on_line(&line.to_string(), &mut out);
    out.drain().collect()
}

pub(crate) fn send(conversation: &mut dyn Conversation, say: ToAgent) -> Vec<FromConversation> {
    let mut out = Outbox::default();
    conversation.send(say, &mut out);
    out.drain().collect()
}

fn verdict(conversation: &mut dyn Conversation, id: &str, verdict: Verdict) -> Vec<Value> {
    writes(&send(
        conversation,
        ToAgent::Verdict {
            id: id.to_owned(),
            verdict,
        },
    ))
}

fn with_policy() -> Spec {
    Spec::default()
        .policy(Policy::default())
        .attendance(Attendance::Attended)
}

fn attended() -> Spec {
    Spec::default().attendance(Attendance::Attended)
}

fn can_use_tool(id: &str, call: &str, command: &str) -> Value {
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

// P45: every call is checked against the policy; hooks and tools are announced only if needed.
#[test]
fn hooks_and_tools_are_announced_only_if_needed() {
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
    let tools = Spec::default().bound_tools(vec![offer("add", "{}")]);
    let both = with_policy().bound_tools(vec![offer("add", "{}")]);
    assert_eq!(started(&Spec::default()).1, [Value::Null; 0]);
    assert_eq!(started(&attended()).1, [Value::Null; 0]);
    assert_eq!(
        started(&with_policy()).1,
        initialize(json!({"hooks": hooks}))
    );
    assert_eq!(
        started(&tools).1,
        initialize(json!({"sdkMcpServers": ["ostler"]}))
    );
    assert_eq!(
        started(&both).1,
        initialize(json!({"hooks": hooks, "sdkMcpServers": ["ostler"]}))
    );
}

// P44: several concurrent requests, answered in any order, each once; a late verdict writes
// nothing.
#[test]
fn verdicts_are_matched_to_their_requests() {
    let (mut conversation, _) = started(&attended());
    let conversation = &mut *conversation;
    for (id, call) in [("q1", "t1"), ("q2", "t2"), ("q3", "t3")] {
        let outs = feed(conversation, &can_use_tool(id, call, "ls"));
        let [FromConversation::AskPermission(ask)] = &outs[..] else {
            panic!("{outs:?}")
        };
        assert_eq!(
            (ask.id.as_str(), ask.call.as_deref(), ask.fallback),
            (id, Some(call), Fallback::Person)
        );
        assert_eq!(
            (ask.wants.kind, ask.input.as_ref().unwrap().get()),
            (ToolKind::Execute, r#"{"command":"ls"}"#)
        );
    }
    let deny = |why: &str| json!({"behavior": "deny", "message": why});
    assert_eq!(
        verdict(conversation, "q2", Verdict::Deny("no".into())),
        [success("q2", &deny("no"))]
    );
    let yes = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    assert_eq!(
        verdict(conversation, "q1", Verdict::Allow),
        [success("q1", &yes)]
    );
    assert_eq!(
        verdict(conversation, "q1", Verdict::Allow),
        [Value::Null; 0],
        "answered already"
    );
    assert_eq!(
        verdict(conversation, "q9", Verdict::Allow),
        [Value::Null; 0],
        "no such request"
    );
    let cancel = json!({"type": "control_cancel_request", "request_id": "q3"});
    assert_eq!(
        feed(conversation, &cancel),
        [FromConversation::WithdrawPermission("q3".into())]
    );
    assert_eq!(feed(conversation, &cancel), [], "once");
    assert_eq!(
        verdict(conversation, "q3", Verdict::Allow),
        [Value::Null; 0],
        "withdrawn"
    );
    feed(conversation, &can_use_tool("q4", "t4", "ls"));
    let answer = &verdict(conversation, "q4", Verdict::Undecided)[0]["response"]["response"];
    assert_eq!(answer["behavior"], "deny", "no decision is not an approval");
}

// P45, P48: the hook is asked before anything runs, and makes no decision if no rule does.
#[test]
fn hook_decides_first_and_its_decision_is_reused() {
    let (mut conversation, _) = started(&with_policy());
    let conversation = &mut *conversation;
    let outs = feed(conversation, &hook("h1", "t1", "ls"));
    assert!(matches!(&outs[..],
            [FromConversation::AskPermission(ask)] if ask.fallback == Fallback::Agent
            && ask.call.as_deref() == Some("t1")));
    assert_eq!(
        verdict(conversation, "h1", Verdict::Allow),
        [success("h1", &hooked("allow"))]
    );
    // A rule of Claude Code itself asks again: no second request, no second event.
    let yes = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    assert_eq!(
        writes(&feed(conversation, &can_use_tool("q1", "t1", "ls"))),
        [success("q1", &yes)]
    );
    assert!(
        matches!(
            &feed(conversation, &can_use_tool("q2", "t1", "rm -r /"))[..],
            [FromConversation::AskPermission(_)]
        ),
        "another input is another request"
    );
    feed(conversation, &hook("h2", "t2", "rm"));
    let mut denied = hooked("deny");
    denied["hookSpecificOutput"]["permissionDecisionReason"] = "a rule".into();
    assert_eq!(
        verdict(conversation, "h2", Verdict::Deny("a rule".into())),
        [success("h2", &denied)]
    );
    let result = json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t2", "is_error": true, "content": "x"}]}});
    assert!(matches!(&feed(conversation, &result)[..],
            [FromConversation::Event(EventKind::ToolResult(it))] if it.denied));
    feed(conversation, &hook("h3", "t3", "ls"));
    assert_eq!(
        verdict(conversation, "h3", Verdict::Undecided),
        [success("h3", &json!({}))]
    );
    assert!(
        matches!(&feed(conversation, &can_use_tool("q3", "t3", "ls"))[..],
            [FromConversation::AskPermission(ask)] if ask.fallback == Fallback::Person)
    );
    let other = json!({"type": "control_request", "request_id": "h4", "request": {"subtype": "hook_callback", "callback_id": "not-ours", "input": {}}});
    assert_eq!(
        writes(&feed(conversation, &other)),
        [success("h4", &json!({}))]
    );
}

// P46: an error would count as an empty answer, and the tool would run.
#[test]
fn malformed_requests_are_denied_immediately() {
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
        let outs = feed(&mut *started(&with_policy()).0, &line);
        let [
            FromConversation::Do(Action::Write(_)),
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
    let (mut conversation, _) = started(&attended());
    let mut nameless = can_use_tool("q", "t", "ls");
    nameless["request_id"] = Value::Null;
    assert!(writes(&feed(&mut *conversation, &nameless)).is_empty());
    feed(&mut *conversation, &can_use_tool("q", "t", "ls"));
    let twice = feed(&mut *conversation, &can_use_tool("q", "t2", "rm"));
    assert!(
        matches!(&twice[..], [FromConversation::Event(EventKind::Notice(it))]
            if it.code.as_str() == "control_malformed"),
        "{twice:?}"
    );
}

// P47: requests of sub-agents are handled too.
#[test]
fn requests_of_sub_agents_are_handled() {
    let (mut conversation, _) = started(&attended());
    let mut line = can_use_tool("q", "t", "ls");
    line["session_id"] = "another".into();
    line["parent_tool_use_id"] = "parent".into();
    line["request"]["agent_id"] = "a1".into();
    assert!(matches!(
        &feed(&mut *conversation, &line)[..],
        [FromConversation::AskPermission(_)]
    ));
    feed(
        &mut *conversation,
        &json!({"type": "result", "subtype": "success", "result": "x"}),
    );
    assert_eq!(
        verdict(&mut *conversation, "q", Verdict::Allow).len(),
        1,
        "even if the turn is over and it continues"
    );
}

#[test]
fn changes_are_requested_and_confirmed() {
    let (mut conversation, _) = started(&Spec::default());
    let ask = |conversation: &mut dyn Conversation, id, change| {
        writes(&send(conversation, ToAgent::Change { id, change })).remove(0)
    };
    let model = ask(&mut *conversation, 7, Change::Model("haiku".into()));
    assert_eq!(
        model["request"],
        json!({"subtype": "set_model", "model": "haiku"})
    );
    let mode = ask(&mut *conversation, 8, Change::PermissionMode("plan".into()));
    assert_eq!(
        mode["request"],
        json!({"subtype": "set_permission_mode", "mode": "plan"})
    );
    let answer = |request: &Value, subtype: &str| {
        json!({"type": "control_response",
        "response": {"subtype": subtype, "request_id": request["request_id"],
        "error": "no such model"}})
    };
    assert_eq!(
        feed(&mut *conversation, &answer(&mode, "success")),
        [FromConversation::Changed { id: 8, error: None }]
    );
    let error = Some("no such model".to_owned());
    assert_eq!(
        feed(&mut *conversation, &answer(&model, "error")),
        [FromConversation::Changed { id: 7, error }]
    );
}

// Without the hook the policy cannot be enforced, so the turn must not continue.
#[test]
fn a_refused_handshake_ends_the_turn() {
    let (mut conversation, _) = started(&with_policy());
    feed(
        &mut *conversation,
        &init("11111111-1111-4111-8111-111111111111"),
    );
    let refused = json!({"type": "control_response", "response": {"subtype": "error", "request_id": "ostler-initialize", "error": "x"}});
    assert_eq!(
        writes(&feed(&mut *conversation, &refused))[0]["request"]["subtype"],
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
    let name = |out: &FromConversation| match out {
        FromConversation::Do(Action::Write(_)) => "write",
        FromConversation::TurnStarted => "started",
        FromConversation::TurnEnded(_) => "ended",
        FromConversation::Background(0) => "background 0",
        FromConversation::Background(_) => "background",
        _ => "other",
    };
    outs.iter()
        .map(name)
        .filter(|name| *name != "other")
        .collect()
}

// P36: a message that misses its turn gets a separate one, which is not mistaken for another turn.
#[test]
fn steering_message_reaches_its_turn_or_gets_a_separate_one() {
    let steer = |conversation: &mut dyn Conversation| {
        writes(&send(conversation, ToAgent::Steer("more".into())))
    };
    let (seed, result) = (
        "11111111-1111-4111-8111-111111111111",
        serde_json::from_str::<Value>(RESULT).unwrap(),
    );
    let start = || {
        let (mut conversation, _) = started(&Spec::default());
        assert!(
            steer(&mut *conversation).is_empty(),
            "before any output it would become part of the prompt"
        );
        let line = writes(&feed(&mut *conversation, &init(seed))).remove(0);
        assert_eq!(line["message"]["content"], "more");
        let uuid = line["uuid"].clone();
        assert_ne!(uuid, steer(&mut *conversation)[0]["uuid"]);
        feed(
            &mut *conversation,
            &lifecycle(&"11111111-1111-4111-8111-000000000002".into(), "completed"),
        );
        feed(&mut *conversation, &lifecycle(&uuid, "queued"));
        (conversation, uuid)
    };
    // It reached the model.
    let (mut conversation, uuid) = start();
    feed(&mut *conversation, &lifecycle(&uuid, "started"));
    assert_eq!(shape(&feed(&mut *conversation, &result)), ["ended"]);
    // It did not: work is pending, and then the agent starts a turn.
    let (mut conversation, uuid) = start();
    assert_eq!(
        shape(&feed(&mut *conversation, &result)),
        ["background", "ended"]
    );
    assert_eq!(
        shape(&feed(&mut *conversation, &lifecycle(&uuid, "started"))),
        [""; 0]
    );
    assert_eq!(
        shape(&feed(&mut *conversation, &init(seed))),
        ["started", "background 0"]
    );
    assert_eq!(shape(&feed(&mut *conversation, &result)), ["ended"]);
    // The next prompt waits for that turn, whose end is not the prompt's.
    let (mut conversation, uuid) = start();
    feed(&mut *conversation, &result);
    assert_eq!(send(&mut *conversation, ToAgent::Prompt("next".into())), []);
    feed(&mut *conversation, &lifecycle(&uuid, "started"));
    assert_eq!(
        shape(&feed(&mut *conversation, &init(seed))),
        ["started", "background 0"]
    );
    let mut failed = result.clone();
    failed["is_error"] = true.into();
    let outs = feed(&mut *conversation, &failed);
    assert_eq!(shape(&outs), ["write"]);
    assert!(outs.iter().any(|out| matches!(out,
        FromConversation::Event(EventKind::Notice(it)) if it.code.as_str() == "steer_failed")));
    assert_eq!(shape(&feed(&mut *conversation, &result)), ["ended"]);
    // If that turn is interrupted, there is nothing left to wait for.
    let (mut conversation, _) = start();
    feed(&mut *conversation, &result);
    send(&mut *conversation, ToAgent::Prompt("next".into()));
    feed(&mut *conversation, &init(seed));
    send(&mut *conversation, ToAgent::Interrupt);
    let mut interrupted = failed;
    interrupted["terminal_reason"] = "aborted_streaming".into();
    assert!(shape(&feed(&mut *conversation, &interrupted)).contains(&"ended"));
    // It was dropped: no work is pending, and the prompt is sent.
    let (mut conversation, uuid) = start();
    feed(&mut *conversation, &result);
    send(&mut *conversation, ToAgent::Prompt("next".into()));
    assert_eq!(
        shape(&feed(&mut *conversation, &lifecycle(&uuid, "cancelled"))),
        ["background 0", "write"]
    );
    // An interrupt cancels it.
    let (mut conversation, _) = start();
    assert_eq!(
        writes(&send(&mut *conversation, ToAgent::Interrupt))[0]["request"],
        json!({"subtype": "interrupt", "cancel_queued": true})
    );
    // An agent that does not report progress is not waited for.
    let (mut conversation, _) = started(&Spec::default());
    feed(
        &mut *conversation,
        &json!({"type": "system", "subtype": "init", "uuid": seed}),
    );
    assert_eq!(
        steer(&mut *conversation),
        [json!({"type": "user", "message": {"role": "user", "content": "more"}})]
    );
    assert_eq!(shape(&feed(&mut *conversation, &result)), ["ended"]);
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
    (kind, odd(), subtype, proptest::collection::vec((key, odd()), 0..6)).prop_map(|(kind, id,
        subtype, fields)| {
        let mut request = json!({"subtype": subtype});
        request.as_object_mut().unwrap().extend(fields.into_iter().map(|(key,
            value)| (key.to_owned(), value)));
        json!({"type": kind, "request_id": id, "request": request, "response": {"request_id": id, "subtype": "error"}})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    // P46: whatever arrives, nothing is allowed without an explicit approval.
    #[test]
    fn nothing_is_allowed_without_approval(lines in proptest::collection::vec(control_line(),
        1..20), has_policy in any::<bool>()) {
        let mut spec = if has_policy { with_policy() } else { attended() };
        spec.bound_tools.push(offer("add", "{}"));
        let (mut conversation, _) = started(&spec);
        let yes = |values: &[Value]| {
            let responses = values.iter().map(|value| &value["response"]["response"]);
            let decisions = |it: &Value| [it["behavior"].clone(), it["hookSpecificOutput"]["permissionDecision"].clone()];
            responses.flat_map(decisions).any(|decision| decision == "allow")
        };
        for line in &lines {
            let outs = feed(&mut *conversation, line);
            prop_assert!(!yes(&writes(&outs)), "{}", line);
            for out in outs {
                if let FromConversation::AskPermission(ask) = out {
                    prop_assert!(!yes(&verdict(&mut *conversation, &ask.id,
                        Verdict::Deny("no".into()))));
                }
            }
        }
    }
}
