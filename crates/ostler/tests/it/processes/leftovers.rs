//! Nothing is left behind, however a session ends and wherever its processes went.

use ostler::Cause;
use ostler::event::EventKind;
use ostler::spec::AfterTurn;
use ostler_testkit::processes;
use tokio::runtime::Builder;

use crate::rig::{LONG, Rig, assert_nothing_left, finish, finish_after, left, read_until, until};

/// An agent that starts `offspring`, answers, and waits for the end of its input.
fn answering(offspring: &str) -> Rig {
    Rig::new(format!(
        "read\ninit\n{offspring}\ntext hi\nresult hi\nread-until-eof"
    ))
}

// P1, S2-28
#[tokio::test]
async fn grandchildren_end_with_a_stop() {
    let rig = Rig::new("read\ninit\nspawn-child $DIR/child\ntext working\nhang")
        .behind("#!/bin/sh\nsh -c 'sleep 1000 & sleep 1000' &\nexec $FAKE \"$@\"\n")
        .grace_ms(300);
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    // The agent, its child, the shell and its two sleepers.
    until("all five processes", || left(session.id()).len() == 5).await;
    session.remote().stop();
    let seen = finish_after(read, session).await;
    assert!(!processes::alive(rig.pid("child")));
    assert_eq!(seen.outcome().cause, Cause::Stopped);
}

// P2: the agent exits normally, and leaves one daemon in its group and another in a separate
// session.
#[tokio::test]
async fn daemons_end_when_the_agent_exits_normally() {
    let rig = answering("spawn-child $DIR/near\nspawn-setsid $DIR/far");
    let seen = rig.run().await;
    assert_eq!(
        (seen.outcome().cause, seen.ended().exit_code),
        (Cause::Completed, Some(0))
    );
    assert!(!processes::alive(rig.pid("near")) && !processes::alive(rig.pid("far")));
}

// P3: the leader dies first, in the middle of its turn. One group member has no mark in its
// environment: only the group id, saved at the start, leads to it.
#[tokio::test]
async fn the_group_ends_after_its_leader_died() {
    let rig = Rig::new(
        "read\ninit\nspawn-child $DIR/child\nspawn-holding-stdout $DIR/holder\ndie-by 9",
    )
    .behind(
        "#!/bin/sh\nenv -i sleep 1000 > /dev/null 2>&1 &\necho $! > unmarked\nexec $FAKE \"$@\"\n",
    );
    let seen = rig.run().await;
    assert_eq!(seen.turn().outcome.cause, Cause::AgentDied);
    for pid in ["child", "holder", "unmarked"] {
        assert!(
            processes::wait_until(LONG, || !processes::alive(rig.pid(pid))),
            "{pid} is left"
        );
    }
}

// P4
#[tokio::test]
async fn a_process_that_left_the_session_is_found_by_its_mark() {
    let rig = Rig::new("read\ninit\nspawn-setsid $DIR/apart\ntext working\nhang").grace_ms(300);
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    let (apart, agent) = (rig.pid("apart"), session.remote().pid().unwrap());
    assert!(processes::alive(apart) && processes::session(apart) != processes::session(agent));
    session.remote().stop();
    finish_after(read, session).await;
    assert!(!processes::alive(apart));
}

// P6, P68: two launchers that ignore signals run in front of the agent, which ignores them too.
#[tokio::test]
async fn launchers_that_swallow_signals_hide_nothing() {
    let rig = Rig::new("ignore-sigterm\nread\ninit\npid-file $DIR/agent\ntext working\nhang")
        .behind("#!/bin/sh\nexec $FAKE --launcher --launcher \"$@\"\n")
        .grace_ms(300);
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    assert_ne!(
        Some(rig.pid("agent")),
        session.remote().pid(),
        "the agent is not hidden"
    );
    assert_eq!(left(session.id()).len(), 3);
    session.remote().stop();
    let seen = finish_after(read, session).await;
    assert!(!processes::alive(rig.pid("agent")));
    assert_eq!(seen.ended().signal, Some(9));
}

// P6: a successful run through a launcher is a success.
#[tokio::test]
async fn an_agent_behind_a_launcher_works() {
    let seen = answering("")
        .behind("#!/bin/sh\nexec $FAKE --launcher \"$@\"\n")
        .run()
        .await;
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "hi")
    );
}

// P1: a kill does not wait for the grace period, and leaves nothing either.
#[tokio::test]
async fn a_kill_ends_everything_at_once() {
    let rig = Rig::new("ignore-sigterm\nread\ninit\nspawn-child\nspawn-setsid\ntext working\nhang")
        .grace_ms(60_000);
    let mut session = rig.start();
    let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    assert_eq!(left(session.id()).len(), 3);
    let began = std::time::Instant::now();
    session.remote().kill();
    let seen = finish_after(read, session).await;
    assert!(
        began.elapsed() < rig.spec.limits.grace,
        "a kill waited for the grace"
    );
    assert_eq!(
        (seen.outcome().cause, seen.ended().signal),
        (Cause::Stopped, Some(9))
    );
}

/// Starts a session whose agent keeps running, drops the session, and waits for its processes to
/// exit.
async fn drop_while(script: &str, after_turn: AfterTurn) {
    let mut rig = Rig::new(script).grace_ms(200);
    rig.spec.after_turn = after_turn;
    let mut session = rig.start();
    read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    let id = session.id().to_owned();
    assert!(!left(&id).is_empty());
    drop(session);
    until("the processes of a dropped session go", || {
        left(&id).is_empty()
    })
    .await;
}

// S4-36: a silent agent is ended, and so is one that keeps printing, and one that waits between
// turns.
#[tokio::test]
async fn a_dropped_session_leaves_no_process() {
    drop_while(
        "read\ninit\nspawn-setsid\ntext working\nhang",
        AfterTurn::End,
    )
    .await;
    drop_while(
        "ignore-sigterm\nread\ninit\ntext working\nloop forever\nsleep 20\ntext more\nend",
        AfterTurn::End,
    )
    .await;
    drop_while("read\ninit\ntext done\nresult done\nhang", AfterTurn::Wait).await;
}

// S4-36: a remote that is still held does not keep the agent of a dropped session alive.
#[tokio::test]
async fn held_remote_does_not_keep_the_agent_alive() {
    let rig = Rig::new("read\ninit\ntext working\nhang").grace_ms(200);
    let mut session = rig.start();
    read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    let (id, remote) = (session.id().to_owned(), session.remote());
    drop(session);
    until("the processes of a dropped session go", || {
        left(&id).is_empty()
    })
    .await;
    remote.stop(); // has no effect, and breaks nothing
}

// S4-36: the whole runtime is dropped at once, with no time to escalate.
#[test]
fn a_dropped_runtime_leaves_no_process() {
    let rig = Rig::new("ignore-sigterm\nread\ninit\nspawn-child\nspawn-setsid\ntext working\nhang");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let session = runtime.block_on(async {
        let mut session = rig.start();
        read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
        session
    });
    assert_eq!(left(session.id()).len(), 3);
    drop(runtime);
    assert_nothing_left(session.id());
}

// P66: the thread that started the agent ends at once; the kernel's parent-death signal must not
// kill the agent.
#[test]
fn the_agent_outlives_the_thread_that_started_it() {
    let rig =
        Rig::new("read\ninit\npid-file $DIR/agent\nsleep 700\ntext hi\nresult hi\nread-until-eof");
    let (runtime, session) = std::thread::scope(|scope| {
        let start = || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let session = runtime.block_on(async {
                let session = rig.start();
                until("the agent runs", || rig.path("agent").exists()).await;
                session
            });
            (runtime, session)
        };
        scope.spawn(start).join().unwrap()
    });
    // The signal is sent when the thread exits, which is now; the agent still has output to print.
    let seen = runtime.block_on(finish(session));
    assert_eq!(
        (seen.outcome().cause, seen.turn().text.as_str()),
        (Cause::Completed, "hi")
    );
}

// P1: three concurrent sessions; each ends only its own processes.
#[tokio::test]
async fn one_session_ends_without_touching_another() {
    let rigs: Vec<Rig> = (0..3)
        .map(|_| Rig::new("read\ninit\nspawn-setsid\ntext working\nhang").grace_ms(200))
        .collect();
    let mut sessions = Vec::new();
    for rig in &rigs {
        let mut session = rig.start();
        let read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
        sessions.push((read, session));
    }
    while let Some((read, session)) = sessions.pop() {
        session.remote().stop();
        finish_after(read, session).await;
        for (_, other) in &sessions {
            assert_eq!(left(other.id()).len(), 2, "another session lost a process");
        }
    }
}
