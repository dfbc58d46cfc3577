//! Session budgets: warnings at four fifths, the end at the limit, and the sums that count.

use super::live::{all_capabilities, waiting};
use super::*;
use crate::usage::Scope;

fn spent(cost: f64) -> Usage {
    Usage::for_turn(Some("m".into()), Tokens::default()).reported(cost)
}

fn money(limit: f64) -> Rig {
    let limits = Limits {
        budget_usd: Some(limit),
        ..Limits::default()
    };
    waiting(limits, all_capabilities())
}

fn warnings(rig: &Rig) -> Vec<&str> {
    let messages = rig.events().into_iter().filter_map(|kind| match kind {
        EventKind::Notice(notice) if notice.code == NoticeCode::BudgetNear => {
            Some(notice.message.as_str())
        }
        _ => None,
    });
    messages.collect()
}

fn is_interrupted(rig: &Rig) -> bool {
    rig.has_effect(&Effect::Send(ToAgent::Interrupt))
}

fn is_closed(rig: &Rig) -> bool {
    rig.has_effect(&Effect::Do(Action::CloseInput))
}

#[test]
fn money_warns_once_at_four_fifths_and_interrupts_at_the_limit() {
    let mut rig = money(10.0);
    rig.give(event(spent(7.99).into()));
    assert_eq!((warnings(&rig).len(), is_interrupted(&rig)), (0, false));
    rig.give(event(spent(8.0).into()));
    assert_eq!(warnings(&rig), ["$8.0000 of the $10 budget is used."]);
    rig.give(event(spent(9.99).into()));
    assert_eq!((warnings(&rig).len(), is_interrupted(&rig)), (1, false));
    rig.give(event(spent(10.0).into()));
    assert!(is_interrupted(&rig));
    rig.give(turn_ended(over(Cause::Interrupted)));
    let outcome = &rig.turn_ended().outcome;
    assert_eq!(outcome.cause, Cause::Budget);
    assert_eq!(
        outcome.message,
        "The session has cost $10.0000; the budget is $10."
    );
    assert!(
        outcome
            .hint
            .as_deref()
            .unwrap()
            .contains("--max-budget-usd")
    );
}

#[test]
fn earlier_turns_count_towards_the_budget() {
    let mut rig = money(10.0);
    let first = TurnResult {
        usage: vec![spent(6.0)],
        ..over(Cause::Completed)
    };
    rig.give(turn_ended(first)).give(Input::Send("two".into()));
    rig.give(event(spent(1.0).into()));
    assert_eq!(warnings(&rig), [""; 0]);
    rig.give(event(spent(2.0).into()));
    assert_eq!(warnings(&rig), ["$8.0000 of the $10 budget is used."]);
    rig.give(event(spent(3.99).into()));
    assert!(!is_interrupted(&rig));
    rig.give(event(spent(4.0).into()));
    assert!(is_interrupted(&rig));

    let mut rig = waiting(Limits::default().budget_tokens(100), all_capabilities());
    let first = TurnResult {
        usage: vec![Usage::for_turn(
            None,
            Tokens {
                input: 60,
                ..Tokens::default()
            },
        )],
        ..over(Cause::Completed)
    };
    rig.give(turn_ended(first)).give(Input::Send("two".into()));
    rig.give(event(used("m", 19)));
    assert_eq!(warnings(&rig), [""; 0]);
    rig.give(event(used("m", 39)));
    assert_eq!(warnings(&rig), ["99 of the 100 budgeted tokens are used."]);
    assert!(!is_interrupted(&rig));
    rig.give(event(used("m", 40)));
    assert!(is_interrupted(&rig));
}

#[test]
fn a_report_about_the_session_is_not_added_to_earlier_turns() {
    let session = |cost: f64| Usage {
        scope: Scope::Session,
        ..spent(cost)
    };
    let mut rig = money(10.0);
    let first = TurnResult {
        usage: vec![spent(6.0)],
        ..over(Cause::Completed)
    };
    rig.give(turn_ended(first)).give(Input::Send("two".into()));
    rig.give(event(session(7.0).into()));
    assert_eq!((warnings(&rig).len(), is_interrupted(&rig)), (0, false));
    rig.give(event(session(10.0).into()));
    assert_eq!((warnings(&rig).len(), is_interrupted(&rig)), (1, true));
}

#[test]
fn a_turn_that_reaches_the_budget_at_its_end_ends_the_session() {
    for (cost, ends) in [(9.99, false), (10.0, true)] {
        let mut rig = money(10.0);
        let last = TurnResult {
            usage: vec![spent(cost)],
            ..over(Cause::Completed)
        };
        rig.give(turn_ended(last));
        assert_eq!(is_closed(&rig), ends, "{cost}");
        assert_eq!(rig.turn_ended().outcome.cause, Cause::Completed);
        assert_eq!(warnings(&rig).len(), 1, "{cost}");
    }
}

#[test]
fn the_last_fifth_of_the_messages_is_announced() {
    let limits = Limits::default().budget_turns(10);
    let mut rig = waiting(limits, all_capabilities());
    for n in 2..=10 {
        assert_eq!(
            warnings(&rig).len(),
            usize::from(n > 8),
            "before message {n}"
        );
        rig.give(turn_ended(over(Cause::Completed)));
        rig.give(Input::Send(n.to_string()));
    }
    assert_eq!(warnings(&rig), ["This is message 8 of 10."]);
    // A refused message does not end the turn in progress.
    rig.give(Input::Send("11".into()));
    assert!(!is_closed(&rig));
    let refused = |kind: &&EventKind| matches!(kind, EventKind::Refused(_));
    assert_eq!(rig.events().iter().filter(|kind| refused(kind)).count(), 1);
}

#[test]
fn queued_messages_count_towards_the_limit() {
    let mut rig = waiting(Limits::default().budget_turns(3), all_capabilities());
    for n in ["2", "3", "4"] {
        rig.give(Input::Send(n.into()));
    }
    assert_eq!(warnings(&rig), ["This is message 3 of 3."]);
    assert_eq!(
        rig.kinds()
            .iter()
            .filter(|kind| **kind == "refused")
            .count(),
        1
    );
    rig.give(turn_ended(over(Cause::Completed)));
    assert!(!is_closed(&rig), "two messages are queued");
}

#[test]
fn time_warns_at_four_fifths_and_interrupts_at_the_limit() {
    let limits = Limits {
        budget_wall: Some(100 * S),
        ..Limits::default()
    };
    let mut rig = waiting(limits, all_capabilities());
    let mut passed = 0;
    for (at, warned, interrupted) in [
        (79, 0, false),
        (80, 1, false),
        (99, 1, false),
        (100, 1, true),
    ] {
        rig.wait((at - passed) * S);
        passed = at;
        assert_eq!(
            (warnings(&rig).len(), is_interrupted(&rig)),
            (warned, interrupted),
            "{at}"
        );
    }
    assert_eq!(
        warnings(&rig),
        ["80% of the session's time (100s) is used."]
    );
    rig.give(turn_ended(over(Cause::Interrupted)));
    let outcome = &rig.turn_ended().outcome;
    assert_eq!(
        outcome.message,
        "The session has reached its time limit of 100s."
    );
    assert!(is_closed(&rig));
}

fn charged(cost_usd: f64, tokens: u64) -> Input {
    Input::Charge(Charge { cost_usd, tokens })
}

#[test]
fn what_others_use_counts_towards_the_budget() {
    // During a turn.
    let mut rig = money(10.0);
    rig.give(event(spent(3.0).into())).give(charged(4.9, 7));
    assert_eq!((warnings(&rig).len(), is_interrupted(&rig)), (0, false));
    rig.give(charged(5.0, 7));
    assert_eq!(warnings(&rig), ["$8.0000 of the $10 budget is used."]);
    rig.give(event(spent(5.0).into()));
    assert!(is_interrupted(&rig));
    rig.give(turn_ended(over(Cause::Interrupted)));
    assert_eq!(
        rig.turn_ended().outcome.message,
        "The session and its children have cost $10.0000; the budget is $10."
    );

    // Before the session has used anything that is known, and between turns.
    for in_turn in [true, false] {
        let mut rig = waiting(Limits::default().budget_tokens(100), all_capabilities());
        if !in_turn {
            rig.give(turn_ended(over(Cause::Completed)));
        }
        rig.give(charged(0.0, 99));
        assert_eq!(warnings(&rig).len(), 1);
        assert!(!is_interrupted(&rig) && !is_closed(&rig));
        rig.give(charged(0.0, 100));
        assert_eq!((is_interrupted(&rig), is_closed(&rig)), (in_turn, !in_turn));
    }
}
