//! What a session is doing now, for whoever asks without reading its events.

use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ostler_core::event::{At, Decision, EventKind, Permission, SessionState};
use ostler_core::log::Entry;
use ostler_core::usage::{Scope, Usage};

use super::backlog::Backlog;

/// What a session is doing now.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Its state.
    pub state: SessionState,
    /// The turn that is under way, or the last one; 0 before the first.
    pub turn: u32,
    /// The agent's own id of the session.
    pub native_session: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The agent's process; none for an agent without one, and while there is none.
    pub pid: Option<u32>,
    /// Tokens and cost so far.
    pub usage: Option<Usage>,
    /// When the agent was last heard.
    pub last_activity: Option<At>,
    /// Questions that wait for an answer.
    pub pending: Vec<Permission>,
}

/// What the task and the handles of a session have in common.
pub(super) struct Shared {
    pub(super) id: Arc<str>,
    pub(super) backlog: Arc<Backlog>,
    pid: AtomicU32,
    heard: AtomicI64,
    told: Mutex<Status>,
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
        let told = Status {
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
            heard: AtomicI64::new(0),
            told: Mutex::new(told),
        }
    }

    /// The agent's process; 0 for none.
    pub(super) fn set_pid(&self, pid: u32) {
        self.pid.store(pid, Ordering::Relaxed);
    }

    pub(super) fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    pub(super) fn heard(&self, at: At) {
        self.heard.store(at.0, Ordering::Relaxed);
    }

    pub(super) fn status(&self) -> Status {
        let mut status = self
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        status.pid = self.pid();
        status.last_activity = Some(At(self.heard.load(Ordering::Relaxed))).filter(|at| at.0 != 0);
        status
    }

    /// What was told changes what there is to say.
    pub(super) fn note(&self, entries: &[Entry]) {
        let mut status = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for Entry { event, .. } in entries {
            status.turn = event.turn;
            match &event.kind {
                EventKind::State(state) => status.state = state.to,
                EventKind::Started(started) => {
                    status.native_session.clone_from(&started.native_session);
                    status.model.clone_from(&started.model);
                }
                EventKind::Usage(usage) if usage.scope == Scope::Session => {
                    status.usage = Some(usage.clone())
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
