//! Persistence: appends events to the log, and publishes them to readers before or after they are
//! stored.

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

/// How long the log may take for each of the two flushes at the end of a session.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of events that are not in the log yet. At the limit, the agent's output is left
/// in its pipe.
const MAX_EVENTS: usize = 8 * 1024;

/// Events that are not in the log yet. Only one append runs at a time, so that nothing is stored
/// after a failed one. Batches that arrive in the meantime are appended together.
#[derive(Default)]
pub(super) struct PendingAppends {
    running: Option<RunningAppend>,
    waiting: Vec<WaitingBatch>,
    /// Number of these events, in the running append and in the waiting batches.
    events: usize,
    /// Total size of these events.
    bytes: usize,
}

struct RunningAppend {
    future: AppendFuture,
    /// Sequence number of the last event.
    last: u64,
    events: usize,
    bytes: usize,
    /// The batch to publish once it is stored.
    unpublished: Option<WaitingBatch>,
}

struct WaitingBatch {
    batch: Batch,
    bytes: usize,
    is_published: bool,
}

impl PendingAppends {
    pub(super) fn is_empty(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    /// Returns the size of the events that are not in the log yet.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn has_room(&self) -> bool {
        self.events < MAX_EVENTS
    }

    /// Returns the events that must be stored before they are published.
    pub(super) fn unpublished(&self) -> impl Iterator<Item = &Event> {
        let running = self.running.iter().flat_map(|it| &it.unpublished);
        let waiting = self.waiting.iter().filter(|it| !it.is_published);
        let batches = running.chain(waiting);
        batches.flat_map(|it| it.batch.iter().map(|entry| &entry.event))
    }

    fn push(&mut self, waiting: WaitingBatch) {
        self.events += waiting.batch.len();
        self.bytes += waiting.bytes;
        self.waiting.push(waiting);
    }

    /// Starts to append the waiting batches, unless an append is running.
    fn start(&mut self, log: &Arc<dyn Log>) {
        if self.running.is_some() || self.waiting.is_empty() {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let batch = match &waiting[..] {
            [one] => one.batch.clone(),
            all => Arc::new(all.iter().flat_map(|it| it.batch.iter().cloned()).collect()),
        };
        self.running = Some(RunningAppend {
            future: log.append(batch.clone()),
            last: batch.last().map_or(0, |entry| entry.event.seq),
            events: batch.len(),
            bytes: waiting.iter().map(|it| it.bytes).sum(),
            unpublished: waiting.pop().filter(|it| !it.is_published),
        });
    }

    /// Hands the waiting batches to the log, without waiting until they are stored.
    fn hand_over(&mut self, log: &Arc<dyn Log>) {
        self.running = None;
        self.start(log);
    }

    /// Waits for the running append to finish, or forever if there is none.
    pub(super) async fn next(&mut self) -> Result<(), LogError> {
        match &mut self.running {
            Some(running) => running.future.as_mut().await,
            None => std::future::pending().await,
        }
    }

    /// Removes and returns the append that has finished.
    fn take_finished(&mut self) -> Option<RunningAppend> {
        let finished = self.running.take()?;
        self.events -= finished.events;
        self.bytes -= finished.bytes;
        Some(finished)
    }
}

/// Returns true if the batch ends a turn or the session. Such a batch is published only once it is
/// stored, even with [`Delivery::Immediate`], so that a reader that sees the end finds everything
/// in the log.
fn ends_turn(batch: &Batch) -> bool {
    let ends = |kind: &EventKind| matches!(kind, EventKind::TurnEnded(_) | EventKind::Ended(_));
    batch.iter().any(|entry| ends(&entry.event.kind))
}

impl Driver {
    /// Publishes the queued events, unless they or earlier ones must be stored first.
    /// [`Self::start_appends`] must follow.
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
        self.appending.push(WaitingBatch {
            batch: batch.clone(),
            bytes,
            is_published,
        });
        if is_published {
            self.publish_batch(batch, bytes);
        }
    }

    /// Starts to append the waiting batches to the log. The session loop lets readers run first.
    pub(super) fn start_appends(&mut self) {
        if let Some(log) = &self.log {
            self.appending.start(log);
        }
    }

    /// Hands the waiting batches to the log if the runtime drops the session's task before its end.
    pub(super) fn hand_over(&mut self) {
        if let Some(log) = &self.log {
            self.appending.hand_over(log);
        }
    }

    /// Publishes the batches that had to be stored first. If the log failed, the session continues
    /// without it.
    pub(super) fn on_persisted(&mut self, result: Result<(), LogError>) {
        let Some(append) = self.appending.take_finished() else {
            return;
        };
        let mut unpublished = Vec::from_iter(append.unpublished);
        match result {
            Ok(()) => self.caller.shared.backlog.set_stored(append.last),
            Err(error) => {
                self.log = None;
                self.caller.shared.backlog.disable_log();
                let notice = log_failed(&error);
                match self.engine.has_ended() {
                    true => self.engine.emit_late(notice.into()),
                    false => self.engine.handle(Input::Notice(notice)),
                }
                let waiting = std::mem::take(&mut self.appending).waiting;
                unpublished.extend(waiting.into_iter().filter(|it| !it.is_published));
            }
        }
        for WaitingBatch { batch, bytes, .. } in unpublished {
            self.publish_batch(batch, bytes);
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
        let deadline = tokio::time::sleep(FLUSH_TIMEOUT);
        tokio::pin!(deadline);
        loop {
            self.publish();
            self.start_appends();
            if self.appending.is_empty() {
                break;
            }
            let result = tokio::select! {
                result = self.appending.next() => result,
                () = &mut deadline => Err(LogError("the log does not respond".into())),
            };
            self.on_persisted(result);
        }
    }
}

/// Opens the session in the host's log, if there is one. If that fails, the session continues
/// without a log, and a notice says so.
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
        labels: setup.spec.labels.clone(),
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
