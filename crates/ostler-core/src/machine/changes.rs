//! Changes during a session, such as a new model. The agent must reply within the control timeout.

use std::time::Duration;

use super::request::{CallerRequest, Completion, refused};
use super::{Life, Machine};
use crate::dialect::{Action, Change, ToAgent};
use crate::event::{Level, NoticeCode, RefusalCode};

/// Change requests that the agent has not replied to.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Number of changes that were sent to the agent.
    sent: u64,
    open: Vec<OpenChange>,
    /// Changes held back until the agent can receive them.
    held: Vec<ChangeRequest>,
}

/// A change that the caller requested.
#[derive(Debug)]
pub(super) struct ChangeRequest {
    pub(super) request: CallerRequest,
    pub(super) change: Change,
}

/// A change that was sent to the agent.
#[derive(Debug)]
struct OpenChange {
    /// Its number, which the agent's reply names.
    id: u64,
    asked: ChangeRequest,
    /// Until when the agent may reply.
    until: Duration,
}

impl Changes {
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.open.iter().map(|open| open.until).min()
    }

    pub(super) fn shift(&mut self, by: Duration) {
        for open in &mut self.open {
            open.until = open.until.saturating_add(by);
        }
    }

    /// Removes the first open change that matches.
    fn take(&mut self, matches: impl Fn(&OpenChange) -> bool) -> Option<ChangeRequest> {
        let at = self.open.iter().position(matches)?;
        Some(self.open.remove(at).asked)
    }
}

impl Machine {
    pub(super) fn change(&mut self, asked: ChangeRequest) {
        let able = match asked.change {
            Change::Model(_) => self.capabilities.set_model,
            Change::PermissionMode(_) => self.capabilities.set_permission_mode,
        };
        if !able {
            let why = "this agent does not support it during a session";
            return self.refuse_change(&asked, RefusalCode::Unsupported, why);
        }
        if self.is_ending() {
            let why = "the session is ending";
            return self.refuse_change(&asked, RefusalCode::Ending, why);
        }
        if matches!(self.life, Life::Starting { .. }) || self.life.is_frozen() {
            // The process cannot receive it yet, and its arguments are already fixed.
            return self.changes.held.push(asked);
        }
        if self.life.process().is_none() {
            return self.adopt(asked); // the next process starts with it
        }
        self.changes.sent += 1;
        let (id, change) = (self.changes.sent, asked.change.clone());
        let until = self.step.after(self.limits.control);
        self.changes.open.push(OpenChange { id, asked, until });
        self.step.push(ToAgent::Change { id, change });
    }

    fn refuse_change(&mut self, asked: &ChangeRequest, code: RefusalCode, why: &str) {
        let refused = refused(asked.change.request(), code, why);
        self.refuse_request(asked.request, refused);
    }

    /// Sends held changes, once the agent can receive them or is about to be restarted.
    pub(super) fn release_changes(&mut self) {
        for asked in std::mem::take(&mut self.changes.held) {
            self.change(asked);
        }
    }

    pub(super) fn on_changed(&mut self, id: u64, error: Option<String>) {
        let Some(asked) = self.changes.take(|open| open.id == id) else {
            return;
        };
        match error {
            Some(why) => self.refuse_change(&asked, RefusalCode::Rejected, &why),
            None => self.adopt(asked),
        }
    }

    fn adopt(&mut self, asked: ChangeRequest) {
        let ChangeRequest { request, change } = asked;
        let (code, kind) = match change {
            Change::Model(_) => (NoticeCode::ModelChanged, "model"),
            Change::PermissionMode(_) => (NoticeCode::PermissionModeChanged, "permission mode"),
        };
        let message = format!("The {kind} is now {}.", change.value());
        self.step.push(Action::Adopt(change));
        self.step.complete(request, Completion::Done);
        self.notice(Level::Info, code, message);
    }

    pub(super) fn check_change_timeouts(&mut self) {
        while let Some(asked) = self.changes.take(|open| open.until <= self.step.now) {
            let why = format!("the agent did not reply within {:?}", self.limits.control);
            self.refuse_change(&asked, RefusalCode::Timeout, &why);
        }
    }

    /// Refuses all open changes, because the agent's process is gone.
    pub(super) fn refuse_open_changes(&mut self) {
        let held = std::mem::take(&mut self.changes.held);
        let open = std::mem::take(&mut self.changes.open).into_iter();
        for asked in open.map(|open| open.asked).chain(held) {
            let why = "the agent's process exited before it replied";
            self.refuse_change(&asked, RefusalCode::Ending, why);
        }
    }
}
