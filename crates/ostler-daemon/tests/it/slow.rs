//! Load: many sessions at once, bursts of events, fast and slow readers.

use std::time::Duration;

use ostler_daemon::client::Client;
use serde_json::Value;

use crate::rig::{ECHO, PATIENCE, Rig, assert_complete, next, read_until};

const BURST: &str = "read\ninit\nloop 5000\ndelta x\nend\ntext done\nresult done\nread-until-eof";

/// Reads a session from its start to the end of its turn, with a pause after every tenth event.
async fn read_slowly(client: Client, id: String, pause: Duration) -> Vec<Value> {
    let mut stream = client.events(&id, 0).await.unwrap();
    let mut events: Vec<Value> = Vec::new();
    while let Some(frame) = next(&mut stream).await {
        if frame.event != "message" {
            continue;
        }
        events.push(serde_json::from_str(&frame.data).unwrap());
        if events.last().unwrap()["type"] == "turn_ended" {
            break;
        }
        if events.len().is_multiple_of(10) && !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
    events
}

// Ten bursts of 5,000 events, each with a fast reader, two that are slower than the burst, and one
// that comes late: nothing is lost, doubled or out of order.
#[tokio::test]
async fn bursts_reach_every_reader() {
    let rig = Rig::new().await;
    rig.agent("burst", BURST);
    let mut readers = Vec::new();
    for _ in 0..10 {
        let session = rig.create("burst").await;
        for pause in [0, 2, 10] {
            let pause = Duration::from_millis(pause);
            let reader = read_slowly(rig.client.clone(), session.id.clone(), pause);
            readers.push(tokio::spawn(reader));
        }
        let (client, id) = (rig.client.clone(), session.id);
        readers.push(tokio::spawn(async move {
            client.result(&id, PATIENCE).await.unwrap();
            let mut stream = client.events(&id, 0).await.unwrap();
            read_until(&mut stream, |event| event["type"] == "turn_ended").await
        }));
    }
    for reader in readers {
        let events = reader.await.unwrap();
        assert_complete(&events);
        assert!(events.len() > 5_000, "{}", events.len());
    }
}

#[tokio::test]
async fn five_hundred_sessions_run_at_once() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let mut ids = Vec::new();
    for _ in 0..500 {
        ids.push(rig.create("echo").await.id);
    }
    for id in &ids {
        rig.events_until(id, |event| event["type"] == "turn_ended")
            .await;
    }
    let page = rig.client.sessions("state=idle&limit=500").await.unwrap();
    assert_eq!(page.sessions.len(), 500, "all of them live");
    for id in &ids {
        rig.client.stop(id).await.unwrap();
    }
    for id in &ids {
        let events = rig.all_events(id).await;
        assert_complete(&events);
        assert_eq!(events.last().unwrap()["type"], "ended");
    }
}
