//! Any number of readers, each at its own pace; the agent waits for none of them.

use std::sync::Arc;

use ostler::Event;
use ostler::event::EventKind;
use ostler::session::{ReadItem, Reader};
use ostler::spec::AfterTurn;

use super::log::MemoryLog;
use crate::rig::{LONG, Rig, check_stream, read_until, until};

/// Returns everything a reader gets, with the gaps it was notified of filled.
async fn all(mut reader: Reader) -> (Vec<Event>, usize) {
    let (mut events, mut gaps) = (Vec::new(), 0);
    while let Some(reading) = tokio::time::timeout(LONG, reader.next())
        .await
        .expect("no event for a long time")
    {
        match reading {
            ReadItem::Event(event) => events.push(event),
            ReadItem::Gap { from, to } => {
                gaps += 1;
                let mut next = from;
                while next <= to {
                    let most = usize::try_from(to - next + 1).unwrap();
                    let page = reader.fetch(next, most).unwrap();
                    next += page.len() as u64;
                    assert!(!page.is_empty() && page.len() <= most);
                    events.extend(page);
                }
            }
        }
    }
    (events, gaps)
}

// P25, P26: readers that start early and late, and one from event 500 on, see the same events, each
// once. The late and the stalled one fill their gap. With a log and without.
#[tokio::test]
async fn every_reader_sees_every_event_once() {
    for log in [None, Some(MemoryLog::default())] {
        let mut rig = Rig::new("read\ninit\nflood 20000000 2000\nresult done\nread-until-eof");
        if let Some(log) = &log {
            rig.host = rig.host.with_log(Arc::new(log.clone()));
        }
        let mut session = rig.start();
        let (early, middle, stalled) = (
            session.remote().events(1),
            session.remote().events(500),
            session.remote().events(1),
        );
        let early = tokio::spawn(all(early));
        let middle = tokio::spawn(all(middle));
        let mut own = Vec::new();
        while let Some(event) = session.next().await {
            own.push(event);
        }
        check_stream(&own);
        let (late, gaps) = all(session.remote().events(1)).await;
        assert!(
            late == own && gaps == 1,
            "a late reader: {} events, {gaps} gaps",
            late.len()
        );
        let (stalled, gaps) = all(stalled).await;
        assert!(
            stalled == own && gaps == 1,
            "a stalled reader: {} events, {gaps} gaps",
            stalled.len()
        );
        assert!(early.await.unwrap().0 == own);
        assert!(middle.await.unwrap().0 == own[499..]);
        assert!(log.is_none_or(|log| log.events(session.id()) == own));
    }
}

// P26: readers on other threads resubscribe repeatedly while events are published, each time from
// their last position. There is no gap between history and new events, and no duplicate.
#[tokio::test]
async fn readers_that_subscribe_in_mid_flow_on_other_threads_miss_nothing() {
    let rig = Rig::new("read\ninit\nflood 4000000 1000\nresult done\nread-until-eof");
    let mut session = rig.start();
    let readers: Vec<_> = (0..4)
        .map(|thread| {
            let remote = session.remote();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .unwrap();
                runtime.block_on(resubscribing(&remote, 20 + 37 * thread))
            })
        })
        .collect();
    let mut own = Vec::new();
    while let Some(event) = session.next().await {
        own.push(event.seq);
    }
    assert!(own.len() > 4000 && own.iter().copied().eq(1..=own.len() as u64));
    for reader in readers {
        let (seen, subscriptions) = tokio::task::spawn_blocking(|| reader.join().unwrap())
            .await
            .unwrap();
        assert!(subscriptions > 10, "{subscriptions}");
        assert!(
            seen == own,
            "{} of {} events, in {subscriptions} subscriptions",
            seen.len(),
            own.len()
        );
    }
}

/// Returns all events of a session, read through subscriptions of at most this many reads each, and
/// the number of subscriptions.
async fn resubscribing(remote: &ostler::Remote, readings: usize) -> (Vec<u64>, usize) {
    let (mut seen, mut subscriptions) = (Vec::new(), 0);
    loop {
        subscriptions += 1;
        let mut reader = remote.events(seen.last().map_or(1, |last| last + 1));
        for _ in 0..readings {
            match tokio::time::timeout(LONG, reader.next())
                .await
                .expect("no event for a long time")
            {
                Some(ReadItem::Event(event)) => seen.push(event.seq),
                Some(ReadItem::Gap { from, to }) => {
                    let page = reader
                        .fetch(from, usize::try_from(to - from + 1).unwrap().min(readings))
                        .unwrap();
                    seen.extend(page.iter().map(|event| event.seq));
                    // The rest of the gap is left to the next subscription.
                    break;
                }
                None => return (seen, subscriptions),
            }
        }
    }
}

// P25: no reader takes an event, and the agent prints everything anyway; all of it can be read
// later.
#[tokio::test]
async fn the_agent_is_not_blocked_by_a_reader() {
    let rig = Rig::new(
        "read\ninit\nflood 40000000 1000\npid-file $DIR/flooded\nresult done\nread-until-eof",
    );
    let mut session = rig.start();
    let idle = session.remote().events(1);
    until("the agent has said all of it", || {
        rig.path("flooded").exists()
    })
    .await;
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    check_stream(&events);
    assert_eq!(
        events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::Text(_)))
            .count(),
        40_000
    );
    drop(idle);
}

// The status has the state, the agent's session, the pid and the usage. An ended session accepts no
// message.
#[tokio::test]
async fn status_describes_the_session() {
    let mut rig = Rig::new("read\ninit\ntext hi\nresult hi\nread-until-eof");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
    until("the session is idle", || {
        session.status().state == ostler::event::SessionState::Idle
    })
    .await;
    let status = session.status();
    assert!(
        status.native_session.is_some() && status.pid.is_some() && status.last_activity.is_some(),
        "{status:?}"
    );
    assert!(status.turn == 1 && status.usage.is_some_and(|usage| usage.output == Some(25)));
    session.stop();
    while session.next().await.is_some() {}
    assert_eq!(
        (session.status().state, session.remote().pid()),
        (ostler::event::SessionState::Ended, None)
    );
    assert!(
        session.send("too late").is_err(),
        "an ended session accepts a message"
    );
}
