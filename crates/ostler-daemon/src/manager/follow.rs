//! Follows one session to its end: expiry of its approvals, metrics, and what it blocks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ostler::permission::PermissionAnswer;
use ostler::{Event, EventKind, Session};
use ostler_core::event::{Decision, Level, Notice, NoticeCode, Origin, RequestKind};
use ostler_store::{ApprovalDecision, ApprovalState, DecideResult};

use super::Manager;
use super::logins::LoginUse;
use super::spending::Meter;
use crate::notify::Occasion;
use crate::problem::Problem;

/// How long to wait before a request is expired again if the store has failed.
const EXPIRE_AGAIN: Duration = Duration::from_secs(1);

/// Follows a session in a task of its own. An earlier daemon has seen its events up to `known`.
pub(super) fn spawn(manager: Arc<Manager>, session: Session, login_use: Arc<LoginUse>, known: u64) {
    login_use.release_later();
    tokio::spawn(run(manager, session, login_use, known));
}

/// Reads all events of a session. Its future exists as long as the session, so what is rarely
/// needed is boxed.
async fn run(manager: Arc<Manager>, mut session: Session, login_use: Arc<LoginUse>, known: u64) {
    let (id, remote) = (session.id().to_owned(), session.remote());
    let mut expiries = FuturesUnordered::new();
    let mut meter = Meter::default();
    loop {
        let event = tokio::select! {
            event = session.next() => event,
            Some(request) = expiries.next(), if !expiries.is_empty() => {
                let request: String = request;
                if Box::pin(expire(&manager, &session, &request)).await.is_err() {
                    expiries.push(after(EXPIRE_AGAIN, request));
                }
                continue;
            }
        };
        let Some(event) = event else { break };
        if is_logged_in(&event) {
            login_use.release();
        }
        let is_new = event.seq > known;
        if is_new {
            manager.metrics.on_event(&event, manager.embedder.now());
        }
        // An earlier event is not about a message that this daemon accepted.
        if is_new && is_message_handled(&event) {
            manager.on_message_handled(&id);
        }
        if let Some(used) = meter.on_event(&event) {
            manager.charge_parents(&id, used);
        }
        if manager.feed.take_delayed(&id) {
            let message = "Another process locked the store for a while: the last events were \
                stored late.";
            remote.notice(Notice::new(
                Level::Warning,
                NoticeCode::StoreDelayed,
                message,
            ));
        }
        if is_new && manager.shared.notifier.is_on() {
            Box::pin(notify(&manager, &event)).await;
        }
        if let EventKind::Permission(permission) = event.kind
            && permission.decision == Decision::Asked
        {
            manager.read_replaced(&id, &permission.id);
            expiries.push(after(manager.options.approval_timeout, permission.id));
        }
    }
    drop((session, remote));
    Box::pin(manager.on_ended(&id)).await;
}

/// Returns a permission request after some time.
async fn after(time: Duration, request: String) -> String {
    tokio::time::sleep(time).await;
    request
}

/// Runs the user's command if the event needs attention.
async fn notify(manager: &Manager, event: &Event) {
    let occasion = match &event.kind {
        EventKind::Permission(permission) if permission.decision == Decision::Asked => {
            Occasion::NeedsApproval
        }
        EventKind::TurnEnded(_) => Occasion::TurnEnded,
        EventKind::Ended(_) => Occasion::SessionEnded,
        _ => return,
    };
    if let Ok(session) = manager.get(&event.session).await {
        let session = serde_json::to_value(session).unwrap_or_default();
        let event = serde_json::to_value(event).unwrap_or_default();
        manager.shared.notifier.notify(occasion, &session, &event);
    }
}

/// Returns true if an event shows that the agent has used its login.
fn is_logged_in(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Text(_)
            | EventKind::ToolCall(_)
            | EventKind::Usage(_)
            | EventKind::TurnEnded(_)
            | EventKind::Ended(_)
    )
}

/// Returns true if an event says what became of an accepted message: it started a turn, was added
/// to one, or was refused.
fn is_message_handled(event: &Event) -> bool {
    match &event.kind {
        EventKind::TurnStarted(turn) => turn.origin == Origin::Caller,
        EventKind::Refused(refused) => refused.request == RequestKind::Send,
        EventKind::Notice(notice) => notice.code == NoticeCode::Steered,
        _ => false,
    }
}

/// Why a request that expired is denied.
pub(super) const UNANSWERED: &str = "No one answered this request in time.";

/// Denies a permission request that was not answered in time. Fails if the store does.
async fn expire(manager: &Manager, session: &Session, request: &str) -> Result<(), Problem> {
    let (id, at) = (session.id().to_owned(), manager.embedder.now());
    let permission = request.to_owned();
    let decided = manager.with_store(move |store| {
        let Some(pending) = store.pending_approval(&id, &permission)? else {
            return Ok(DecideResult::Unknown);
        };
        let decision = ApprovalDecision {
            state: ApprovalState::Expired,
            by: "timeout",
            message: Some(UNANSWERED),
            at,
        };
        store.decide_approval(&pending.id, decision)
    });
    let decided = decided.await.inspect_err(|problem| {
        let session = session.id();
        tracing::warn!(session, request, %problem, "request not expired; it is tried again");
    })?;
    if let DecideResult::Decided(_) = decided {
        let answer = PermissionAnswer::Deny(UNANSWERED.to_owned());
        let _ = session.answer(request, answer).await; // it may have been withdrawn
    }
    Ok(())
}

impl Manager {
    /// Removes a session that has ended, and starts what waited for it.
    async fn on_ended(self: &Arc<Self>, id: &str) {
        let is_parent = {
            let mut state = self.state();
            if let Some(live) = state.live.remove(id) {
                state.queue.on_ended(&live.agent);
                live.login_use.release();
            }
            state.families.remove(id)
        };
        self.feed.remove(id);
        if is_parent {
            self.stop_children(id).await;
        }
        self.pump().await;
    }
}
