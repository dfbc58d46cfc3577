//! Persistence: events are appended to the log before they are published to readers.

use std::sync::Arc;
use std::time::Duration;

use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_core::log::{AppendFuture, Log, LogError, NewSession};
use ostler_core::machine::Input;

use super::Driver;
use crate::clock;
use crate::session::SessionSetup;
use crate::session::backlog::Batch;
use crate::session::engine::Engine;
use crate::session::status::Shared;

/// How long the log may take to store the last events of a session.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// A batch that is being appended to the log.
pub(super) struct PendingAppend {
    future: AppendFuture,
    pub(super) batch: Batch,
    /// Size of the batch.
    bytes: usize,
}

impl Driver {
    /// Starts to append the queued events to the log, or publishes them directly without a log.
    pub(super) fn publish(&mut self) {
        if self.appending.is_some() || self.engine.events.is_empty() {
            return;
        }
        let (entries, bytes) = self.engine.events.take_entries();
        let batch = Arc::new(entries);
        match &self.log {
            Some(log) => {
                let future = log.append(batch.clone());
                self.appending = Some(PendingAppend {
                    future,
                    batch,
                    bytes,
                });
            }
            None => self.publish_batch(batch, bytes),
        }
    }

    /// Publishes the batch that was appended. If the log failed, the session continues without it.
    pub(super) fn on_persisted(&mut self, result: Result<(), LogError>) {
        let Some(PendingAppend { batch, bytes, .. }) = self.appending.take() else {
            return;
        };
        if let Err(error) = result {
            self.log = None;
            self.caller.shared.backlog.disable_log();
            let notice = log_failed(&error);
            match self.engine.has_ended() {
                true => self.engine.emit_late(notice.into()),
                false => self.engine.handle(Input::Notice(notice)),
            }
        }
        self.publish_batch(batch, bytes);
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
            let Some(append) = &mut self.appending else {
                break;
            };
            let timed_out = || Err(LogError("the log does not respond".into()));
            let result = tokio::time::timeout(FLUSH_TIMEOUT, append.future.as_mut())
                .await
                .unwrap_or_else(|_| timed_out());
            self.on_persisted(result);
        }
    }

    /// Returns the size of the events that are being appended to the log.
    pub(super) fn appending_bytes(&self) -> usize {
        self.appending.as_ref().map_or(0, |append| append.bytes)
    }
}

/// Waits until the current append has finished; forever if there is none.
pub(super) async fn appended(append: &mut Option<PendingAppend>) -> Result<(), LogError> {
    match append {
        Some(append) => append.future.as_mut().await,
        None => std::future::pending().await,
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
