//! Persistence: appends events to the log, and publishes them to readers before or after that.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::event::{Event, EventKind, Level, Notice, NoticeCode};
use ostler_core::log::{AppendFuture, Log, LogError, NewSession};
use ostler_core::machine::Input;

use super::Driver;
use crate::clock;
use crate::host::Delivery;
use crate::session::SessionSetup;
use crate::session::backlog::Batch;
use crate::session::engine::Engine;
use crate::session::status::Shared;

/// How long the log may take to store the last events of a session.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Batches that are not stored in the log yet, in order.
#[derive(Default)]
pub(super) struct PendingAppends {
    pending: VecDeque<PendingAppend>,
    /// Size of all of them.
    bytes: usize,
}

struct PendingAppend {
    /// The append, once it has been started.
    future: Option<AppendFuture>,
    batch: Batch,
    /// Size of the batch.
    bytes: usize,
    is_published: bool,
}

impl PendingAppends {
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns the size of the events that are not in the log yet.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Iterates over the events that are published only once they are stored.
    pub(super) fn unpublished(&self) -> impl Iterator<Item = &Event> {
        let unpublished = self.pending.iter().filter(|append| !append.is_published);
        unpublished.flat_map(|append| append.batch.iter().map(|entry| &entry.event))
    }

    /// Starts the appends that have not been started.
    fn start(&mut self, log: &Arc<dyn Log>) {
        // These are the last ones, because appends are started in order.
        let is_new = |append: &&mut PendingAppend| append.future.is_none();
        let count = self.pending.iter_mut().rev().take_while(is_new).count();
        let first = self.pending.len() - count;
        for append in self.pending.range_mut(first..) {
            append.future = Some(log.append(append.batch.clone()));
        }
    }

    /// Waits until the first append has finished; forever if there is none.
    pub(super) async fn next(&mut self) -> Result<(), LogError> {
        let first = self.pending.front_mut();
        match first.and_then(|append| append.future.as_mut()) {
            Some(future) => future.as_mut().await,
            None => std::future::pending().await,
        }
    }

    fn push(&mut self, append: PendingAppend) {
        self.bytes += append.bytes;
        self.pending.push_back(append);
    }

    fn pop(&mut self) -> Option<PendingAppend> {
        let append = self.pending.pop_front()?;
        self.bytes -= append.bytes;
        Some(append)
    }
}

/// Returns true if the batch ends a turn or the session. It is then published only once it is
/// stored, whatever the delivery, so that a reader that sees the end finds everything in the log.
fn ends_turn(batch: &Batch) -> bool {
    let ends = |kind: &EventKind| matches!(kind, EventKind::TurnEnded(_) | EventKind::Ended(_));
    batch.iter().any(|entry| ends(&entry.event.kind))
}

impl Driver {
    /// Publishes the queued events, unless they must be stored first. [`Self::start_appends`] must
    /// follow.
    pub(super) fn publish(&mut self) {
        let must_wait = self.appending.unpublished().next().is_some();
        if must_wait || self.engine.events.is_empty() {
            return;
        }
        let (entries, bytes) = self.engine.events.take_entries();
        let batch = Arc::new(entries);
        if self.log.is_none() {
            return self.publish_batch(batch, bytes);
        }
        let is_published = self.setup.host.delivery() == Delivery::Immediate && !ends_turn(&batch);
        self.appending.push(PendingAppend {
            future: None,
            batch: batch.clone(),
            bytes,
            is_published,
        });
        if is_published {
            self.publish_batch(batch, bytes);
        }
    }

    /// Starts to append the queued batches to the log, after readers have had a chance to run.
    pub(super) fn start_appends(&mut self) {
        if let Some(log) = &self.log {
            self.appending.start(log);
        }
    }

    /// Publishes the batch that was appended, unless it has been published already. If the log
    /// failed, the session continues without it.
    pub(super) fn on_persisted(&mut self, result: Result<(), LogError>) {
        let Some(append) = self.appending.pop() else {
            return;
        };
        let mut unpublished = vec![];
        match result {
            Ok(()) => {
                let last = append.batch.last().map_or(0, |entry| entry.event.seq);
                self.caller.shared.backlog.set_stored(last);
            }
            Err(error) => {
                self.log = None;
                self.caller.shared.backlog.disable_log();
                let notice = log_failed(&error);
                match self.engine.has_ended() {
                    true => self.engine.emit_late(notice.into()),
                    false => self.engine.handle(Input::Notice(notice)),
                }
                unpublished = std::mem::take(&mut self.appending).pending.into();
            }
        }
        for append in std::iter::once(append).chain(unpublished) {
            if !append.is_published {
                self.publish_batch(append.batch, append.bytes);
            }
        }
    }

    fn publish_batch(&mut self, batch: Batch, bytes: usize) {
        self.caller.shared.update(&batch);
        self.caller.shared.backlog.publish(batch, bytes);
        self.has_published = true;
    }

    /// Publishes the remaining events, and then the final one.
    pub(super) async fn publish_remaining(&mut self) {
        self.flush().await;
        self.engine.emit_final();
        self.flush().await;
    }

    async fn flush(&mut self) {
        loop {
            self.publish();
            self.start_appends();
            if self.appending.is_empty() {
                break;
            }
            let timed_out = || Err(LogError("the log does not respond".into()));
            let result = tokio::time::timeout(FLUSH_TIMEOUT, self.appending.next())
                .await
                .unwrap_or_else(|_| timed_out());
            self.on_persisted(result);
        }
    }
}

/// Opens the session in the host's log. A log that fails is reported and not used.
pub(super) fn open_log(
    setup: &SessionSetup,
    engine: &mut Engine,
    shared: &Shared,
) -> Option<Arc<dyn Log>> {
    let log = setup.host.log()?.clone();
    let opening = NewSession {
        session: setup.id.to_string(),
        agent: setup.dialect.about().name.to_owned(),
        dir: setup.dir.clone(),
        at: clock::wall(),
        continues: setup.continues.clone(),
        pid: std::process::id(),
    };
    match log.open(&opening) {
        Ok(()) => Some(log),
        Err(error) => {
            shared.backlog.disable_log();
            engine.handle(Input::Notice(log_failed(&error)));
            None
        }
    }
}

fn log_failed(error: &LogError) -> Notice {
    let message = format!("The session is not being stored: {error}");
    Notice::new(Level::Warning, NoticeCode::StoreFailed, message)
}
