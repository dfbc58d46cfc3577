//! Follows one session to its end: expiry of its approvals, metrics, and what it blocks.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ostler::permission::PermissionAnswer;
use ostler::{Event, EventKind, Session};
use ostler_core::event::Decision;
use ostler_store::{ApprovalDecision, ApprovalState, DecideResult};

use super::Manager;
use crate::notify::Occasion;

/// How long a session blocks the start of others with the same login, unless it produces output
/// before: a login is refreshed at the start (P27).
const LOGIN_TIME: Duration = Duration::from_secs(5);

/// Follows a session in a task of its own.
pub(super) fn spawn(manager: Arc<Manager>, session: Session, has_login: bool) {
    tokio::spawn(run(manager, session, has_login));
}

/// Reads all events of a session.
async fn run(manager: Arc<Manager>, mut session: Session, has_login: bool) {
    let (id, remote) = (session.id().to_owned(), session.remote());
    let mut expiries = FuturesUnordered::new();
    let login = tokio::time::sleep(LOGIN_TIME);
    tokio::pin!(login);
    let mut holds_login = has_login;
    loop {
        let event = tokio::select! {
            event = session.next() => event,
            Some(request) = expiries.next(), if !expiries.is_empty() => {
                expire(&manager, &session, request).await;
                continue;
            }
            () = &mut login, if holds_login => {
                holds_login = false;
                release_login(&manager, &id).await;
                continue;
            }
        };
        let Some(event) = event else { break };
        if holds_login && is_logged_in(&event) {
            holds_login = false;
            release_login(&manager, &id).await;
        }
        manager.metrics.on_event(&event);
        notify(&manager, &event).await;
        if let EventKind::Permission(permission) = event.kind
            && permission.decision == Decision::Asked
        {
            let timeout = manager.options.approval_timeout;
            expiries.push(async move {
                tokio::time::sleep(timeout).await;
                permission.id
            });
        }
    }
    drop((session, remote));
    manager.on_ended(&id, holds_login).await;
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
    let notifier = &manager.shared.notifier;
    if !notifier.is_on() {
        return;
    }
    if let Ok(session) = manager.get(&event.session).await {
        let session = serde_json::to_value(session).unwrap_or_default();
        let event = serde_json::to_value(event).unwrap_or_default();
        notifier.notify(occasion, &session, &event);
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

async fn release_login(manager: &Arc<Manager>, id: &str) {
    {
        let mut state = manager.state();
        if let Some(agent) = state.live.get(id).map(|live| live.agent.clone()) {
            state.logins.remove(&agent);
        }
    }
    manager.pump().await;
}

/// Denies a permission request that was not answered in time.
async fn expire(manager: &Manager, session: &Session, request: String) {
    let (id, at) = (session.id().to_owned(), manager.embedder.now());
    let message = "No one answered this request in time.";
    let permission = request.clone();
    let decided = manager.with_store(move |store| {
        let Some(pending) = store.pending_approval(&id, &permission)? else {
            return Ok(DecideResult::Unknown);
        };
        let decision = ApprovalDecision {
            state: ApprovalState::Expired,
            by: "timeout",
            message: Some(message),
            at,
        };
        store.decide_approval(&pending.id, decision)
    });
    if let Ok(DecideResult::Decided(_)) = decided.await {
        let answer = PermissionAnswer::Deny(message.to_owned());
        let _ = session.answer(&request, answer).await; // it may have been withdrawn
    }
}

impl Manager {
    /// Removes a session that has ended, and starts what waited for it.
    async fn on_ended(self: &Arc<Self>, id: &str, held_login: bool) {
        {
            let mut state = self.state();
            if let Some(live) = state.live.remove(id) {
                state.queue.on_ended(&live.agent);
                if held_login {
                    state.logins.remove(&live.agent);
                }
            }
        }
        self.feed.remove(id);
        self.pump().await;
    }
}
