//! Mirror: the record of an attempt, event by event, into the owner's store.

use std::collections::HashMap;
use std::sync::Arc;

use ostler_core::event::Event;
use ostler_core::log::{Log, LogEntry};
use ostler_core::usage::Usage;
use ostler_store::Store;

use crate::message::{ATTEMPT_LABEL, Record};
use crate::nats::Chunk;
use crate::subject::Token;

/// Tokens and cost of an attempt so far.
pub(super) struct Spent {
    pub(super) session: String,
    pub(super) usage: Usage,
}

/// A chunk that cannot follow what was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap;

/// Longest line of a record, in bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;

/// The mirror of one attempt.
pub(super) struct Mirror {
    store: Arc<Store>,
    worker: Token,
    /// The attempt and the process of its worker, to which its sessions are bound.
    attempt: String,
    /// Whether a gap is skipped, because it stays.
    skips_gaps: bool,
    /// Number of bytes received.
    received: u64,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    /// The last stored event of each session of this attempt.
    last: HashMap<String, u64>,
    /// Why events are missing in the store.
    pub(super) failure: Option<String>,
}

impl Mirror {
    pub(super) fn new(store: Arc<Store>, worker: Token, attempt: String, skips_gaps: bool) -> Self {
        Self {
            store,
            worker,
            attempt,
            skips_gaps,
            received: 0,
            partial: Vec::new(),
            last: HashMap::new(),
            failure: None,
        }
    }

    /// Returns the number of bytes that are mirrored.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Returns true if a session is of this attempt.
    pub(super) fn has(&self, session: &str) -> bool {
        self.last.contains_key(session)
    }

    /// Stores the events of a chunk, each exactly once. Returns the last usage in it.
    pub(super) async fn apply(&mut self, chunk: &Chunk) -> Result<Option<Spent>, Gap> {
        if chunk.offset > self.received {
            if !self.skips_gaps {
                return Err(Gap);
            }
            self.fail(format!("the record has a gap at {}", self.received));
            self.received = chunk.offset;
            self.partial.clear();
            self.last.clear(); // events behind a gap are not stored
        }
        let known = usize::try_from(self.received - chunk.offset).map_err(|_| Gap)?;
        let Some(new) = chunk.bytes.get(known..) else {
            return Ok(None);
        };
        self.received += u64::try_from(new.len()).unwrap_or(u64::MAX);
        self.partial.extend_from_slice(new);
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else {
            if self.partial.len() > MAX_LINE {
                self.partial = Vec::new();
                self.fail("a line is too long".to_owned());
            }
            return Ok(None);
        };
        let rest = self.partial.split_off(end + 1);
        let lines = std::mem::replace(&mut self.partial, rest);
        Ok(self.apply_lines(&lines).await)
    }

    async fn apply_lines(&mut self, lines: &[u8]) -> Option<Spent> {
        let mut spent = None;
        let mut batch: Vec<LogEntry> = Vec::new();
        for line in lines.split(|byte| *byte == b'\n') {
            match serde_json::from_slice::<Record>(line) {
                Ok(Record::Opened(opened)) => {
                    self.store_events(std::mem::take(&mut batch)).await;
                    self.open(opened);
                }
                Ok(Record::Event(text)) => {
                    let Ok(event) = Event::from_json(text.get()) else {
                        self.fail("an event cannot be read".to_owned());
                        continue;
                    };
                    let first = batch.first();
                    if first.is_some_and(|first| first.event.session != event.session) {
                        self.store_events(std::mem::take(&mut batch)).await;
                    }
                    batch.push(LogEntry {
                        event,
                        raw_offset: 0,
                    });
                }
                Ok(Record::Usage { session, usage }) => match self.is_foreign(&session) {
                    true => self.fail(format!("{session} is not a session of this attempt")),
                    false => {
                        spent = Some(Spent {
                            session,
                            usage: *usage,
                        });
                    }
                },
                Ok(Record::Reply { .. }) => {} // of a session
                Err(_) if line.is_empty() => {}
                Err(error) => self.fail(format!("a line cannot be read: {error}")),
            }
        }
        self.store_events(batch).await;
        spent
    }

    /// Returns true if a session is stored and is not of this attempt. A worker must not write to
    /// any session whose id it knows.
    fn is_foreign(&self, session: &str) -> bool {
        if self.last.contains_key(session) {
            return false;
        }
        match self.store.session(session) {
            Ok(Some(row)) => row.labels.get(ATTEMPT_LABEL) != Some(&self.attempt),
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Opens a session, unless an earlier process has.
    fn open(&mut self, opened: crate::message::OpenedSession) {
        let id = opened.id().to_owned();
        if self.last.contains_key(&id) {
            return;
        }
        match self.store.session(&id) {
            Ok(Some(row)) if row.labels.get(ATTEMPT_LABEL) == Some(&self.attempt) => {}
            Ok(Some(_)) => return self.fail(format!("{id} is not a session of this attempt")),
            Ok(None) => {
                let new = opened.into_new(&self.worker, &self.attempt, std::process::id());
                if let Err(error) = self.store.open(&new) {
                    return self.fail(error.to_string());
                }
            }
            Err(error) => return self.fail(error.to_string()),
        }
        let last = self.store.last_seq(&id).unwrap_or(0);
        self.last.insert(id, last);
    }

    async fn store_events(&mut self, mut batch: Vec<LogEntry>) {
        let Some(session) = batch.first().map(|entry| entry.event.session.to_string()) else {
            return;
        };
        let Some(last) = self.last.get_mut(&session) else {
            return self.fail(format!("{session} is not an open session of this attempt"));
        };
        batch.retain(|entry| entry.event.seq > *last);
        let is_gapless = (*last + 1..)
            .zip(&batch)
            .all(|(seq, it)| it.event.seq == seq);
        let Some(newest) = batch.last().map(|entry| entry.event.seq) else {
            return;
        };
        if !is_gapless {
            // The store accepts nothing more of a session that lost an event.
            return self.fail(format!("events of {session} are out of order"));
        }
        *last = newest;
        if let Err(error) = self.store.append(Arc::new(batch)).await {
            self.fail(error.to_string());
        }
    }

    /// Remembers the first failure. The attempt continues: its result does not depend on the log.
    fn fail(&mut self, why: String) {
        tracing::warn!(why, "events of an attempt are not mirrored");
        self.failure.get_or_insert(why);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ostler_core::event::{EventKind, Origin, Timestamp, TurnStarted};
    use ostler_core::log::NewSession;

    use super::*;

    fn opened(session: &str) -> String {
        let new = NewSession {
            session: session.to_owned(),
            agent: "claude".to_owned(),
            dir: PathBuf::from("/"),
            at: Timestamp(1),
            continues: None,
            labels: std::collections::BTreeMap::new(),
            pid: 1,
        };
        let opened = Record::Opened(crate::message::OpenedSession::from(&new));
        serde_json::to_string(&opened).unwrap() + "\n"
    }

    fn event(session: &str, seq: u64) -> String {
        let event = Event {
            seq,
            at: Timestamp(1),
            session: session.into(),
            turn: u32::try_from(seq).unwrap(),
            kind: EventKind::TurnStarted(TurnStarted {
                origin: Origin::Caller,
                prompt: None,
            }),
        };
        format!("{{\"event\":{}}}\n", event.to_json())
    }

    fn mirror(store: &Arc<Store>, attempt: &str, skips_gaps: bool) -> Mirror {
        let worker = "w1".parse().unwrap();
        Mirror::new(store.clone(), worker, attempt.to_owned(), skips_gaps)
    }

    async fn apply(mirror: &mut Mirror, text: String) {
        let chunk = Chunk {
            offset: mirror.received(),
            bytes: text.into(),
        };
        mirror.apply(&chunk).await.unwrap();
    }

    fn numbers(store: &Store, session: &str) -> Vec<u64> {
        let events = store.read(session, 0, usize::MAX).unwrap();
        events.iter().map(|event| event.seq).collect()
    }

    #[tokio::test]
    async fn a_record_cannot_add_to_a_session_of_another_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let mut own = mirror(&store, "a/1", false);
        apply(&mut own, opened("s") + &event("s", 1)).await;
        // With the session opened again, without that, and out of order.
        for text in [
            opened("s") + &event("s", 2),
            event("s", 2),
            event("s", 9),
            opened("s") + &event("s", 9),
        ] {
            let mut other = mirror(&store, "a/2", false);
            apply(&mut other, text).await;
            assert!(other.failure.is_some() && !other.has("s"));
        }
        // The attempt itself continues, also in another process.
        apply(&mut own, event("s", 2)).await;
        assert_eq!((&own.failure, numbers(&store, "s")), (&None, vec![1, 2]));
        let mut again = mirror(&store, "a/1", false);
        let all = opened("s") + &event("s", 1) + &event("s", 2) + &event("s", 3);
        apply(&mut again, all).await;
        let stored = numbers(&store, "s");
        assert_eq!((again.failure, stored), (None, vec![1, 2, 3]));
    }

    #[tokio::test]
    async fn a_gap_is_an_error_until_it_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(dir.path()).unwrap());
        let start = opened("s") + &event("s", 1);
        let behind = Chunk {
            offset: 1_000_000,
            bytes: event("s", 5).into(),
        };
        let mut strict = mirror(&store, "a/1", false);
        apply(&mut strict, start.clone()).await;
        assert!(strict.apply(&behind).await.is_err());
        let mut lenient = mirror(&store, "a/1", true);
        apply(&mut lenient, start).await;
        assert!(lenient.apply(&behind).await.is_ok());
        assert!(lenient.failure.is_some() && lenient.received() > 1_000_000);
        assert_eq!(numbers(&store, "s"), [1]);
    }
}
