//! Messages: remembered, held back, added to the turn under way, and too many.

use std::time::Duration;

use ostler::Cause;
use ostler::event::{EventKind, SessionState, State, TurnStarted};
use ostler::session::WhenBusy;
use ostler_testkit::model::{Answer, Rule, Script, Usage};
use ostler_testkit::scenario::{Subject, Task};

use super::{Scene, is_text};
use crate::rig::{Seen, until};

/// A model that has an answer to each of three messages.
pub(super) fn three() -> Script {
    Script::new()
        .rule(Rule::on_text("third").text("Three."))
        .rule(Rule::on_text("second").text("Two."))
        .rule(Rule::on_text("first").text("One."))
}

/// Three turns are one conversation: the third model call contains the first two turns. S2-10.
pub(crate) async fn three_turns_remember(subject: &'static Subject) {
    let scene = Scene::new(subject, three(), &Task::new("the first"));
    let mut live = scene.start();
    let said = [
        live.turn().await,
        live.ask("the second").await,
        live.ask("the third").await,
    ];
    assert_eq!(
        said.map(|turn| (turn.outcome.cause, turn.text)),
        ["One.", "Two.", "Three."].map(|text| (Cause::Completed, text.to_owned()))
    );
    scene.knows(2, &["the first", "One.", "the second", "Two.", "the third"]);
    live.end(&scene).await;
}

/// Messages sent while paused are delivered afterwards, in order.
pub(crate) async fn pause_holds_messages(subject: &'static Subject) {
    let scene = Scene::new(subject, three(), &Task::new("the first"));
    let mut live = scene.start();
    live.turn().await;
    live.remote().pause();
    live.send("the second").unwrap();
    live.send("the third").unwrap();
    until("it is paused", || {
        live.status().state == SessionState::Paused
    })
    .await;
    live.remote().resume();
    assert_eq!(
        [live.turn().await.text, live.turn().await.text],
        ["Two.", "Three."]
    );
    let seen = live.end(&scene).await;
    let story: Vec<String> = seen
        .kinds()
        .filter_map(|kind| match kind {
            EventKind::TurnStarted(TurnStarted { prompt, .. }) => prompt.clone(),
            EventKind::State(State {
                to: SessionState::Paused,
                ..
            }) => Some("paused".to_owned()),
            EventKind::State(State {
                from: SessionState::Paused,
                ..
            }) => Some("resumed".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(
        story,
        ["the first", "paused", "resumed", "the second", "the third"]
    );
}

/// Returns true if a process is stopped.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

/// Freezing stops the agent and its child processes; then both continue.
pub(crate) async fn freeze_stops_the_work(subject: &'static Subject) {
    let work = subject.shell("while [ ! -e enough ]; do echo tick >> ticks; sleep 0.05; done");
    let script = Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(Rule::any().answer(work));
    let scene = Scene::new(subject, script, &Task::new("PROMPT").trusting());
    let mut live = scene.start();
    live.until(|kind| matches!(kind, EventKind::ToolCall(_)))
        .await;
    scene.file("ticks").await;
    let ticks = || std::fs::read(scene.place.work().join("ticks")).map_or(0, |text| text.len());
    live.remote().freeze();
    until("all processes are stopped", || {
        scene
            .place
            .processes()
            .iter()
            .all(|(pid, _)| is_stopped(*pid))
    })
    .await;
    let before = ticks();
    assert_eq!(live.status().state, SessionState::Paused);
    live.remote().resume();
    until("the work continues", || ticks() > before).await;
    std::fs::write(scene.place.work().join("enough"), "").unwrap();
    let turn = live.turn().await;
    assert_eq!(
        (turn.outcome.cause, turn.text.as_str()),
        (Cause::Completed, "Done.")
    );
    live.end(&scene).await;
}

/// Returns each message of the caller, and each answer.
fn exchange(seen: &Seen) -> Vec<String> {
    let turns = seen.kinds().filter_map(|kind| match kind {
        EventKind::TurnStarted(turn) => Some(format!(
            "> {}",
            turn.prompt.as_deref().unwrap_or("by itself")
        )),
        EventKind::TurnEnded(turn) => Some(turn.text.clone()),
        _ => None,
    });
    turns.collect()
}

/// A message for the turn under way reaches the model after the results of its tools, in the same
/// turn.
pub(crate) async fn steered_between_tools(subject: &'static Subject) {
    let work = subject.shell("echo running > running; while [ ! -e enough ]; do sleep 0.05; done");
    let script = Script::new()
        .rule(Rule::on_text("second").text("Two."))
        .rule(Rule::on_news("mango").text("Mango it is."))
        .rule(Rule::on_text("first").answer(work));
    let scene = Scene::new(subject, script, &Task::new("the first").trusting());
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
    std::fs::write(scene.place.work().join("enough"), "").unwrap();
    live.turn().await;
    live.ask("the second").await;
    let seen = live.end(&scene).await;
    assert_eq!(
        exchange(&seen),
        ["> the first", "Mango it is.", "> the second", "Two."]
    );
}

/// A message sent while the model is finishing is answered too: in the same turn, or in one that
/// the agent starts by itself. The next message has a separate turn.
pub(crate) async fn steered_in_the_last_words(subject: &'static Subject) {
    let slowly = Answer::text("this takes a while")
        .deltas(4)
        .delta_delay(Duration::from_millis(400));
    let script = Script::new()
        .rule(Rule::on_text("second").text("Two."))
        .rule(Rule::on_news("mango").text("Mango it is."))
        .rule(Rule::on_text("first").answer(slowly));
    let scene = Scene::new(subject, script, &Task::new("the first"));
    let mut live = scene.start();
    live.until(is_text).await;
    live.remote()
        .send_when("say mango", WhenBusy::Steer)
        .unwrap();
    while live.turn().await.text.find("Mango it is.").is_none() {}
    live.ask("the second").await;
    let seen = live.end(&scene).await;
    let actual = exchange(&seen);
    let expected: &[&str] = if subject.pinned().is_some() {
        &[
            "> the first",
            "this takes a while",
            "> by itself",
            "Mango it is.",
            "> the second",
            "Two.",
        ]
    } else {
        &["> the first", "Mango it is.", "> the second", "Two."]
    };
    assert_eq!(actual, expected);
}

/// A session limited to two messages warns, refuses the third and ends.
pub(crate) async fn a_budget_of_turns(subject: &'static Subject) {
    let mut scene = Scene::new(subject, three(), &Task::new("the first"));
    scene.spec.limits.budget_turns = Some(2);
    let mut live = scene.start();
    assert_eq!(
        [live.turn().await.text, live.ask("the second").await.text],
        ["One.", "Two."]
    );
    live.send("the third").unwrap();
    let code = live
        .find(|kind| {
            if let EventKind::Refused(it) = kind {
                Some(it.code.clone())
            } else {
                None
            }
        })
        .await;
    assert_eq!(code.as_str(), "budget");
    let seen = live.ended(&scene).await;
    assert_eq!(
        (
            seen.outcome().cause,
            seen.notices("budget_near").len(),
            seen.turns().len()
        ),
        (Cause::Budget, 1, 2)
    );
    assert_eq!(scene.place.server.requests().len(), 2);
}

/// Tokens are counted over all turns: a warning after the second, the end with the third, which
/// still had its answer.
pub(crate) async fn a_budget_of_tokens(subject: &'static Subject) {
    let mut scene = Scene::new(subject, three(), &Task::new("the first"));
    // The first two answers use four fifths of the budget: enough for a warning.
    let two: u64 = subject
        .numbers
        .sum(&[Usage::of_nth(1), Usage::of_nth(2)])
        .iter()
        .sum();
    scene.spec.limits.budget_tokens = Some(two * 5 / 4);
    let mut live = scene.start();
    assert_eq!(
        [live.turn().await.text, live.ask("the second").await.text],
        ["One.", "Two."]
    );
    assert_eq!(live.ask("the third").await.text, "Three.");
    let seen = live.ended(&scene).await;
    assert_eq!(
        (seen.outcome().cause, seen.notices("budget_near").len()),
        (Cause::Budget, 1)
    );
    assert!(seen.outcome().hint.is_some(), "{:?}", seen.outcome());
}
