//! An agent that says nothing until it is done.

use super::*;
use crate::dialect::Capabilities;

fn silent(silent: bool) -> Rig {
    let limits = Limits {
        idle: Some(S * 10),
        wall: Some(S * 100),
        ..Limits::default()
    };
    let mut rig = Rig::new(limits, AfterTurn::End);
    rig.machine = rig.machine.with_capabilities(Capabilities {
        silent,
        ..Capabilities::default()
    });
    for input in [
        Input::Send("hi".into()),
        Input::Start,
        Input::Spawned,
        Input::Event(started()),
    ] {
        rig.give(input);
    }
    rig
}

/// Runs the clock as a driver does: from one deadline to the next.
fn run(rig: &mut Rig, until: Duration) {
    while let Some(at) = rig.machine.deadline().filter(|at| *at <= until) {
        let step = at.saturating_sub(rig.now);
        rig.wait(step);
    }
}

fn told(rig: &Rig) -> usize {
    let is_told = |kind: &&EventKind| matches!(kind, EventKind::Notice(notice) if notice.code == "still_working");
    rig.events().into_iter().filter(is_told).count()
}

// P39: its silence is normal, and no limit on silence ends it; the limit on time does.
#[test]
fn silence_is_told_and_not_punished() {
    let mut rig = silent(true);
    run(&mut rig, S * 95);
    assert_eq!((told(&rig), rig.machine.in_turn()), (3, true));
    assert!(!rig.effects.contains(&Effect::Send(ToAgent::Interrupt)));
    run(&mut rig, S * 100);
    assert!(
        rig.effects.contains(&Effect::Send(ToAgent::Interrupt)),
        "the time is over"
    );
    run(&mut rig, S * 200);
    assert_eq!(
        told(&rig),
        3,
        "nothing more is told of a turn that is being ended"
    );
}

#[test]
fn an_agent_that_speaks_is_idle_when_it_does_not() {
    let mut rig = silent(false);
    run(&mut rig, S * 10);
    assert!(rig.effects.contains(&Effect::Send(ToAgent::Interrupt)));
    assert_eq!(told(&rig), 0);
}
