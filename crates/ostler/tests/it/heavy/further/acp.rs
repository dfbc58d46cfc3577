//! Real agents that speak ACP, against the scripted model on loopback.

mod copilot;
mod factory;
mod gemini;
mod opencode;

use ostler::event::{Decision, EventKind, Permission};
use ostler::permission::PermissionAnswer;
use ostler::spec::{Attendance, Denials};
use ostler::{Cause, Usage};
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{Subject, Task};

use crate::sessions::{Live, Scene, started};

/// Generates one test per scenario for an agent.
macro_rules! smoke_tests {
    ($subject:expr; $($name:ident)*) => {
        $(#[test] fn $name() { $crate::driver::runtime().block_on(super::$name(&$subject)); })*
    };
}

use smoke_tests;

fn hello() -> Script {
    Script::new()
        .rule(Rule::on_text("PROMPT").answer(Answer::text("One two three four.").deltas(4)))
}

/// Returns the turn's usage: input tokens, cached input tokens, output tokens.
fn used(usage: Option<&Usage>) -> [Option<u64>; 3] {
    usage.map_or([None; 3], |it| [it.input, it.cache_read, it.output])
}

/// An answer in pieces, the agent's identity, and its exact usage; two turns in one process.
async fn text_and_usage(subject: &'static Subject) {
    let scene = Scene::new(subject, hello(), &Task::new("PROMPT"));
    let mut live = scene.start();
    let first = live.turn().await;
    assert_eq!(first.outcome.cause, Cause::Completed, "{:?}", first.outcome);
    assert_eq!(first.text, "One two three four.");
    let second = live.ask("PROMPT again").await;
    let served = scene.place.server.served();
    assert_eq!(served.len(), 2);
    for (turn, answer) in [first, second].iter().zip(served) {
        let [input, _, cached, output] = subject.numbers.reported(answer);
        // Values that an agent does not report are unknown.
        let cached = Some(cached).filter(|cached| *cached > 0);
        assert_eq!(
            used(turn.usage.as_ref()),
            [Some(input), cached, Some(output)],
            "each turn has its own"
        );
    }
    let seen = live.end(&scene).await;
    let pieces: Vec<&str> = seen.replies();
    assert!(pieces.len() >= 4, "in pieces: {pieces:?}");
    let started = started(&seen);
    assert_eq!(started.len(), 1);
    assert_eq!(
        (
            started[0].agent.as_str(),
            started[0].agent_version.as_deref()
        ),
        (subject.name, subject.version())
    );
    assert_eq!(started[0].cwd.as_deref(), scene.place.work().to_str());
}

fn decisions(seen: &crate::rig::Seen) -> Vec<&Permission> {
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

/// A command that needs approval, allowed once and denied once.
async fn asked_allowed_and_denied(subject: &'static Subject) {
    let script = Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(Rule::on_text("FIRST").answer(subject.shell("echo 42 > first")))
        .rule(Rule::on_text("SECOND").answer(subject.shell("echo 42 > second")));
    let mut scene = Scene::new(subject, script, &Task::new("FIRST"));
    (scene.spec.attendance, scene.spec.denials) = (Attendance::Attended, Denials::Fail);
    let mut live = scene.start();
    let question = |kind: &EventKind| match kind {
        EventKind::Permission(it) if it.decision == Decision::Asked => Some(it.clone()),
        _ => None,
    };
    let asked = live.find(question).await;
    live.answer(&asked.id, PermissionAnswer::Allow)
        .await
        .unwrap();
    let turn = live.turn().await;
    assert_eq!(turn.outcome.cause, Cause::Completed, "{:?}", turn.outcome);
    assert!(scene.place.work().join("first").exists());
    live.send("SECOND").unwrap();
    let asked = live.find(question).await;
    live.answer(&asked.id, PermissionAnswer::Deny("not today".into()))
        .await
        .unwrap();
    let turn = live.turn().await;
    assert_eq!(turn.outcome.cause, Cause::Denied, "{:?}", turn.outcome);
    assert!(!scene.place.work().join("second").exists());
    let seen = live.end(&scene).await;
    let results: Vec<(bool, bool)> = seen
        .kinds()
        .filter_map(|kind| {
            if let EventKind::ToolResult(it) = kind {
                Some((it.ok, it.denied))
            } else {
                None
            }
        })
        .collect();
    assert_eq!(results, [(true, false), (false, true)]);
    let calls: Vec<&str> = seen
        .kinds()
        .filter_map(|kind| {
            if let EventKind::ToolCall(it) = kind {
                Some(it.id.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(
        decisions(&seen)
            .iter()
            .map(|it| it.id.as_str())
            .collect::<Vec<_>>(),
        [calls[0], calls[0], calls[1], calls[1]]
    );
}

/// Interrupted in mid-text; the same process answers the next message.
async fn interrupted(subject: &'static Subject) {
    let slow = Answer::text("One two three four.").deltas(4).hang_after(2);
    let script = Script::new()
        .rule(Rule::on_text("AGAIN").text("Here."))
        .rule(Rule::on_text("PROMPT").answer(slow));
    let scene = Scene::new(subject, script, &Task::new("PROMPT"));
    let mut live = scene.start();
    live.until(crate::sessions::is_text).await;
    live.interrupt();
    let turn = live.turn().await;
    assert_eq!(turn.outcome.cause, Cause::Interrupted, "{:?}", turn.outcome);
    assert_eq!(
        turn.outcome.detail.and_then(|it| it.acknowledged),
        Some(true)
    );
    assert_eq!(live.ask("AGAIN").await.text, "Here.");
    assert_eq!(started(&live.end(&scene).await).len(), 1);
}

/// A rejected API key, as each agent reports it.
async fn unauthorized(subject: &'static Subject) {
    let script = Script::new().rule(Rule::any().answer(Answer::error(
        401,
        "authentication_error",
        "invalid x-api-key",
    )));
    let scene = Scene::new(subject, script, &Task::new("PROMPT"));
    let mut live = scene.start();
    let outcome = live.turn().await.outcome;
    assert_eq!(outcome.cause, Cause::Auth, "{outcome:?}");
    assert!(
        outcome
            .hint
            .as_deref()
            .is_some_and(|hint| hint.contains(&subject.hints.auth)),
        "{outcome:?}"
    );
    live.end(&scene).await;
}

fn remembering() -> Script {
    Script::new()
        .rule(Rule::on_text("Which").text("Pelican."))
        .rule(Rule::on_text("Remember").text("I will remember."))
}

async fn one_turn(scene: &Scene, live: &mut Live) -> String {
    let turn = live.turn().await;
    assert_eq!(turn.outcome.cause, Cause::Completed, "{:?}", turn.outcome);
    assert!(scene.place.work().exists());
    turn.text
}

/// Another process resumes the session without repeating its history.
async fn resumed(subject: &'static Subject) {
    let mut scene = Scene::new(
        subject,
        remembering(),
        &Task::new("Remember the word pelican."),
    );
    let mut live = scene.start();
    one_turn(&scene, &mut live).await;
    let seen = live.end(&scene).await;
    let native = started(&seen)[0].native_session.clone().unwrap();
    scene.spec.resume = Some((*native).into());
    scene.spec.prompt = "Which word?".into();
    let mut live = scene.start();
    assert_eq!(one_turn(&scene, &mut live).await, "Pelican.");
    let seen = live.end(&scene).await;
    assert_eq!(
        started(&seen)[0].native_session.as_deref(),
        Some(native.as_str())
    );
    assert_eq!(seen.replies().concat(), "Pelican.");
    assert!(
        scene
            .place
            .server
            .requests()
            .last()
            .unwrap()
            .body
            .to_string()
            .contains("pelican")
    );
}

/// A session that does not exist.
async fn unknown_session(subject: &'static Subject) {
    let mut scene = Scene::new(subject, hello(), &Task::new("PROMPT"));
    scene.spec.resume = Some("00000000-0000-4000-8000-000000000000".into());
    let mut live = scene.start();
    let outcome = live.turn().await.outcome;
    assert_eq!(outcome.cause, Cause::BadRequest, "{outcome:?}");
    assert!(
        outcome
            .hint
            .is_some_and(|hint| hint.contains("eave out resume"))
    );
    live.end(&scene).await;
}
