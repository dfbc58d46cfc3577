//! Whether tools may run: asked before they are ordered, when there are rules or somebody to ask.

use ostler_core::dialect::{Dialect, FromConversation};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::permission::{Otherwise, ToolKind, Verdict};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::{Denials, Spec};
use ostler_dialects::openai::OpenAi;
use ostler_dialects::scripted::Scripted;
use serde_json::{Value, json};

use super::stage::Stage;

/// A turn in which the model wants to read, to write, to use what does not exist, and to read what nobody understands.
fn asked() -> Stage {
    let mut stage = Stage::asking();
    stage.say("go");
    stage.calls(&[
        ("1", "read_file", r#"{"path":"a"}"#),
        ("2", "write_file", r#"{"path":"b"}"#),
        ("3", "made_up", "{}"),
        ("4", "read_file", "{"),
    ]);
    stage
}

fn ordered(stage: &Stage) -> Option<Value> {
    stage.orders().last().unwrap().get("tools").cloned()
}

#[test]
fn every_call_that_could_run_is_asked_for_and_runs_when_all_are_decided() {
    let mut stage = asked();
    let asks: Vec<_> = stage.asks().into_iter().cloned().collect();
    assert_eq!(
        asks.iter()
            .map(|a| (&*a.id, a.wants.kind))
            .collect::<Vec<_>>(),
        [("1", ToolKind::Read), ("2", ToolKind::Edit)]
    );
    assert!(
        asks.iter()
            .all(|a| a.otherwise == Otherwise::Agent && a.call.as_ref() == Some(&a.id))
    );
    assert_eq!(
        (&*asks[1].wants.paths, asks[1].input.as_ref().unwrap().get()),
        (&["b".to_owned()][..], r#"{"path":"b"}"#)
    );
    stage.verdict("2", Verdict::Allow);
    stage.verdict("2", Verdict::Deny("twice".into()));
    stage.verdict("nobody", Verdict::Allow);
    assert_eq!(ordered(&stage), None, "one is not decided");
    stage.verdict("1", Verdict::Undecided);
    let orders = ordered(&stage).unwrap();
    assert_eq!(
        orders
            .as_array()
            .unwrap()
            .iter()
            .map(|o| &o["id"])
            .collect::<Vec<_>>(),
        ["1", "2", "3"]
    );
    assert!(
        orders
            .as_array()
            .unwrap()
            .iter()
            .all(|o| o.get("refused").is_none()),
        "{orders}"
    );
}

#[test]
fn a_denied_call_does_not_run_and_the_model_is_told_why() {
    for (denials, cause) in [
        (Denials::Fail, Cause::Denied),
        (Denials::Tolerate, Cause::Completed),
    ] {
        let attendance = ostler_core::spec::Attendance::Attended;
        let mut stage = Stage::of(
            &OpenAi,
            &Spec {
                attendance,
                denials,
                ..Spec::default()
            },
        );
        stage.say("go");
        stage.calls(&[("1", "read_file", "{}"), ("2", "write_file", "{}")]);
        stage.verdict("1", Verdict::Allow);
        stage.verdict("2", Verdict::Deny("not that file".into()));
        assert_eq!(
            ordered(&stage).unwrap()[1]["refused"],
            "denied: not that file"
        );
        stage.result("1", "aa");
        stage.hear(
            &json!({"ostler": {"result": {"id": "2", "ok": false, "denied": true, "output": "denied: not that file"}}}),
        );
        assert_eq!(
            stage.asked().last().unwrap()["content"],
            "denied: not that file"
        );
        assert!(
            stage
                .events
                .iter()
                .any(|w| matches!(w, EventKind::ToolResult(r) if r.id == "2" && r.denied && !r.ok))
        );
        assert!(
            !stage
                .events
                .iter()
                .any(|w| matches!(w, EventKind::Permission(_))),
            "the session tells its decisions itself"
        );
        stage.text("done");
        assert_eq!(stage.cause(), cause);
        let hint = stage.ended()[0].outcome.hint.clone().unwrap_or_default();
        assert_eq!(
            hint.contains("policy.toml"),
            cause == Cause::Denied,
            "{hint}"
        );
    }
}

#[test]
fn what_the_sandbox_denies_is_told_as_ever() {
    let mut stage = Stage::asking();
    stage.say("go");
    stage.calls(&[("1", "write_file", "{}")]);
    stage.verdict("1", Verdict::Allow);
    stage.hear(
        &json!({"ostler": {"result": {"id": "1", "ok": false, "denied": true, "output": "denied_by_policy: x"}}}),
    );
    assert!(
        stage
            .events
            .iter()
            .any(|w| matches!(w, EventKind::Permission(p) if p.id == "1"))
    );
}

#[test]
fn an_interrupt_withdraws_what_is_open() {
    let mut stage = asked();
    stage.verdict("1", Verdict::Allow);
    stage.interrupt();
    let withdrawn: Vec<_> = stage
        .outs
        .iter()
        .filter(|out| matches!(out, FromConversation::Withdraw(id) if id == "2"))
        .collect();
    assert_eq!(
        (withdrawn.len(), stage.orders().last().unwrap()),
        (1, &json!("cancel"))
    );
    stage.verdict("2", Verdict::Allow);
    stage.hear(&json!({"ostler": "cancelled"}));
    assert_eq!(
        (stage.ended().len(), stage.cause()),
        (1, Cause::Interrupted)
    );
    assert!(
        !stage
            .orders()
            .iter()
            .any(|order| order.get("tools").is_some()),
        "nothing was run"
    );
    stage.say("go on");
    assert_eq!(
        stage.asked().iter().filter(|m| m["role"] == "tool").count(),
        4,
        "every call has its result"
    );
}

#[test]
fn nobody_is_asked_without_rules_and_without_anybody() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.calls(&[("1", "write_file", "{}")]);
    assert!(stage.asks().is_empty());
    assert_eq!(
        ordered(&stage).unwrap(),
        json!([{"id": "1", "name": "write_file", "input": {}}])
    );
}

#[test]
fn the_dialects_know_what_their_tools_do() {
    let input = RawJson::parse(r#"{"from":"a","to":"b"}"#).unwrap();
    for dialect in [&OpenAi as &dyn Dialect, &Scripted] {
        let wants = dialect.tool_use("move_file", &input);
        assert_eq!(
            (wants.kind, wants.paths),
            (ToolKind::Edit, vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(dialect.tool_use("weather", &input).kind, ToolKind::Other);
        assert!(dialect.capabilities().ask);
    }
}

/// A turn in which a tool that runs would change a file that other programs act on.
fn needing_approval() -> Stage {
    let mut stage = Stage::asking();
    stage.say("go");
    stage.calls(&[("1", "write_file", r#"{"path":"link"}"#)]);
    stage.verdict("1", Verdict::Allow);
    stage.hear(&json!({"ostler": {"needs_approval": {"id": "1", "paths": ["AGENTS.md"], "output": "told how"}}}));
    stage
}

#[test]
fn a_file_that_needs_approval_is_asked_for_by_its_real_name_whatever_the_rules_allow() {
    let mut stage = needing_approval();
    let ask = stage.asks().last().copied().cloned().unwrap();
    assert_eq!(
        (ask.otherwise, &ask.wants.paths[..]),
        (Otherwise::PersonAlways, &["AGENTS.md".to_owned()][..])
    );
    assert_eq!(
        (ask.call.as_deref(), ask.wants.kind),
        (Some("1"), ToolKind::Edit)
    );
    stage.verdict(&ask.id, Verdict::Allow);
    let order = stage.orders().last().unwrap()["approved"].clone();
    assert_eq!(
        (&order["id"], &order["approved"]),
        (&json!("1"), &json!(["AGENTS.md"])),
        "{order}"
    );
    assert!(order.get("refused").is_none(), "{order}");
    stage.result("1", "done");
    assert_eq!(stage.asked().last().unwrap()["content"], "done");
}

#[test]
fn a_file_that_nobody_approves_is_refused_with_the_way_to_allow_it() {
    for (verdict, told) in [
        (
            Verdict::Deny(ostler_core::permission::NOBODY.to_owned()),
            "told how",
        ),
        (Verdict::Undecided, "told how"),
        (Verdict::Deny("no".into()), "denied: no"),
    ] {
        let mut stage = needing_approval();
        let id = stage.asks().last().unwrap().id.clone();
        stage.verdict(&id, verdict);
        let order = stage.orders().last().unwrap()["approved"].clone();
        assert_eq!(order["refused"], told, "{order}");
        assert!(order.get("approved").is_none(), "{order}");
    }
}
