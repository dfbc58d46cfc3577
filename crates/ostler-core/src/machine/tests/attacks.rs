//! Regressions found by a review: each of these once failed.

use super::live::{all_capabilities, waiting, with_rules};
use super::*;
use crate::dialect::Capabilities;
use crate::permission::{Fallback, PermissionRequest, Policy, ToolKind, ToolUse, Trust, Verdict};
use crate::spec::Attendance;

#[test]
fn an_exhausted_time_budget_sets_no_further_deadline() {
    let mut rig = waiting(Limits::default().budget_wall(60 * S), all_capabilities());
    rig.wait(48 * S).wait(12 * S);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    let d = rig.machine.deadline().unwrap();
    assert!(d > rig.now, "deadline {d:?} now {:?}", rig.now);
}

#[test]
fn an_exhausted_time_budget_sets_no_deadline_after_an_interrupt() {
    let mut rig = waiting(Limits::default().budget_wall(60 * S), all_capabilities());
    rig.wait(58 * S).give(interrupt()).wait(2 * S);
    let d = rig.machine.deadline().unwrap();
    assert!(d > rig.now, "deadline {d:?} now {:?}", rig.now);
}

#[test]
fn a_grant_does_not_override_a_rule() {
    let rules =
        "[[rule]]\npath = \"**/.env\"\ndo = \"deny\"\n[[rule]]\ntool = \"Edit\"\ndo = \"ask\"\n";
    let policy = Policy::parse(rules, "test", Trust::Full).unwrap();
    let mut rig = with_rules(
        waiting(Limits::default(), all_capabilities()),
        Some(policy),
        Attendance::Attended,
    );
    let ask = |id: &str, path: &str| {
        let wants = ToolUse {
            paths: vec![path.into()],
            ..ToolUse::new("Edit", ToolKind::Edit)
        };
        requested(PermissionRequest {
            id: id.into(),
            call: Some(format!("c{id}")),
            input: None,
            wants,
            fallback: Fallback::Agent,
        })
    };
    rig.give(ask("0", "/w/.env"));
    rig.give(ask("1", "/w/a.txt"))
        .give(answered("c1".into(), PermissionAnswer::AllowAlways));
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

// An agent gives two requests the same ids. Whoever allows the one that they were shown must not
// allow the other.
#[test]
fn an_answer_reaches_only_the_request_that_was_shown() {
    let mut rig = with_rules(
        waiting(Limits::default(), all_capabilities()),
        None,
        Attendance::Attended,
    );
    let ask = |id: &str, command: &str| {
        requested(PermissionRequest {
            id: id.into(),
            call: Some("X".into()),
            input: Some(serde_json::from_str(command).unwrap()),
            wants: ToolUse::new("Bash", ToolKind::Execute),
            fallback: Fallback::Person,
        })
    };
    rig.give(ask("r1", "\"evil\""))
        .give(ask("X", "\"ls\""))
        .give(ask("X", "\"rm\""));
    let asked = |rig: &Rig, input: &str| -> String {
        let mut kinds = rig.events().into_iter().filter_map(|event| match event {
            EventKind::Permission(it) if it.decision == Decision::Asked => Some(it),
            _ => None,
        });
        let found = kinds.find(|it| it.input.as_ref().is_some_and(|json| json.get() == input));
        found.map(|it| it.id.clone()).unwrap()
    };
    let (evil, ls, rm) = (
        asked(&rig, "\"evil\""),
        asked(&rig, "\"ls\""),
        asked(&rig, "\"rm\""),
    );
    assert!(evil != ls && ls != rm && evil != rm, "{evil} {ls} {rm}");
    rig.give(answered(ls.clone(), PermissionAnswer::Allow));
    let allowed: Vec<_> = rig
        .events()
        .into_iter()
        .filter_map(|event| match event {
            EventKind::Permission(it) if it.decision == Decision::Allowed => Some(it.id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(allowed, std::slice::from_ref(&ls));
    // A later request does not take over the id of one that was decided.
    rig.give(ask("X", "\"late\""));
    assert_ne!(asked(&rig, "\"late\""), ls);
}

#[test]
fn a_stopping_session_cannot_be_frozen() {
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(Input::Stop).give(Input::Freeze);
    assert!(
        rig.machine.deadline().is_some(),
        "nothing will ever end it; frozen={:?}",
        rig.machine.life
    );
}

// The agent gives up its process while the session is being stopped, and then does not react.
#[test]
fn a_stopped_session_ends_although_its_process_was_already_being_ended() {
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(Input::Stop).give(end_process()).wait(5 * S);
    assert_eq!(rig.turn_ended().outcome.cause, Cause::Stopped);
    rig.give(Input::Exited(exit(0), None));
    assert_eq!(rig.machine.state(), SessionState::Ended);
}

#[test]
fn a_turn_that_ends_with_its_process_counts_towards_the_budget() {
    let mut rig = waiting(
        Limits::default().budget_tokens(100),
        Capabilities {
            many_turns: false,
            ..all_capabilities()
        },
    );
    for n in 0..5 {
        let usage = Usage::for_turn(
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
fn late_usage_can_end_the_session() {
    let mut rig = waiting(
        Limits {
            budget_tokens: Some(100),
            ..Limits::default()
        },
        all_capabilities(),
    );
    rig.give(turn_ended(over(Cause::Completed)))
        .give(event(used("m", 1000)));
    rig.give(Input::Send("two".into()));
    assert!(
        rig.machine.turn() < 2,
        "second turn started; state {:?} {:?}",
        rig.machine.state(),
        rig.kinds()
    );
}

#[test]
fn a_session_without_messages_ends_at_once() {
    let mut rig = Rig::new(Limits::default().budget_turns(0), AfterTurn::End);
    rig.give(Input::Send("x".into())).give(Input::Start);
    for _ in 0..4 {
        rig.wait(5 * S);
    }
    let left = rig
        .events()
        .into_iter()
        .any(|w| matches!(w, EventKind::Notice(n) if n.code.as_str() == "process_left"));
    assert!(!left, "{:?}", rig.kinds());
}

#[test]
fn a_failed_restart_does_not_move_the_clock() {
    let mut rig = Rig::new(Limits::default().budget_wall(60 * S), AfterTurn::Wait);
    rig.machine = rig.machine.with_capabilities(all_capabilities());
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
fn an_exit_between_turns_does_not_change_the_outcome() {
    let mut rig = waiting(Limits::default(), all_capabilities());
    rig.give(turn_ended(over(Cause::Completed)))
        .give(Input::Exited(exit(0), None))
        .give(Input::Stop);
    assert_eq!(rig.ended().outcome.cause, Cause::Completed);
}

#[test]
fn decided_requests_are_forgotten_eventually() {
    let policy = Policy::parse(
        "[[rule]]\ntool = \"Bash\"\ndo = \"deny\"\n",
        "t",
        Trust::Full,
    )
    .unwrap();
    let mut rig = with_rules(
        waiting(Limits::default(), all_capabilities()),
        Some(policy),
        Attendance::Unattended,
    );
    for n in 0..50_000 {
        let id = format!("toolu_01ABCDEFGHIJKLMNOPQR{n:08}");
        rig.give(Input::ToolCalled(
            id.clone(),
            ToolUse::new("Bash", ToolKind::Execute),
        ))
        .give(event(call(&id)));
        if n % 2 == 0 {
            rig.give(turn_ended(over(Cause::Completed)))
                .give(Input::Send("x".into()));
        }
        rig.effects.clear();
    }
    assert!(
        format!("{:?}", rig.machine.permissions).len() < 100_000,
        "permissions {} tools {}",
        format!("{:?}", rig.machine.permissions).len(),
        format!("{:?}", rig.machine.tools).len()
    );
}

#[test]
fn a_change_at_the_start_waits_for_the_agent() {
    use crate::dialect::Change;
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    rig.machine = rig.machine.with_capabilities(all_capabilities());
    rig.give(Input::Send("one".into())).give(Input::Start); // the driver has its arguments
    rig.give(change_to(Change::Model("m".into())))
        .give(Input::Spawned)
        .give(event(started()));
    let said = rig
        .effects
        .iter()
        .any(|e| matches!(e, Effect::Send(ToAgent::Change { .. })));
    let claimed = rig
        .events()
        .into_iter()
        .any(|w| matches!(w, EventKind::Notice(n) if n.code.as_str() == "model_changed"));
    assert!(
        said || !claimed,
        "model_changed was emitted, but the starting process has the old model"
    );
}

#[test]
fn an_interrupt_of_a_frozen_agent_has_the_usual_grace_period() {
    let mut rig = waiting(Limits::default().wall(None).idle(None), all_capabilities());
    rig.give(Input::Freeze);
    rig.now += 3600 * S;
    rig.give(interrupt());
    rig.now += S;
    rig.give(Input::Resume);
    let left = rig.machine.deadline().unwrap() - rig.now;
    assert!(
        left <= 6 * S,
        "the agent has {left:?} to reply; the grace period is 5 s"
    );
}

#[test]
fn a_change_of_a_frozen_agent_has_the_usual_timeout() {
    use crate::dialect::Change;
    let mut rig = waiting(Limits::default().wall(None).idle(None), all_capabilities());
    rig.give(Input::Freeze);
    rig.now += 3600 * S;
    rig.give(change_to(Change::Model("m".into())));
    rig.now += S;
    rig.give(Input::Resume);
    let left = rig.machine.deadline().unwrap() - rig.now;
    assert!(left <= 31 * S, "the agent has {left:?} to reply");
}
