//! A session and its log: when events are stored and published, and that a failing log breaks
//! nothing.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::host::Delivery;
use ostler::log::{LogError, NewSession, SessionRecord};
use ostler::session::ReadItem;
use ostler::spec::AfterTurn;
use ostler::{Event, Log};
use ostler_core::log::{AppendFuture, LogEntry};

use crate::rig::{Rig, check_stream, finish};

/// An in-memory log that can be slow, or fail after some appends.
#[derive(Clone, Default)]
pub(super) struct MemoryLog(Arc<Inner>);

#[derive(Default)]
struct Inner {
    entries: Mutex<Vec<LogEntry>>,
    opened: Mutex<Vec<NewSession>>,
    slow: Duration,
    breaks_after: Option<usize>,
    /// Whether events are stored as soon as they are handed over.
    is_eager: bool,
    appends: AtomicUsize,
    raw: Option<PathBuf>,
}

impl MemoryLog {
    /// Creates a log whose raw output goes to this file.
    pub(super) fn with_raw(raw: PathBuf) -> Self {
        Self(Arc::new(Inner {
            raw: Some(raw),
            ..Inner::default()
        }))
    }

    /// Returns the sessions that were opened.
    pub(super) fn opened(&self) -> Vec<NewSession> {
        self.0.opened.lock().unwrap().clone()
    }

    pub(super) fn events(&self, session: &str) -> Vec<Event> {
        self.read(session, 1, usize::MAX).unwrap()
    }
}

impl Log for MemoryLog {
    fn open(&self, opening: &NewSession) -> Result<(), LogError> {
        self.0.opened.lock().unwrap().push(opening.clone());
        match self.0.breaks_after {
            Some(0) => Err(LogError("the disk is full".into())),
            _ => Ok(()),
        }
    }

    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
        let log = self.0.clone();
        if log.is_eager {
            log.entries.lock().unwrap().extend(entries.iter().cloned());
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(async move {
            tokio::time::sleep(log.slow).await;
            if log
                .breaks_after
                .is_some_and(|n| log.appends.fetch_add(1, Ordering::Relaxed) >= n)
            {
                return Err(LogError("the disk is full".into()));
            }
            log.entries.lock().unwrap().extend(entries.iter().cloned());
            Ok(())
        })
    }

    fn read(&self, session: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        let entries = self.0.entries.lock().unwrap();
        let events = entries.iter().map(|entry| &entry.event);
        Ok(events
            .filter(|event| &*event.session == session && event.seq >= from)
            .take(most)
            .cloned()
            .collect())
    }

    fn raw(&self, _: &str) -> Option<PathBuf> {
        self.0.raw.clone()
    }

    fn find(&self, id: &str) -> Result<Option<SessionRecord>, LogError> {
        let opened = self.0.opened.lock().unwrap();
        let known = opened.iter().rev().find(|opening| opening.session == id);
        Ok(known.map(|opening| SessionRecord {
            session: opening.session.clone(),
            agent: opening.agent.clone(),
            agent_version: None,
            native_session: None,
            dir: opening.dir.clone(),
            continues: opening.continues.clone(),
            held_by: None,
        }))
    }
}

// Durable: no reader is ever ahead of the log, however slow it is. Immediate: the log does not
// delay readers, and has everything once the end of a turn is read.
#[tokio::test]
async fn readers_get_events_at_once_or_once_they_are_stored() {
    for delivery in [Delivery::Durable, Delivery::Immediate] {
        stored_and_published(delivery).await;
    }
}

async fn stored_and_published(delivery: Delivery) {
    let log = MemoryLog(Arc::new(Inner {
        slow: Duration::from_millis(20),
        ..Inner::default()
    }));
    let mut rig =
        Rig::new("read\ninit\nloop 20\ntext hi\nsleep 10\nend\nresult hi\nread-until-eof");
    rig.host = rig.host.with_log(Arc::new(log.clone()));
    rig.host = rig.host.with_delivery(delivery);
    let mut session = rig.start();
    let (mut events, mut unstored) = (Vec::new(), 0);
    while let Some(event) = session.next().await {
        let is_stored = log
            .events(session.id())
            .iter()
            .any(|stored| stored.seq == event.seq);
        let must_be_stored = delivery == Delivery::Durable
            || matches!(
                event.kind,
                ostler::EventKind::TurnEnded(_) | ostler::EventKind::Ended(_)
            );
        assert!(
            is_stored || !must_be_stored,
            "published before it was stored: {event:?}"
        );
        unstored += usize::from(!is_stored);
        events.push(event);
    }
    assert_eq!(unstored > 0, delivery == Delivery::Immediate, "{unstored}");
    check_stream(&events);
    assert_eq!(log.events(session.id()), events);
    let opened = log.0.opened.lock().unwrap();
    assert_eq!(
        (opened.len(), &*opened[0].session, &*opened[0].agent),
        (1, session.id(), "claude")
    );
}

// A log that cannot be opened, or fails midway, causes one notice, and the run succeeds anyway.
#[tokio::test]
async fn a_log_that_fails_breaks_nothing() {
    for breaks_after in [0, 1, 3] {
        let log = MemoryLog(Arc::new(Inner {
            breaks_after: Some(breaks_after),
            ..Inner::default()
        }));
        let mut rig =
            Rig::new("read\ninit\nloop 20\ntext hi\nsleep 5\nend\nresult hi\nread-until-eof");
        rig.host = rig.host.with_log(Arc::new(log));
        let seen = rig.run().await;
        assert!(seen.outcome().is_success(), "{:?}", seen.outcome());
        let notices = seen.notices("store_failed");
        assert!(
            notices.len() == 1 && notices[0].message.contains("the disk is full"),
            "{notices:?}"
        );
    }
}

// The session's task is dropped after a reader saw an event and before the append was started.
#[test]
fn events_that_were_read_reach_the_log_if_the_runtime_is_dropped() {
    let log = MemoryLog(Arc::new(Inner {
        is_eager: true,
        ..Inner::default()
    }));
    let mut rig = Rig::new("read\ninit\ntext hi\nread-until-eof");
    rig.host = rig.host.with_log(Arc::new(log.clone()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (id, seq) = runtime.block_on(async {
        let mut session = rig.start();
        loop {
            let event = session.next().await.unwrap();
            if matches!(event.kind, ostler::EventKind::Text(_)) {
                return (session.id().to_owned(), event.seq);
            }
        }
    });
    drop(runtime);
    let stored = log.events(&id);
    assert!(stored.iter().any(|event| event.seq == seq), "{stored:?}");
}

// Several batches wait for a slow log when it fails: every reader still gets every event, once.
#[tokio::test]
async fn a_slow_log_that_fails_loses_no_event() {
    for delivery in [Delivery::Durable, Delivery::Immediate] {
        let log = MemoryLog(Arc::new(Inner {
            slow: Duration::from_millis(30),
            breaks_after: Some(2),
            ..Inner::default()
        }));
        let mut rig =
            Rig::new("read\ninit\nloop 40\ntext hi\nsleep 5\nend\nresult hi\nread-until-eof");
        rig.host = rig.host.with_log(Arc::new(log.clone()));
        rig.host = rig.host.with_delivery(delivery);
        let session = rig.start();
        let (remote, id) = (session.remote(), session.id().to_owned());
        let seen = finish(session).await;
        check_stream(&seen.0);
        assert_eq!(seen.notices("store_failed").len(), 1, "{delivery:?}");
        let stored = log.events(&id);
        assert!(!stored.is_empty() && stored.len() < seen.0.len());
        assert_eq!(stored, seen.0[..stored.len()], "{delivery:?}");
        let mut late = remote.events(stored.len() as u64 + 1);
        for wanted in &seen.0[stored.len()..] {
            let item = late.next().await;
            assert_eq!(item, Some(ReadItem::Event(wanted.clone())), "{delivery:?}");
        }
    }
}

// Each text event has the offset of its line in the raw output, even after the agent was restarted.
#[tokio::test]
async fn events_have_their_offset_in_the_raw_output() {
    let dir = tempfile::tempdir().unwrap();
    let raw = dir.path().join("raw");
    let log = MemoryLog(Arc::new(Inner {
        raw: Some(raw.clone()),
        ..Inner::default()
    }));
    let mut rig = Rig::new("read-user\ninit\ntext hi\nresult hi\nexit 0");
    rig.spec.after_turn = AfterTurn::Wait;
    rig.host = rig.host.with_log(Arc::new(log.clone()));
    let mut session = rig.start();
    for _ in 0..2 {
        crate::rig::read_until(&mut session, |kind| {
            matches!(kind, ostler::EventKind::TurnEnded(_))
        })
        .await;
        let has_exited = || session.status().pid.is_none();
        crate::rig::until("the agent has exited", has_exited).await;
        session.send("again").unwrap();
    }
    crate::rig::read_until(&mut session, |kind| {
        matches!(kind, ostler::EventKind::TurnEnded(_))
    })
    .await;
    session.stop();
    while session.next().await.is_some() {}
    let text = std::fs::read_to_string(raw).unwrap();
    let entries = log.0.entries.lock().unwrap();
    let texts: Vec<&str> = entries
        .iter()
        .filter(|entry| matches!(entry.event.kind, ostler::EventKind::Text(_)))
        .map(|entry| {
            text[usize::try_from(entry.raw_offset).unwrap()..]
                .lines()
                .next()
                .unwrap()
        })
        .collect();
    assert_eq!(texts.len(), 3);
    assert!(
        texts
            .iter()
            .all(|line| line.contains("\"assistant\"") && line.contains("hi")),
        "{texts:?}"
    );
}

// A message sent while the session is ending gets a turn, or is refused by an event or by the
// call's error; it is never lost.
#[tokio::test]
async fn a_message_at_the_end_is_not_lost() {
    for delay in 0..8 {
        let rig = Rig::new("loop 50\nread-user\ninit\ntext hi\nresult hi\nend").grace_ms(300);
        let session = rig.start();
        let remote = session.remote();
        let sender = tokio::spawn(async move {
            let mut sent = 0;
            for n in 0..40 {
                tokio::time::sleep(Duration::from_millis(2 * delay)).await;
                match remote.send(format!("{n}")) {
                    Ok(()) => sent += 1,
                    Err(_) => break,
                }
            }
            sent
        });
        let seen = finish(session).await;
        let sent: usize = sender.await.unwrap();
        let refused = seen.kinds().filter(
            |kind| matches!(kind, ostler::EventKind::Refused(it) if it.request.as_str() == "send"),
        );
        let turns = seen.turns().len() - 1;
        assert_eq!(refused.count() + turns, sent, "messages were lost");
    }
}
