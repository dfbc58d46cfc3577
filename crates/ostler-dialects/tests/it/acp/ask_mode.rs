//! In an attended session the agent never runs in a mode in which it does not ask.

use ostler_core::dialect::{Dialect, ToAgent};
use ostler_core::outcome::Cause;
use ostler_core::permission::Policy;
use ostler_core::spec::{Attendance, Spec};
use ostler_dialects::acp::{self, COPILOT, GEMINI, GOOSE, QWEN};
use serde_json::{Value, json};

use super::harness::{Harness, hello};

/// Who approves.
const UNATTENDED: (bool, Attendance) = (false, Attendance::Unattended);
const PERSON: (bool, Attendance) = (false, Attendance::Attended);
const POLICY: (bool, Attendance) = (true, Attendance::Unattended);

fn spec((policy, attendance): (bool, Attendance)) -> Spec {
    {
        let mut spec = Spec::default().attendance(attendance);
        spec.policy = policy.then(Policy::default);
        spec
    }
}

fn modes(now: &str) -> Value {
    let all: Vec<Value> = ["auto", "approve", "default", "yolo", "plan"]
        .map(|id| json!({"id": id, "name": id}))
        .into();
    json!({"sessionId": "s", "modes": {"availableModes": all, "currentModeId": now}})
}

/// Opens a session with this response while a prompt waits for it. Returns a summary of the
/// requests that follow.
fn opened(dialect: &dyn Dialect, spec: &Spec, answer: &Value) -> (Harness, Vec<String>) {
    let mut harness = Harness::started(dialect, spec);
    harness.send(ToAgent::Prompt("hello".into()));
    harness.answer(1, &hello(&json!({"loadSession": true})));
    harness.outs.clear();
    harness.answer(2, answer);
    let requests = harness.writes().iter().map(short).collect();
    (harness, requests)
}

fn short(message: &Value) -> String {
    let (method, params) = (
        message["method"].as_str().unwrap_or_default(),
        &message["params"],
    );
    let chosen = params["modeId"].as_str().or(params["value"].as_str());
    chosen.map_or_else(|| method.to_owned(), |chosen| format!("{method} {chosen}"))
}

fn custom() -> &'static dyn Dialect {
    acp::custom("mine", vec!["mine".to_owned()]).unwrap()
}

#[test]
fn ask_mode_is_set_before_the_first_prompt() {
    let set = |mode: &str| vec![format!("session/set_mode {mode}")];
    let prompt = || vec!["session/prompt".to_owned()];
    for (dialect, who, now, requests) in [
        (&GOOSE, POLICY, "auto", set("approve")),
        (&GOOSE, PERSON, "auto", set("approve")),
        (&GOOSE, POLICY, "smart_approve", set("approve")),
        (&GOOSE, UNATTENDED, "auto", prompt()),
        (&GOOSE, POLICY, "approve", prompt()),
        (&QWEN, POLICY, "auto", set("default")),
        (&QWEN, PERSON, "yolo", set("default")),
        (&GEMINI, POLICY, "autoEdit", set("default")),
        // A mode that is stricter than asking is left alone.
        (&QWEN, POLICY, "plan", prompt()),
    ] {
        let (mut harness, first) = opened(dialect, &spec(who), &modes(now));
        assert_eq!(first, requests, "{} {who:?} {now}", dialect.about().name);
        assert_eq!(
            harness.notices("mode_changed").len(),
            usize::from(requests != prompt()),
            "{now}"
        );
        if requests != prompt() {
            harness.answer(3, &json!({}));
            assert_eq!(
                harness.writes().last().map(short),
                Some("session/prompt".to_owned())
            );
        }
    }
    // An agent that has its modes among its options, and one that announces no modes.
    let options = json!({"sessionId": "s", "configOptions": [{"id": "m", "category": "mode", "currentValue": "x#autopilot",
        "options": [{"value": "x#agent", "name": "Agent"}, {"value": "x#autopilot", "name": "Autopilot"}]}]});
    assert_eq!(
        opened(&COPILOT, &spec(POLICY), &options).1,
        ["session/set_config_option x#agent"]
    );
    assert_eq!(
        opened(&GOOSE, &spec(POLICY), &json!({"sessionId": "s"})).1,
        ["session/set_mode approve"]
    );
    assert_eq!(
        opened(custom(), &spec(POLICY), &json!({"sessionId": "s"})).1,
        ["session/prompt"]
    );
}

#[test]
fn ask_mode_is_also_set_in_resumed_sessions() {
    let mut spec = spec(POLICY);
    spec.resume = Some("s".into());
    assert_eq!(
        opened(&GOOSE, &spec, &modes("auto")).1,
        ["session/set_mode approve"]
    );
    // The round trip that waits for the history does not revert the mode.
    let (mut harness, first) = opened(&GEMINI, &spec, &modes("yolo"));
    assert_eq!(first, ["session/set_mode default"]);
    harness.answer(3, &json!({}));
    harness.answer(4, &json!({}));
    let all: Vec<String> = harness.writes().iter().map(short).collect();
    assert_eq!(
        all,
        [
            "session/set_mode default",
            "session/set_mode default",
            "session/prompt"
        ]
    );
}

#[test]
fn unavailable_ask_mode_is_an_error() {
    let (mut harness, _) = opened(&GOOSE, &spec(POLICY), &modes("auto"));
    harness.fail(3, -32602, "no such mode");
    assert_eq!(harness.cause(), Some(Cause::BadRequest));
    assert_eq!(harness.writes().len(), 1, "{:?}", harness.writes());
    let one = json!({"sessionId": "s", "modes": {"availableModes": [{"id": "auto"}], "currentModeId": "auto"}});
    let (harness, requests) = opened(&GOOSE, &spec(PERSON), &one);
    let outcome = &harness.turn_result().unwrap().outcome;
    assert_eq!((outcome.cause, requests.len()), (Cause::BadRequest, 0));
    assert!(outcome.message.contains("approve"), "{outcome:?}");
}

#[test]
fn mode_chosen_by_the_caller_is_respected() {
    let with = |who, mode: &str| {
        let mut spec = spec(who);
        spec.permission_mode = Some(mode.into());
        spec
    };
    assert_eq!(
        opened(&GOOSE, &with(PERSON, "auto"), &modes("approve")).1,
        ["session/set_mode auto"]
    );
    assert_eq!(
        opened(&GOOSE, &with(POLICY, "plan"), &modes("auto")).1,
        ["session/set_mode plan"]
    );
    // Names of launch modes say nothing about the session mode.
    assert_eq!(
        opened(&COPILOT, &with(POLICY, "default"), &modes("auto"))
            .1
            .len(),
        0
    );
    assert_eq!(
        opened(&COPILOT, &with(PERSON, "allow-all"), &modes("auto")).1,
        ["session/prompt"]
    );
}

#[test]
fn modes_of_an_unknown_agent_are_listed() {
    let (harness, requests) = opened(custom(), &spec(POLICY), &modes("yolo"));
    let outcome = &harness.turn_result().unwrap().outcome;
    assert_eq!((outcome.cause, requests.len()), (Cause::BadRequest, 0));
    let hint = outcome.hint.as_deref().unwrap();
    assert!(
        outcome.message.contains("\"yolo\"") && hint.contains("permission_mode"),
        "{outcome:?}"
    );
    assert!(hint.ends_with("approve, default, plan."), "{hint}");
    let (harness, requests) = opened(custom(), &spec(PERSON), &modes("yolo"));
    assert_eq!(
        (harness.notices("does_not_ask").len(), requests),
        (1, vec!["session/prompt".to_owned()])
    );
    let (harness, requests) = opened(custom(), &spec(UNATTENDED), &modes("yolo"));
    assert_eq!(
        (harness.notices("does_not_ask").len(), requests),
        (0, vec!["session/prompt".to_owned()])
    );
}

#[test]
fn switching_to_an_unattended_mode_is_reported() {
    for (who, notices) in [(POLICY, 1), (PERSON, 1), (UNATTENDED, 0)] {
        let (mut harness, _) = opened(&GOOSE, &spec(who), &modes("approve"));
        harness
            .update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": "approve"}));
        harness.update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": "auto"}));
        assert_eq!(harness.notices("does_not_ask").len(), notices, "{who:?}");
        // The same as a configuration option.
        let (mut harness, _) = opened(&GOOSE, &spec(who), &modes("approve"));
        let auto = json!([{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "auto",
            "options": [{"value": "auto", "name": "Auto"}, {"value": "approve", "name": "Approve"}]}]);
        harness.update(&json!({"sessionUpdate": "config_option_update", "configOptions": auto}));
        harness.update(&json!({"sessionUpdate": "config_option_update", "configOptions": auto}));
        assert_eq!(harness.notices("does_not_ask").len(), notices, "{who:?}");
    }
}
