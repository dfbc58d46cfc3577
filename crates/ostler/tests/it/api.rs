//! The library with its own agent over a model's API, against the scripted model on loopback.

mod live;

use std::sync::Arc;
use std::time::Duration;

use ostler::spec::AfterTurn;
use ostler::{Cause, EventKind};
use ostler_core::permission::ToolKind;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{OPENAI_API, PATIENCE, Task, TestEnv};
use ostler_testkit::{api_scenarios, further_scenarios};

use crate::driver::{Library, agent, host, runtime, spec};
use crate::turns;

further_scenarios!(Library(&OPENAI_API));
api_scenarios!(Library(&OPENAI_API));

#[test]
fn three_turns_are_one_conversation() {
    turns::three_turns_are_one_conversation(&OPENAI_API);
}

/// Sends these messages one after the other, and returns the outcome and text of each turn.
fn turns_of(place: &TestEnv, messages: &[&str]) -> Vec<(Cause, String)> {
    let spec = spec(place, &Task::new(messages[0]).set("retries", "0")).after_turn(AfterTurn::Wait);
    let mut turns = Vec::new();
    runtime().block_on(async {
        let mut session = agent(&OPENAI_API).start(&host(place), spec).unwrap();
        while let Some(event) = session.next().await {
            if let EventKind::TurnEnded(turn) = event.kind {
                turns.push((turn.outcome.cause, turn.text));
                match messages.get(turns.len()) {
                    Some(message) => session.remote().send(*message).unwrap(),
                    None => session.remote().stop(),
                }
            }
        }
    });
    turns
}

/// A failed turn does not end the session: the next turn still has the earlier prompts and answers.
#[test]
fn a_failed_turn_is_not_the_end() {
    let script = Script::new()
        .rule(Rule::on_text("first").answer(Answer::text("half an answer").deltas(2).cut_after(1)))
        .rule(Rule::on_text("second").answer(Answer::error(429, "requests", "slow down")))
        .rule(Rule::on_text("third").text("Three."));
    let place = TestEnv::new(&OPENAI_API, script);
    let turns = turns_of(&place, &["the first", "the second", "the third"]);
    let expected = [
        (Cause::Network, "half an".to_owned()),
        (Cause::RateLimit, String::new()),
        (Cause::Completed, "Three.".to_owned()),
    ];
    assert_eq!(turns, expected);
    let messages = place.server.requests()[2].body["messages"].to_string();
    for part in ["the first", "half an", "the second", "the third"] {
        assert!(messages.contains(part), "{part:?} is missing: {messages}");
    }
}

/// A turn that ends in the middle of its tools leaves a conversation that servers accept: each call
/// has a result.
#[test]
fn calls_that_were_cut_off_have_results_in_the_next_turn() {
    let script = Script::new()
        .rule(Rule::on_text("first").answer(OPENAI_API.shell("echo running > running; sleep 300")))
        .rule(Rule::on_text("second").text("Two."));
    let place = Arc::new(TestEnv::new(&OPENAI_API, script));
    let spec = spec(&place, &Task::new("the first")).after_turn(AfterTurn::Wait);
    let mut causes = Vec::new();
    runtime().block_on(async {
        let mut session = agent(&OPENAI_API).start(&host(&place), spec).unwrap();
        while let Some(event) = session.next().await {
            match event.kind {
                EventKind::ToolCall(_) => {
                    let (place, remote) = (place.clone(), session.remote());
                    tokio::task::spawn_blocking(move || {
                        let _ = place.wait_for_file("running");
                        remote.interrupt();
                    });
                }
                EventKind::TurnEnded(turn) => {
                    causes.push(turn.outcome.cause);
                    if causes.len() == 1 {
                        session.remote().send("the second").unwrap();
                    } else {
                        session.remote().stop();
                    }
                }
                _ => {}
            }
        }
    });
    assert_eq!(causes, [Cause::Interrupted, Cause::Completed]);
    let call = &place.server.requests()[1];
    assert_eq!(
        (call.tool_results().len(), call.last_user_text().as_str()),
        (1, "the second")
    );
    assert_eq!(place.processes(), []);
}

/// A dropped session leaves neither a command nor a connection behind. P1, P4.
#[test]
fn a_dropped_session_leaves_nothing() {
    let command = OPENAI_API.shell("echo running > running; sleep 300");
    let place = TestEnv::new(&OPENAI_API, Script::new().rule(Rule::any().answer(command)));
    let runtime = runtime();
    runtime.block_on(async {
        let mut session = agent(&OPENAI_API)
            .start(&host(&place), spec(&place, &Task::new("PROMPT")))
            .unwrap();
        while let Some(event) = session.next().await {
            if matches!(event.kind, EventKind::ToolCall(_)) {
                break;
            }
        }
        let started = tokio::time::timeout(PATIENCE, async {
            while !place.work().join("running").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        started.await.unwrap();
    });
    assert_ne!(place.processes(), []);
    drop(runtime);
    place.wait_until_empty(Duration::from_secs(10));
}

/// Sixteen concurrent sessions do not interfere with each other.
#[test]
fn many_at_once() {
    let script = Script::new()
        .rule(Rule::on_tool_result().text("{tool_result}"))
        .rule(Rule::any().answer(Answer::tool("list_files", serde_json::json!({}))));
    let place = TestEnv::new(&OPENAI_API, script);
    let answers = runtime().block_on(async {
        let mut sessions = Vec::new();
        for number in 0..16 {
            let task = Task::new(format!("number {number}"));
            sessions.push(
                agent(&OPENAI_API)
                    .start(&host(&place), spec(&place, &task))
                    .unwrap(),
            );
        }
        let mut answers = Vec::new();
        for mut session in sessions {
            while let Some(event) = session.next().await {
                if let EventKind::TurnEnded(turn) = event.kind {
                    answers.push(turn.outcome.cause);
                }
            }
        }
        answers
    });
    assert_eq!(answers, [Cause::Completed; 16]);
    assert_eq!(place.server.requests().len(), 32);
}

/// The dialect knows tools only by name. A new tool must be added there too, or no rule applies to
/// it.
#[test]
fn every_tool_of_the_catalog_is_known_to_the_rules() {
    let nothing = ostler_core::raw_json::RawJson::of(&serde_json::Map::new());
    let tools = ostler_tools::catalog::FILE_TOOLS
        .iter()
        .chain([&ostler_tools::command::RUN_COMMAND]);
    for tool in tools {
        for name in ["openai-api", "scripted"] {
            let kind = ostler_dialects::find(name)
                .unwrap()
                .tool_use(tool.name, &nothing)
                .kind;
            assert_ne!(kind, ToolKind::Other, "{name}: {}", tool.name);
            assert_eq!(
                kind == ToolKind::Read,
                tool.only_reads,
                "{name}: {}",
                tool.name
            );
        }
    }
}

#[test]
fn session_without_a_log_cannot_be_resumed() {
    let place = TestEnv::new(&OPENAI_API, Script::new());
    let task = Task::new("go on").set("resume", "no-such-session");
    let _runtime = runtime().enter();
    let error = agent(&OPENAI_API)
        .start(&host(&place), spec(&place, &task))
        .err()
        .unwrap();
    assert_eq!(
        (error.key.as_str(), error.value.as_str()),
        ("resume", "no-such-session"),
        "{error}"
    );
}
