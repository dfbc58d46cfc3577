//! Tool calls and their results; a turn's usage and its source.

use super::*;
use crate::event::Ended;

fn results(rig: &Rig) -> Vec<(&str, bool)> {
    let result = |w: &&EventKind| {
        if let EventKind::ToolResult(r) = w {
            Some(r.clone())
        } else {
            None
        }
    };
    let ids: Vec<_> = rig.events().iter().filter_map(result).collect();
    ids.iter()
        .map(|r| (if r.id == "1" { "1" } else { "other" }, r.ok))
        .collect()
}

#[test]
fn a_late_result_is_only_a_notice() {
    let mut rig = Rig::working();
    rig.machine.after_turn = AfterTurn::Wait;
    rig.give(event(call("1")))
        .give(turn_ended(over(Cause::Completed)));
    let mut late = result("1");
    if let EventKind::ToolResult(it) = &mut late {
        it.output = "ü".repeat(5000);
    }
    rig.give(event(late));
    assert_eq!(results(&rig), [("1", false)]);
    let events = rig.events();
    let Some(EventKind::Notice(notice)) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(
        (notice.code.as_str(), notice.level),
        ("late_tool_result", Level::Debug)
    );
    assert!(
        notice.message.len() < 1200 && notice.message.ends_with("ü…"),
        "{}",
        notice.message
    );
}

#[test]
fn a_call_outside_of_a_turn_gets_its_result_too() {
    let mut rig = Rig::working();
    rig.machine.after_turn = AfterTurn::Wait;
    rig.give(turn_ended(over(Cause::Completed)))
        .give(event(call("1")))
        .give(event(call("1")));
    assert_eq!(results(&rig), []);
    rig.give(turn_started())
        .give(turn_ended(over(Cause::Completed)));
    assert_eq!(results(&rig), [("1", false)]);
    rig.give(event(call("2")))
        .give(Input::Exited(exit(0), None));
    assert_eq!(results(&rig), [("1", false), ("other", false)]);
    assert_eq!(rig.kinds().last(), Some(&"ended"));
}

// An agent may reuse call ids in every turn.
#[test]
fn an_id_can_be_reused() {
    let mut rig = Rig::working();
    for _ in 0..2 {
        rig.give(event(call("1"))).give(event(result("1")));
    }
    assert_eq!(results(&rig), [("1", true), ("1", true)]);
}

#[test]
fn many_open_calls_are_paired_in_order() {
    let mut rig = Rig::working();
    let ids: Vec<String> = (0..60_000)
        .map(|n| format!("{:x}", n * 7919 % 60_000))
        .collect();
    for id in &ids {
        rig.give(event(call(id)));
    }
    for id in ids.iter().rev().take(30_000) {
        rig.give(event(result(id)));
    }
    rig.give(turn_ended(over(Cause::Completed)));
    let events = rig.events();
    let closed: Vec<&str> = events
        .iter()
        .filter_map(|w| {
            if let EventKind::ToolResult(r) = w {
                (!r.ok).then_some(r.id.as_str())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(closed, ids[..30_000]);
}

fn numbers(usage: Option<&Usage>) -> Option<(Option<u64>, Option<f64>)> {
    usage.map(|usage| (usage.input, usage.cost_usd))
}

// A turn without a final report has the usage that was reported along the way.
#[test]
fn an_interrupted_turn_keeps_its_usage() {
    let ways: [fn(&mut Rig); 3] = [
        |rig| {
            rig.give(Input::Exited(exit(1), None));
        },
        |rig| {
            rig.give(interrupt())
                .wait(5 * S)
                .give(Input::Exited(exit(1), None));
        },
        |rig| {
            rig.give(Input::Exited(exit(1), Some(over(Cause::Auth))));
        },
    ];
    for cut in ways {
        let mut rig = Rig::working();
        rig.give(event(used("a", 10)))
            .give(event(used("a", 30)))
            .give(event(used("b", 5)));
        cut(&mut rig);
        assert_eq!(
            numbers(rig.turn_ended().usage.as_ref()),
            Some((Some(35), None))
        );
        assert_eq!(numbers(rig.ended().usage.as_ref()), Some((Some(35), None)));
    }
}

// The process of an abandoned turn can still report its usage; the session's total includes it,
// once.
#[test]
fn a_late_usage_report_counts_for_the_session() {
    let mut rig = Rig::working();
    rig.give(event(used("a", 10))).give(interrupt()).wait(5 * S);
    rig.give(event(used("a", 30))).give(event(used("b", 5)));
    rig.give(Input::Exited(exit(1), None));
    assert_eq!(
        numbers(rig.turn_ended().usage.as_ref()),
        Some((Some(10), None))
    );
    let Ended { usage, .. } = rig.ended();
    assert_eq!(numbers(usage.as_ref()), Some((Some(35), None)));
}

#[test]
fn a_final_usage_report_replaces_earlier_ones_and_is_final() {
    let mut rig = Rig::working();
    rig.machine.after_turn = AfterTurn::Wait;
    let account = || {
        let usage = Usage::for_turn(
            Some("a".into()),
            Tokens {
                input: 50,
                ..Tokens::default()
            },
        )
        .reported(0.5);
        TurnResult {
            usage: vec![usage],
            ..over(Cause::Completed)
        }
    };
    rig.give(event(used("a", 10)))
        .give(turn_ended(account()))
        .give(event(used("a", 10)));
    rig.give(turn_started())
        .give(turn_ended(account()))
        .give(turn_ended(account()));
    rig.give(Input::Stop).give(Input::Exited(exit(0), None));
    assert_eq!(
        numbers(rig.turn_ended().usage.as_ref()),
        Some((Some(50), Some(0.5)))
    );
    assert_eq!(
        numbers(rig.ended().usage.as_ref()),
        Some((Some(100), Some(1.0)))
    );
}

// A session of many calls does not remember all of them.
#[test]
fn old_calls_are_forgotten() {
    let mut rig = Rig::working();
    for n in 0..25_000 {
        rig.give(event(call(&n.to_string())))
            .give(event(result(&n.to_string())));
        rig.effects.clear();
    }
    let remembered = format!("{:?}", rig.machine.tools).len();
    assert!(remembered < 600_000, "{remembered} bytes");
    rig.give(event(result("24999")));
    assert!(rig.kinds().contains(&"notice") && !rig.kinds().contains(&"tool_result"));
}
