//! Relay: the near end of a session that runs elsewhere. It takes the requests of the session's
//! handles, and stores and publishes the events that come back.

use std::sync::Arc;

use ostler_core::event::{
    DecidedBy, Decision, Ended, Event, EventKind, Permission, Timestamp, TurnEnded,
};
use ostler_core::log::{Log, LogEntry, LogError};
use ostler_core::machine::Completion;
use ostler_core::outcome::Outcome;
use ostler_core::request::{SessionReply, SessionRequest};
use tokio::sync::oneshot;

use super::inbox::Inbox;
use super::remote::Request;
use super::status::Shared;
use crate::clock;

/// The near end of a session that runs elsewhere ([`super::Session::relayed`]).
pub struct Relay {
    inbox: Inbox,
    /// Resolves when the session handle is dropped, which stops the session.
    dropped: oneshot::Receiver<()>,
    has_caller: bool,
    shared: Arc<Shared>,
    log: Option<Arc<dyn Log>>,
    last: u64,
    last_at: Timestamp,
    turn: u32,
    is_in_turn: bool,
    has_ended: bool,
}

/// A request of a caller, and where its result goes.
#[derive(Debug)]
pub struct RelayedRequest {
    /// What is asked for.
    pub request: SessionRequest,
    done: Option<oneshot::Sender<Completion>>,
}

impl RelayedRequest {
    /// Returns true if a caller waits for the result.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        self.done.as_ref().is_some_and(|done| !done.is_closed())
    }

    /// Passes the result on. Without this, the caller sees that the session has ended.
    pub fn complete(self, reply: SessionReply) {
        if let (Some(done), Some(completion)) = (self.done, reply.completion()) {
            let _ = done.send(completion); // the caller may not wait any more
        }
    }
}

/// Events that cannot be published.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// They do not follow what was published.
    #[error("event {found} came instead of event {expected}")]
    Gap {
        /// Number of the event that follows.
        expected: u64,
        /// Number of the event that came.
        found: u64,
    },
    /// They belong to another session.
    #[error("an event belongs to another session")]
    OtherSession,
    /// They are published, but the log does not store them or any later ones.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Relay {
    pub(super) fn new(
        inbox: Inbox,
        dropped: oneshot::Receiver<()>,
        shared: Arc<Shared>,
        log: Option<Arc<dyn Log>>,
    ) -> Self {
        Self {
            inbox,
            dropped,
            has_caller: true,
            shared,
            log,
            last: 0,
            last_at: Timestamp(0),
            turn: 0,
            is_in_turn: false,
            has_ended: false,
        }
    }

    /// Waits for the next request of a caller. A session handle that is dropped is a request to
    /// stop. Cancel safe.
    pub async fn next(&mut self) -> RelayedRequest {
        loop {
            tokio::select! {
                biased;
                request = self.inbox.next() => {
                    let Request { input, pending } = *request;
                    if let Some(request) = SessionRequest::of(input) {
                        let done = pending.map(|pending| pending.done);
                        return RelayedRequest { request, done };
                    }
                }
                _ = &mut self.dropped, if self.has_caller => {
                    self.has_caller = false;
                    return RelayedRequest {
                        request: SessionRequest::Stop,
                        done: None,
                    };
                }
            }
        }
    }

    /// Takes over events that are in the log already.
    pub(super) fn recall(&mut self, events: Vec<Event>) {
        let entries = events.into_iter().map(|event| LogEntry {
            event,
            raw_offset: 0,
        });
        let entries: Vec<LogEntry> = entries.collect();
        for LogEntry { event, .. } in &entries {
            self.last = event.seq;
            self.note(event);
        }
        self.shared.update(&entries);
        self.shared.backlog.begin_after(self.last);
        if self.has_ended {
            self.close();
        }
    }

    /// Returns the number of the last published event.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Stores events and publishes them to the readers. Events that are published already are
    /// skipped. After [`EventKind::Ended`], nothing follows.
    ///
    /// # Errors
    /// If they do not follow what was published, or the log fails.
    pub async fn publish(&mut self, events: Vec<Event>) -> Result<(), RelayError> {
        let mut entries = Vec::with_capacity(events.len());
        let mut expected = self.last + 1;
        for event in events {
            if *event.session != *self.shared.id {
                return Err(RelayError::OtherSession);
            }
            if event.seq < expected || self.has_ended {
                continue;
            }
            if event.seq > expected {
                let found = event.seq;
                return Err(RelayError::Gap { expected, found });
            }
            expected += 1;
            self.note(&event);
            entries.push(LogEntry {
                event,
                raw_offset: 0,
            });
        }
        let Some(last) = entries.last().map(|entry| entry.event.seq) else {
            return Ok(());
        };
        self.last = last;
        let batch = Arc::new(entries);
        let stored = match &self.log {
            Some(log) => log.append(batch.clone()).await,
            None => Ok(()),
        };
        let backlog = &self.shared.backlog;
        match &stored {
            Ok(()) if self.log.is_some() => backlog.set_stored(last),
            Ok(()) => {}
            Err(_) => {
                self.log = None;
                backlog.disable_log();
            }
        }
        let bytes = batch.iter().map(|entry| entry.event.weight()).sum();
        self.shared.update(&batch);
        backlog.publish(batch, bytes);
        backlog.evict();
        if self.has_ended {
            self.close();
        }
        stored.map_err(RelayError::Log)
    }

    /// Ends a session whose far end is lost: open permission requests are denied, the given events
    /// follow, and the open turn and the session end with this outcome.
    ///
    /// # Errors
    /// If the log fails.
    pub async fn end(
        &mut self,
        outcome: &Outcome,
        before: Vec<EventKind>,
    ) -> Result<(), RelayError> {
        if self.has_ended {
            return Ok(());
        }
        let mut kinds = Vec::new();
        for asked in self.shared.status().pending {
            kinds.push(EventKind::Permission(Permission {
                decision: Decision::Denied,
                by: DecidedBy::Default,
                message: Some(outcome.message.clone()),
                ..asked
            }));
        }
        kinds.extend(before);
        if self.is_in_turn {
            kinds.push(EventKind::TurnEnded(Box::new(TurnEnded {
                outcome: outcome.clone(),
                text: String::new(),
                usage: None,
                structured: None,
            })));
        }
        kinds.push(EventKind::Ended(Box::new(Ended {
            outcome: outcome.clone(),
            exit_code: None,
            signal: None,
            usage: self.shared.status().usage,
        })));
        let at = clock::wall().max(self.last_at);
        let events = (self.last + 1..).zip(kinds).map(|(seq, kind)| Event {
            seq,
            at,
            session: self.shared.id.clone(),
            turn: self.turn,
            kind,
        });
        let events = events.collect();
        self.publish(events).await
    }

    /// Publishes the last event of the far end, after events of this end.
    ///
    /// # Errors
    /// As for [`Relay::publish`].
    pub async fn finish(&mut self, ended: Event, before: Vec<EventKind>) -> Result<(), RelayError> {
        let more = before.into_iter().map(|kind| Event {
            kind,
            ..ended.clone()
        });
        let mut events: Vec<Event> = more.collect();
        events.push(ended);
        for (event, seq) in events.iter_mut().zip(self.last + 1..) {
            event.seq = seq;
        }
        self.publish(events).await
    }

    /// Remembers what the end of the session depends on.
    fn note(&mut self, event: &Event) {
        self.last_at = self.last_at.max(event.at);
        self.turn = event.turn;
        self.shared.set_last_activity(event.at);
        match &event.kind {
            EventKind::TurnStarted(_) => self.is_in_turn = true,
            EventKind::TurnEnded(_) => self.is_in_turn = false,
            EventKind::Ended(_) => self.has_ended = true,
            _ => {}
        }
    }

    fn close(&mut self) {
        self.inbox.close();
        self.shared.backlog.close();
    }
}

/// Readers of a session whose relay ends early see its end, not silence.
impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
    }
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Relay")
            .field("session", &self.shared.id)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;

    use ostler_core::event::{Origin, TurnStarted};
    use ostler_core::log::{AppendFuture, NewSession, SessionRecord};
    use ostler_core::machine::Interruption;
    use ostler_core::outcome::Cause;

    use super::super::Session;
    use super::*;
    use crate::host::Host;

    /// A log in memory.
    #[derive(Default)]
    struct Stored(Mutex<Vec<Event>>);

    impl Log for Stored {
        fn open(&self, _: &NewSession) -> Result<(), LogError> {
            Ok(())
        }

        fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
            let events = entries.iter().map(|entry| entry.event.clone());
            self.0.lock().unwrap().extend(events);
            Box::pin(std::future::ready(Ok(())))
        }

        fn read(&self, _: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
            let events = self.0.lock().unwrap();
            let wanted = events.iter().filter(|event| event.seq >= from).take(most);
            Ok(wanted.cloned().collect())
        }

        fn raw(&self, _: &str) -> Option<PathBuf> {
            None
        }

        fn find(&self, _: &str) -> Result<Option<SessionRecord>, LogError> {
            Ok(None)
        }
    }

    fn event(seq: u64, kind: EventKind) -> Event {
        Event {
            seq,
            at: Timestamp(1),
            session: "s".into(),
            turn: 1,
            kind,
        }
    }

    fn turn_started(seq: u64) -> Event {
        let started = TurnStarted {
            origin: Origin::Caller,
            prompt: Some("go".to_owned()),
        };
        event(seq, EventKind::TurnStarted(started))
    }

    fn relayed(log: &Arc<Stored>) -> (Session, Relay, Host) {
        let log: Arc<dyn Log> = log.clone();
        let host = Host::default().with_log(log);
        let new = NewSession {
            session: "s".to_owned(),
            agent: "mock".to_owned(),
            dir: PathBuf::new(),
            at: Timestamp(1),
            continues: None,
            labels: std::collections::BTreeMap::new(),
            pid: 1,
        };
        let (session, relay) = Session::relayed(&host, &new).unwrap();
        (session, relay, host)
    }

    async fn numbers(session: &mut Session) -> Vec<u64> {
        let mut numbers = Vec::new();
        while let Some(event) = session.next().await {
            numbers.push(event.seq);
        }
        numbers
    }

    #[tokio::test]
    async fn events_are_stored_and_published_once_and_in_order() {
        let log = Arc::new(Stored::default());
        let (mut session, mut relay, _) = relayed(&log);
        let events = |from: u64, to: u64| (from..=to).map(turn_started).collect::<Vec<_>>();
        relay.publish(events(1, 2)).await.unwrap();
        relay.publish(events(1, 3)).await.unwrap();
        let gap = relay.publish(events(5, 5)).await;
        assert!(
            matches!(
                gap,
                Err(RelayError::Gap {
                    expected: 4,
                    found: 5
                })
            ),
            "{gap:?}"
        );
        let mut foreign = turn_started(4);
        foreign.session = "other".into();
        let foreign = relay.publish(vec![foreign]).await;
        assert!(matches!(foreign, Err(RelayError::OtherSession)));
        let outcome = Outcome::new(Cause::AgentDied, "It is gone.");
        relay.end(&outcome, Vec::new()).await.unwrap();
        relay.end(&outcome, Vec::new()).await.unwrap();
        assert_eq!(numbers(&mut session).await, [1, 2, 3, 4, 5]);
        let stored = log.0.lock().unwrap();
        let kinds: Vec<_> = stored.iter().rev().map(|event| &event.kind).collect();
        assert!(matches!(
            kinds[..2],
            [EventKind::Ended(_), EventKind::TurnEnded(_)]
        ));
        assert!(session.send("late").is_err());
    }

    #[tokio::test]
    async fn requests_arrive_in_order_and_get_their_result() {
        let (session, mut relay, _) = relayed(&Arc::default());
        session.send("one").unwrap();
        let interrupt = session.interrupt();
        let request = relay.next().await;
        assert_eq!(request.request, SessionRequest::Send("one".to_owned()));
        assert!(!request.is_awaited());
        let request = relay.next().await;
        assert!(request.is_awaited());
        request.complete(SessionReply::Interrupted(Interruption::TooLate));
        assert_eq!(interrupt.await, Interruption::TooLate);
        let interrupt = session.interrupt();
        drop(relay.next().await); // its result never comes
        assert_eq!(interrupt.await, Interruption::NoTurn);
        drop(session);
        assert_eq!(relay.next().await.request, SessionRequest::Stop);
    }

    #[tokio::test]
    async fn a_session_is_followed_again_with_its_events_so_far() {
        let log = Arc::new(Stored::default());
        let (session, mut relay, host) = relayed(&log);
        relay.publish(vec![turn_started(1)]).await.unwrap();
        drop((session, relay));
        let (mut session, mut relay) = Session::rejoined(&host, "s").unwrap();
        assert_eq!(relay.last(), 1);
        relay.publish(vec![turn_started(1)]).await.unwrap();
        let outcome = Outcome::new(Cause::AgentDied, "It is gone.");
        relay.end(&outcome, Vec::new()).await.unwrap();
        // The open turn ends, and the own reader begins with the first event.
        assert_eq!(numbers(&mut session).await, [1, 2, 3]);
        assert_eq!(log.0.lock().unwrap().len(), 3);
        assert!(Session::rejoined(&Host::default(), "s").is_err());
    }
}
