//! Sessions that last: an agent that is killed is started again, and fifty turns take no more memory than ten.

use ostler::Cause;
use ostler::event::What;
use ostler_testkit::model::{Rule, Script};
use ostler_testkit::processes::rss_kib;
use ostler_testkit::scenario::{Signal, Subject, Task, signal};

use super::{Scene, started};
use crate::rig::until;

/// Killed in the middle of a turn: the turn ends as such, what it had started is gone, and the next message finds the agent
/// again, with its memory. P42
pub(crate) async fn killed_and_started_again(subject: &'static Subject) {
    let script = Script::new()
        .rule(Rule::on_text("third").text("Three."))
        .rule(Rule::on_text("second").answer(subject.shell("echo running > running; sleep 60")))
        .rule(Rule::on_text("first").text("One."));
    let scene = Scene::new(subject, script, &Task::new("the first").trusting());
    let mut live = scene.start();
    live.turn().await;
    let pid = live.pid().unwrap();
    live.send("the second").unwrap();
    live.until(|what| matches!(what, What::ToolCall(_))).await;
    scene.file("running").await;
    signal(pid, Signal::KILL);
    assert_eq!(live.turn().await.outcome.cause, Cause::AgentDied);
    until("what it had started is gone", || scene.running("sleep 60").is_empty()).await;
    let next = live.ask("the third").await;
    assert_eq!((next.outcome.cause, next.text.as_str()), (Cause::Completed, "Three."));
    assert_ne!(live.pid(), Some(pid));
    scene.knows(2, &["the first", "One.", "the third"]);
    let seen = live.end(&scene).await;
    let natives: Vec<_> = started(&seen).iter().map(|it| it.native_session.clone()).collect();
    assert!(natives.len() == 2 && natives[0].is_some() && natives[0] == natives[1], "{natives:?}");
}

/// Fifty turns: neither memory nor processes grow.
pub(crate) async fn fifty_turns(subject: &'static Subject) {
    let scene = Scene::new(subject, Script::always("Aye."), &Task::new("turn 1"));
    let mut live = scene.start();
    live.turn().await;
    let (pid, mut tenth) = (live.pid(), 0);
    for turn in 2..=50 {
        assert_eq!(live.ask(&format!("turn {turn}")).await.text, "Aye.");
        // The model's server lives in this process too, and would keep every request.
        scene.place.server.forget();
        if turn == 10 {
            tenth = rss_kib(std::process::id()).unwrap();
        }
    }
    let last = rss_kib(std::process::id()).unwrap();
    println!("{}: {tenth} KiB after ten turns, {last} KiB after fifty", subject.name);
    assert!(last < tenth + 8 * 1024, "{tenth} KiB after ten turns, {last} KiB after fifty");
    let processes = scene.place.left();
    assert_eq!((live.pid(), processes.len()), (pid, usize::from(pid.is_some())), "{processes:?}");
    live.end(&scene).await;
}
