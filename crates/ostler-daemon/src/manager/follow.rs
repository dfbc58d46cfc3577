//! Follows one session to its end: expiry of its approvals, metrics, and what it blocks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ostler::permission::PermissionAnswer;
use ostler::{Event, EventKind, Session};
use ostler_core::event::{Decision, Level, Notice, NoticeCode, Origin, RequestKind};
use ostler_store::{ApprovalDecision, ApprovalState, DecideResult};

use super::spending::Meter;
use super::{Live, LoginUse, Manager};
use crate::notify::Occasion;

/// How long a session blocks the start of others with the same login, unless it produces output
/// before: a login is refreshed at the start (P27).
const LOGIN_TIME: Duration = Duration::from_secs(5);

/// How often to look whether a login is free.
const LOGIN_POLL: Duration = Duration::from_millis(20);

/// Follows a session in a task of its own. An earlier daemon has seen its events up to `known`.
pub(super) fn spawn(manager: Arc<Manager>, session: Session, login_use: Arc<LoginUse>, known: u64) {
    if login_use.is_held.load(Ordering::Acquire) {
        manager.release_login_later(session.id().to_owned(), &login_use);
    }
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
                Box::pin(expire(&manager, &session, request)).await;
                continue;
            }
        };
        let Some(event) = event else { break };
        if login_use.is_held.load(Ordering::Relaxed) && is_logged_in(&event) {
            Box::pin(manager.release_login(&id)).await;
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
            let timeout = manager.options.approval_timeout;
            expiries.push(async move {
                tokio::time::sleep(timeout).await;
                permission.id
            });
        }
    }
    drop((session, remote));
    Box::pin(manager.on_ended(&id)).await;
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

/// Denies a permission request that was not answered in time.
async fn expire(manager: &Manager, session: &Session, request: String) {
    let (id, at) = (session.id().to_owned(), manager.embedder.now());
    let permission = request.clone();
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
    if let Ok(DecideResult::Decided(_)) = decided.await {
        let answer = PermissionAnswer::Deny(UNANSWERED.to_owned());
        let _ = session.answer(&request, answer).await; // it may have been withdrawn
    }
}

impl Manager {
    /// Takes the login of a session whose agent is started again by a message, once no other
    /// session may be refreshing it (P27).
    pub(super) async fn take_login(self: &Arc<Self>, id: &str, live: &Live) {
        let Some(login) = &live.login else { return };
        loop {
            {
                let mut state = self.state();
                // A second message finds the agent starting.
                if live.login_use.is_held.load(Ordering::Acquire) {
                    return;
                }
                if state.logins.insert(login.clone()) {
                    live.login_use.restarts.fetch_add(1, Ordering::AcqRel);
                    live.login_use.is_held.store(true, Ordering::Release);
                    break;
                }
            }
            tokio::time::sleep(LOGIN_POLL).await;
        }
        self.release_login_later(id.to_owned(), &live.login_use);
    }

    /// Releases the login of a session after a while, unless its agent is started again before.
    fn release_login_later(self: &Arc<Self>, id: String, login_use: &Arc<LoginUse>) {
        let (manager, login_use) = (self.clone(), login_use.clone());
        let restarts = login_use.restarts.load(Ordering::Acquire);
        tokio::spawn(async move {
            tokio::time::sleep(LOGIN_TIME).await;
            if login_use.restarts.load(Ordering::Acquire) == restarts {
                Box::pin(manager.release_login(&id)).await;
            }
        });
    }

    /// Releases the login of a session, and starts what waited for it.
    async fn release_login(self: &Arc<Self>, id: &str) {
        let is_released = {
            let mut state = self.state();
            match state.live.get(id).cloned() {
                Some(live) if live.login_use.is_held.swap(false, Ordering::AcqRel) => {
                    live.login.is_some_and(|login| state.logins.remove(&login))
                }
                _ => false,
            }
        };
        if is_released {
            self.pump().await;
        }
    }

    /// Removes a session that has ended, and starts what waited for it.
    async fn on_ended(self: &Arc<Self>, id: &str) {
        let is_parent = {
            let mut state = self.state();
            if let Some(live) = state.live.remove(id) {
                state.queue.on_ended(&live.agent);
                let held_login = live.login_use.is_held.swap(false, Ordering::AcqRel);
                if let Some(login) = live.login.filter(|_| held_login) {
                    state.logins.remove(&login);
                }
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
