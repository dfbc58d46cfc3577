//! Agents that print nothing until they are done.

use super::*;
use crate::dialect::Capabilities;

fn silent(silent: bool) -> Rig {
    let limits = Limits::default().idle(S * 10).wall(S * 100);
    let mut rig = Rig::new(limits, AfterTurn::End);
    rig.machine = rig.machine.with_capabilities(Capabilities {
        silent,
        ..Capabilities::default()
    });
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

/// Runs the clock from one deadline to the next, as a driver does.
fn run(rig: &mut Rig, until: Duration) {
    while let Some(at) = rig.machine.deadline().filter(|at| *at <= until) {
        let step = at.saturating_sub(rig.now);
        rig.wait(step);
    }
}

fn heartbeats(rig: &Rig) -> usize {
    let notices = rig.events().into_iter().filter_map(|kind| match kind {
        EventKind::Notice(notice) => Some(notice),
        _ => None,
    });
    notices
        .filter(|notice| notice.code.as_str() == "still_working")
        .count()
}

// P39: its silence is normal: the idle limit does not end it, but the time limit does.
#[test]
fn silence_is_reported_and_does_not_end_the_turn() {
    let mut rig = silent(true);
    run(&mut rig, S * 95);
    assert_eq!((heartbeats(&rig), rig.machine.in_turn()), (3, true));
    assert!(!rig.effects.contains(&Effect::Send(ToAgent::Interrupt)));
    run(&mut rig, S * 100);
    assert!(
        rig.effects.contains(&Effect::Send(ToAgent::Interrupt)),
        "the time limit ends it"
    );
    run(&mut rig, S * 200);
    assert_eq!(
        heartbeats(&rig),
        3,
        "no heartbeat for a turn that is ending"
    );
}

#[test]
fn silence_of_other_agents_is_idle() {
    let mut rig = silent(false);
    run(&mut rig, S * 10);
    assert!(rig.effects.contains(&Effect::Send(ToAgent::Interrupt)));
    assert_eq!(heartbeats(&rig), 0);
}
