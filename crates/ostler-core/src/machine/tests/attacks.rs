//! What a review tried against the machine: each of these once went wrong.

use super::live::{able, ruled, waiting};
use super::*;
use crate::dialect::Capabilities;
use crate::permission::{Otherwise, PermissionRequest, Policy, ToolKind, ToolUse, Trust, Verdict};
use crate::spec::Attendance;

#[test]
fn a_wall_budget_that_is_over_does_not_ask_for_time_again() {
    let mut rig = waiting(
        Limits {
            budget_wall: Some(60 * S),
            ..Limits::default()
        },
        able(),
    );
    rig.wait(48 * S).wait(12 * S);
    assert!(rig.did(&Effect::Send(ToAgent::Interrupt)));
    let d = rig.machine.deadline().unwrap();
    assert!(d > rig.now, "deadline {d:?} now {:?}", rig.now);
}

#[test]
fn nor_when_the_turn_was_interrupted_before() {
    let mut rig = waiting(
        Limits {
            budget_wall: Some(60 * S),
            ..Limits::default()
        },
        able(),
    );
    rig.wait(58 * S).give(Input::Interrupt).wait(2 * S);
    let d = rig.machine.deadline().unwrap();
    assert!(d > rig.now, "deadline {d:?} now {:?}", rig.now);
}

#[test]
fn what_was_allowed_always_gives_way_to_a_rule() {
    let rules =
        "[[rule]]\npath = \"**/.env\"\ndo = \"deny\"\n[[rule]]\ntool = \"Edit\"\ndo = \"ask\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    let mut rig = ruled(
        waiting(Limits::default(), able()),
        Some(policy),
        Attendance::Attended,
    );
    let ask = |id: &str, path: &str| {
        let wants = ToolUse {
            paths: vec![path.into()],
            ..ToolUse::of("Edit", ToolKind::Edit)
        };
        Input::PermissionRequested(PermissionRequest {
            id: id.into(),
            call: Some(format!("c{id}")),
            input: None,
            wants,
            otherwise: Otherwise::Agent,
        })
    };
    rig.give(ask("0", "/w/.env"));
    rig.give(ask("1", "/w/a.txt"))
        .give(Input::PermissionAnswered(
            "c1".into(),
            PermissionAnswer::AllowAlways,
        ));
    rig.give(ask("2", "/w/.env")).give(ask("3", "/etc/passwd"));
    let v: Vec<_> = rig
        .effects
        .iter()
        .filter_map(|e| match e {
            Effect::Send(ToAgent::Verdict { id, verdict }) => Some((id.clone(), verdict.clone())),
            _ => None,
        })
        .collect();
    assert!(
        !v.iter().any(|(id, v)| id == "2" && *v == Verdict::Allow),
        "{v:?}"
    );
}

#[test]
fn a_session_that_is_being_stopped_cannot_be_frozen() {
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::Stop).give(Input::Freeze);
    assert!(
        rig.machine.deadline().is_some(),
        "nothing will ever end it; frozen={:?}",
        rig.machine.frozen
    );
}

#[test]
fn a_turn_that_ends_with_its_process_has_its_budget() {
    let mut rig = waiting(
        Limits {
            budget_tokens: Some(100),
            ..Limits::default()
        },
        Capabilities {
            many_turns: false,
            ..able()
        },
    );
    for n in 0..5 {
        let usage = Usage::of(
            Some("m".into()),
            Tokens {
                input: 1000,
                ..Tokens::default()
            },
        );
        rig.give(Input::Exited(
            exit(0),
            Some(TurnResult {
                usage: vec![usage],
                ..over(Cause::Completed)
            }),
        ));
        rig.give(Input::Send(format!("{n}"))).give(Input::Spawned);
    }
    assert!(
        rig.machine.turn() < 3,
        "turns {} state {:?}",
        rig.machine.turn(),
        rig.machine.state()
    );
}

#[test]
fn late_usage_ends_a_session_too() {
    let mut rig = waiting(
        Limits {
            budget_tokens: Some(100),
            ..Limits::default()
        },
        able(),
    );
    rig.give(Input::TurnEnded(over(Cause::Completed)))
        .give(Input::Event(used("m", 1000)));
    rig.give(Input::Send("two".into()));
    assert!(
        rig.machine.turn() < 2,
        "second turn began; state {:?} {:?}",
        rig.machine.state(),
        rig.words()
    );
}

#[test]
fn a_session_of_no_messages_ends_at_once() {
    let mut rig = Rig::new(
        Limits {
            budget_turns: Some(0),
            ..Limits::default()
        },
        AfterTurn::End,
    );
    rig.give(Input::Send("x".into())).give(Input::Start);
    for _ in 0..4 {
        rig.wait(5 * S);
    }
    let left = rig
        .events()
        .into_iter()
        .any(|w| matches!(w, EventKind::Notice(n) if n.code == "process_left"));
    assert!(!left, "{:?}", rig.words());
}

#[test]
fn a_failed_restart_does_not_move_the_clock() {
    let mut rig = Rig::new(
        Limits {
            budget_wall: Some(60 * S),
            ..Limits::default()
        },
        AfterTurn::Wait,
    );
    rig.machine = rig.machine.with_capabilities(able());
    rig.give(Input::Start)
        .give(Input::Spawned)
        .give(Input::Exited(exit(1), None));
    rig.now = 3600 * S;
    rig.give(Input::Send("one".into()))
        .give(Input::SpawnFailed(Outcome::new(Cause::Unavailable, "gone")));
    rig.give(Input::Tick);
    assert_ne!(
        rig.machine.state(),
        SessionState::Ended,
        "ended: {:?}",
        rig.ended().outcome
    );
}

#[test]
fn an_agent_that_went_between_turns_does_not_spoil_the_outcome() {
    let mut rig = waiting(Limits::default(), able());
    rig.give(Input::TurnEnded(over(Cause::Completed)))
        .give(Input::Exited(exit(0), None))
        .give(Input::Stop);
    assert_eq!(rig.ended().outcome.cause, Cause::Completed);
}

#[test]
fn questions_are_not_remembered_for_ever() {
    let policy = Policy::parse(
        "[[rule]]\ntool = \"Bash\"\ndo = \"deny\"\n",
        "t",
        Trust::Full,
    )
    .unwrap();
    let mut rig = ruled(
        waiting(Limits::default(), able()),
        Some(policy),
        Attendance::Unattended,
    );
    for n in 0..50_000 {
        let id = format!("toolu_01ABCDEFGHIJKLMNOPQR{n:08}");
        rig.give(Input::ToolCalled(
            id.clone(),
            ToolUse::of("Bash", ToolKind::Execute),
        ))
        .give(Input::Event(call(&id)));
        if n % 2 == 0 {
            rig.give(Input::TurnEnded(over(Cause::Completed)))
                .give(Input::Send("x".into()));
        }
        rig.effects.clear();
    }
    assert!(
        format!("{:?}", rig.machine.permissions).len() < 100_000,
        "asking {} tools {}",
        format!("{:?}", rig.machine.permissions).len(),
        format!("{:?}", rig.machine.tools).len()
    );
}

#[test]
fn a_change_at_the_start_waits_for_the_agent() {
    use crate::dialect::Change;
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    rig.machine = rig.machine.with_capabilities(able());
    rig.give(Input::Send("one".into())).give(Input::Start); // Effect::Spawn: the driver has built the command line
    rig.give(Input::Change(Change::Model("m".into())))
        .give(Input::Spawned)
        .give(Input::Event(started()));
    let said = rig
        .effects
        .iter()
        .any(|e| matches!(e, Effect::Send(ToAgent::Change { .. })));
    let claimed = rig
        .events()
        .into_iter()
        .any(|w| matches!(w, EventKind::Notice(n) if n.code == "model_changed"));
    assert!(
        said || !claimed,
        "model_changed was told, and the process that was being started has the old model"
    );
}

#[test]
fn an_interrupt_of_a_frozen_agent_has_its_usual_time() {
    let mut rig = waiting(
        Limits {
            wall: None,
            idle: None,
            ..Limits::default()
        },
        able(),
    );
    rig.give(Input::Freeze);
    rig.now += 3600 * S;
    rig.give(Input::Interrupt);
    rig.now += S;
    rig.give(Input::Resume);
    let left = rig.machine.deadline().unwrap() - rig.now;
    assert!(
        left <= 6 * S,
        "the agent has {left:?} to answer, grace is 5 s"
    );
}

#[test]
fn a_change_of_a_frozen_agent_has_its_usual_time() {
    use crate::dialect::Change;
    let mut rig = waiting(
        Limits {
            wall: None,
            idle: None,
            ..Limits::default()
        },
        able(),
    );
    rig.give(Input::Freeze);
    rig.now += 3600 * S;
    rig.give(Input::Change(Change::Model("m".into())));
    rig.now += S;
    rig.give(Input::Resume);
    let left = rig.machine.deadline().unwrap() - rig.now;
    assert!(left <= 31 * S, "the agent has {left:?} to answer");
}
