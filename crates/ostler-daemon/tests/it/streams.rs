//! Event streams: history, then live, each event exactly once.

use std::time::Duration;

use serde_json::Value;

use crate::rig::{ECHO, Rig, assert_complete, foreign, next, read_until, store_event};

/// A script that prints this many lines of text in one turn, and ends.
fn burst(lines: usize) -> String {
    format!("read\ninit\nloop {lines}\ndelta x\nend\ntext done\nresult done\nread-until-eof")
}

// P25, P26, P59: readers that come at any time get every event of their session once, in order.
#[tokio::test]
async fn every_reader_gets_every_event_once() {
    let rig = Rig::new().await;
    rig.agent("burst", &burst(3_000));
    let sessions = [rig.create("burst").await, rig.create("burst").await];
    let mut readers = Vec::new();
    for n in 0..8 {
        let (id, client) = (sessions[n % 2].id.clone(), rig.client.clone());
        readers.push(tokio::spawn(async move {
            let since = (n as u64) * 100;
            let mut stream = client.events(&id, since).await.unwrap();
            let events = read_until(&mut stream, |event| event["type"] == "turn_ended").await;
            (id, since, events)
        }));
    }
    for reader in readers {
        let (id, since, events) = reader.await.unwrap();
        for (seq, event) in (since + 1..).zip(&events) {
            assert_eq!(
                (event["seq"].as_u64(), event["session"].as_str()),
                (Some(seq), Some(&*id))
            );
        }
        assert!(events.len() as u64 + since > 3_000);
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_loses_nothing() {
    let rig = Rig::new().await;
    rig.agent("burst", &burst(5_000));
    let session = rig.create("burst").await;
    let mut slow = rig.client.events(&session.id, 0).await.unwrap();
    next(&mut slow).await;
    // Another reader gets everything meanwhile.
    let all = rig
        .events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    assert_complete(&all);
    let rest = read_until(&mut slow, |event| event["type"] == "turn_ended").await;
    assert!(all.ends_with(&rest) && rest.len() > 5_000, "{}", rest.len());
}

#[tokio::test]
async fn a_reader_continues_where_it_was() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    let all = rig
        .events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    let mut stream = rig.client.events(&session.id, 3).await.unwrap();
    let rest = read_until(&mut stream, |event| event["type"] == "turn_ended").await;
    assert_eq!(rest, all[3..]);
    // `Last-Event-ID` takes precedence: a browser repeats the URL.
    rig.client.stop(&session.id).await.unwrap();
    rig.wait_for_end(&session.id).await;
    let path = format!("GET /v1/sessions/{}/events?since=0", session.id);
    let text = rig.tcp(&path, &["Last-Event-ID: 3"], "").await.0;
    for part in ["id: 3\nretry: 1000\n\n", "id: 4\ndata: "] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("\"seq\":3,"), "{text}");
    assert!(text.contains("\"ended\""), "{text}");
    let bad = rig.tcp(&path, &["Last-Event-ID: x"], "").await;
    assert_eq!(bad.status(), 400);
}

#[tokio::test]
async fn the_end_of_history_is_marked() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let session = rig.create("echo").await;
    let all = rig
        .events_until(&session.id, |event| event["to"] == "idle")
        .await;
    let mut stream = rig.client.events(&session.id, 0).await.unwrap();
    for _ in &all {
        assert_eq!(next(&mut stream).await.unwrap().event, "message");
    }
    let mark = next(&mut stream).await.unwrap();
    let data: Value = serde_json::from_str(&mark.data).unwrap();
    assert_eq!(
        (mark.event.as_str(), data["seq"].as_u64()),
        ("caught_up", Some(all.len() as u64))
    );
    assert_eq!(mark.id, Some(all.len().to_string()));
}

// One connection shows all sessions, and continues where it was even after a restart.
#[tokio::test]
async fn one_stream_shows_many_sessions() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let session = rig.create("echo").await;
        rig.client.stop(&session.id).await.unwrap();
        rig.wait_for_end(&session.id).await;
        ids.push(session.id);
    }
    let dir = rig.stop().await;
    let rig = Rig::in_dir(dir, Default::default()).await;
    let mut socket = RawStream::open(&rig, "/v1/events?since=0").await;
    let mut seen: Vec<(String, u64, u64)> = Vec::new();
    while seen.iter().filter(|(_, _, last)| *last == 1).count() < 3 {
        let (position, event) = socket.next().await;
        let is_last = u64::from(event["type"] == "ended");
        seen.push((
            event["session"].as_str().unwrap().to_owned(),
            position,
            is_last,
        ));
    }
    assert!(
        seen.windows(2).all(|pair| pair[0].1 < pair[1].1),
        "positions grow"
    );
    for id in &ids {
        assert!(seen.iter().any(|(session, ..)| session == id));
    }
    // From a position in the middle, and only one session.
    let middle = seen[seen.len() / 2].1;
    let path = format!("/v1/events?since={middle}&session={}", ids[2]);
    let mut socket = RawStream::open(&rig, &path).await;
    let (position, event) = socket.next().await;
    assert!(position > middle && event["session"] == ids[2].as_str());
}

/// A stream that is read frame by frame.
struct RawStream {
    socket: tokio::net::UnixStream,
    text: String,
}

impl RawStream {
    async fn open(rig: &Rig, path: &str) -> Self {
        use tokio::io::AsyncWriteExt;
        let mut socket = tokio::net::UnixStream::connect(rig.client.socket())
            .await
            .unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        Self {
            socket,
            text: String::new(),
        }
    }

    /// Reads until the text satisfies the condition.
    async fn until(&mut self, is_done: impl Fn(&str) -> bool) {
        use tokio::io::AsyncReadExt;
        let mut buffer = [0_u8; 4096];
        while !is_done(&self.text) {
            let length = self.socket.read(&mut buffer).await.unwrap();
            assert!(length > 0, "{}", self.text);
            self.text += &String::from_utf8_lossy(&buffer[..length]);
        }
    }

    /// Returns the id and the data of the next event.
    async fn next(&mut self) -> (u64, Value) {
        use tokio::io::AsyncReadExt;
        loop {
            if let Some(at) = self.text.find("\n\n") {
                let frame: String = self.text.drain(..at + 2).collect();
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name));
                if let (Some(id), None, Some(data)) =
                    (field("id: "), field("event: "), field("data: "))
                {
                    return (id.parse().unwrap(), serde_json::from_str(data).unwrap());
                }
                continue;
            }
            let mut buffer = [0_u8; 65536];
            let length = self.socket.read(&mut buffer).await.unwrap();
            assert!(length > 0, "{}", self.text);
            self.text += &String::from_utf8_lossy(&buffer[..length]);
        }
    }
}

// P60: scripts of a browser cannot see comments, so the stream of all sessions has an event.
#[tokio::test(start_paused = true)]
async fn the_stream_of_all_sessions_has_heartbeats_that_scripts_see() {
    let rig = Rig::new().await;
    let mut stream = RawStream::open(&rig, "/v1/events").await;
    let beat = "id: 0\nevent: heartbeat\ndata: {\"position\":0}\n\n";
    stream.until(|text| text.matches(beat).count() >= 2).await;
}

// P60: a filtered stream is alive while only other sessions are busy. The id of a heartbeat is
// behind their events, so a client that connects again does not read them once more.
#[tokio::test(start_paused = true)]
async fn a_filtered_stream_has_heartbeats_while_others_are_busy() {
    let rig = Rig::new().await;
    let quiet = "00000000-0000-4000-8000-000000000009";
    foreign(&rig, quiet, std::process::id()).await;
    let busy = rig.scripted().await;
    let mut stream = RawStream::open(&rig, &format!("/v1/events?session={quiet}")).await;
    stream.until(|text| text.contains("caught_up")).await;
    let message = ostler_daemon::api::SendMessage {
        text: "go".to_owned(),
        when_busy: ostler_daemon::api::WhenBusy::Queue,
    };
    // Something is stored more often than heartbeats are due.
    let work = async {
        for _ in 0..12 {
            rig.client.send(&busy.id, &message).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    };
    let is_alive = stream.until(|text| text.matches("event: heartbeat").count() >= 2);
    tokio::select! {
        () = work => panic!("no heartbeats in a minute"),
        () = is_alive => {}
    }
    let (_, last) = stream.text.rsplit_once("id: ").unwrap();
    let (id, rest) = last.split_once('\n').unwrap();
    assert!(rest.starts_with("event: heartbeat"), "{}", stream.text);
    assert!(id.parse::<u64>().unwrap() > 1, "{}", stream.text);
}

// P60: a connection that is open but silent is given up after three missing heartbeats.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_is_given_up() {
    use ostler_daemon::client::{Client, ClientError};
    use tokio::io::AsyncWriteExt;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let silent = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nretry: 1000\n\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        stream // stays open
    });
    let mut events = Client::new(path).events("x", 0).await.unwrap();
    let began = tokio::time::Instant::now();
    assert!(matches!(events.next().await, Err(ClientError::Silent)));
    assert!(began.elapsed().as_secs() >= 45, "{:?}", began.elapsed());
    drop(silent.await.unwrap());
}

// P60: also the stream of a session that another process runs shows that it is alive.
#[tokio::test(start_paused = true)]
async fn sessions_of_other_processes_have_heartbeats() {
    let rig = Rig::new().await;
    let id = "00000000-0000-4000-8000-000000000009";
    foreign(&rig, id, std::process::id()).await;
    let mut stream = RawStream::open(&rig, &format!("/v1/sessions/{id}/events")).await;
    stream
        .until(|text| text.matches(": heartbeat").count() >= 2)
        .await;
    let text = &stream.text;
    assert_eq!(text.matches("turn_started").count(), 1, "{text}");
}

// What another process stores is found without waiting for the next heartbeat.
#[tokio::test]
async fn one_stream_has_the_events_of_other_processes_in_time() {
    let rig = Rig::new().await;
    let id = "00000000-0000-4000-8000-000000000009";
    foreign(&rig, id, std::process::id()).await;
    // A prefix names the session, too.
    let path = format!("/v1/events?session={}", &id[..35]);
    let mut stream = RawStream::open(&rig, &path).await;
    stream.until(|text| text.contains("caught_up")).await;
    for seq in 2..5 {
        store_event(&rig, id, seq).await;
        let event = format!("\"seq\":{seq},");
        stream.until(|text| text.contains(&event)).await;
    }
    assert!(!stream.text.contains(": heartbeat"), "{}", stream.text);
    let unknown = rig.tcp("GET /v1/events?session=nothing", &[], "").await;
    assert_eq!(
        (unknown.status(), &unknown.body()["cause"]),
        (404, &"unknown_session".into())
    );
}
