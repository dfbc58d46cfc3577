//! Where somebody decides, no session runs in a mode in which the agent does not ask.

use ostler_core::dialect::{Dialect, ToAgent};
use ostler_core::outcome::Cause;
use ostler_core::permission::Policy;
use ostler_core::spec::{Attendance, Spec, keys};
use ostler_dialects::acp::{self, COPILOT, GEMINI, GOOSE, QWEN};
use serde_json::{Value, json};

use super::stage::{Stage, hello};

/// Who decides.
const NOBODY: (bool, Attendance) = (false, Attendance::Unattended);
const PERSON: (bool, Attendance) = (false, Attendance::Attended);
const RULES: (bool, Attendance) = (true, Attendance::Unattended);

fn spec((policy, attendance): (bool, Attendance)) -> Spec {
    Spec {
        policy: policy.then(Policy::default),
        attendance,
        ..Spec::default()
    }
}

fn modes(now: &str) -> Value {
    let all: Vec<Value> = ["auto", "approve", "default", "yolo", "plan"]
        .map(|id| json!({"id": id, "name": id}))
        .into();
    json!({"sessionId": "s", "modes": {"availableModes": all, "currentModeId": now}})
}

/// A session that is opened with this answer, and a message that waits for it: the requests after that, in short.
fn opened(dialect: &dyn Dialect, spec: &Spec, answer: &Value) -> (Stage, Vec<String>) {
    let mut stage = Stage::begun(dialect, spec);
    stage.say(ToAgent::Prompt("hello".into()));
    stage.answer(1, &hello(&json!({"loadSession": true})));
    stage.outs.clear();
    stage.answer(2, answer);
    let said = stage.writes().iter().map(short).collect();
    (stage, said)
}

fn short(message: &Value) -> String {
    let (method, params) = (
        message["method"].as_str().unwrap_or_default(),
        &message["params"],
    );
    let chosen = params["modeId"].as_str().or(params["value"].as_str());
    chosen.map_or_else(|| method.to_owned(), |chosen| format!("{method} {chosen}"))
}

fn mine() -> &'static dyn Dialect {
    acp::custom("mine", vec!["mine".to_owned()]).unwrap()
}

#[test]
fn the_mode_is_set_before_the_first_message() {
    let set = |mode: &str| vec![format!("session/set_mode {mode}")];
    let prompt = || vec!["session/prompt".to_owned()];
    for (dialect, who, now, said) in [
        (&GOOSE, RULES, "auto", set("approve")),
        (&GOOSE, PERSON, "auto", set("approve")),
        (&GOOSE, RULES, "smart_approve", set("approve")),
        (&GOOSE, NOBODY, "auto", prompt()),
        (&GOOSE, RULES, "approve", prompt()),
        (&QWEN, RULES, "auto", set("default")),
        (&QWEN, PERSON, "yolo", set("default")),
        (&GEMINI, RULES, "autoEdit", set("default")),
        // One that does less than is asked about is left alone.
        (&QWEN, RULES, "plan", prompt()),
    ] {
        let (mut stage, first) = opened(dialect, &spec(who), &modes(now));
        assert_eq!(first, said, "{} {who:?} {now}", dialect.name());
        assert_eq!(
            stage.notices("mode_changed").len(),
            usize::from(said != prompt()),
            "{now}"
        );
        if said != prompt() {
            stage.answer(3, &json!({}));
            assert_eq!(
                stage.writes().last().map(short),
                Some("session/prompt".to_owned())
            );
        }
    }
    // An agent that has its modes among its options, and one that says nothing of modes.
    let options = json!({"sessionId": "s", "configOptions": [{"id": "m", "category": "mode", "currentValue": "x#autopilot",
        "options": [{"value": "x#agent", "name": "Agent"}, {"value": "x#autopilot", "name": "Autopilot"}]}]});
    assert_eq!(
        opened(&COPILOT, &spec(RULES), &options).1,
        ["session/set_config_option x#agent"]
    );
    assert_eq!(
        opened(&GOOSE, &spec(RULES), &json!({"sessionId": "s"})).1,
        ["session/set_mode approve"]
    );
    assert_eq!(
        opened(mine(), &spec(RULES), &json!({"sessionId": "s"})).1,
        ["session/prompt"]
    );
}

#[test]
fn a_session_that_is_gone_on_with_is_no_exception() {
    let mut spec = spec(RULES);
    spec.settings.set(keys::RESUME, "s");
    assert_eq!(
        opened(&GOOSE, &spec, &modes("auto")).1,
        ["session/set_mode approve"]
    );
    // The round trip that waits for the history changes nothing back.
    let (mut stage, first) = opened(&GEMINI, &spec, &modes("yolo"));
    assert_eq!(first, ["session/set_mode default"]);
    stage.answer(3, &json!({}));
    stage.answer(4, &json!({}));
    let all: Vec<String> = stage.writes().iter().map(short).collect();
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
fn a_mode_that_cannot_be_set_is_an_error() {
    let (mut stage, _) = opened(&GOOSE, &spec(RULES), &modes("auto"));
    stage.fail(3, -32602, "no such mode");
    assert_eq!(stage.cause(), Some(Cause::BadRequest));
    assert_eq!(stage.writes().len(), 1, "{:?}", stage.writes());
    let one = json!({"sessionId": "s", "modes": {"availableModes": [{"id": "auto"}], "currentModeId": "auto"}});
    let (stage, said) = opened(&GOOSE, &spec(PERSON), &one);
    let outcome = &stage.over().unwrap().outcome;
    assert_eq!((outcome.cause, said.len()), (Cause::BadRequest, 0));
    assert!(outcome.message.contains("approve"), "{outcome:?}");
}

#[test]
fn the_caller_s_own_mode_is_the_caller_s() {
    let with = |who, mode: &str| {
        let mut spec = spec(who);
        spec.settings.set(keys::PERMISSION_MODE, mode);
        spec
    };
    assert_eq!(
        opened(&GOOSE, &with(PERSON, "auto"), &modes("approve")).1,
        ["session/set_mode auto"]
    );
    assert_eq!(
        opened(&GOOSE, &with(RULES, "plan"), &modes("auto")).1,
        ["session/set_mode plan"]
    );
    // Words for what is chosen at the start say nothing about the mode of the session.
    assert_eq!(
        opened(&COPILOT, &with(RULES, "default"), &modes("auto"))
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
fn of_an_agent_that_is_not_known_the_modes_are_listed() {
    let (stage, said) = opened(mine(), &spec(RULES), &modes("yolo"));
    let outcome = &stage.over().unwrap().outcome;
    assert_eq!((outcome.cause, said.len()), (Cause::BadRequest, 0));
    let hint = outcome.hint.as_deref().unwrap();
    assert!(
        outcome.message.contains("\"yolo\"") && hint.contains("permission_mode"),
        "{outcome:?}"
    );
    assert!(hint.ends_with("approve, default, plan."), "{hint}");
    let (stage, said) = opened(mine(), &spec(PERSON), &modes("yolo"));
    assert_eq!(
        (stage.notices("does_not_ask").len(), said),
        (1, vec!["session/prompt".to_owned()])
    );
    let (stage, said) = opened(mine(), &spec(NOBODY), &modes("yolo"));
    assert_eq!(
        (stage.notices("does_not_ask").len(), said),
        (0, vec!["session/prompt".to_owned()])
    );
}

#[test]
fn an_agent_that_goes_into_such_a_mode_by_itself_is_told() {
    for (who, told) in [(RULES, 1), (PERSON, 1), (NOBODY, 0)] {
        let (mut stage, _) = opened(&GOOSE, &spec(who), &modes("approve"));
        stage.update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": "approve"}));
        stage.update(&json!({"sessionUpdate": "current_mode_update", "currentModeId": "auto"}));
        assert_eq!(stage.notices("does_not_ask").len(), told, "{who:?}");
        // The same as an option of the session.
        let (mut stage, _) = opened(&GOOSE, &spec(who), &modes("approve"));
        let auto = json!([{"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "auto",
            "options": [{"value": "auto", "name": "Auto"}, {"value": "approve", "name": "Approve"}]}]);
        stage.update(&json!({"sessionUpdate": "config_option_update", "configOptions": auto}));
        stage.update(&json!({"sessionUpdate": "config_option_update", "configOptions": auto}));
        assert_eq!(stage.notices("does_not_ask").len(), told, "{who:?}");
    }
}
