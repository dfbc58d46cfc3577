//! Changes during a session, such as a new model. The agent must reply within the control timeout.

use std::time::Duration;

use super::{Effect, Machine};
use crate::dialect::{Change, ToAgent};
use crate::event::{Level, Notice};

/// Change requests that the agent has not replied to.
#[derive(Debug, Default)]
pub(super) struct Changes {
    asked: u64,
    open: Vec<(u64, Change, Duration)>,
    /// Changes held back until the agent can receive them.
    held: Vec<Change>,
}

impl Changes {
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.open.iter().map(|(_, _, until)| *until).min()
    }

    pub(super) fn shift(&mut self, by: Duration) {
        self.open
            .iter_mut()
            .for_each(|(_, _, until)| *until = until.saturating_add(by));
    }
}

impl Machine {
    pub(super) fn change(&mut self, now: Duration, change: Change, fx: &mut Vec<Effect>) {
        let able = match change {
            Change::Model(_) => self.capabilities.set_model,
            Change::PermissionMode(_) => self.capabilities.set_permission_mode,
        };
        if !able {
            return self.refuse(
                (change.request(), "unsupported"),
                "this agent does not support it during a session",
                fx,
            );
        }
        if self.is_ending() {
            return self.refuse((change.request(), "ending"), "the session is ending", fx);
        }
        if self.starting || self.frozen_since.is_some() {
            // Its arguments are fixed already, and it receives nothing yet.
            return self.changes.held.push(change);
        }
        if self.spawned_at.is_none() {
            return self.adopt(change, fx); // the next process starts with it
        }
        self.changes.asked += 1;
        let id = self.changes.asked;
        self.changes
            .open
            .push((id, change.clone(), now.saturating_add(self.limits.control)));
        fx.push(Effect::Send(ToAgent::Change { id, change }));
    }

    /// Sends held changes, once the agent can receive them or is about to be restarted.
    pub(super) fn release_changes(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        for change in std::mem::take(&mut self.changes.held) {
            self.change(now, change, fx);
        }
    }

    pub(super) fn on_changed(&mut self, id: u64, error: Option<String>, fx: &mut Vec<Effect>) {
        let Some(at) = self
            .changes
            .open
            .iter()
            .position(|(known, ..)| *known == id)
        else {
            return;
        };
        let (_, change, _) = self.changes.open.remove(at);
        match error {
            Some(why) => self.refuse((change.request(), "rejected"), &why, fx),
            None => self.adopt(change, fx),
        }
    }

    fn adopt(&self, change: Change, fx: &mut Vec<Effect>) {
        let (code, kind) = match change {
            Change::Model(_) => ("model_changed", "model"),
            Change::PermissionMode(_) => ("permission_mode_changed", "permission mode"),
        };
        let message = format!("The {kind} is now {}.", change.value());
        fx.push(Effect::Adopt(change));
        self.emit(Notice::new(Level::Info, code, message), fx);
    }

    pub(super) fn check_change_timeouts(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        while let Some(at) = self
            .changes
            .open
            .iter()
            .position(|(_, _, until)| *until <= now)
        {
            let (_, change, _) = self.changes.open.remove(at);
            let why = format!("the agent did not reply within {:?}", self.limits.control);
            self.refuse((change.request(), "timeout"), &why, fx);
        }
    }

    /// Refuses all open changes, because the agent's process is gone.
    pub(super) fn refuse_open_changes(&mut self, fx: &mut Vec<Effect>) {
        let held = std::mem::take(&mut self.changes.held);
        let open = std::mem::take(&mut self.changes.open)
            .into_iter()
            .map(|(_, change, _)| change);
        for change in open.chain(held) {
            self.refuse(
                (change.request(), "ending"),
                "the agent's process exited before it replied",
                fx,
            );
        }
    }
}
