//! Pausing holds messages back; freezing stops the agent's processes too.

use std::time::Duration;

use ostler::event::{EventKind, SessionState};
use ostler::spec::AfterTurn;

use crate::rig::{Rig, finish_after, read_until, until};

fn turn_ended(kind: &EventKind) -> bool {
    matches!(kind, EventKind::TurnEnded(_))
}

// S3-20, S2-23: messages sent while paused wait, in order; the turn under way continues.
#[tokio::test]
async fn pause_holds_messages_and_resume_delivers_them_in_order() {
    let mut rig = Rig::new("loop 3\nread-user\ninit\ntext hi\nresult hi\nend\nread-until-eof");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    let mut read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    session.remote().pause();
    read.extend(read_until(&mut session, turn_ended).await);
    session.send("two").unwrap();
    session.send("three").unwrap();
    until("it is paused", || {
        session.status().state == SessionState::Paused
    })
    .await;
    // Requests are processed in order: once this one is answered, the messages before it are held.
    session.interrupt().await;
    assert_eq!(
        session.status().turn,
        1,
        "a message was delivered while paused"
    );
    session.remote().resume();
    read.extend(read_until(&mut session, turn_ended).await);
    read.extend(read_until(&mut session, turn_ended).await);
    session.stop();
    let seen = finish_after(read, session).await;
    let prompts = seen.kinds().filter_map(|kind| {
        if let EventKind::TurnStarted(it) = kind {
            it.prompt.as_deref()
        } else {
            None
        }
    });
    assert_eq!(prompts.collect::<Vec<_>>(), ["Do it.", "two", "three"]);
}

/// Returns true if a process is stopped.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with(['T', 't']))
}

// All the agent's processes stop, including those that left its group, and the silence does not
// count as idle. Then they continue. A frozen agent can be ended.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_frozen_agent_stands_still_and_goes_on() {
    for (thaw, then) in [(true, "wait-file $DIR/go\nresult hi"), (false, "hang")] {
        let verbs = format!("read\ninit\nspawn-setsid $DIR/child\ntext hi\n{then}\nread-until-eof");
        let mut rig = Rig::new(verbs).grace_ms(500);
        rig.spec.after_turn = AfterTurn::Wait;
        rig.spec.limits.idle = Some(Duration::from_secs(3));
        let mut session = rig.start();
        let mut read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
        until("the child is there", || {
            rig.path("child").exists() && !rig.text("child").is_empty()
        })
        .await;
        let (agent, child) = (session.remote().pid().unwrap(), rig.pid("child"));
        session.remote().freeze();
        until("all processes are stopped", || {
            is_stopped(agent) && is_stopped(child)
        })
        .await;
        // Longer than the limit: the test is about elapsed time.
        tokio::time::sleep(Duration::from_millis(3500)).await;
        assert!(is_stopped(agent) && session.status().state == SessionState::Paused);
        if thaw {
            std::fs::write(rig.path("go"), "").unwrap();
            session.remote().resume();
            read.extend(read_until(&mut session, turn_ended).await);
        }
        session.stop();
        let seen = finish_after(read, session).await;
        assert_eq!(
            seen.turn().outcome.is_success(),
            thaw,
            "{:?}",
            seen.turn().outcome
        );
    }
}
