//! What the caller says in the middle of a turn: a message for it, another model.

use ostler_core::dialect::{Change, FromConversation, ToAgent};
use ostler_core::event::EventKind;
use ostler_core::outcome::Cause;
use ostler_dialects::scripted::Scripted;
use serde_json::{Value, json};

use super::stage::{Stage, spec};

fn told(messages: &[Value]) -> Vec<String> {
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
fn a_message_in_between_stands_behind_the_results_of_the_tools() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.steer("early");
    stage.calls(&[("1", "read_file", "{}"), ("2", "read_file", "{}")]);
    stage.result("2", "b");
    stage.steer("late");
    assert_eq!(stage.orders().len(), 2, "it waits for the next request");
    stage.result("1", "a");
    assert_eq!(
        told(&stage.asked()),
        [
            "user: go",
            "assistant: -",
            "tool: b",
            "tool: a",
            "user: early",
            "user: late"
        ]
    );
    assert_eq!(stage.notices(), ["steered", "steered", "steer_taken"]);
    stage.text("done");
    assert_eq!((stage.ended().len(), stage.cause()), (1, Cause::Completed));
}

#[test]
fn an_answer_that_does_not_know_the_message_does_not_end_the_turn() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    stage.steer("wait");
    stage.text("done");
    assert_eq!(stage.ended().len(), 0);
    assert_eq!(
        told(&stage.asked()),
        ["user: go", "assistant: done", "user: wait"]
    );
    stage.text("waited");
    assert_eq!(stage.ended()[0].text.as_deref(), Some("waited"));
    assert_eq!(
        stage.ended()[0].usage[0].output,
        Some(20),
        "both answers are counted"
    );
}

#[test]
fn a_message_that_came_too_late_is_kept_for_the_next_turn() {
    let interrupt = |stage: &mut Stage| {
        stage.calls(&[("1", "read_file", "{}")]);
        stage.interrupt();
        stage.hear(&json!({"ostler": "cancelled"}));
    };
    let limit = |stage: &mut Stage| stage.text("done");
    let cut = |stage: &mut Stage| {
        stage.hear(&json!({"ostler": {"failed": {"kind": "cut", "message": "reset"}}}))
    };
    type Way<'a> = (&'a str, &'a dyn Fn(&mut Stage), Cause);
    let ways: [Way<'_>; 4] = [
        ("100", &interrupt, Cause::Interrupted),
        ("1", &limit, Cause::TurnLimit),
        ("100", &cut, Cause::Network),
        (
            "1",
            &|stage| {
                limit(stage);
                stage.steer("after");
            },
            Cause::TurnLimit,
        ),
    ];
    for (steps, way, cause) in ways {
        let mut stage = Stage::new(&[("max_turns", steps)]);
        stage.say("go");
        stage.steer("kept");
        way(&mut stage);
        assert_eq!((stage.ended().len(), stage.cause()), (1, cause));
        assert!(stage.notices().contains(&"steer_kept"), "never silently");
        stage.say("next");
        let told = told(&stage.asked());
        assert!(
            told.iter().filter(|m| *m == "user: kept").count() == 1
                && told.last().unwrap() == "user: next",
            "{told:?}"
        );
    }
}

fn change(stage: &mut Stage, change: Change) -> Option<String> {
    stage.tell(ToAgent::Change { id: 7, change });
    let error = |out: &FromConversation| {
        if let FromConversation::Changed { id: 7, error } = out {
            Some(error.clone())
        } else {
            None
        }
    };
    stage.outs.last().and_then(error).unwrap()
}

#[test]
fn another_model_is_asked_from_the_next_request_on() {
    let mut stage = Stage::new(&[]);
    stage.say("go");
    assert_eq!(change(&mut stage, Change::Model("other".into())), None);
    stage.calls(&[("1", "read_file", "{}")]);
    stage.result("1", "x");
    let models: Vec<_> = stage
        .orders()
        .iter()
        .filter_map(|o| o["call"]["model"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(models, ["m", "other"]);
    let wrong = [
        Change::Model("two words".into()),
        Change::Model(String::new()),
        Change::PermissionMode("plan".into()),
    ];
    assert!(wrong.into_iter().all(|it| change(&mut stage, it).is_some()));
    let mut scripted = Stage::of(&Scripted, &spec(&[]));
    assert!(
        change(&mut scripted, Change::Model("other".into()))
            .unwrap()
            .contains("scripted")
    );
}

// What the settings say of price and window is about the model that they were given with; no number is guessed.
#[test]
fn the_price_follows_the_model() {
    for (official, listed) in [(true, Some(2.0)), (false, None)] {
        let mut stage = Stage::new(&[("price", "7/7")]);
        stage.hear(&json!({"ostler": {"ready": {"model": "gpt-4o", "cwd": "/", "tools": [], "official": official}}}));
        let cost = |stage: &mut Stage| {
            stage.hear(
                &json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0}}),
            );
            stage.over();
            let usage = stage.ended().last().unwrap().usage[0].clone();
            (usage.model.unwrap(), usage.cost_usd)
        };
        stage.say("go");
        assert_eq!(change(&mut stage, Change::Model("gpt-4.1".into())), None);
        assert_eq!(
            cost(&mut stage),
            ("gpt-4o".into(), Some(7.0)),
            "it was asked before"
        );
        stage.say("again");
        assert_eq!(cost(&mut stage), ("gpt-4.1".into(), listed));
        assert_eq!(change(&mut stage, Change::Model("gpt-4o".into())), None);
        stage.say("and back");
        assert_eq!(cost(&mut stage), ("gpt-4o".into(), Some(7.0)));
    }
}

#[test]
fn the_window_follows_the_model() {
    for changed in [false, true] {
        let mut stage = Stage::new(&[("context_window", "2000")]);
        stage.counts = true;
        stage.say("go");
        if changed {
            assert_eq!(change(&mut stage, Change::Model("other".into())), None);
        }
        stage.calls(&[("1", "read_file", "{}")]);
        stage.result("1", &"x".repeat(8000));
        assert_eq!(
            stage.asked().len() == 1,
            !changed,
            "a summary is asked for when the window is known to be full"
        );
    }
}

// Before the body is there, the session changes the setting; the body still has the earlier one.
#[test]
fn a_model_that_was_changed_before_the_first_word_is_shown_and_asked() {
    let early = |stage: &mut Stage| assert_eq!(change(stage, Change::Model("other".into())), None);
    let (mut changed, mut set) = (Stage::new(&[]), Stage::new(&[("model", "other")]));
    early(&mut changed);
    for stage in [&mut changed, &mut set] {
        stage.hear(&json!({"ostler": {"ready": {"model": "m", "cwd": "/", "tools": []}}}));
        let shown = |kind: &EventKind| {
            if let EventKind::Started(started) = kind {
                started.model.clone()
            } else {
                None
            }
        };
        assert_eq!(
            stage.events.iter().rev().find_map(shown).as_deref(),
            Some("other")
        );
        stage.say("go");
        assert_eq!(stage.orders().last().unwrap()["call"]["model"], "other");
    }
}
