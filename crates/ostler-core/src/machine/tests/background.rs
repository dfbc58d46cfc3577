//! An agent's activity after its turn: background tasks, turns it adds, and whose outcome counts.

use super::*;

fn lingering() -> Rig {
    let mut rig = Rig::working();
    rig.give(background(1))
        .give(turn_ended(over(Cause::Completed)));
    rig
}

fn outcome_after(after: AfterTurn, causes: &[Cause]) -> Cause {
    let mut rig = Rig::working();
    rig.machine.after_turn = after;
    rig.give(background(1));
    for (n, cause) in causes.iter().enumerate() {
        if n > 0 {
            rig.give(turn_started());
        }
        rig.give(turn_ended(over(*cause)));
    }
    rig.give(background(0))
        .give(Input::Stop)
        .give(Input::Exited(exit(0), None));
    rig.ended().outcome.cause
}

// The time limit belongs to the task: added turns and background tasks do not get another hour
// each.
#[test]
fn the_wall_limit_of_a_task_counts_from_its_start() {
    let mut rig = lingering();
    rig.wait(40 * 60 * S)
        .give(turn_started())
        .give(event(call("1")))
        .wait(19 * 60 * S);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.wait(60 * S);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.give(turn_ended(over(Cause::Interrupted)))
        .give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::WallLimit);

    let mut rig = lingering();
    rig.wait(40 * 60 * S)
        .give(turn_started())
        .give(turn_ended(over(Cause::Completed)));
    assert_eq!(rig.machine.deadline(), Some(60 * 60 * S));
    rig.wait(20 * 60 * S);
    assert!(rig.has_effect(&Effect::Do(Action::CloseInput)));
}

#[test]
fn the_wall_limit_of_a_waiting_session_applies_per_turn() {
    let mut rig = Rig::working();
    rig.machine.after_turn = AfterTurn::Wait;
    rig.give(turn_ended(over(Cause::Completed)))
        .wait(40 * 60 * S);
    rig.give(Input::Send("more".into()))
        .give(event(call("1")))
        .wait(59 * 60 * S);
    assert!(!rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
    rig.wait(60 * S);
    assert!(rig.has_effect(&Effect::Send(ToAgent::Interrupt)));
}

#[test]
fn added_turns_can_fail_the_outcome_but_not_repair_it() {
    use Cause::{Auth, Completed, Network};
    for (causes, task, waiting) in [
        (&[Auth, Completed][..], Auth, Completed),
        (&[Completed, Network], Network, Network),
        (&[Completed, Network, Completed], Network, Completed),
        (&[Auth, Network], Network, Network),
        (&[Completed, Completed], Completed, Completed),
    ] {
        assert_eq!(outcome_after(AfterTurn::End, causes), task, "{causes:?}");
        assert_eq!(
            outcome_after(AfterTurn::Wait, causes),
            waiting,
            "{causes:?}"
        );
    }
}

#[test]
fn stopping_during_background_tasks_is_a_stop() {
    for how in [Input::Stop, Input::Kill] {
        let mut rig = lingering();
        rig.give(how).give(Input::Exited(exit(0), None));
        assert_eq!(rig.turn_ended().outcome.cause, Cause::Completed);
        assert_eq!(rig.ended().outcome.cause, Cause::Stopped);
    }
    // Once the session ends by itself, a stop changes nothing.
    let mut rig = lingering();
    rig.give(background(0))
        .give(Input::Stop)
        .give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::Completed);
}

#[test]
fn an_agent_that_exits_before_its_background_tasks_succeeded() {
    let cut = |rig: &Rig| {
        rig.events()
            .iter()
            .any(|w| matches!(w, EventKind::Notice(n) if n.code.as_str() == "background_cut"))
    };
    let mut rig = lingering();
    rig.give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::Completed);
    assert!(cut(&rig));
    let mut crashed = lingering();
    crashed.give(Input::Exited(exit(1), None));
    assert_eq!(crashed.ended().outcome.cause, Cause::AgentDied);
}

#[test]
fn the_process_is_spawned_once() {
    let mut rig = Rig::new(Limits::default(), AfterTurn::End);
    rig.give(Input::Start)
        .give(Input::Start)
        .give(Input::Spawned)
        .give(Input::Start);
    assert_eq!(
        rig.effects
            .iter()
            .filter(|e| **e == Effect::Do(Action::Spawn))
            .count(),
        1
    );
}

// A limit in the far future is no limit, and does not overflow.
#[test]
fn huge_limits_never_expire() {
    let huge = Some(Duration::MAX);
    let limits = Limits::default()
        .wall(huge)
        .idle(huge)
        .startup(huge)
        .grace(Duration::MAX);
    let mut rig = Rig::new(limits, AfterTurn::End);
    rig.now = S;
    rig.give(Input::Send("hi".into()))
        .give(Input::Start)
        .give(Input::Spawned);
    assert_eq!(rig.machine.deadline(), None);
    rig.give(event(started()))
        .give(interrupt())
        .wait(S)
        .give(Input::Stop)
        .give(Input::Kill);
    assert_eq!(rig.machine.deadline(), None);
    rig.give(Input::Exited(exit(0), None));
    assert_eq!(rig.ended().outcome.cause, Cause::Stopped);
}
