//! Resumed and forked sessions: remembered, copied, unknown, from another directory, and in use.

use std::sync::Arc;

use ostler::event::EventKind;
use ostler::{Cause, Spec};
use ostler_testkit::model::{Rule, Script};
use ostler_testkit::scenario::{Subject, Task};

use super::log::MemoryLog;
use super::{Live, Scene, started};
use crate::conformance::assert_story;
use crate::driver::agent;
use crate::rig::Seen;

const ID: &str = "123e4567-e89b-42d3-a456-426614174000";

/// A model that can remember a word; sessions are stored in a log.
fn scene(subject: &'static Subject) -> Scene {
    let script = Script::new()
        .rule(Rule::on_text("Which").text("Pelican."))
        .rule(Rule::on_text("Remember").text("I will remember."));
    let task = Task::new("Remember the word pelican.");
    let task = subject
        .settings
        .system
        .iter()
        .fold(task, |task, key| task.set(key, "Speak like a sailor."));
    let mut scene = Scene::new(subject, script, &task);
    scene.host = scene.host.with_log(Arc::new(MemoryLog::default()));
    scene
}

impl Scene {
    /// Builds a spec that resumes a session, by either of its ids.
    fn resuming(&self, id: &str, message: &str) -> Spec {
        let mut spec = self.spec.clone();
        spec.prompt = message.into();
        spec.resume = Some(id.into());
        spec
    }

    fn start_as(&self, spec: Spec) -> Live {
        Live {
            session: agent(self.place.subject).start(&self.host, spec).unwrap(),
            read: Vec::new(),
        }
    }

    /// Runs a session of one turn.
    async fn one_turn(&self, spec: Spec) -> Seen {
        let mut live = self.start_as(spec);
        let turn = live.turn().await;
        assert_eq!(turn.outcome.cause, Cause::Completed, "{:?}", turn.outcome);
        live.end(self).await
    }
}

fn id(seen: &Seen) -> &str {
    &seen.0[0].session
}

/// A session is resumed by another one, which knows the conversation and gets the system prompt
/// again. S1-10
pub(crate) async fn resumed(subject: &'static Subject) {
    let scene = scene(subject);
    let first = scene.one_turn(scene.spec.clone()).await;
    let second = scene
        .one_turn(scene.resuming(id(&first), "Which word?"))
        .await;
    // A third resumes the second: a chain is followed back to its beginning.
    let third = scene
        .one_turn(scene.resuming(id(&second), "Which word, again?"))
        .await;
    assert_eq!(
        (second.turn().text.as_str(), third.turn().text.as_str()),
        ("Pelican.", "Pelican.")
    );
    for seen in [&first, &second, &third] {
        assert_story(subject, "resume", seen);
    }
    if scene.place.skips_live_checks() {
        return;
    }
    scene.knows(
        1,
        &[
            "Remember the word pelican.",
            "I will remember.",
            "Which word?",
        ],
    );
    scene.knows(
        2,
        &[
            "Remember the word pelican.",
            "I will remember.",
            "Which word?",
            "Pelican.",
            "Which word, again?",
        ],
    );
    let spoken = |at: &usize| {
        scene
            .call(*at)
            .system_text()
            .contains("Speak like a sailor.")
    };
    assert!(subject.settings.system.is_none() || [0, 1, 2].iter().all(spoken));
    let natives = [&first, &second, &third].map(|seen| started(seen)[0].native_session.clone());
    assert!(
        subject.pinned().is_none()
            || (natives[0].is_some() && natives.iter().all(|it| *it == natives[0])),
        "{natives:?}"
    );
}

/// A copy has the same memory and is a separate session; the original is unchanged, and may still
/// be running.
pub(crate) async fn copied(subject: &'static Subject) {
    let scene = scene(subject);
    let mut live = scene.start();
    live.turn().await;
    let mut spec = scene.resuming(live.id(), "Which word?");
    spec.fork = true;
    let mut copy = scene.start_as(spec);
    assert_eq!(copy.turn().await.text, "Pelican.");
    let natives = [&copy, &live].map(|session| session.status().native_session);
    assert!(
        natives[0] != natives[1] || natives[0].is_none(),
        "{natives:?}"
    );
    copy.stop();
    copy.until(|kind| matches!(kind, EventKind::Ended(_))).await;
    assert_story(subject, "fork", &Seen(copy.read));
    assert_eq!(live.ask("Which one, again?").await.text, "Pelican.");
    if scene.place.skips_live_checks() {
        live.end(&scene).await;
        return;
    }
    scene.knows(1, &["Remember the word pelican.", "Which word?"]);
    scene.knows(2, &["Remember the word pelican.", "Which one, again?"]);
    assert!(!scene.messages(2).contains("Which word?"));
    live.end(&scene).await;
}

/// A running session cannot be resumed a second time; the error names its owner.
pub(crate) async fn in_use_by_another(subject: &'static Subject) {
    let scene = scene(subject);
    let mut live = scene.start();
    live.turn().await;
    // The log names the process that drives it.
    let spec = scene.resuming(live.id(), "Which word?");
    let us = std::process::id().to_string();
    let why = match agent(subject).start(&scene.host, spec) {
        Err(error) => error.to_string(),
        Ok(session) => {
            assert_refused(
                Live {
                    session,
                    read: Vec::new(),
                },
                "session_in_use",
            )
            .await
        }
    };
    assert!(why.contains(&us) && why.contains(live.id()), "{why}");
    // Without a log, the agent's own records do.
    if let Some(pid) = live.remote().pid() {
        let spec = scene.resuming(&live.status().native_session.unwrap(), "Which word?");
        let session = agent(subject)
            .start(&crate::driver::host(&scene.place), spec)
            .unwrap();
        let why = assert_refused(
            Live {
                session,
                read: Vec::new(),
            },
            "session_in_use",
        )
        .await;
        assert!(why.contains(&pid.to_string()), "{why}");
    }
    assert_eq!(live.ask("Which word?").await.text, "Pelican.");
    assert_eq!(scene.place.server.requests().len(), 2);
    live.end(&scene).await;
}

/// Checks that the session ends as a bad request with this code, and returns the message.
async fn assert_refused(mut live: Live, code: &str) -> String {
    let outcome = live
        .find(|kind| {
            if let EventKind::Ended(it) = kind {
                Some(it.outcome.clone())
            } else {
                None
            }
        })
        .await;
    let native = outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.native.clone());
    assert_eq!(
        (outcome.cause, native.as_deref()),
        (Cause::BadRequest, Some(code)),
        "{outcome:?}"
    );
    assert!(outcome.hint.is_some(), "{outcome:?}");
    outcome.message
}

/// A session that does not exist is a bad request; no new one is started. P53
pub(crate) async fn an_unknown_session(subject: &'static Subject) {
    let scene = scene(subject);
    let live = scene.start_as(scene.resuming(ID, "Which word?"));
    let why = assert_refused(live, "unknown_session").await;
    assert!(why.contains(ID), "{why}");
    assert!(scene.place.server.requests().is_empty());
    assert_eq!(scene.place.processes(), []);
}

/// A session from another directory is resumed with a notice, even if that directory no longer
/// exists. P53
pub(crate) async fn from_another_directory(subject: &'static Subject) {
    let mut scene = scene(subject);
    let [there, here] = ["there", "here"].map(|name| scene.place.outside(name));
    for (at, gone) in [false, true].into_iter().enumerate() {
        let _ = std::fs::create_dir_all(&here);
        std::fs::create_dir_all(&there).unwrap();
        scene.spec.dir = Some(there.clone());
        let first = scene.one_turn(scene.spec.clone()).await;
        if gone {
            std::fs::remove_dir_all(&there).unwrap();
        }
        scene.spec.dir = Some(here.clone());
        let second = scene
            .one_turn(scene.resuming(id(&first), "Which word?"))
            .await;
        let notices = second.notices("resumed_elsewhere");
        assert!(
            notices.len() == 1 && notices[0].message.contains("there"),
            "{notices:?}"
        );
        scene.knows(2 * at + 1, &["Remember the word pelican.", "Which word?"]);
    }
}
