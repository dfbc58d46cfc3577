//! The escalation from interrupt to SIGKILL: each step gets its time, none takes longer, and
//! well-behaved agents finish first.

use std::time::{Duration, Instant};

use ostler::Cause;
use ostler::event::{EventKind, SessionState};
use ostler::outcome::Status;
use ostler::spec::AfterTurn;

use crate::rig::{Rig, finish_after, read_until};

/// Time that a loaded machine may add to a wait. Measured waits are longer, so that a wrong one is
/// not hidden by it.
const SLACK: Duration = Duration::from_secs(5);

fn is_text(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Text(_))
}

// P7, S2-12: an agent that ignores everything but SIGKILL goes through the whole escalation, and no
// slower.
#[tokio::test]
async fn stop_takes_no_longer_than_the_ladder() {
    let rig = Rig::new("ignore-sigterm\nread\ninit\ntext working\nhang").grace_ms(2500);
    let mut session = rig.start();
    let read = read_until(&mut session, is_text).await;
    let began = Instant::now();
    session.remote().stop();
    let seen = finish_after(read, session).await;
    let ladder = rig.spec.limits.grace * 3;
    assert!(
        ladder > SLACK && began.elapsed() < ladder + SLACK,
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (seen.turn().outcome.cause, seen.ended().signal),
        (Cause::Stopped, Some(9))
    );
    assert_eq!(seen.turn().text, "working");
}

// P7: an agent that exits on SIGTERM gets no SIGKILL.
#[tokio::test]
async fn an_agent_that_heeds_sigterm_is_not_killed() {
    let rig = Rig::new("read\ninit\ntext working\nhang").grace_ms(300);
    let mut session = rig.start();
    let read = read_until(&mut session, is_text).await;
    session.remote().stop();
    let seen = finish_after(read, session).await;
    assert_eq!(seen.ended().signal, Some(15));
}

// P7: an agent that acknowledges the interrupt exits at the end of its input, without any signal.
#[tokio::test]
async fn an_agent_that_listens_needs_no_signal() {
    let rig =
        Rig::new("read\ninit\ntext working\nanswer-interrupt\nread-until-eof").grace_ms(60_000);
    let mut session = rig.start();
    let read = read_until(&mut session, is_text).await;
    let began = Instant::now();
    session.remote().stop();
    let seen = finish_after(read, session).await;
    assert!(
        began.elapsed() < rig.spec.limits.grace,
        "the exit was noticed only after the full wait"
    );
    assert_eq!(
        (seen.turn().outcome.cause, seen.turn().outcome.status),
        (Cause::Stopped, Status::Stopped)
    );
    assert_eq!(
        (seen.ended().exit_code, seen.ended().signal),
        (Some(0), None)
    );
}

// P7, S2-2: repeated requests change nothing.
#[tokio::test]
async fn stop_and_kill_may_be_asked_often() {
    // No step of the escalation is waited out; the grace period only bounds how long it takes to
    // notice the exit.
    let rig = Rig::new("read\ninit\ntext working\nhang");
    let mut session = rig.start();
    let read = read_until(&mut session, is_text).await;
    let remote = session.remote();
    for _ in 0..5 {
        remote.stop();
        remote.interrupt();
    }
    remote.kill();
    remote.kill();
    let seen = finish_after(read, session).await;
    assert_eq!((seen.turns().len(), seen.ended().signal), (1, Some(9)));
    remote.stop();
    remote.kill();
}

// P7: stopped before the agent printed anything.
#[tokio::test]
async fn stop_at_once_ends_the_session() {
    let rig = Rig::new("read\nhang").grace_ms(200);
    let session = rig.start();
    session.remote().stop();
    let seen = finish_after(Vec::new(), session).await;
    assert_eq!(seen.outcome().cause, Cause::Stopped);
}

// P8: the agent dies in the middle of a turn; its caller gets the signal or exit code, and the end
// of stderr. The speed is measured (`cargo xtask bench overhead`), and the state machine's tests
// prove that nothing is waited for.
#[tokio::test]
async fn death_in_the_middle_of_a_turn_is_reported_at_once() {
    for (death, signal, code) in [
        ("die-by 9", Some(9), None),
        ("die-by 6", Some(6), None),
        ("exit 3", None, Some(3)),
    ] {
        let rig = Rig::new(format!(
            "read\ninit\ntool-use t1 Bash {{\"command\":\"x\"}}\nstderr it hurts here\n{death}"
        ));
        let seen = rig.run().await;
        let outcome = &seen.turn().outcome;
        assert_eq!(
            (outcome.cause, outcome.status),
            (Cause::AgentDied, Status::Failed)
        );
        let detail = outcome.detail.as_ref().unwrap();
        assert_eq!((detail.signal, detail.exit_code), (signal, code));
        assert_eq!(detail.stderr.as_deref(), Some("it hurts here"));
        assert_eq!(
            (seen.ended().signal, seen.ended().exit_code),
            (signal, code)
        );
    }
}

// P8: an agent that exits with 0 and without a result has died all the same.
#[tokio::test]
async fn a_silent_exit_is_no_success() {
    let seen = Rig::new("read\ninit\ntext half\nexit 0").run().await;
    assert_eq!(
        (seen.turn().outcome.cause, seen.turn().text.as_str()),
        (Cause::AgentDied, "half")
    );
    assert!(!seen.outcome().is_success());
}

// P9: what the agent writes after the end of its input is not cut off.
#[tokio::test]
async fn an_agent_may_write_its_transcript_after_the_end_of_input() {
    let rig = Rig::new("read\ninit\ntext hi\nresult hi\nwrite-file-after-eof 1000 $DIR/transcript");
    let seen = rig.run().await;
    assert_eq!(rig.text("transcript"), "written after EOF\n");
    assert_eq!(
        (seen.ended().exit_code, seen.ended().signal),
        (Some(0), None)
    );
}

// P9: after a stop as well.
#[tokio::test]
async fn a_stopped_agent_may_write_its_transcript() {
    let rig = Rig::new(
        "read\ninit\ntext working\nanswer-interrupt\nwrite-file-after-eof 1000 $DIR/transcript",
    );
    let mut session = rig.start();
    let read = read_until(&mut session, is_text).await;
    session.remote().stop();
    finish_after(read, session).await;
    assert_eq!(rig.text("transcript"), "written after EOF\n");
}

// P10: the turn ends with its result, not with the process; the process is killed within two
// grace periods.
#[tokio::test]
async fn a_result_ends_the_turn_although_the_process_hangs() {
    let rig =
        Rig::new("ignore-sigterm\nread\ninit\nspawn-holding-stdout\ntext hi\nresult hi\nhang")
            .grace_ms(3000);
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
    let began = Instant::now();
    assert!(
        ostler_testkit::processes::alive(session.remote().pid().unwrap()),
        "it hangs, and the turn has ended"
    );
    let seen = finish_after(read, session).await;
    let ladder = rig.spec.limits.grace * 2;
    assert!(
        ladder > SLACK && began.elapsed() < ladder + SLACK,
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (seen.outcome().cause, seen.ended().signal),
        (Cause::Completed, Some(9))
    );
}

// P10: only a child that holds the agent's stdout is left; it is ended, not waited for.
#[tokio::test]
async fn a_child_that_holds_stdout_does_not_hold_the_session() {
    let rig = Rig::new("read\ninit\nspawn-holding-stdout\ntext hi\nresult hi\nread-until-eof")
        .grace_ms(60_000);
    let began = Instant::now();
    let seen = rig.run().await;
    assert!(
        began.elapsed() < rig.spec.limits.grace,
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        (seen.outcome().cause, seen.ended().exit_code),
        (Cause::Completed, Some(0))
    );
}

// S3-18: a session that waits between turns is stopped by the end of its input.
#[tokio::test]
async fn a_waiting_session_is_stopped() {
    let mut rig = Rig::new("read\ninit\ntext hi\nresult hi\nread-until-eof");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    let idle = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::State(state) if state.to == SessionState::Idle
        )
    };
    let read = read_until(&mut session, idle).await;
    session.remote().stop();
    let seen = finish_after(read, session).await;
    assert_eq!(
        (seen.turn().outcome.cause, seen.ended().exit_code),
        (Cause::Completed, Some(0))
    );
}
