//! Steering: messages and model changes during a turn.

use ostler_core::dialect::{Change, FromConversation, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use serde_json::{Value, json};

use super::harness::{Harness, SCRIPTED, spec};

fn contents(messages: &[Value]) -> Vec<String> {
    messages[1..]
        .iter()
        .map(|m| {
            format!(
                "{}: {}",
                m["role"].as_str().unwrap(),
                m["content"].as_str().unwrap_or("-")
            )
        })
        .collect()
}

#[test]
fn steering_message_follows_the_tool_results() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.steer("early");
    harness.calls(&[("1", "read_file", "{}"), ("2", "read_file", "{}")]);
    harness.result("2", "b");
    harness.steer("late");
    assert_eq!(harness.commands().len(), 2, "it waits for the next request");
    harness.result("1", "a");
    assert_eq!(
        contents(&harness.last_request()),
        [
            "user: go",
            "assistant: -",
            "tool: b",
            "tool: a",
            "user: early",
            "user: late"
        ]
    );
    assert_eq!(harness.notices(), ["steered", "steered", "steer_taken"]);
    harness.text("done");
    assert_eq!(
        (harness.ended().len(), harness.cause()),
        (1, Cause::Completed)
    );
}

#[test]
fn answer_to_an_earlier_request_does_not_end_a_steered_turn() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    harness.steer("wait");
    harness.text("done");
    assert_eq!(harness.ended().len(), 0);
    assert_eq!(
        contents(&harness.last_request()),
        ["user: go", "assistant: done", "user: wait"]
    );
    harness.text("waited");
    assert_eq!(harness.ended()[0].text.as_deref(), Some("waited"));
    assert_eq!(
        harness.ended()[0].usage[0].output,
        Some(20),
        "both answers are counted"
    );
}

#[test]
fn late_message_is_deferred_to_the_next_turn() {
    let interrupt = |harness: &mut Harness| {
        harness.calls(&[("1", "read_file", "{}")]);
        harness.interrupt();
        harness.feed(&json!({"ostler": "cancelled"}));
    };
    let limit = |harness: &mut Harness| harness.text("done");
    let cut = |harness: &mut Harness| {
        harness.feed(&json!({"ostler": {"failed": {"kind": "cut", "message": "reset"}}}));
    };
    type Ending<'a> = (&'a str, &'a dyn Fn(&mut Harness), Cause);
    let endings: [Ending<'_>; 4] = [
        ("100", &interrupt, Cause::Interrupted),
        ("1", &limit, Cause::TurnLimit),
        ("100", &cut, Cause::Network),
        (
            "1",
            &|harness| {
                limit(harness);
                harness.steer("after");
            },
            Cause::TurnLimit,
        ),
    ];
    for (steps, ending, cause) in endings {
        let mut harness = Harness::new(&[("max_turns", steps)]);
        harness.prompt("go");
        harness.steer("late");
        ending(&mut harness);
        assert_eq!((harness.ended().len(), harness.cause()), (1, cause));
        assert!(harness.notices().contains(&"steer_kept"), "never silently");
        harness.prompt("next");
        let messages = contents(&harness.last_request());
        assert!(
            messages.iter().filter(|m| *m == "user: late").count() == 1
                && messages.last().unwrap() == "user: next",
            "{messages:?}"
        );
    }
}

fn change(harness: &mut Harness, change: Change) -> Option<String> {
    harness.send(ToAgent::Change { id: 7, change });
    let error = |out: &FromConversation| {
        if let FromConversation::Changed { id: 7, error } = out {
            Some(error.clone())
        } else {
            None
        }
    };
    harness.outs.last().and_then(error).unwrap()
}

#[test]
fn changed_model_is_used_from_the_next_request() {
    let mut harness = Harness::new(&[]);
    harness.prompt("go");
    assert_eq!(change(&mut harness, Change::Model("other".into())), None);
    harness.calls(&[("1", "read_file", "{}")]);
    harness.result("1", "x");
    let models: Vec<_> = harness
        .commands()
        .iter()
        .filter_map(|o| o["call"]["model"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(models, ["m", "other"]);
    let wrong = [
        Change::Model("two words".into()),
        Change::Model(String::new()),
        Change::PermissionMode("plan".into()),
    ];
    assert!(
        wrong
            .into_iter()
            .all(|it| change(&mut harness, it).is_some())
    );
    let mut scripted = Harness::of(SCRIPTED, &spec(&[]));
    assert!(
        change(&mut scripted, Change::Model("other".into()))
            .unwrap()
            .contains("scripted")
    );
}

// Price and context window in the settings apply to the model they were set for; nothing is
// guessed.
#[test]
fn the_price_follows_the_model() {
    for (official, listed) in [(true, Some(2.0)), (false, None)] {
        let mut harness = Harness::new(&[("price", "7/7")]);
        harness.feed(&json!({"ostler": {"ready": {"model": "gpt-4o", "cwd": "/", "tools": [], "official": official}}}));
        let cost = |harness: &mut Harness| {
            harness.feed(
                &json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}}),
            );
            harness.end_answer();
            let usage = harness.ended().last().unwrap().usage[0].clone();
            (usage.model.unwrap(), usage.cost_usd)
        };
        harness.prompt("go");
        assert_eq!(change(&mut harness, Change::Model("gpt-4.1".into())), None);
        assert_eq!(
            cost(&mut harness),
            ("gpt-4o".into(), Some(7.0)),
            "it was called before"
        );
        harness.prompt("again");
        assert_eq!(cost(&mut harness), ("gpt-4.1".into(), listed));
        assert_eq!(change(&mut harness, Change::Model("gpt-4o".into())), None);
        harness.prompt("and back");
        assert_eq!(cost(&mut harness), ("gpt-4o".into(), Some(7.0)));
    }
}

#[test]
fn the_window_follows_the_model() {
    for changed in [false, true] {
        let mut harness = Harness::new(&[("context_window", "2000")]);
        harness.counts = true;
        harness.prompt("go");
        if changed {
            assert_eq!(change(&mut harness, Change::Model("other".into())), None);
        }
        harness.calls(&[("1", "read_file", "{}")]);
        harness.result("1", &"x".repeat(8000));
        assert_eq!(
            harness.last_request().len() == 1,
            !changed,
            "a summary is requested if the window is known to be full"
        );
    }
}

// Before the runner is ready, the session changes the setting; the runner still has the earlier
// one.
#[test]
fn model_changed_before_ready_is_reported_and_used() {
    let early =
        |harness: &mut Harness| assert_eq!(change(harness, Change::Model("other".into())), None);
    let (mut changed, mut set) = (Harness::new(&[]), Harness::new(&[("model", "other")]));
    early(&mut changed);
    for harness in [&mut changed, &mut set] {
        harness.feed(&json!({"ostler": {"ready": {"model": "m", "cwd": "/", "tools": []}}}));
        let shown = |kind: &EventKind| {
            if let EventKind::Started(started) = kind {
                started.model.clone()
            } else {
                None
            }
        };
        assert_eq!(
            harness.events.iter().rev().find_map(shown).as_deref(),
            Some("other")
        );
        harness.prompt("go");
        assert_eq!(harness.commands().last().unwrap()["call"]["model"], "other");
    }
}
