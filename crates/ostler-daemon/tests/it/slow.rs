//! Load: many sessions at once, bursts of events, fast and slow readers.

use std::time::Duration;

use crate::rig::{ECHO, Rig, assert_complete, next, read_until};

const BURST: &str = "read\ninit\nloop 5000\ndelta x\nend\ntext done\nresult done\nread-until-eof";

// Ten bursts of 5,000 events, each with a fast reader, a slow one and one that comes late: nothing
// is lost, doubled or out of order.
#[tokio::test]
async fn bursts_reach_every_reader() {
    let rig = Rig::new().await;
    rig.agent("burst", BURST);
    let mut readers = Vec::new();
    for _ in 0..10 {
        let session = rig.create("burst").await;
        for pause in [0, 1, 50] {
            let (id, client) = (session.id.clone(), rig.client.clone());
            readers.push(tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(pause * 10)).await;
                let mut stream = client.events(&id, 0).await.unwrap();
                // A reader that takes a break after its first frame.
                next(&mut stream).await;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                drop(stream);
                let mut stream = client.events(&id, 0).await.unwrap();
                read_until(&mut stream, |event| event["type"] == "turn_ended").await
            }));
        }
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
