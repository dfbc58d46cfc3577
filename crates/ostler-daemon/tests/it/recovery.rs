//! What a daemon that was killed left open is closed by the next one, exactly once.

use std::sync::Arc;

use ostler::event::{Event, Timestamp};
use ostler_core::log::{Log, LogEntry, NewSession};
use ostler_daemon::ManagerOptions;
use ostler_store::{NewManaged, Store};

use crate::rig::{ECHO, Rig, assert_complete, of_type};

fn managed(id: &str, dir: &std::path::Path, queued: bool) -> NewManaged {
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
    }
}

fn event(seq: u64, turn: u32, id: &str, json: serde_json::Value) -> LogEntry {
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
