//! A session outlives the agent's process: the next message restarts it, and it continues where it
//! was.

use ostler::Cause;
use ostler::agent::Breakers;
use ostler::event::{EventKind, SessionState};
use ostler::outcome::SpawnFailure;
use ostler::permission::PermissionAnswer;
use ostler::session::{Interruption, RequestError, WhenBusy};
use ostler::spec::AfterTurn;
use ostler_testkit::fake;

use crate::rig::{Rig, Seen, check_stream, finish_after, read_until, until};

fn turn_ended(kind: &EventKind) -> bool {
    matches!(kind, EventKind::TurnEnded(_))
}

/// An agent whose second process plays other verbs, and whose sessions wait for messages.
fn twice(first: &str, second: &str) -> Rig {
    let rig = Rig::new(first);
    let dir = rig.path("");
    std::fs::create_dir(rig.path("second")).unwrap();
    let second = fake::script(
        &rig.path("second"),
        &second.replace("$DIR", dir.to_str().unwrap()),
    );
    let wrapper = format!(
        "#!/bin/sh\nif [ -e {0}once ]; then export {1}={2}; fi\ntouch {0}once\nexec $FAKE \"$@\"\n",
        dir.display(),
        fake::SCRIPT,
        second.display()
    );
    let mut rig = rig.behind(&wrapper);
    rig.spec.after_turn = AfterTurn::Wait;
    rig
}

async fn two_turns(rig: &Rig) -> Seen {
    let mut session = rig.start();
    let mut read = read_until(&mut session, turn_ended).await;
    session.send("go on").unwrap();
    read.extend(read_until(&mut session, turn_ended).await);
    session.stop();
    finish_after(read, session).await
}

// P42, S1-21: an agent that dies in the middle of a turn ends that turn, and the next message
// restarts it with its session. The earlier conversation is not sent again: the agent has it.
#[tokio::test]
async fn killed_agent_is_restarted_and_continues() {
    let rig = twice(
        "read-user\ninit\ntext half\ndie-by 9",
        "dump-args $DIR/args\nread-user\ndump-stdin $DIR/stdin\ninit\ntext whole\nresult whole\nread-until-eof",
    );
    let mut rig = rig;
    rig.spec.permission_mode = Some("plan".into());
    let seen = two_turns(&rig).await;
    let turns: Vec<_> = seen
        .turns()
        .iter()
        .map(|turn| (turn.outcome.cause, turn.text.as_str()))
        .collect();
    assert_eq!(
        turns,
        [(Cause::AgentDied, "half"), (Cause::Completed, "whole")]
    );
    let native = seen.kinds().find_map(|kind| {
        if let EventKind::Started(it) = kind {
            it.native_session.clone()
        } else {
            None
        }
    });
    let args = rig.text("args");
    assert!(
        args.contains(&format!("--resume={}", native.unwrap())),
        "{args}"
    );
    let stdin = rig.text("stdin");
    assert!(
        stdin.contains("go on") && !stdin.contains("Do it."),
        "{stdin}"
    );
    // P49: with the permissions its caller granted, and no others.
    assert!(args.contains("--permission-mode=plan"), "{args}");
}

/// The verbs of an ACP agent until its session is open: created, or loaded. It starts one helper.
fn acp_session(opened: &str) -> String {
    let hello = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#;
    format!(
        "read\nprint {hello}\nread\nspawn-child\nprint {{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{opened}}}\n"
    )
}

/// The verbs of the agent's reply to the prompt with this request id.
fn acp_turn(id: u32) -> String {
    format!(
        "read\nprint {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"stopReason\":\"end_turn\"}}}}\n"
    )
}

fn start_acp(rig: &Rig) -> ostler::Session {
    ostler::Agents::builtin()
        .get("opencode")
        .unwrap()
        .start(&rig.host, rig.spec.clone())
        .unwrap()
}

// P42: the agent is running, but has dropped its session (-32603). That turn ends, and the next
// message resumes the session in a new process.
#[tokio::test]
async fn a_session_that_the_agent_dropped_is_resumed() {
    let gone = r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32603,"message":"Request session.send failed with message: Session not found: s"}}"#;
    let first = format!(
        "{}{}read\nprint {gone}\nhang",
        acp_session(r#"{"sessionId":"s"}"#),
        acp_turn(3)
    );
    let second = format!(
        "{}{}dump-stdin $DIR/stdin\nread-until-eof",
        acp_session("{}"),
        acp_turn(3)
    );
    let rig = twice(&first, &second).grace_ms(200);
    let mut session = start_acp(&rig);
    let mut read = read_until(&mut session, turn_ended).await;
    for message in ["go on", "again"] {
        session.send(message).unwrap();
        read.extend(read_until(&mut session, turn_ended).await);
    }
    session.stop();
    let seen = finish_after(read, session).await;
    let causes: Vec<_> = seen.turns().iter().map(|turn| turn.outcome.cause).collect();
    assert_eq!(
        causes,
        [Cause::Completed, Cause::AgentDied, Cause::Completed]
    );
    let stdin = rig.text("stdin");
    assert!(
        stdin.contains("\"session/load\"")
            && stdin.contains("\"sessionId\":\"s\"")
            && stdin.contains("again"),
        "{stdin}"
    );
}

// P56: a process loads one session, once, for three turns. Twenty loads are twenty processes in
// sequence, each with the one helper that its load started, and none of them is left.
#[tokio::test]
async fn twenty_loads_leave_nothing_behind() {
    let turns: String = (3..6).map(acp_turn).collect();
    let mut rig = Rig::new(format!(
        "{}{turns}dump-stdin $DIR/stdin\nread-until-eof",
        acp_session("{}")
    ))
    .grace_ms(200);
    rig.spec.after_turn = AfterTurn::Wait;
    rig.spec.resume = Some("s".into());
    for _ in 0..20 {
        let mut session = start_acp(&rig);
        let mut read = read_until(&mut session, turn_ended).await;
        for message in ["two", "three"] {
            session.send(message).unwrap();
            read.extend(read_until(&mut session, turn_ended).await);
        }
        let running = || crate::rig::left(session.id()).len();
        until("the agent and its helper are running", || running() > 1).await;
        assert_eq!(running(), 2, "one helper for one load");
        until("the agent has recorded its input", || {
            rig.path("stdin").exists()
        })
        .await;
        assert_eq!(rig.text("stdin").matches("\"session/load\"").count(), 1);
        std::fs::remove_file(rig.path("stdin")).unwrap();
        session.stop();
        // This checks that no process of the session is left.
        finish_after(read, session).await;
    }
}

// P54: a resume that is cut off before the agent printed anything is not a bad id; the next message
// resumes the same session.
#[tokio::test]
async fn a_resume_that_was_cut_off_keeps_its_session() {
    const ID: &str = "123e4567-e89b-42d3-a456-426614174000";
    let mut rig = twice(
        "hang",
        "dump-args $DIR/args\nread-user\ninit\ntext two\nresult two\nread-until-eof",
    )
    .grace_ms(200);
    rig.spec.resume = Some(ID.into());
    let mut session = rig.start();
    let mut read = read_until(&mut session, |kind| {
        matches!(kind, EventKind::TurnStarted(_))
    })
    .await;
    assert_eq!(session.interrupt().await, Interruption::NotAcknowledged);
    session.send("go on").unwrap();
    read.extend(
        read_until(
            &mut session,
            |kind| matches!(kind, EventKind::TurnEnded(turn) if turn.text == "two"),
        )
        .await,
    );
    session.stop();
    let seen = finish_after(read, session).await;
    assert!(
        rig.text("args").contains(&format!("--resume={ID}")),
        "{}",
        rig.text("args")
    );
    assert_eq!(seen.notices("fresh_start").len(), 0);
}

// An agent that exits between turns is reported, and restarted when there is work.
#[tokio::test]
async fn agent_that_exits_between_turns_is_restarted() {
    let rig = twice(
        "read-user\ninit\ntext one\nresult one\nexit 3",
        "read-user\ninit\ntext two\nresult two\nread-until-eof",
    );
    let mut session = rig.start();
    let gone = |kind: &EventKind| {
        matches!(kind,
        EventKind::Notice(notice) if notice.code.as_str() == "agent_gone")
    };
    let mut read = read_until(&mut session, gone).await;
    until("the session knows", || session.remote().pid().is_none()).await;
    assert_eq!(session.status().state, SessionState::Idle);
    session.send("go on").unwrap();
    read.extend(read_until(&mut session, turn_ended).await);
    session.stop();
    let seen = finish_after(read, session).await;
    assert_eq!(
        seen.turns()
            .iter()
            .map(|turn| turn.text.as_str())
            .collect::<Vec<_>>(),
        ["one", "two"]
    );
}

// P52: it exited before it reported its session id; the next message starts a fresh session, and a
// notice says so.
#[tokio::test]
async fn agent_without_a_session_id_starts_afresh_with_a_notice() {
    let rig = twice(
        "read-user\ndie-by 9",
        "dump-args $DIR/args\nread-user\ninit\ntext new\nresult new\nread-until-eof",
    );
    let seen = two_turns(&rig).await;
    assert_eq!(seen.notices("fresh_start").len(), 1);
    assert!(
        !rig.text("args").contains("--resume"),
        "{}",
        rig.text("args")
    );
    assert_eq!(seen.turns()[1].text, "new");
}

// P37, P36: an ignored interrupt is reported as such; the process is ended, and the next turn is
// separate. The result also tells an acknowledged interrupt from one without a turn.
#[tokio::test]
async fn an_interrupt_says_whether_it_was_acknowledged() {
    let rig = twice(
        "read-user\ninit\ntext half\nignore-sigterm\nhang",
        "read-user\ninit\ntext two\nresult two\nread-until-eof",
    );
    let rig = rig.grace_ms(200);
    let mut session = rig.start();
    let mut read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    assert_eq!(session.interrupt().await, Interruption::NotAcknowledged);
    session.send("go on").unwrap();
    read.extend(read_until(&mut session, turn_ended).await);
    read.extend(read_until(&mut session, turn_ended).await);
    assert_eq!(session.interrupt().await, Interruption::NoTurn);
    session.stop();
    let seen = finish_after(read, session).await;
    let causes: Vec<_> = seen.turns().iter().map(|turn| turn.outcome.cause).collect();
    assert_eq!(causes, [Cause::Interrupted, Cause::Completed]);

    let mut rig = Rig::new("read\ninit\ntext one\nanswer-interrupt\nread-until-eof");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    assert_eq!(session.interrupt().await, Interruption::Acknowledged);
}

// A session can start without a message, and waits for one.
#[tokio::test]
async fn a_session_can_begin_without_a_message() {
    let mut rig = Rig::new("read-user\ninit\ntext hi\nresult hi\nread-until-eof");
    (rig.spec.prompt, rig.spec.after_turn) = (String::new(), AfterTurn::Wait);
    let mut session = rig.start();
    session.send("hello").unwrap();
    let read = read_until(&mut session, turn_ended).await;
    session.stop();
    let seen = finish_after(read, session).await;
    assert_eq!(seen.turn().text, "hi");
}

// While a turn is under way a message is queued or refused, as the caller chooses.
#[tokio::test]
async fn a_message_in_a_turn_is_queued_or_refused() {
    let mut rig = Rig::new(
        "read-user\ninit\ntext one\nwait-file $DIR/go\nresult one\nread-user\ninit\ntext two\nresult two\nread-until-eof",
    );
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    let mut read = read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    session
        .remote()
        .send_when("later", WhenBusy::Queue)
        .unwrap();
    session
        .remote()
        .send_when("not now", WhenBusy::Refuse)
        .unwrap();
    read.extend(read_until(&mut session, |kind| matches!(kind, EventKind::Refused(_))).await);
    std::fs::write(rig.path("go"), "").unwrap(); // both messages arrived within the turn
    read.extend(read_until(&mut session, turn_ended).await);
    read.extend(read_until(&mut session, turn_ended).await);
    session.stop();
    let seen = finish_after(read, session).await;
    let refused = seen.kinds().filter_map(|kind| {
        if let EventKind::Refused(it) = kind {
            Some(it.code.as_str())
        } else {
            None
        }
    });
    assert_eq!(refused.collect::<Vec<_>>(), ["busy"]);
    let prompts = seen.kinds().filter_map(|kind| {
        if let EventKind::TurnStarted(it) = kind {
            it.prompt.as_deref()
        } else {
            None
        }
    });
    assert_eq!(prompts.collect::<Vec<_>>(), ["Do it.", "later"]);
}

// P44: an answer to a request that was never made is an error.
#[tokio::test]
async fn an_answer_to_no_question_is_an_error() {
    let rig = Rig::new("read\ninit\ntext hi\nsleep 300\nresult hi\nread-until-eof");
    let mut session = rig.start();
    read_until(&mut session, |kind| matches!(kind, EventKind::Text(_))).await;
    let answer = session.answer("nothing", PermissionAnswer::Allow).await;
    assert!(
        matches!(answer, Err(RequestError::Refused(refused)) if refused.code.as_str() == "unknown")
    );
}

// P65, S3-33, S3-40: after three failed sessions in a row, the host's next one is refused with the
// time left. Without breakers it is started.
#[tokio::test]
async fn broken_agent_is_not_restarted_repeatedly() {
    let rig = Rig::new("die-by 9");
    for _ in 0..3 {
        assert_eq!(rig.run().await.outcome().cause, Cause::AgentDied);
    }
    let seen = rig.run().await;
    let detail = seen.outcome().detail.as_ref().unwrap();
    assert_eq!(
        (seen.outcome().cause, detail.spawn.clone()),
        (Cause::Unavailable, Some(SpawnFailure::BreakerOpen))
    );
    assert!(
        seen.outcome().message.contains("refused for another"),
        "{}",
        seen.outcome().message
    );
    check_stream(&seen.0);
    let mut rig = rig;
    rig.host = rig.host.with_breakers(Breakers::off());
    assert_eq!(rig.run().await.outcome().cause, Cause::AgentDied);
}
