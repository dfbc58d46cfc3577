//! Messages to sessions: sent to those that run, stored for those that wait to be started.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ostler_core::event::SessionState;
use ostler_store::{NewQueuedMessage, QueueResult, SessionRow};

use super::control::{ended, not_running};
use super::{Live, Manager, check_breaker};
use crate::api::{SendMessage, WhenBusy};
use crate::problem::{Problem, ProblemKind};

/// Maximum number of messages that wait for the start of a session.
const MAX_QUEUED: u32 = 100;

/// Maximum size of these messages, in bytes.
const MAX_QUEUED_BYTES: u32 = 16 * 1024 * 1024;

/// How often to look whether a session that is being started runs.
const START_POLL: Duration = Duration::from_millis(20);

/// Where a session is on its way to its end.
enum Stage {
    /// It waits to be started, or is being started.
    Waiting,
    Running(Live),
    /// This daemon does not run it.
    Elsewhere,
}

impl Manager {
    /// Sends a message. If the session waits to be started, the message is stored together with the
    /// idempotency key of the request, and delivered after the first message.
    pub(crate) async fn send(
        self: &Arc<Self>,
        id: &str,
        message: SendMessage,
        key: Option<String>,
    ) -> Result<(), Problem> {
        if message.text.trim().is_empty() {
            let why = "text: expected a non-empty message";
            return Err(Problem::new(ProblemKind::BadRequest, why));
        }
        let row = self.row(id).await?;
        let message = Arc::new(message);
        loop {
            match self.stage(&row.session) {
                Stage::Running(live) => return self.send_now(&row, &live, &message).await,
                // It may have ended since.
                Stage::Elsewhere => return Err(not_running(&self.row(&row.session).await?)),
                Stage::Waiting if message.when_busy == WhenBusy::Refuse => {
                    return Err(not_running(&row));
                }
                Stage::Waiting => {}
            }
            if self
                .queue_message(&row, message.clone(), key.clone())
                .await?
            {
                return Ok(());
            }
            tokio::time::sleep(START_POLL).await;
        }
    }

    fn stage(&self, id: &str) -> Stage {
        let state = self.state();
        match state.live.get(id) {
            Some(live) => Stage::Running(live.clone()),
            None if state.starting.contains_key(id) => Stage::Waiting,
            None if state.queue.contains(|waiting| waiting.id == id) => Stage::Waiting,
            None => Stage::Elsewhere,
        }
    }

    /// Sends a message to a running session.
    async fn send_now(
        self: &Arc<Self>,
        row: &SessionRow,
        live: &Live,
        message: &SendMessage,
    ) -> Result<(), Problem> {
        let busy = match message.when_busy {
            WhenBusy::Queue => ostler::session::WhenBusy::Queue,
            WhenBusy::Steer => ostler::session::WhenBusy::Steer,
            WhenBusy::Refuse => ostler::session::WhenBusy::Refuse,
        };
        if message.when_busy == WhenBusy::Refuse
            && live.remote.status().state == SessionState::Working
        {
            return Err(Problem::new(ProblemKind::Refused, "a turn is in progress"));
        }
        // The message would start the agent again.
        if let (Some(breaker), None) = (&live.breaker, live.remote.pid())
            && live.remote.status().state == SessionState::Idle
        {
            check_breaker(breaker)?;
        }
        if live.remote.pid().is_none() && live.remote.status().state == SessionState::Idle {
            self.take_login(live).await;
        }
        live.unstarted.fetch_add(1, Ordering::AcqRel);
        live.remote
            .send_when(message.text.clone(), busy)
            .map_err(|_| ended(row))
    }

    /// Stores a message for the start of a session. Returns false if that is in progress or over.
    async fn queue_message(
        &self,
        row: &SessionRow,
        message: Arc<SendMessage>,
        key: Option<String>,
    ) -> Result<bool, Problem> {
        let session = row.session.clone();
        let queued = self.with_store(move |store| {
            store.queue_message(&NewQueuedMessage {
                session: &session,
                text: &message.text,
                key: key.as_deref(),
                max_messages: MAX_QUEUED,
                max_bytes: MAX_QUEUED_BYTES,
            })
        });
        match queued.await? {
            QueueResult::Stored => Ok(true),
            QueueResult::NotWaiting => Ok(false),
            QueueResult::Full => {
                let why = format!(
                    "session {} waits to be started, and too many messages wait for it",
                    row.session
                );
                Err(Problem::new(ProblemKind::Refused, why)
                    .hint("try again once it runs; its event stream shows when that is"))
            }
        }
    }

    /// Returns the messages that wait for the start of a session. None is added after it has been
    /// dequeued.
    pub(super) async fn queued_messages(&self, id: &str) -> Result<Vec<String>, Problem> {
        let own = id.to_owned();
        self.with_store(move |store| store.queued_messages(&own))
            .await
    }

    /// Removes the messages that waited for the start of a session, once they were sent or refused.
    pub(super) async fn forget_messages(&self, id: &str) {
        let own = id.to_owned();
        let removed = self.with_store(move |store| store.remove_queued_messages(&own));
        if let Err(problem) = removed.await {
            tracing::warn!(session = id, %problem, "messages not removed");
        }
    }
}
