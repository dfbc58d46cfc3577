//! Interrupts and stops: in mid-text, in a command or bound tool, with a request open, and before
//! the agent has printed anything. The turn after an interrupt is unaffected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler::Cause;
use ostler::event::{EventKind, SessionState};
use ostler::permission::{PermissionAnswer, Policy, Trust};
use ostler::session::{Interruption, WhenBusy};
use ostler::spec::Attendance;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::processes::wait_until;
use ostler_testkit::scenario::{Subject, Task};

use super::{Live, Scene, is_text};
use crate::conformance::assert_story;
use crate::rig::{LONG, Seen, until};

/// A model that answers the first message this way, and the second with a word. The interrupted
/// message and the next may reach the model as one, so the second is matched first.
fn first(answer: Answer) -> Script {
    Script::new()
        .rule(Rule::on_text("second").text("Two."))
        .rule(Rule::on_text("first").answer(answer))
}

/// Checks that the interrupted turn ended as such, and that the next one is separate. P36
async fn goes_on(mut live: Live, scene: &Scene) -> Seen {
    let cut = live.turn().await;
    assert_eq!(cut.outcome.cause, Cause::Interrupted, "{:?}", cut.outcome);
    let next = live.ask("the second").await;
    assert_eq!(
        (next.outcome.cause, next.text.as_str()),
        (Cause::Completed, "Two.")
    );
    assert_eq!(live.interrupt().await, Interruption::NoTurn);
    let seen = live.end(scene).await;
    assert_eq!(seen.turns().len(), 2);
    seen
}

/// While the model is streaming text.
pub(crate) async fn in_mid_text(subject: &'static Subject) {
    let story = match subject.quirks.stops_at_next_output {
        true => Answer::text("a long story ".repeat(20))
            .deltas(40)
            .delta_delay(Duration::from_millis(250)),
        false => Answer::text("a long story").deltas(4).hang_after(2),
    };
    let scene = Scene::new(subject, first(story), &Task::new("the first"));
    let mut live = scene.start();
    live.until(is_text).await;
    assert_eq!(live.interrupt().await, Interruption::Acknowledged);
    assert_story(subject, "interrupt", &goes_on(live, &scene).await);
}

/// While a command runs: it is gone afterwards. P38
pub(crate) async fn in_a_command(subject: &'static Subject) {
    let command = subject.shell("echo running > running; sleep 60");
    let scene = Scene::new(subject, first(command), &Task::new("the first").trusting());
    let mut live = scene.start();
    live.until(|kind| matches!(kind, EventKind::ToolCall(_)))
        .await;
    scene.file("running").await;
    assert_ne!(scene.running("sleep 60"), [0; 0]);
    assert_eq!(live.interrupt().await, Interruption::Acknowledged);
    let gone = wait_until(LONG, || scene.running("sleep 60").is_empty());
    assert!(gone, "it still runs: {:?}", scene.place.processes());
    goes_on(live, &scene).await;
}

/// While a permission request is open: it is withdrawn, a late answer is an error, and the command
/// does not run.
pub(crate) async fn in_a_question(subject: &'static Subject) {
    let mut scene = Scene::new(
        subject,
        first(subject.shell("touch made")),
        &Task::new("the first"),
    );
    let rules = "[[rule]]\nkind = \"execute\"\ndo = \"ask\"\n";
    scene.spec.policy = Some(Policy::parse(rules, "test", Trust::Full).unwrap());
    scene.spec.attendance = Attendance::Attended;
    let mut live = scene.start();
    let id = live
        .find(|kind| {
            if let EventKind::Permission(it) = kind {
                Some(it.id.clone())
            } else {
                None
            }
        })
        .await;
    assert_eq!(live.interrupt().await, Interruption::Acknowledged);
    assert!(live.answer(&id, PermissionAnswer::Allow).await.is_err());
    goes_on(live, &scene).await;
    assert!(!scene.place.work().join("made").exists());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// While a bound tool runs: it is cancelled.
pub(crate) async fn in_a_bound_tool(subject: &'static Subject) {
    let call = Answer::tool(
        format!("{}endless", subject.tools.bound),
        serde_json::json!({}),
    );
    let mut scene = Scene::new(subject, first(call), &Task::new("the first"));
    let running = Arc::new(());
    let held = running.clone();
    scene.host = scene
        .host
        .with_tool(ostler::tool("endless", "Never ends.", move |_: Nothing| {
            let held = held.clone();
            async move {
                std::future::pending::<()>().await;
                drop(held);
                Ok(String::new())
            }
        }));
    let live = scene.start();
    until("the tool runs", || Arc::strong_count(&running) == 3).await;
    assert_eq!(live.interrupt().await, Interruption::Acknowledged);
    until("the tool is cancelled", || Arc::strong_count(&running) == 2).await;
    goes_on(live, &scene).await;
}

/// A session stopped at a command that needs approval, in a bound tool, or while frozen ends as
/// stopped, without waiting out the grace period.
pub(crate) async fn stopped_in_the_middle(subject: &'static Subject) {
    let rules = "[[rule]]\nkind = \"execute\"\ndo = \"ask\"\n";
    let endless = Answer::tool(
        format!("{}endless", subject.tools.bound),
        serde_json::json!({}),
    );
    for (answer, frozen) in [
        (subject.shell("touch made"), false),
        (endless.clone(), false),
        (endless, true),
    ] {
        let mut scene = Scene::new(subject, first(answer), &Task::new("the first"));
        scene.spec.policy = Some(Policy::parse(rules, "test", Trust::Full).unwrap());
        scene.spec.attendance = Attendance::Attended;
        scene.spec.limits.grace = LONG;
        scene.host =
            scene
                .host
                .with_tool(ostler::tool("endless", "Never ends.", |_: Nothing| async {
                    std::future::pending::<()>().await;
                    Ok(String::new())
                }));
        let mut live = scene.start();
        live.until(|kind| matches!(kind, EventKind::ToolCall(_)))
            .await;
        if frozen && subject.pinned().is_none() {
            // There is no process to freeze, and the request is refused.
            live.remote().freeze();
            live.until(|kind| {
                matches!(
                    kind,
                    EventKind::Refused(it) if it.request.as_str() == "freeze" && it.code.as_str() == "unsupported"
                )
            })
            .await;
        } else if frozen {
            live.remote().freeze();
            until("the session is paused", || {
                live.status().state == SessionState::Paused
            })
            .await;
        }
        let began = Instant::now();
        let seen = live.end(&scene).await;
        assert_eq!(seen.outcome().cause, Cause::Stopped, "{:?}", seen.outcome());
        let took = began.elapsed();
        let when = || {
            seen.0
                .iter()
                .map(|event| (event.at, event.kind.as_str()))
                .collect::<Vec<_>>()
        };
        assert!(took < LONG, "it took {took:?}: {:#?}", when());
        assert!(!scene.place.work().join("made").exists());
    }
}

/// A message for the turn under way is dropped with the interrupt (Claude Code) or stays for the
/// next turn (API agent, pi), and either is reported. P36
pub(crate) async fn with_a_message_under_way(subject: &'static Subject) {
    let command = subject.shell("echo running > running; sleep 60");
    let scene = Scene::new(subject, first(command), &Task::new("the first").trusting());
    let mut live = scene.start();
    live.until(|kind| matches!(kind, EventKind::ToolCall(_)))
        .await;
    scene.file("running").await;
    live.remote()
        .send_when("say mango", WhenBusy::Steer)
        .unwrap();
    live.until(
        |kind| matches!(kind, EventKind::Notice(notice) if notice.code.as_str() == "steered"),
    )
    .await;
    assert_eq!(live.interrupt().await, Interruption::Acknowledged);
    let is_kept = subject.pinned().is_none() || subject.quirks.keeps_messages;
    let code = if is_kept {
        "steer_kept"
    } else {
        "steer_dropped"
    };
    live.until(|kind| matches!(kind, EventKind::Notice(notice) if notice.code.as_str() == code))
        .await;
    let cut = live.turn().await;
    assert_eq!(cut.outcome.cause, Cause::Interrupted);
    assert_eq!(live.ask("the second").await.text, "Two.");
    assert_eq!(
        scene.call(1).body["messages"]
            .to_string()
            .contains("say mango"),
        is_kept
    );
    assert_eq!(live.end(&scene).await.turns().len(), 2);
}

/// Before the agent is running, and while it starts: the interrupt's result says what happened, and
/// the next turn is unaffected. P37
pub(crate) async fn at_once(subject: &'static Subject) {
    for after in [0, 150, 400] {
        let scene = Scene::new(
            subject,
            first(Answer::text("One.")),
            &Task::new("the first"),
        );
        let mut live = scene.start();
        tokio::time::sleep(Duration::from_millis(after)).await;
        let said = live.interrupt().await;
        match said {
            Interruption::Acknowledged => drop(goes_on(live, &scene).await),
            // The turn ended before the interrupt. On a busy machine, an agent that gets both at
            // once may answer first.
            said if said == Interruption::TooLate || after > 0 => {
                assert_eq!(
                    [live.turn().await.text, live.ask("the second").await.text],
                    ["One.", "Two."]
                );
                live.end(&scene).await;
            }
            _ => panic!("after {after} ms: {said:?}"),
        }
    }
}
