//! Limit on stored events: whatever form a flood takes, the session ends and its log stays small.

use proptest::prelude::*;

use super::*;
use crate::event::Unreadable;
use crate::permission::{Fallback, PermissionRequest, ToolKind, ToolUse};
use crate::spec::Attendance;

const LIMIT: u64 = 20_000;

/// JSON size of the emitted events, except those that end turns and the session.
fn stored(rig: &Rig) -> u64 {
    let ends = |kind: &&EventKind| !matches!(kind, EventKind::TurnEnded(_) | EventKind::Ended(_));
    rig.events()
        .iter()
        .copied()
        .filter(ends)
        .map(|kind| serde_json::to_string(kind).unwrap().len() as u64)
        .sum()
}

fn limited(after: AfterTurn) -> Rig {
    let mut rig = Rig::new(Limits::default().event_bytes(LIMIT), after);
    rig.machine = Machine::new(rig.machine.limits.clone(), after).with_policy(
        None,
        "/w".into(),
        Attendance::Attended,
    );
    for input in [
        Input::Send("hi".into()),
        Input::Start,
        Input::Spawned,
        event(started()),
    ] {
        rig.give(input);
    }
    rig
}

fn notice(n: usize) -> Notice {
    Notice::new(Level::Warning, "w".into(), "n".repeat(n))
}

/// The nth input of a flood.
type Flood = fn(usize) -> Input;

/// Every way in which an agent can make Ostler store something.
fn floods() -> Vec<(&'static str, Flood)> {
    vec![
        ("text", |_| event(text(&"t".repeat(500)))),
        ("escaped text", |_| event(text(&"\u{1}".repeat(100)))),
        ("empty text", |_| event(text(""))),
        ("tool calls", |n| event(call(&n.to_string()))),
        ("tool results", |n| {
            let (id, output) = (n.to_string(), "o".repeat(700));
            event(
                ToolResult {
                    id,
                    name: None,
                    ok: true,
                    output,
                    denied: false,
                    content: None,
                }
                .into(),
            )
        }),
        ("unreadable lines", |_| {
            event(
                Unreadable {
                    raw: "x".repeat(300),
                    why: "no".into(),
                    length: 300,
                    lossy: false,
                }
                .into(),
            )
        }),
        ("the agent's notices", |_| event(notice(300).into())),
        ("remarks", |_| Input::Notice(notice(300))),
        ("usage", |n| event(used(&n.to_string(), 1))),
        ("identification", |_| event(started())),
        ("questions", |n| {
            let (wants, input) = (
                ToolUse::new("t", ToolKind::Other),
                Some(RawJson::string(&"i".repeat(400))),
            );
            requested(PermissionRequest {
                id: n.to_string(),
                call: None,
                input,
                wants,
                fallback: Fallback::Person,
            })
        }),
    ]
}

#[test]
fn a_flood_of_any_kind_ends_the_turn_and_then_the_session() {
    for (name, flood) in floods() {
        let mut rig = limited(AfterTurn::Wait);
        for n in 0..2000 {
            rig.give(flood(n));
        }
        assert!(rig.machine.is_log_full(), "{name}");
        assert!(
            rig.has_effect(&Effect::Send(ToAgent::Interrupt)),
            "{name}: interrupted first"
        );
        // Its results, answers and states are each as small as what they belong to.
        assert!(stored(&rig) <= 2 * LIMIT, "{name}: {}", stored(&rig));
        let before = stored(&rig);
        for n in 0..2000 {
            rig.give(flood(n));
        }
        assert_eq!(
            stored(&rig),
            before,
            "{name}: nothing more from the agent is stored"
        );
        rig.give(turn_ended(over(Cause::Interrupted)))
            .give(Input::Exited(exit(0), None));
        assert_eq!(rig.turn_ended().outcome.cause, Cause::OutputLimit, "{name}");
        assert_eq!(rig.ended().outcome.cause, Cause::OutputLimit, "{name}");
        assert!(
            rig.ended()
                .outcome
                .hint
                .as_ref()
                .is_some_and(|hint| hint.contains("--max-log-size")),
            "{name}"
        );
        let notices = rig
            .events()
            .into_iter()
            .filter(|it| matches!(it, EventKind::Notice(it) if it.code.as_str() == "log_full"));
        assert_eq!(notices.count(), 1, "{name}");
    }
}

#[test]
fn an_agent_that_does_not_stop_is_terminated() {
    let mut rig = limited(AfterTurn::End);
    for _ in 0..100 {
        rig.give(event(text(&"t".repeat(500))));
    }
    rig.wait(5 * S);
    assert!(
        rig.has_effect(&Effect::Do(Action::Terminate))
            && !rig.has_effect(&Effect::Do(Action::Kill))
    );
    rig.wait(5 * S);
    assert!(rig.has_effect(&Effect::Do(Action::Kill)));
    rig.give(Input::Exited(
        Exit {
            signal: Some(9),
            ..Exit::default()
        },
        None,
    ));
    assert_eq!(
        (rig.turn_ended().outcome.cause, rig.ended().outcome.cause),
        (Cause::OutputLimit, Cause::OutputLimit)
    );
}

#[test]
fn a_flood_between_turns_ends_the_session() {
    let mut rig = limited(AfterTurn::Wait);
    rig.give(turn_ended(over(Cause::Completed)));
    for _ in 0..100 {
        rig.give(event(notice(500).into()));
    }
    assert!(rig.has_effect(&Effect::Do(Action::CloseInput)));
    rig.give(Input::Send("more".into()))
        .give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::OutputLimit);
    assert_eq!(
        rig.turn_ended().outcome.cause,
        Cause::Completed,
        "the turn was already over"
    );
}

#[test]
fn an_event_that_does_not_fit_is_dropped() {
    let mut rig = limited(AfterTurn::End);
    rig.give(event(text(&"t".repeat(60_000))));
    assert!(
        rig.machine.is_log_full() && stored(&rig) < LIMIT,
        "{}",
        stored(&rig)
    );
}

#[test]
fn added_turns_count_too() {
    let mut rig = limited(AfterTurn::Wait);
    for _ in 0..1000 {
        let long = TurnResult {
            text: Some("a".repeat(300)),
            ..over(Cause::Completed)
        };
        rig.give(turn_ended(long)).give(turn_started());
    }
    rig.give(turn_ended(over(Cause::Interrupted)))
        .give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::OutputLimit);
    let all: usize = rig
        .events()
        .iter()
        .map(|kind| serde_json::to_string(kind).unwrap().len())
        .sum();
    assert!(all as u64 <= 2 * LIMIT, "{all}");
}

#[test]
fn the_last_result_of_a_flood_has_no_text() {
    let mut rig = limited(AfterTurn::End);
    for _ in 0..100 {
        rig.give(event(text(&"t".repeat(500))));
    }
    let usage: Vec<Usage> = (0..5000)
        .map(|n| Usage::for_turn(Some(n.to_string()), Tokens::default()))
        .collect();
    let (text, structured) = (
        Some("a".repeat(1_000_000)),
        Some(RawJson::string(&"b".repeat(1_000_000))),
    );
    rig.give(turn_ended(TurnResult {
        text,
        structured,
        usage,
        ..over(Cause::Completed)
    }));
    rig.give(Input::Exited(exit(0), None));
    let all: usize = rig
        .events()
        .iter()
        .map(|kind| serde_json::to_string(kind).unwrap().len())
        .sum();
    assert!(all as u64 <= 3 * LIMIT, "{all}");
}

#[test]
fn without_a_limit_nothing_is_dropped() {
    let mut rig = Rig::new(Limits::default().event_bytes(None), AfterTurn::End);
    for input in [
        Input::Send("hi".into()),
        Input::Start,
        Input::Spawned,
        event(started()),
    ] {
        rig.give(input);
    }
    for _ in 0..1000 {
        rig.give(event(text(&"t".repeat(500))));
    }
    assert_eq!(
        rig.kinds().iter().filter(|word| **word == "text").count(),
        1000
    );
}

proptest! {
    // What the agent makes Ostler store is within the limit, plus the replies owed to each stored
    // call and request.
    #[test]
    fn no_mixture_of_floods_exceeds_the_limit(
        which in proptest::collection::vec((0..floods().len(), 0usize..50), 0..300),
        turns in proptest::collection::vec(0usize..300, 0..4),
    ) {
        let floods = floods();
        let mut rig = limited(AfterTurn::Wait);
        for (at, (form, n)) in which.iter().enumerate() {
            rig.give(floods[*form].1(*n));
            if turns.contains(&at) {
                rig.give(turn_ended(over(Cause::Completed))).give(Input::Send("more".into()));
            }
        }
        let full = rig.machine.is_log_full();
        rig.give(Input::Kill).give(Input::Exited(Exit::default(), None));
        prop_assert!(stored(&rig) <= 2 * LIMIT, "{}", stored(&rig));
        prop_assert_eq!(rig.kinds().last().copied(), Some("ended"));
        prop_assert!(!full || rig.machine.state() == SessionState::Ended);
    }
}
