//! The control channel: interrupts and their outcomes, background tasks, late permission requests,
//! several turns.

use std::time::Duration;

use ostler::Cause;
use ostler::event::{Decision, EventKind, Origin, SessionState};
use ostler::spec::AfterTurn;

use crate::rig::{Rig, finish, finish_after, read_until};

fn is_text(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Text(_))
}

fn acknowledged(outcome: &ostler::Outcome) -> Option<bool> {
    outcome
        .detail
        .as_ref()
        .and_then(|detail| detail.acknowledged)
}

// P37, P38: in the middle of a tool; the agent acknowledges it, and the call gets its result.
#[tokio::test]
async fn an_interrupt_is_acknowledged() {
    let rig =
        Rig::new("read\ninit\ntext half\ntool-use t1 Bash {}\nanswer-interrupt\nread-until-eof");
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::ToolCall(_))).await;
    session.remote().interrupt();
    let seen = finish_after(read, session).await;
    assert_eq!(
        (seen.outcome().cause, acknowledged(seen.outcome())),
        (Cause::Interrupted, Some(true))
    );
    assert_eq!(
        (seen.turn().text.as_str(), seen.ended().exit_code),
        ("half", Some(0))
    );
}

// P37: before the agent is running; the interrupt is held until it can be delivered, and not lost.
#[tokio::test]
async fn an_interrupt_at_once_reaches_the_agent() {
    let rig = Rig::new("sleep 300\nread\ninit\nanswer-interrupt\nread-until-eof");
    let session = rig.start();
    session.remote().interrupt();
    let seen = finish(session).await;
    assert_eq!(
        (seen.outcome().cause, acknowledged(seen.outcome())),
        (Cause::Interrupted, Some(true))
    );
}

// P37: an agent that does not react was not interrupted, and the outcome says so. One that has not
// printed anything yet is not even asked: it would not notice.
#[tokio::test]
async fn an_interrupt_without_an_answer_is_not_acknowledged() {
    for script in [
        "read\ninit\ntext half\nhang",
        "read\nread\npid-file $DIR/early\nhang",
    ] {
        let rig = Rig::new(script).grace_ms(300);
        let session = rig.start();
        session.remote().interrupt();
        let seen = finish(session).await;
        assert_eq!(
            (
                seen.turn().outcome.cause,
                acknowledged(&seen.turn().outcome)
            ),
            (Cause::Interrupted, Some(false))
        );
        assert!(
            !rig.path("early").exists(),
            "an interrupt arrived before the agent had printed anything"
        );
    }
}

// P37: the agent was already finishing when the interrupt arrived, and reports an ordinary result.
#[tokio::test]
async fn a_turn_that_finished_first_is_completed() {
    let rig = Rig::new("read\ninit\ntext hi\nread\nresult hi\nread-until-eof");
    let mut session = rig.start();
    let read = read_until(&mut session, is_text).await;
    session.remote().interrupt();
    let seen = finish_after(read, session).await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "hi")
    );
}

// P36: the next turn of the same process is not affected by the interrupt of the last one.
#[tokio::test]
async fn turn_after_an_interrupt_is_unaffected() {
    let mut rig = Rig::new(
        "read\ninit\ntext one\nanswer-interrupt\nread-user\ninit\ntext two\nresult two\nread-until-eof",
    );
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    let mut read = read_until(&mut session, is_text).await;
    session.remote().interrupt();
    session.remote().send("And now?").unwrap();
    read.extend(
        read_until(
            &mut session,
            |kind| matches!(kind, EventKind::TurnEnded(turn) if turn.text == "two"),
        )
        .await,
    );
    session.remote().stop();
    let seen = finish_after(read, session).await;
    let causes: Vec<Cause> = seen.turns().iter().map(|turn| turn.outcome.cause).collect();
    assert_eq!(causes, [Cause::Interrupted, Cause::Completed]);
}

// S3-41, S2-2: several turns in one process, each with its own answer and its own tokens.
#[tokio::test]
async fn messages_wait_their_turn() {
    let mut rig = Rig::new("loop 3\nread-user\ninit\ntext hi\nresult hi\nend\nread-until-eof");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    session.remote().send("two").unwrap();
    session.remote().send("three").unwrap();
    let third = |events: &[ostler::Event]| {
        events
            .iter()
            .filter(|e| matches!(e.kind, EventKind::TurnEnded(_)))
            .count()
            == 3
    };
    let mut read = Vec::new();
    while !third(&read) {
        read.extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
    }
    session.remote().stop();
    let seen = finish_after(read, session).await;
    assert!(
        seen.turns()
            .iter()
            .all(|turn| turn.outcome.is_success() && turn.text == "hi")
    );
    // P21: the agent's totals grow with the session; a turn is charged its own share.
    let outputs: Vec<_> = seen
        .turns()
        .iter()
        .map(|turn| turn.usage.as_ref().and_then(|usage| usage.output))
        .collect();
    assert_eq!(outputs, [Some(25); 3]);
    assert_eq!(
        seen.ended().usage.as_ref().and_then(|usage| usage.output),
        Some(75)
    );
}

// S3-41: a queued message that can no longer be delivered is reported as `refused`.
#[tokio::test]
async fn a_message_that_comes_too_late_is_refused() {
    let rig = Rig::new("read\ninit\ntext hi\nhang").grace_ms(200);
    let mut session = rig.start();
    let read = read_until(&mut session, is_text).await;
    session.remote().send("waits").unwrap();
    session.remote().stop();
    let seen = finish_after(read, session).await;
    let refused: Vec<_> = seen
        .kinds()
        .filter(|kind| matches!(kind, EventKind::Refused(it) if it.request.as_str() == "send"))
        .collect();
    assert_eq!(refused.len(), 1);
}

// P35: a result while a background task runs is not the end. A later permission request is
// answered, and the agent's own turn about the task belongs to the run.
#[tokio::test]
async fn a_result_with_a_running_background_task_is_not_the_end() {
    let rig = Rig::new(concat!(
        "read\ninit\ntool-use t1 Bash {\"run_in_background\":true}\ntask-started b1\ntool-result t1 started\ntext first\nresult first\n",
        "sleep 300\ncontrol-request late Bash {\"command\":\"x\"}\nwait-control\ndump-stdin $DIR/stdin\n",
        "task-done b1\ninit\ntext second\nresult second\nread-until-eof\npid-file $DIR/eof",
    ));
    let seen = rig.run().await;
    let texts: Vec<&str> = seen.turns().iter().map(|turn| turn.text.as_str()).collect();
    assert_eq!(
        (texts, seen.outcome().cause),
        (vec!["first", "second"], Cause::Completed)
    );
    let origins: Vec<Origin> = seen
        .kinds()
        .filter_map(|kind| {
            if let EventKind::TurnStarted(turn) = kind {
                Some(turn.origin)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(origins, [Origin::Caller, Origin::Agent]);
    assert!(seen.kinds().any(|kind| matches!(
        kind,
        EventKind::Permission(it)
            if it.decision == Decision::Denied && it.tool == "Bash"
    )));
    let answer = rig.text("stdin").lines().last().unwrap().to_owned();
    assert!(
        answer.contains("\"control_response\"")
            && answer.contains("\"late\"")
            && answer.contains("deny"),
        "{answer}"
    );
    assert!(rig.path("eof").exists() && seen.ended().exit_code == Some(0));
}

// P35: a task that never ends does not keep a session alive forever.
#[tokio::test]
async fn a_background_task_that_never_ends_is_cut() {
    let mut rig = Rig::new("read\ninit\ntask-started b1\ntext first\nresult first\nread-until-eof");
    rig.spec.limits.wall = Some(Duration::from_millis(700));
    let seen = rig.run().await;
    assert_eq!(
        (seen.outcome().cause, seen.notices("background_cut").len()),
        (Cause::Completed, 1)
    );
}

// P46, P50: a permission request in the middle of a turn is denied, and an unknown request gets an
// error; the agent is not left waiting.
#[tokio::test]
async fn requests_are_answered_and_never_allowed() {
    let rig = Rig::new(concat!(
        "read\ninit\ntool-use t1 Bash {}\ncontrol-request q1 Bash {\"command\":\"x\"}\nwait-control\n",
        "print {\"type\":\"control_request\",\"request_id\":\"q2\",\"request\":{\"subtype\":\"brand_new\"}}\nwait-control\n",
        "dump-stdin $DIR/stdin\ntool-result t1 no\ntext hi\nresult hi\nread-until-eof",
    ));
    let seen = rig.run().await;
    assert_eq!(seen.outcome().cause, Cause::Completed);
    let stdin = rig.text("stdin");
    let answers: Vec<&str> = stdin
        .lines()
        .filter(|line| line.contains("control_response"))
        .collect();
    assert!(
        answers.len() == 2 && answers[0].contains("deny") && answers[1].contains("error"),
        "{answers:?}"
    );
    assert!(!stdin.contains("allow\""), "{stdin}");
}

// S3-23, S2-23: the states of a successful run, in order.
#[tokio::test]
async fn a_good_run_goes_through_its_states() {
    let seen = Rig::new("read\ninit\ntext hi\nresult hi\nread-until-eof")
        .run()
        .await;
    let states: Vec<SessionState> = seen
        .kinds()
        .filter_map(|kind| {
            if let EventKind::State(state) = kind {
                Some(state.to)
            } else {
                None
            }
        })
        .collect();
    use SessionState::{Ended, Idle, Starting, Stopping, Working};
    assert_eq!(states, [Starting, Working, Idle, Stopping, Ended]);
}

// S2-10, S2-13: an agent that runs but has closed its stdin is reported, with its name, the pipe
// and the system's error.
#[tokio::test]
async fn a_broken_stdin_is_reported() {
    let mut rig = Rig::new("init\ntext hi\nhang")
        .behind("#!/bin/sh\nexec $FAKE \"$@\" < /dev/null\n")
        .grace_ms(200);
    // More than a pipe holds: it cannot have been written before the other end was closed.
    rig.spec.prompt = "x".repeat(1 << 20);
    let mut session = rig.start();
    let lost = |kind: &EventKind| {
        matches!(kind,
        EventKind::Notice(notice) if notice.code.as_str() == "input_lost")
    };
    let read = crate::rig::read_until(&mut session, lost).await;
    session.remote().stop();
    let seen = crate::rig::finish_after(read, session).await;
    let [notice] = seen.notices("input_lost")[..] else {
        panic!("{:?}", seen.notices("input_lost"))
    };
    for part in ["stdin of claude", "Broken pipe", "no longer reach it"] {
        assert!(
            notice.message.contains(part),
            "no {part:?} in: {}",
            notice.message
        );
    }
}
