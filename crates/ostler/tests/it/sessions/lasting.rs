//! Long sessions: a killed agent is restarted, and fifty turns take no more memory than ten.

use ostler::Cause;
use ostler::event::EventKind;
use ostler::permission::{Policy, Trust};
use ostler::spec::Denials;
use ostler_testkit::machine::{self, Need};
use ostler_testkit::model::{Rule, Script};
use ostler_testkit::processes::rss_kib;
use ostler_testkit::scenario::{Signal, Subject, Task, signal};

use super::{Scene, started};
use crate::rig::until;

/// Killed in the middle of a turn: the turn ends as such, its child processes are gone, and the
/// next message restarts the agent, with its memory. P42
pub(crate) async fn killed_and_started_again(subject: &'static Subject) {
    let script = Script::new()
        .rule(Rule::on_text("third").text("Three."))
        .rule(Rule::on_text("second").answer(subject.shell("echo running > running; sleep 60")))
        .rule(Rule::on_text("first").text("One."));
    let scene = Scene::new(subject, script, &Task::new("the first").trusting());
    let mut live = scene.start();
    live.turn().await;
    let pid = live.remote().pid().unwrap();
    live.send("the second").unwrap();
    live.until(|kind| matches!(kind, EventKind::ToolCall(_)))
        .await;
    scene.file("running").await;
    signal(pid, Signal::KILL);
    assert_eq!(live.turn().await.outcome.cause, Cause::AgentDied);
    until("its child processes are gone", || {
        scene.running("sleep 60").is_empty()
    })
    .await;
    let next = live.ask("the third").await;
    assert_eq!(
        (next.outcome.cause, next.text.as_str()),
        (Cause::Completed, "Three.")
    );
    assert_ne!(live.remote().pid(), Some(pid));
    scene.knows(2, &["the first", "One.", "the third"]);
    let seen = live.end(&scene).await;
    let natives: Vec<_> = started(&seen)
        .iter()
        .map(|it| it.native_session.clone())
        .collect();
    assert!(
        natives.len() == 2 && natives[0].is_some() && natives[0] == natives[1],
        "{natives:?}"
    );
}

/// The agent's next process has the same configuration: the rules, the tools, the model it was
/// switched to.
pub(crate) async fn restart_keeps_the_configuration(subject: &'static Subject) {
    let bound = format!("{}lucky", subject.tools.bound);
    let both = subject
        .shell("touch made")
        .and_tool(bound, serde_json::json!({}));
    let script = Script::new()
        .rule(Rule::on_tool_result().text("Done."))
        .rule(Rule::on_text("second").answer(both))
        .rule(Rule::on_text("first").text("One."));
    let mut scene = Scene::new(subject, script, &Task::new("the first").trusting());
    let rules = "[[rule]]\nkind = \"execute\"\ndo = \"deny\"\nmessage = \"nothing is run here\"\n";
    scene.spec.policy = Some(Policy::parse(rules, "test", Trust::Full).unwrap());
    scene.spec.denials = Denials::Tolerate;
    scene.host = scene
        .host
        .with_tool(ostler::tool("lucky", "A number.", |_: Nothing| async {
            Ok("seven".into())
        }));
    let mut live = scene.start();
    live.turn().await;
    assert_eq!(
        live.remote().set_model(&subject.settings.model).await,
        Ok(())
    );
    signal(live.remote().pid().unwrap(), Signal::KILL);
    until("the session knows", || live.remote().pid().is_none()).await;
    assert_eq!(live.ask("the second").await.outcome.cause, Cause::Completed);
    assert!(
        scene.call(1).model().contains(&subject.settings.model),
        "{}",
        scene.call(1).model()
    );
    scene.knows(1, &["the first", "One.", "the second"]);
    let received: Vec<String> = scene
        .call(2)
        .last_tool_results()
        .into_iter()
        .map(|result| result.text)
        .collect();
    assert!(
        ["nothing is run here", "seven"]
            .iter()
            .all(|part| received.iter().any(|text| text.contains(part))),
        "{received:?}"
    );
    assert!(!scene.place.work().join("made").exists());
    let seen = live.end(&scene).await;
    assert_eq!(
        (
            seen.notices("agent_gone").len(),
            seen.notices("fresh_start").len()
        ),
        (1, 0)
    );
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Fifty turns: neither Ostler's memory nor the number of processes grows.
pub(crate) async fn fifty_turns(subject: &'static Subject) {
    let scene = Scene::new(subject, Script::always("Aye."), &Task::new("turn 1"));
    let mut live = scene.start();
    live.turn().await;
    let (pid, mut tenth) = (live.remote().pid(), 0);
    for turn in 2..=50 {
        assert_eq!(live.ask(&format!("turn {turn}")).await.text, "Aye.");
        // The model's server lives in this process too, and would store every request.
        scene.place.server.clear_requests();
        if turn == 10 {
            tenth = rss_kib(std::process::id()).unwrap();
        }
    }
    let last = rss_kib(std::process::id()).unwrap();
    // Where tests share a process, its memory says nothing about one of them.
    let alone =
        std::env::var_os("NEXTEST_EXECUTION_MODE").is_some_and(|mode| mode == "process-per-test");
    let need = Need::of(alone, || {
        "memory is measured only where each test has a process (cargo nextest)".to_owned()
    });
    if machine::can_run("fifty turns in flat memory", &need) {
        assert!(
            last < tenth + 8 * 1024,
            "{tenth} KiB after ten turns, {last} KiB after fifty"
        );
    }
    let processes = scene.place.processes();
    assert_eq!(
        (live.remote().pid(), processes.len()),
        (pid, usize::from(pid.is_some())),
        "{processes:?}"
    );
    live.end(&scene).await;
}
