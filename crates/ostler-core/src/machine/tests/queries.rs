//! What the machine says about a session between two inputs, and what it collects of a turn.

use super::live::{all_capabilities, waiting};
use super::*;
use crate::dialect::Capabilities;
use crate::outcome::Detail;

#[test]
fn a_message_is_queued_until_its_turn_begins() {
    let mut rig = Rig::new(Limits::default(), AfterTurn::Wait);
    assert!(!rig.machine.has_message());
    rig.give(Input::Send("one".into()));
    assert!(rig.machine.has_message() && !rig.machine.in_turn());
    rig.give(Input::Start).give(Input::Spawned);
    assert!(!rig.machine.has_message() && rig.machine.in_turn());
    rig.give(Input::Send("two".into()));
    assert!(rig.machine.has_message());
}

#[test]
fn only_a_session_that_can_be_resumed_outlives_its_process() {
    for (many_turns, resume, after, ends) in [
        (true, true, AfterTurn::Wait, false),
        (true, false, AfterTurn::Wait, true),
        (false, true, AfterTurn::Wait, false),
        (false, false, AfterTurn::Wait, false),
        (true, true, AfterTurn::End, true),
    ] {
        let able = Capabilities {
            many_turns,
            resume,
            ..Capabilities::default()
        };
        let mut rig = Rig::new(Limits::default(), after);
        rig.machine = rig.machine.with_capabilities(able);
        rig.give(Input::Send("one".into()));
        assert!(rig.machine.ends_on_exit(), "nothing ran yet");
        rig.give(Input::Start);
        assert!(rig.machine.ends_on_exit(), "the first start");
        rig.give(Input::Spawned).give(event(started()));
        let given = (many_turns, resume, after);
        assert_eq!(rig.machine.ends_on_exit(), ends, "{given:?}");
        rig.give(Input::Stop);
        assert!(rig.machine.ends_on_exit(), "{given:?}");
    }
}

#[test]
fn output_that_is_no_event_postpones_the_idle_limit() {
    let limits = Limits::default().idle(Some(10 * S)).wall(None);
    let mut rig = waiting(limits, all_capabilities());
    rig.wait(6 * S).give(Input::Activity).wait(6 * S);
    assert!(rig.machine.in_turn());
    assert!(rig.machine.is_undisturbed());
    rig.wait(5 * S);
    assert!(!rig.machine.is_undisturbed(), "11 s of silence");
}

#[test]
fn an_interrupt_is_acknowledged_or_not_or_too_late() {
    let of = |cause, acknowledged: Option<Option<bool>>| {
        let mut outcome = Outcome::new(cause, "x");
        outcome.detail = acknowledged.map(|acknowledged| {
            Box::new(Detail {
                acknowledged,
                ..Detail::default()
            })
        });
        Interruption::of(&outcome)
    };
    let cut = Cause::Interrupted;
    assert_eq!(of(cut, Some(Some(true))), Interruption::Acknowledged);
    assert_eq!(of(cut, Some(Some(false))), Interruption::NotAcknowledged);
    assert_eq!(of(cut, Some(None)), Interruption::NotAcknowledged);
    assert_eq!(of(cut, None), Interruption::NotAcknowledged);
    for cause in Cause::ALL.into_iter().filter(|cause| *cause != cut) {
        assert_eq!(
            of(cause, Some(Some(true))),
            Interruption::TooLate,
            "{cause}"
        );
    }
}

#[test]
fn the_answer_is_the_text_of_the_agents_own_replies() {
    let piece = |kind, message: &str, parent: Option<&str>, text: &str| -> EventKind {
        Text {
            kind,
            text: text.into(),
            delta: true,
            message: Some(message.into()),
            parent: parent.map(Into::into),
        }
        .into()
    };
    let mut rig = Rig::working();
    for kind in [
        piece(TextKind::Reply, "a", None, "one"),
        piece(TextKind::Thinking, "b", None, "thought"),
        piece(TextKind::Reply, "c", Some("task"), "of a subagent"),
        piece(TextKind::Reply, "a", None, " more"),
        piece(TextKind::Reply, "d", None, "two"),
    ] {
        rig.give(event(kind));
    }
    rig.give(turn_ended(over(Cause::Completed)));
    assert_eq!(rig.turn_ended().text, "one more\n\ntwo");
}

#[test]
fn a_message_for_now_is_refused_while_anything_waits() {
    let refused = |rig: &Rig| {
        let reason = rig.events().into_iter().find_map(|kind| match kind {
            EventKind::Refused(it) => Some(it.why.clone()),
            _ => None,
        });
        reason.unwrap_or_default()
    };
    let mut busy = waiting(Limits::default(), all_capabilities());
    busy.give(Input::SendNow("two".into()));
    assert_eq!(refused(&busy), "a turn is in progress");
    let mut queued = Rig::new(Limits::default(), AfterTurn::Wait);
    queued.give(Input::Send("one".into()));
    queued.give(Input::SendNow("two".into()));
    assert_eq!(refused(&queued), "a turn is in progress");
    let mut paused = waiting(Limits::default(), all_capabilities());
    paused.give(turn_ended(over(Cause::Completed)));
    paused.give(Input::Pause).give(Input::SendNow("two".into()));
    assert_eq!(refused(&paused), "the session is paused");
    let mut idle = waiting(Limits::default(), all_capabilities());
    idle.give(turn_ended(over(Cause::Completed)));
    idle.give(Input::SendNow("two".into()));
    assert_eq!((refused(&idle).as_str(), idle.machine.turn()), ("", 2));
}

// The first process must come up; a later one may fail, because the next message tries again.
#[test]
fn only_a_failed_restart_leaves_the_session_open() {
    let missing = || Input::SpawnFailed(Outcome::new(Cause::Unavailable, "missing"));
    let mut first = Rig::new(Limits::default(), AfterTurn::Wait);
    first.machine = first.machine.with_capabilities(all_capabilities());
    first.give(Input::Send("one".into())).give(Input::Start);
    first.give(missing());
    assert_eq!(first.machine.state(), SessionState::Ended);
    let mut later = waiting(Limits::default(), all_capabilities());
    later.give(turn_ended(over(Cause::Completed)));
    later.give(Input::Exited(exit(0), None));
    later.give(Input::Send("two".into())).give(missing());
    assert_ne!(later.machine.state(), SessionState::Ended);
    assert!(!later.machine.in_turn());
}

#[test]
fn a_session_stopped_without_a_process_says_whether_it_ever_ran() {
    let mut unstarted = Rig::new(Limits::default(), AfterTurn::Wait);
    unstarted.give(Input::Stop);
    assert_eq!(unstarted.machine.state(), SessionState::Ended);
    let outcome = &unstarted.ended().outcome;
    assert_eq!(outcome.cause, Cause::Stopped);
    assert!(outcome.message.contains("before the agent was started"));
    let mut asleep = waiting(Limits::default(), all_capabilities());
    asleep.give(turn_ended(over(Cause::Completed)));
    asleep.give(Input::Exited(exit(0), None)).give(Input::Stop);
    assert_eq!(asleep.machine.state(), SessionState::Ended);
    assert!(!asleep.ended().outcome.message.contains("before"));
}
