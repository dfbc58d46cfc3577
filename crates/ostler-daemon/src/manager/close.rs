//! Ends sessions that were never started.

use std::sync::Arc;

use ostler::Outcome;
use ostler_core::event::{Ended, Event, EventKind, RefusalCode, Refused, RequestKind};
use ostler_core::log::{Log, LogEntry};

use super::Manager;
use crate::feed::FeedLog;

impl Manager {
    /// Ends a session that no agent runs. The messages that wait for it are refused.
    pub(super) async fn close(&self, id: &str, outcome: Outcome) {
        if let Err(why) = self.store_end(id, outcome).await {
            tracing::warn!(session = id, why, "session not closed");
        } else {
            self.forget_messages(id).await;
        }
        self.feed.remove(id);
        self.state().families.remove(id);
    }

    /// Stores the events that end a session that no agent runs.
    async fn store_end(&self, id: &str, outcome: Outcome) -> Result<(), String> {
        let own = id.to_owned();
        let last = self.with_store(move |store| {
            store.dequeue(&own)?; // so that no message is added
            store.last_seq(&own)
        });
        let last = last.await.map_err(|problem| problem.detail)?;
        let messages = self.queued_messages(id).await;
        let messages = messages.map_err(|problem| problem.detail)?;
        let refused = messages.iter().map(|_| refused_message());
        let ended = EventKind::Ended(Box::new(Ended {
            outcome,
            exit_code: None,
            signal: None,
            usage: None,
        }));
        let at = self.embedder.now();
        let entries = (last + 1..).zip(refused.chain([ended]));
        let entries = entries.map(|(seq, kind)| LogEntry {
            event: Event {
                seq,
                at,
                session: id.into(),
                turn: 0,
                kind,
            },
            raw_offset: 0,
        });
        let stored = FeedLog(self.feed.clone()).append(Arc::new(entries.collect()));
        stored.await.map_err(|error| error.to_string())
    }
}

/// Returns the event that refuses a message to a session that will not be started.
fn refused_message() -> EventKind {
    EventKind::Refused(Refused {
        request: RequestKind::Send,
        why: "the session ended before the message was delivered".to_owned(),
        code: RefusalCode::Ending,
    })
}
