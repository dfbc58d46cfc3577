//! Permission requests: answered by a person, decided by rules, and denied when unattended.

use ostler::Cause;
use ostler::event::{DecidedBy, Decision, EventKind, Permission};
use ostler::permission::{PermissionAnswer, Policy, Trust};
use ostler::spec::{Attendance, Denials};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{Subject, Task};

use super::Scene;
use crate::conformance::assert_story;
use crate::rig::{Seen, until};

fn scene(subject: &'static Subject, rules: &str, answer: Answer) -> Scene {
    let script = Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(Rule::any().answer(answer));
    let mut scene = Scene::new(subject, script, &Task::new("PROMPT"));
    scene.spec.policy = Some(Policy::parse(rules, "test", Trust::Full).unwrap());
    scene.spec.denials = Denials::Tolerate;
    scene
}

/// The model calls all of these in one message.
fn all<const N: usize>(calls: [(&'static str, serde_json::Value); N]) -> Answer {
    calls
        .into_iter()
        .fold(Answer::default(), |answer, (tool, input)| {
            answer.and_tool(tool, input)
        })
}

fn write(scene: &Scene, names: &[&str]) {
    for name in names {
        std::fs::write(scene.place.work().join(name), "a line\n").unwrap();
    }
}

fn permissions(seen: &Seen) -> Vec<&Permission> {
    seen.kinds()
        .filter_map(|kind| {
            if let EventKind::Permission(it) = kind {
                Some(it)
            } else {
                None
            }
        })
        .collect()
}

/// Returns whether each tool call succeeded.
fn results(seen: &Seen) -> Vec<bool> {
    seen.kinds()
        .filter_map(|kind| {
            if let EventKind::ToolResult(it) = kind {
                Some(it.ok)
            } else {
                None
            }
        })
        .collect()
}

/// Returns the request's id if the event is a permission request that needs an answer.
fn question(kind: &EventKind) -> Option<String> {
    match kind {
        EventKind::Permission(it) if it.decision == Decision::Asked => Some(it.id.clone()),
        _ => None,
    }
}

/// Two requests are open at once, and another client answers them, the second first. P44
pub(crate) async fn two_at_once(subject: &'static Subject) {
    let calls = ["one.txt", "two.txt"].map(|path| subject.tools.read(path));
    let mut scene = scene(
        subject,
        "[[rule]]\nkind = \"read\"\ndo = \"ask\"\n",
        all(calls),
    );
    write(&scene, &["one.txt", "two.txt"]);
    scene.spec.attendance = Attendance::Attended;
    let mut live = scene.start();
    let asked = [live.find(question).await, live.find(question).await];
    until("both are open", || live.status().pending.len() == 2).await;
    let other = live.remote();
    for id in asked.iter().rev() {
        assert_eq!(other.answer(id, PermissionAnswer::Allow).await, Ok(()));
    }
    let turn = live.turn().await;
    assert_eq!(
        (turn.outcome.cause, turn.text.as_str()),
        (Cause::Completed, "Done.")
    );
    assert!(live.status().pending.is_empty());
    let seen = live.end(&scene).await;
    let decided: Vec<_> = permissions(&seen)
        .iter()
        .skip(2)
        .map(|it| (it.id.clone(), it.decision, it.by))
        .collect();
    let allowed = |id: &String| (id.clone(), Decision::Allowed, DecidedBy::Person);
    assert_eq!(decided, [allowed(&asked[1]), allowed(&asked[0])]);
    assert_eq!(results(&seen), [true, true]);
}

/// A tool needs approval, is allowed, and runs.
pub(crate) async fn asked_and_allowed(subject: &'static Subject) {
    let rules = "[[rule]]\nkind = \"execute\"\ndo = \"ask\"\n";
    let mut scene = scene(subject, rules, subject.shell_with_permission("touch made"));
    scene.spec.attendance = Attendance::Attended;
    let settings = subject.settings.after_approval.iter();
    let settings = settings.map(|(key, value)| (&**key, value)).collect();
    scene.spec.apply(&settings).unwrap();
    let mut live = scene.start();
    let id = live.find(question).await;
    assert!(
        !scene.place.work().join("made").exists(),
        "it ran before it was allowed"
    );
    assert_eq!(live.answer(&id, PermissionAnswer::Allow).await, Ok(()));
    let turn = live.turn().await;
    assert_eq!(
        (turn.outcome.cause, turn.text.as_str()),
        (Cause::Completed, "Done.")
    );
    let seen = live.end(&scene).await;
    assert_story(subject, "permission_asked", &seen);
    let decided: Vec<_> = permissions(&seen)
        .iter()
        .map(|it| (it.decision, it.by))
        .collect();
    assert_eq!(
        decided,
        [
            (Decision::Asked, DecidedBy::Default),
            (Decision::Allowed, DecidedBy::Person)
        ]
    );
    assert!(
        scene.place.skips_live_checks() || scene.place.work().join("made").exists(),
        "it was allowed"
    );
}

/// Claude Code asks about the commands of one message one after the other, each after the previous
/// one was answered.
pub(crate) async fn commands_are_asked_about_one_by_one(subject: &'static Subject) {
    let both = subject
        .shell("touch one")
        .and_tool(subject.command(), subject.shell_arguments("touch two"));
    let mut scene = scene(
        subject,
        "[[rule]]\nkind = \"execute\"\ndo = \"ask\"\n",
        both,
    );
    scene.spec.attendance = Attendance::Attended;
    let mut live = scene.start();
    for made in [["one", "two"], ["two", "none"]] {
        let id = live.find(question).await;
        assert_eq!(live.status().pending.len(), 1);
        assert!(
            made.iter()
                .all(|name| !scene.place.work().join(name).exists()),
            "{made:?}"
        );
        assert_eq!(live.answer(&id, PermissionAnswer::Allow).await, Ok(()));
    }
    live.turn().await;
    let seen = live.end(&scene).await;
    let story: Vec<Decision> = permissions(&seen).iter().map(|it| it.decision).collect();
    assert_eq!(
        story,
        [
            Decision::Asked,
            Decision::Allowed,
            Decision::Asked,
            Decision::Allowed
        ]
    );
    assert_eq!(results(&seen), [true, true]);
}

/// The model reads the message given with a denial, and the turn continues.
pub(crate) async fn denied_with_a_message(subject: &'static Subject) {
    let rules = "[[rule]]\nkind = \"execute\"\ndo = \"ask\"\n";
    let mut scene = scene(subject, rules, subject.shell("touch made"));
    scene.spec.attendance = Attendance::Attended;
    let mut live = scene.start();
    let id = live.find(question).await;
    assert_eq!(
        live.answer(&id, PermissionAnswer::Deny("not on a Monday".into()))
            .await,
        Ok(())
    );
    let turn = live.turn().await;
    assert_eq!(
        (turn.outcome.cause, turn.text.as_str()),
        (Cause::Completed, "Done.")
    );
    let received = scene.call(1).last_tool_results();
    assert!(
        received.len() == 1 && received[0].text.contains("not on a Monday"),
        "{received:?}"
    );
    let seen = live.end(&scene).await;
    let decided: Vec<_> = permissions(&seen)
        .iter()
        .map(|it| (it.decision, it.by))
        .collect();
    assert_eq!(
        decided,
        [
            (Decision::Asked, DecidedBy::Default),
            (Decision::Denied, DecidedBy::Person)
        ]
    );
    assert!(!scene.place.work().join("made").exists());
}

/// Rules decide before anything runs, even about calls the agent's own layer would allow silently.
/// Where they ask and the session is unattended, the call is denied. Every decision is an event.
/// P48, P50
pub(crate) async fn rules_decide(subject: &'static Subject) {
    let rules = r#"
        [[rule]]
        path = "private.txt"
        do = "deny"
        message = "that one is private"
        [[rule]]
        kind = ["read", "execute"]
        do = "allow"
        [[rule]]
        kind = "edit"
        do = "ask"
    "#;
    let calls = [
        subject.tools.read("open.txt"),
        subject.tools.read("private.txt"),
        (subject.command(), subject.shell_arguments("touch made")),
        subject.tools.write("written.txt"),
    ];
    let scene = scene(subject, rules, all(calls));
    write(&scene, &["open.txt", "private.txt"]);
    let mut live = scene.start();
    assert_eq!(live.turn().await.outcome.cause, Cause::Completed);
    let seen = live.end(&scene).await;
    let mut decided: Vec<_> = permissions(&seen)
        .iter()
        .map(|it| (it.decision == Decision::Allowed, it.by))
        .collect();
    decided.sort_by_key(|(allowed, by)| (*by == DecidedBy::Default, !*allowed));
    use DecidedBy::{Default, Rule};
    assert_eq!(
        decided,
        [(true, Rule), (true, Rule), (false, Rule), (false, Default)]
    );
    // The results arrive in any order, each with the id of its call.
    let results = scene.call(1).last_tool_results();
    let calls = seen.kinds().filter_map(|kind| {
        if let EventKind::ToolCall(it) = kind {
            Some(&it.id)
        } else {
            None
        }
    });
    let of = |id: &String| {
        results
            .iter()
            .find(|result| result.tool_use_id == *id)
            .map(|result| result.text.as_str())
    };
    let received: Vec<&str> = calls.filter_map(of).collect();
    assert!(
        received[0].contains("a line") && received[1].contains("that one is private"),
        "{received:?}"
    );
    assert!(received[3].contains("unattended"), "{received:?}");
    assert_eq!(
        ["made", "written.txt"].map(|name| scene.place.work().join(name).exists()),
        [true, false]
    );
    assert_eq!(seen.notices("policy_bypass").len(), 0);
}
