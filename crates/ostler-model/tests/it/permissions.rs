//! Permissions for tools: requested before the tools run, if there is a policy or the session is
//! attended.

use ostler_core::dialect::FromConversation;
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_core::permission::{Fallback, ToolKind, Verdict};
use ostler_core::spec::{Denials, Spec};
use serde_json::{Value, json};

use super::harness::{API, Harness};

/// A turn in which the model wants to read, to write, to use an unknown tool, and to read with
/// malformed arguments.
fn asked() -> Harness {
    let mut harness = Harness::attended();
    harness.prompt("go");
    harness.calls(&[
        ("1", "read_file", r#"{"path":"a"}"#),
        ("2", "write_file", r#"{"path":"b"}"#),
        ("3", "made_up", "{}"),
        ("4", "read_file", "{"),
    ]);
    harness
}

fn commanded(harness: &Harness) -> Option<Value> {
    harness.commands().last().unwrap().get("tools").cloned()
}

#[test]
fn permission_is_requested_for_all_calls_before_any_runs() {
    let mut harness = asked();
    let asks: Vec<_> = harness.permission_requests().into_iter().cloned().collect();
    assert_eq!(
        asks.iter()
            .map(|a| (&*a.id, a.wants.kind))
            .collect::<Vec<_>>(),
        [("1", ToolKind::Read), ("2", ToolKind::Edit)]
    );
    assert!(
        asks.iter()
            .all(|a| a.fallback == Fallback::Agent && a.call.as_ref() == Some(&a.id))
    );
    assert_eq!(
        (&*asks[1].wants.paths, asks[1].input.as_ref().unwrap().get()),
        (&["b".to_owned()][..], r#"{"path":"b"}"#)
    );
    harness.verdict("2", Verdict::Allow);
    harness.verdict("2", Verdict::Deny("twice".into()));
    harness.verdict("nobody", Verdict::Allow);
    assert_eq!(commanded(&harness), None, "one call is undecided");
    harness.verdict("1", Verdict::Undecided);
    let commands = commanded(&harness).unwrap();
    assert_eq!(
        commands
            .as_array()
            .unwrap()
            .iter()
            .map(|o| &o["id"])
            .collect::<Vec<_>>(),
        ["1", "2", "3"]
    );
    assert!(
        commands
            .as_array()
            .unwrap()
            .iter()
            .all(|o| o.get("refused").is_none()),
        "{commands}"
    );
}

#[test]
fn denied_call_does_not_run_and_the_model_gets_the_reason() {
    for (denials, cause) in [
        (Denials::Fail, Cause::Denied),
        (Denials::Tolerate, Cause::Completed),
    ] {
        let attendance = ostler_core::spec::Attendance::Attended;
        let mut harness = Harness::of(
            API,
            &Spec::default().attendance(attendance).denials(denials),
        );
        harness.prompt("go");
        harness.calls(&[("1", "read_file", "{}"), ("2", "write_file", "{}")]);
        harness.verdict("1", Verdict::Allow);
        harness.verdict("2", Verdict::Deny("not that file".into()));
        assert_eq!(
            commanded(&harness).unwrap()[1]["refused"],
            "denied: not that file"
        );
        harness.result("1", "aa");
        harness.feed(
            &json!({"ostler": {"result": {"id": "2", "ok": false, "denied": true, "output": "denied: not that file"}}}),
        );
        assert_eq!(
            harness.last_request().last().unwrap()["content"],
            "denied: not that file"
        );
        assert!(
            harness
                .events
                .iter()
                .any(|w| matches!(w, EventKind::ToolResult(r) if r.id == "2" && r.denied && !r.ok))
        );
        assert!(
            !harness
                .events
                .iter()
                .any(|w| matches!(w, EventKind::Permission(_))),
            "the session emits its own decisions"
        );
        harness.text("done");
        assert_eq!(harness.cause(), cause);
        let hint = harness.ended()[0].outcome.hint.clone().unwrap_or_default();
        assert_eq!(
            hint.contains("policy.toml"),
            cause == Cause::Denied,
            "{hint}"
        );
    }
}

#[test]
fn sandbox_denials_are_reported() {
    let mut harness = Harness::attended();
    harness.prompt("go");
    harness.calls(&[("1", "write_file", "{}")]);
    harness.verdict("1", Verdict::Allow);
    harness.feed(
        &json!({"ostler": {"result": {"id": "1", "ok": false, "denied": true, "output": "denied_by_policy: x"}}}),
    );
    assert!(
        harness
            .events
            .iter()
            .any(|w| matches!(w, EventKind::Permission(p) if p.id == "1"))
    );
}

#[test]
fn interrupt_withdraws_pending_requests() {
    let mut harness = asked();
    harness.verdict("1", Verdict::Allow);
    harness.interrupt();
    let withdrawn: Vec<_> = harness
        .outs
        .iter()
        .filter(|out| matches!(out, FromConversation::WithdrawPermission(id) if id == "2"))
        .collect();
    assert_eq!(
        (withdrawn.len(), harness.commands().last().unwrap()),
        (1, &json!("cancel"))
    );
    harness.verdict("2", Verdict::Allow);
    harness.feed(&json!({"ostler": "cancelled"}));
    assert_eq!(
        (harness.ended().len(), harness.cause()),
        (1, Cause::Interrupted)
    );
    assert!(
        !harness
            .commands()
            .iter()
            .any(|command| command.get("tools").is_some()),
        "nothing was run"
    );
    harness.prompt("go on");
    assert_eq!(
        harness
            .last_request()
            .iter()
            .filter(|m| m["role"] == "tool")
            .count(),
        4,
        "every call has its result"
    );
}

#[test]
fn no_permission_is_requested_if_unattended_without_policy() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.calls(&[("1", "write_file", "{}")]);
    assert!(harness.permission_requests().is_empty());
    assert_eq!(
        commanded(&harness).unwrap(),
        json!([{"id": "1", "name": "write_file", "input": {}}])
    );
}

/// A turn in which a running tool would change a file that other programs act on.
fn needing_approval() -> Harness {
    let mut harness = Harness::attended();
    harness.prompt("go");
    harness.calls(&[("1", "write_file", r#"{"path":"link"}"#)]);
    harness.verdict("1", Verdict::Allow);
    harness.feed(&json!({"ostler": {"needs_approval": {"id": "1", "paths": ["AGENTS.md"], "output": "how to allow it"}}}));
    harness
}

#[test]
fn approval_names_the_real_file_whatever_the_policy_allows() {
    let mut harness = needing_approval();
    let ask = harness
        .permission_requests()
        .last()
        .copied()
        .cloned()
        .unwrap();
    assert_eq!(
        (ask.fallback, &ask.wants.paths[..]),
        (Fallback::PersonAlways, &["AGENTS.md".to_owned()][..])
    );
    assert_eq!(
        (ask.call.as_deref(), ask.wants.kind),
        (Some("1"), ToolKind::Edit)
    );
    harness.verdict(&ask.id, Verdict::Allow);
    let command = harness.commands().last().unwrap()["approved"].clone();
    assert_eq!(
        (&command["id"], &command["approved"]),
        (&json!("1"), &json!(["AGENTS.md"])),
        "{command}"
    );
    assert!(command.get("refused").is_none(), "{command}");
    harness.result("1", "done");
    assert_eq!(harness.last_request().last().unwrap()["content"], "done");
}

#[test]
fn unapproved_file_change_is_refused_with_a_hint() {
    for (verdict, refusal) in [
        (
            Verdict::Deny(ostler_core::permission::UNATTENDED_DENIAL.to_owned()),
            "how to allow it",
        ),
        (Verdict::Undecided, "how to allow it"),
        (Verdict::Deny("no".into()), "denied: no"),
    ] {
        let mut harness = needing_approval();
        let id = harness.permission_requests().last().unwrap().id.clone();
        harness.verdict(&id, verdict);
        let command = harness.commands().last().unwrap()["approved"].clone();
        assert_eq!(command["refused"], refusal, "{command}");
        assert!(command.get("approved").is_none(), "{command}");
    }
}
