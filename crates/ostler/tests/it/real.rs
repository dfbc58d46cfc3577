//! The library with the real Claude Code, against the scripted model on loopback.

use std::ffi::OsString;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ostler::{AfterTurn, Agent, Agents, Cause, Denials, Event, Host, Limits, Remote, Session, Spec, What};
use ostler_testkit::every_scenario;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::processes::alive;
use ostler_testkit::real;
use ostler_testkit::scenario::{Driver, Place, Running, Seen, Task};
use serde_json::json;

every_scenario!(Library);

struct Library;

struct Handle(Remote);

impl Running for Handle {
    fn interrupt(&self) {
        self.0.interrupt();
    }

    fn stop(&self) {
        self.0.stop();
    }
}

impl Driver for Library {
    fn run(&self, place: &Place, task: &Task, meanwhile: &(dyn Fn(&dyn Running) + Sync)) -> Seen {
        let runtime = runtime();
        let mut session = {
            let _inside = runtime.enter();
            claude().start(&host(place), spec(place, task)).unwrap()
        };
        let handle = Handle(session.remote());
        let events = thread::scope(|scope| {
            scope.spawn(|| meanwhile(&handle));
            runtime.block_on(to_the_end(&mut session))
        });
        for event in &events {
            assert_eq!(Event::from_json(&event.to_json()).unwrap(), *event, "what is written can be read again");
        }
        let events = events.iter().map(|event| serde_json::from_str(&event.to_json()).unwrap()).collect();
        Seen { events, exit: None }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn claude() -> Arc<dyn Agent> {
    Agents::builtin().get("claude").unwrap()
}

fn host(place: &Place) -> Host {
    Host::new(place.host().iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
}

fn spec(place: &Place, task: &Task) -> Spec {
    let mut spec = Spec {
        prompt: task.prompt.clone(),
        dir: Some(place.work()),
        program: Some(real::claude()),
        env: task.env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        limits: Limits { wall: Some(task.wall), idle: Some(task.idle), ..Limits::default() },
        denials: if task.tolerate_denials { Denials::Tolerate } else { Denials::Fail },
        ..Spec::default()
    };
    for (key, value) in &task.settings {
        spec.settings.push(key, value);
    }
    spec
}

async fn to_the_end(session: &mut Session) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    events
}

/// Several turns are one process and one conversation: each turn has its own answer and its own tokens. S2-10, P21, P36.
#[test]
fn three_turns_in_one_process() {
    let script = Script::new()
        .rule(Rule::on_text("first").text("One."))
        // Before the second: what was interrupted and what follows reach the model as one message.
        .rule(Rule::on_text("third").text("Three."))
        .rule(Rule::on_text("second").answer(Answer::hang()));
    let place = Arc::new(Place::new(script));
    let spec = Spec { after_turn: AfterTurn::Wait, ..spec(&place, &Task::new("the first")) };
    let (mut turns, mut pids) = (Vec::new(), Vec::new());
    runtime().block_on(async {
        let mut session = claude().start(&host(&place), spec).unwrap();
        while let Some(event) = session.next().await {
            match event.what {
                What::TurnEnded(turn) => {
                    turns.push((turn.outcome.cause, turn.text, turn.usage.and_then(|usage| usage.input)));
                    pids.push(session.pid());
                    match turns.len() {
                        1 => {
                            session.remote().send("the second");
                            let (server, remote) = (place.clone(), session.remote());
                            tokio::task::spawn_blocking(move || {
                                server.wait_for_calls(2);
                                remote.interrupt();
                            });
                        }
                        2 => session.remote().send("the third"),
                        _ => session.remote().stop(),
                    }
                }
                What::Ended(ended) => assert_eq!(ended.outcome.cause, Cause::Completed),
                _ => {}
            }
        }
    });
    // The interrupted turn neither swallows nor answers the next one.
    let expected = [
        (Cause::Completed, "One.".to_owned(), Some(100)),
        (Cause::Interrupted, String::new(), None),
        (Cause::Completed, "Three.".to_owned(), Some(100)),
    ];
    assert_eq!(turns, expected);
    assert!(pids[0].is_some() && pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
    assert!(place.server.requests()[2].body["messages"].to_string().contains("the first"));
    assert_eq!(place.left(), []);
}

/// A session that is dropped leaves nothing behind, neither the agent nor what it had started. P1, P4.
#[test]
fn a_dropped_session_leaves_nothing() {
    let command = json!({"command": "echo running > running; sleep 300", "description": "for the test"});
    let place = Place::new(Script::new().rule(Rule::any().answer(Answer::tool("Bash", command))));
    let runtime = runtime();
    let agent = runtime.block_on(async {
        let mut session = claude().start(&host(&place), spec(&place, &Task::new("PROMPT").trusting())).unwrap();
        while let Some(event) = session.next().await {
            if matches!(event.what, What::ToolCall(_)) {
                break;
            }
        }
        session.pid().unwrap()
    });
    assert!(alive(agent));
    // The task that owns the agent ends with the runtime, at the latest.
    drop(runtime);
    place.wait_until_empty(Duration::from_secs(10));
}

/// A system prompt of a megabyte fits no command line and arrives all the same. P28.
#[test]
fn a_megabyte_of_system_prompt() {
    let place = Place::new(Script::always("Aye."));
    let long = "Speak like a sailor, always. ".repeat(36_000);
    let seen = ostler_testkit::scenario::run(&Library, &place, &Task::new("PROMPT").set("append_system_prompt", &long));
    seen.ended_with("completed", 0);
    assert!(place.only_call().system_text().contains(long.trim_end()));
}
