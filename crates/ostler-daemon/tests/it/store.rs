//! A store that another process locks.

use std::time::Duration;

use ostler_daemon::api::{SendMessage, WhenBusy};

use crate::rig::{Rig, assert_complete};

// What was accepted is stored once the lock is gone, and the session reports that it was late.
#[tokio::test(start_paused = true)]
async fn a_locked_store_is_waited_for_and_reported() {
    let rig = Rig::new().await;
    let session = rig.scripted().await;

    let other = rusqlite::Connection::open(rig.path("state/sessions.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let message = SendMessage {
        text: "go".to_owned(),
        when_busy: WhenBusy::Queue,
    };
    rig.client.send(&session.id, &message).await.unwrap();
    // Time passes whenever nothing else happens.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let stored = rig.store.last_event(&session.id, "turn_started").unwrap();
    assert_eq!(stored, None, "the store is locked");
    other.execute_batch("ROLLBACK").unwrap();

    // Without a time limit: the clock runs ahead while the store, which has its own thread, works.
    let mut stream = rig.client.events(&session.id, 0).await.unwrap();
    let mut events: Vec<serde_json::Value> = Vec::new();
    while events
        .last()
        .is_none_or(|event| event["code"] != "store_delayed")
    {
        let frame = stream.next().await.unwrap().unwrap();
        if frame.event == "message" {
            events.push(serde_json::from_str(&frame.data).unwrap());
        }
    }
    assert_complete(&events);
    let is_late = |event: &serde_json::Value| event["type"] == "turn_started";
    assert!(events.iter().any(is_late), "{events:#?}");
}

// A database that fails is a cause of its own, nothing is left behind, and reads still work.
#[tokio::test]
async fn a_store_that_fails_is_a_named_cause() {
    let rig = Rig::new().await;
    rig.agent("echo", crate::rig::ECHO);
    let db = rusqlite::Connection::open(rig.path("state/sessions.db")).unwrap();
    let broken = "CREATE TRIGGER broken BEFORE INSERT ON managed
        BEGIN SELECT RAISE(ABORT, 'broken'); END";
    db.execute_batch(broken).unwrap();
    let body = serde_json::to_string(&rig.request("echo")).unwrap();
    let json = "Content-Type: application/json";
    let refused = rig.tcp("POST /v1/sessions", &[json], &body).await;
    let cause = refused.body()["cause"].clone();
    assert_eq!((refused.status(), &cause), (507, &"store_failed".into()));
    let all = rig.client.sessions("all=true").await.unwrap();
    assert!(all.sessions.is_empty());
    db.execute_batch("DROP TRIGGER broken").unwrap();
    let session = rig.create("echo").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
}
