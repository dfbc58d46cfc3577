//! What a daemon that was killed left open is closed by the next one, exactly once.

use std::sync::Arc;

use ostler::event::{Event, Timestamp};
use ostler_core::log::{Log, LogEntry, NewSession};
use ostler_daemon::{ManagerOptions, ParallelLimits};
use ostler_store::{ApprovalDecision, ApprovalState, DecideResult, NewManaged, Store};

use crate::rig::{ECHO, Rig, assert_complete, is_gone, of_type};

pub(crate) fn managed(id: &str, dir: &std::path::Path, queued: bool) -> NewManaged {
    let request = serde_json::json!({"dir": dir, "model": "echo", "prompt": "go"});
    NewManaged {
        session: NewSession {
            session: id.to_owned(),
            agent: "claude".to_owned(),
            dir: dir.to_owned(),
            at: Timestamp(1),
            continues: None,
            labels: Default::default(),
            pid: u32::MAX, // no such process
        },
        name: "left".to_owned(),
        request: request.to_string(),
        granted: r#"{"policy":null,"trusts_project":false,"sandbox":"usual","settings":{}}"#
            .to_owned(),
        approval_ms: 1000,
        queued,
        parent: None,
        key: None,
    }
}

pub(crate) fn event(seq: u64, turn: u32, id: &str, json: serde_json::Value) -> LogEntry {
    let mut all = json;
    all["seq"] = seq.into();
    all["at"] = "2026-11-18T00:00:00.000Z".into();
    all["session"] = id.into();
    all["turn"] = turn.into();
    LogEntry {
        event: Event::from_json(&all.to_string()).unwrap(),
        raw_offset: 0,
    }
}

const OPEN: &str = "00000000-0000-4000-8000-000000000001";
const IDLE: &str = "00000000-0000-4000-8000-000000000002";
const QUEUED: &str = "00000000-0000-4000-8000-000000000003";

/// An id of its own: tests run in parallel, and each recovery kills what carries the marks of its
/// sessions.
const MARKED: &str = "7d1f8b52-0000-4000-8000-000000000004";

/// Ids of sessions of which the first one runs, for the same reason.
const WAITING: [&str; 2] = [
    "7d1f8b52-0000-4000-8000-000000000005",
    "7d1f8b52-0000-4000-8000-000000000006",
];

/// Leaves a session in a turn with an open permission request, an idle one, and a waiting one.
async fn leave_behind(dir: &std::path::Path) {
    let store = Store::open(&dir.join("state")).unwrap();
    let work = dir.join("work");
    store.create_managed(&managed(OPEN, &work, false)).unwrap();
    store.create_managed(&managed(IDLE, &work, false)).unwrap();
    store.create_managed(&managed(QUEUED, &work, true)).unwrap();
    let started = serde_json::json!({"type": "turn_started", "origin": "caller", "prompt": "go"});
    let ended = serde_json::json!({"type": "turn_ended", "text": "hi", "structured": null, "usage": null,
        "outcome": {"status": "success", "cause": "completed", "message": "x"}});
    let asked = serde_json::json!({"type": "permission", "id": "q", "tool": "Bash", "input": {"command": "rm"},
        "decision": "asked", "by": "default"});
    let open = vec![event(1, 1, OPEN, started.clone()), event(2, 1, OPEN, asked)];
    let idle = vec![event(1, 1, IDLE, started), event(2, 1, IDLE, ended)];
    for entries in [open, idle] {
        store.append(Arc::new(entries)).await.unwrap();
    }
    assert_eq!(store.approvals(None).unwrap().len(), 1);
}

// P5, S2-32
#[tokio::test]
async fn open_turns_are_closed_once_with_a_reason() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    leave_behind(dir.path()).await;
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    rig.agent("echo", ECHO);
    assert_eq!((rig.recovered.closed, rig.recovered.queued), (2, 1));

    let events = rig.all_events(OPEN).await;
    assert_complete(&events);
    let kinds: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(
        kinds,
        [
            "turn_started",
            "permission",
            "permission",
            "turn_ended",
            "ended"
        ]
    );
    assert_eq!(events[2]["decision"], "denied");
    for ended in &events[3..] {
        assert_eq!(ended["outcome"]["detail"]["reason"], "daemon_restarted");
        assert_eq!(ended["outcome"]["status"], "failed");
        assert!(ended["outcome"]["hint"].is_string(), "{ended}");
    }
    let approvals = rig.store.approvals(None).unwrap();
    assert_eq!(approvals[0].state.as_str(), "withdrawn");
    assert_eq!(rig.client.session(OPEN).await.unwrap().status, "FAILED");

    let idle = rig.all_events(IDLE).await;
    assert_eq!(of_type(&idle, "turn_ended").len(), 1, "its turn had ended");
    assert_eq!(idle.last().unwrap()["type"], "ended");

    // The next daemon has nothing to close.
    let dir = rig.stop().await;
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    assert_eq!((rig.recovered.closed, rig.recovered.queued), (0, 0));
    assert_eq!(rig.all_events(OPEN).await, events);
}

// A killed daemon had accepted two sessions. The second still waits, and does not look ended.
#[tokio::test]
async fn a_session_that_waits_after_a_kill_has_not_ended() {
    let options = || ManagerOptions {
        parallel: ParallelLimits {
            total: 1,
            per_agent: 1,
        },
        ..ManagerOptions::default()
    };
    let rig = Rig::with(options()).await;
    rig.agent("echo", ECHO);
    let dir = rig.stop().await;
    let store = Store::open(&dir.path().join("state")).unwrap();
    for id in WAITING {
        let mut left = managed(id, &dir.path().join("work"), true);
        let program = serde_json::json!(dir.path().join("echo"));
        left.granted = left
            .granted
            .replacen('{', &format!("{{\"program\":{program},"), 1);
        store.create_managed(&left).unwrap();
    }
    drop(store);
    let rig = Rig::in_dir(dir, options()).await;
    assert_eq!((rig.recovered.closed, rig.recovered.queued), (0, 2));
    let waiting = rig.client.session(WAITING[1]).await.unwrap();
    assert_eq!(waiting.status, "CREATED");
}

// What was allowed, but never reached its session, was not allowed.
#[tokio::test]
async fn an_answer_that_was_not_delivered_is_withdrawn() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    leave_behind(dir.path()).await;
    let store = Store::open(&dir.path().join("state")).unwrap();
    let id = store.approvals(None).unwrap().remove(0).id;
    let allow = ApprovalDecision {
        state: ApprovalState::Allowed,
        by: "process 1",
        message: None,
        at: Timestamp(1),
    };
    let decided = store.decide_approval(&id, allow).unwrap();
    assert!(matches!(decided, DecideResult::Decided(_)));
    drop(store);

    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    let approval = rig.store.approval(&id).unwrap().unwrap();
    assert_eq!(approval.state.as_str(), "withdrawn");
    let events = rig.all_events(OPEN).await;
    let decisions = of_type(&events, "permission").into_iter();
    let decisions: Vec<_> = decisions.map(|event| &event["decision"]).collect();
    assert_eq!(decisions, ["asked", "denied"]);
}

// One damaged session does not keep the daemon from the others.
#[tokio::test]
async fn a_session_that_cannot_be_closed_does_not_stop_the_daemon() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    leave_behind(dir.path()).await;
    let db = rusqlite::Connection::open(dir.path().join("state/sessions.db")).unwrap();
    // The end of this session cannot be stored.
    let trigger = format!(
        "CREATE TRIGGER broken BEFORE INSERT ON events
         WHEN NEW.session = (SELECT key FROM sessions WHERE session = '{OPEN}')
         BEGIN SELECT RAISE(ABORT, 'broken'); END"
    );
    db.execute_batch(&trigger).unwrap();
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    rig.agent("echo", ECHO);
    assert_eq!((rig.recovered.closed, rig.recovered.failed), (1, 1));
    let idle = rig.all_events(IDLE).await;
    assert_eq!(idle.last().unwrap()["type"], "ended");
    assert!(rig.store.last_event(OPEN, "ended").unwrap().is_none());
    let session = rig.create("echo").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;

    // The next daemon tries again.
    let dir = rig.stop().await;
    db.execute_batch("DROP TRIGGER broken").unwrap();
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    assert_eq!((rig.recovered.closed, rig.recovered.failed), (1, 0));
    assert_complete(&rig.all_events(OPEN).await);
}

fn sleeper(mark: &str) -> std::process::Child {
    let mut command = std::process::Command::new("sleep");
    let command = command
        .arg("1000")
        .env(ostler::host::SESSION_VARIABLE, mark);
    command.spawn().unwrap()
}

// Orphans are found by their mark; whatever carries another mark, or none, is not touched.
#[tokio::test]
async fn only_processes_of_a_closed_session_are_killed() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    let store = Store::open(&dir.path().join("state")).unwrap();
    let session = managed(MARKED, &dir.path().join("work"), false);
    store.create_managed(&session).unwrap();
    drop(store);
    let left = sleeper(MARKED);
    let mut others = [sleeper("another"), sleeper(&MARKED[..8]), sleeper("")];
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    assert_eq!(rig.recovered.killed, 1);
    std::fs::write(rig.path("pid"), left.id().to_string()).unwrap();
    assert!(is_gone(&rig.path("pid")));
    for other in &mut others {
        std::fs::write(rig.path("pid"), other.id().to_string()).unwrap();
        assert!(!is_gone(&rig.path("pid")));
        other.kill().unwrap();
        let _ = other.wait(); // the daemon may reap it
    }
    let mut left = left;
    let _ = left.wait();
}

// A daemon that is killed after it stored a session, but before it answered, created it once.
#[tokio::test]
async fn a_repeated_request_finds_the_session_of_a_killed_daemon() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    std::fs::create_dir_all(dir.path().join("work")).unwrap();
    // The daemon computes the fingerprint, so it sees the request first, and refuses it.
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    let body = serde_json::to_string(&rig.request("echo")).unwrap();
    let headers = ["Content-Type: application/json", "Idempotency-Key: once"];
    let db = rusqlite::Connection::open(rig.path("state/sessions.db")).unwrap();
    rig.agent("echo", ECHO);
    let first = rig.tcp("POST /v1/sessions", &headers, &body).await;
    assert_eq!(first.status(), 201, "{}", first.0);
    let id = first.body()["id"].as_str().unwrap().to_owned();
    let dir = rig.stop().await;
    // As it is stored before the response is known, and after a request that created nothing.
    let creating = "UPDATE idempotency SET response = '?' || ?1";
    db.execute(creating, [&id]).unwrap();
    let more = "INSERT INTO idempotency SELECT 'other', fingerprint, '?gone', at FROM idempotency";
    db.execute(more, []).unwrap();

    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    let again = rig.tcp("POST /v1/sessions", &headers, &body).await;
    assert_eq!((again.status(), &again.body()["id"]), (201, &id.into()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let headers = ["Content-Type: application/json", "Idempotency-Key: other"];
    let new = rig.tcp("POST /v1/sessions", &headers, &body).await;
    assert_eq!(
        (new.status(), new.header("idempotent-replayed")),
        (201, None)
    );
    let all = rig.client.sessions("all=true").await.unwrap().sessions;
    assert_eq!(all.len(), 2);
}
