//! Control of running sessions: messages and their results, stop, resume, and the daemon's own end.

use std::time::Duration;

use ostler_daemon::ManagerOptions;
use ostler_daemon::api::{SendMessage, WhenBusy};
use serde_json::Value;

use crate::rig::{ECHO, PATIENCE, Rig, cause, foreign, is_gone, resumable};

fn message(text: &str, when_busy: WhenBusy) -> SendMessage {
    SendMessage {
        text: text.to_owned(),
        when_busy,
    }
}

// A message is accepted before its turn starts, and the result is that of the new turn.
#[tokio::test]
async fn a_result_is_never_that_of_the_turn_before() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    let result = rig.client.result(&session.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.done), (1, true));
    // While the store is locked, the start of a turn cannot be stored.
    let other = rusqlite::Connection::open(rig.path("state/sessions.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let more = message("more", WhenBusy::Queue);
    rig.client.send(&session.id, &more).await.unwrap();
    let now = Duration::ZERO;
    let result = rig.client.result(&session.id, now).await.unwrap();
    assert!(!result.done, "{result:?}");
    other.execute_batch("ROLLBACK").unwrap();
    let result = rig.client.result(&session.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.done), (2, true));
    // Those that wait for a turn count too.
    for _ in 0..3 {
        rig.client.send(&session.id, &more).await.unwrap();
    }
    let result = rig.client.result(&session.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.done), (5, true));
    // One that is refused is not waited for.
    rig.client.control(&session.id, "pause").await.unwrap();
    let now = message("now", WhenBusy::Refuse);
    rig.client.send(&session.id, &now).await.unwrap();
    let result = rig.client.result(&session.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.done), (5, true));
}

#[tokio::test]
async fn a_message_can_be_refused_during_a_turn() {
    let rig = Rig::new().await;
    rig.agent(
        "worker",
        "loop 9\nread-user\ninit\nwait-file $DIR/go\ntext hi\nresult hi\nend",
    );
    let session = rig.create("worker").await;
    rig.events_until(&session.id, |event| event["type"] == "started")
        .await;
    let refuse = message("now", WhenBusy::Refuse);
    let refused = rig.client.send(&session.id, &refuse).await;
    assert_eq!(cause(refused), "refused");
    std::fs::write(rig.path("go"), "").unwrap();
    rig.events_until(&session.id, |event| event["to"] == "idle")
        .await;
    rig.client.send(&session.id, &refuse).await.unwrap();
    let result = rig.client.result(&session.id, PATIENCE).await.unwrap();
    assert_eq!((result.turn, result.session.turns), (2, 2));
}

// What another process runs, only that process can stop.
#[tokio::test]
async fn a_session_of_another_process_is_not_stopped() {
    let rig = Rig::new().await;
    let id = "00000000-0000-4000-8000-00000000000a";
    let parent = std::os::unix::process::parent_id();
    foreign(&rig, id, parent).await;
    for action in ["stop", "restart", "pause", "interrupt"] {
        let path = format!("POST /v1/sessions/{id}/{action}");
        let refused = rig.tcp(&path, &[], "").await;
        let body = refused.body();
        assert_eq!(refused.status(), 409, "{action}: {}", refused.0);
        assert_eq!(body["cause"], "not_running", "{action}");
        let process = format!("process {parent}");
        assert!(body["detail"].as_str().unwrap().contains(&process));
    }
}

#[tokio::test]
async fn a_session_that_has_ended_is_resumed() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.client.create(&resumable(&rig)).await.unwrap();
    rig.client.result(&session.id, PATIENCE).await.unwrap();
    rig.client.stop(&session.id).await.unwrap();
    rig.wait_for_end(&session.id).await;

    let path = format!("POST /v1/sessions/{}/resume", session.id);
    let resumed = rig.tcp(&path, &[], "").await;
    assert_eq!(resumed.status(), 201, "{}", resumed.0);
    let body = resumed.body();
    assert_eq!(body["continues"], session.id.as_str());
    let again = body["id"].as_str().unwrap();
    assert_ne!(again, session.id);
    let more = message("more", WhenBusy::Queue);
    rig.client.send(again, &more).await.unwrap();
    let result = rig.client.result(again, PATIENCE).await.unwrap();
    assert_eq!((result.done, result.text.as_str()), (true, "hi"));
}

fn drain(time: Duration) -> ManagerOptions {
    ManagerOptions {
        drain: time,
        ..ManagerOptions::default()
    }
}

fn last(rig: &Rig, id: &str, kind: &str) -> Value {
    let event = rig.store.last_event(id, kind).unwrap();
    serde_json::from_str(&event.unwrap()).unwrap()
}

// A turn that outlasts its grace is interrupted, and the agent can still finish it.
#[tokio::test]
async fn a_turn_is_interrupted_after_its_grace() {
    let rig = Rig::with(drain(Duration::ZERO)).await;
    rig.agent(
        "slow",
        "read-user\ninit\ndelta Working\nanswer-interrupt\nread-until-eof",
    );
    let session = rig.create("slow").await;
    rig.events_until(&session.id, |event| event["type"] == "text")
        .await;
    rig.signal();
    let (store, id) = (rig.store.clone(), session.id);
    rig.ended().await;
    let event = |kind: &str| -> Value {
        serde_json::from_str(&store.last_event(&id, kind).unwrap().unwrap()).unwrap()
    };
    assert_eq!(event("turn_ended")["outcome"]["cause"], "interrupted");
    assert_eq!(event("turn_ended")["text"], "Working");
    assert_eq!(event("ended")["type"], "ended");
}

// Whoever asks twice does not want to wait.
#[tokio::test]
async fn a_second_signal_kills_all_sessions() {
    let rig = Rig::with(drain(100 * PATIENCE)).await;
    rig.agent("hang", "pid-file $DIR/pid\nread\ninit\ndelta x\nhang");
    let session = rig.create("hang").await;
    rig.events_until(&session.id, |event| event["type"] == "text")
        .await;
    rig.signal();
    let is_stopping = async {
        while rig.client.create(&rig.request("hang")).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, is_stopping).await.unwrap();
    assert!(!is_gone(&rig.path("pid")), "the first one only drains");
    assert_eq!(last(&rig, &session.id, "turn_started")["turn"], 1);
    rig.signal();
    let (store, pid) = (rig.store.clone(), rig.path("pid"));
    let dir = rig.ended().await;
    assert!(is_gone(&pid));
    let ended = store.last_event(&session.id, "ended").unwrap();
    assert!(ended.is_some(), "its end is stored");
    drop(dir);
}

// S2-24: a session stays in the directory that was named when it was created, whatever its path
// leads to later and whatever a request says.
#[tokio::test]
async fn a_session_and_its_successors_stay_in_their_directory() {
    let rig = Rig::new().await;
    rig.shell_agent("echo", "pwd >> $DIR/dirs", ECHO);
    let mut request = crate::rig::resumable(&rig);
    let link = rig.path("link");
    std::os::unix::fs::symlink(&request.dir, &link).unwrap();
    request.dir = link.clone();
    let session = rig.client.create(&request).await.unwrap();
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let work = rig.path("work").canonicalize().unwrap();
    assert_eq!(session.dir, work);

    std::fs::create_dir(rig.path("other")).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(rig.path("other"), &link).unwrap();
    let body = serde_json::json!({"dir": rig.path("other")}).to_string();
    for action in ["restart", "fork"] {
        let path = format!("POST /v1/sessions/{}/{action}", session.id);
        let json = "Content-Type: application/json";
        let next = rig.tcp(&path, &[json], &body).await.body();
        assert_eq!(next["dir"], work.to_str().unwrap(), "{next}");
        let more = message("more", WhenBusy::Queue);
        let id = next["id"].as_str().unwrap();
        rig.client.send(id, &more).await.unwrap();
        rig.events_until(id, |event| event["type"] == "turn_ended")
            .await;
    }
    let dirs = rig.file("dirs").await;
    let dirs: Vec<&str> = dirs.lines().collect();
    assert!(dirs.len() >= 3, "{dirs:?}");
    assert!(
        dirs.iter().all(|dir| *dir == work.to_str().unwrap()),
        "{dirs:?}"
    );
}
