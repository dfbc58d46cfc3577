//! A reader that does not read: nothing is lost, nothing piles up in memory, and the outcome is not
//! missed.

use std::time::Duration;

use futures_util::StreamExt;
use ostler::Cause;
use ostler::event::{EventKind, SessionState};
use ostler::session::ReadItem;
use ostler_testkit::processes;

use crate::rig::{LONG, Rig, finish, left, until};

// P25: the agent has exited before its reader starts; what was still in its pipe is read.
#[tokio::test]
async fn last_words_wait_for_a_late_reader() {
    const LINES: usize = 80 * 1024 / 16;
    let rig = Rig::new("read\nfile $DIR/output\nexit 0");
    std::fs::write(rig.path("output"), "{\"type\":\"zzzz\"}\n".repeat(LINES)).unwrap();
    let session = rig.start();
    until("the agent runs", || session.remote().pid().is_some()).await;
    until("the agent is gone", || left(session.id()).is_empty()).await;
    until("the session has ended", || {
        session.status().state == SessionState::Ended
    })
    .await;
    let seen = finish(session).await;
    assert_eq!(
        seen.notices("unknown_message").len(),
        LINES,
        "output was lost"
    );
    assert_eq!(seen.outcome().cause, Cause::AgentDied);
}

// P25: memory stays flat while the session's own reader reads nothing.
#[tokio::test]
async fn a_reader_that_does_not_read_costs_no_memory() {
    let rig = Rig::new("read\ninit\nflood 300000000 10000\nresult done\nread-until-eof");
    let mut session = rig.start();
    let own = std::process::id();
    let before = processes::rss_kib(own).unwrap();
    // A second reader follows until more has arrived than the in-memory backlog may hold.
    let (mut other, mut seq) = (session.remote().events(1), 0);
    while seq < 8_000 {
        match tokio::time::timeout(LONG, other.next())
            .await
            .expect("no event for a long time")
        {
            Some(ReadItem::Event(event)) => seq = event.seq,
            Some(ReadItem::Gap { to, .. }) => seq = to,
            None => panic!("the session ended after {seq} events"),
        }
    }
    drop(other);
    let grown = processes::rss_kib(own).unwrap().saturating_sub(before);
    assert!(grown < 50 * 1024, "{grown} KiB wait for the reader");
    // The caller can still end it, without having read an event.
    session.remote().kill();
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    crate::rig::check_stream(&events);
}

// A session and a reader are streams, of the same events that `next` returns.
#[tokio::test]
async fn sessions_and_readers_are_streams() {
    let rig = Rig::new("read\ninit\ntext hi\nresult hi\nread-until-eof");
    let session = rig.start();
    let reader = session.remote().events(1);
    let mut by_next = session.remote().events(1);
    let last = async {
        let mut items = Vec::new();
        while let Some(item) = by_next.next().await {
            items.push(item);
        }
        items
    };
    let all = futures_util::future::join3(session.collect(), reader.collect(), last);
    let (events, items, expected): (Vec<_>, Vec<_>, _) = tokio::time::timeout(LONG, all)
        .await
        .expect("no event for a long time");
    crate::rig::check_stream(&events);
    assert_eq!(items, expected);
    let events: Vec<_> = events.into_iter().map(ReadItem::Event).collect();
    assert_eq!(items, events);
}

// P25, S2-11: a reader that always lags a little loses nothing either.
#[tokio::test]
async fn a_slow_reader_gets_everything() {
    let rig = Rig::new("read\ninit\nflood 6000000 2000\nresult done\nread-until-eof");
    let mut session = rig.start();
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        if events.len() % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        events.push(event);
    }
    crate::rig::check_stream(&events);
    assert_eq!(
        events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::Text(_)))
            .count(),
        3000
    );
}
