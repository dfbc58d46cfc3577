//! Session status: the current state, available without reading events.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_core::event::{Decision, EventKind, Permission, SessionState, Timestamp};
use ostler_core::log::LogEntry;
use ostler_core::machine::CallerRequest;
use ostler_core::usage::{Scope, Usage};

use super::backlog::Backlog;

/// A snapshot of a session's current state.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStatus {
    /// The session's state.
    pub state: SessionState,
    /// Number of the current turn, or of the last one; 0 before the first.
    pub turn: u32,
    /// The agent's own session id.
    pub native_session: Option<String>,
    /// The model in use.
    pub model: Option<String>,
    /// Process id of the agent; `None` if it has no process or is not running.
    pub pid: Option<u32>,
    /// Tokens and cost so far.
    pub usage: Option<Usage>,
    /// When the agent last produced output.
    pub last_activity: Option<Timestamp>,
    /// Permission requests that wait for an answer.
    pub pending: Vec<Permission>,
}

/// State shared by the driver and the handles of a session.
pub(super) struct Shared {
    pub(super) id: Arc<str>,
    pub(super) backlog: Arc<Backlog>,
    pid: AtomicU32,
    /// Number of requests so far.
    requests: AtomicU64,
    last_activity: AtomicI64,
    status: Mutex<SessionStatus>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(id: Arc<str>, backlog: Arc<Backlog>) -> Self {
        let status = SessionStatus {
            state: SessionState::Created,
            turn: 0,
            native_session: None,
            model: None,
            pid: None,
            usage: None,
            last_activity: None,
            pending: Vec::new(),
        };
        Self {
            id,
            backlog,
            pid: AtomicU32::new(0),
            requests: AtomicU64::new(0),
            last_activity: AtomicI64::new(0),
            status: Mutex::new(status),
        }
    }

    /// Returns the id of a new request.
    pub(super) fn next_request(&self) -> CallerRequest {
        CallerRequest(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Sets the agent's process id; 0 means none.
    pub(super) fn set_pid(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    pub(super) fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    pub(super) fn set_last_activity(&self, at: Timestamp) {
        self.last_activity.store(at.0, Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> SessionStatus {
        let mut status = self
            .status
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        status.pid = self.pid();
        status.last_activity =
            Some(Timestamp(self.last_activity.load(Ordering::Relaxed))).filter(|at| at.0 != 0);
        status
    }

    /// Updates the status with published events.
    pub(super) fn update(&self, entries: &[LogEntry]) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        for LogEntry { event, .. } in entries {
            status.turn = event.turn;
            match &event.kind {
                EventKind::State(state) => status.state = state.to,
                EventKind::Started(started) => {
                    status.native_session.clone_from(&started.native_session);
                    status.model.clone_from(&started.model);
                }
                EventKind::Usage(usage) if usage.scope == Scope::Session => {
                    status.usage = Some((**usage).clone());
                }
                EventKind::Permission(permission) => {
                    status.pending.retain(|pending| pending.id != permission.id);
                    if permission.decision == Decision::Asked {
                        status.pending.push(permission.clone());
                    }
                }
                _ => {}
            }
        }
    }
}
