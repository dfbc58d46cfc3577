//! What the caller wants to be different while the session lives. The agent has its time to answer, and no more.

use std::time::Duration;

use super::{Effect, Machine};
use crate::dialect::{Change, Say};
use crate::event::{Level, Notice};

/// Requests that the agent has not answered.
#[derive(Debug, Default)]
pub(super) struct Changes {
    asked: u64,
    open: Vec<(u64, Change, Duration)>,
}

impl Changes {
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.open.iter().map(|(_, _, until)| *until).min()
    }

    pub(super) fn shift(&mut self, by: Duration) {
        self.open.iter_mut().for_each(|(_, _, until)| *until = until.saturating_add(by));
    }
}

impl Machine {
    pub(super) fn change(&mut self, now: Duration, change: Change, fx: &mut Vec<Effect>) {
        let able = match change {
            Change::Model(_) => self.able.set_model,
            Change::PermissionMode(_) => self.able.set_permission_mode,
        };
        if !able {
            return self.refuse((change.request(), "unsupported"), "this agent cannot do that in a session", fx);
        }
        if self.is_ending() {
            return self.refuse((change.request(), "ending"), "the session is being ended", fx);
        }
        if self.spawned.is_none() {
            return self.adopt(change, fx); // the next process is started with it
        }
        self.changes.asked += 1;
        let id = self.changes.asked;
        self.changes.open.push((id, change.clone(), now.saturating_add(self.limits.control)));
        fx.push(Effect::Say(Say::Change { id, change }));
    }

    pub(super) fn changed(&mut self, id: u64, error: Option<String>, fx: &mut Vec<Effect>) {
        let Some(at) = self.changes.open.iter().position(|(known, ..)| *known == id) else { return };
        let (_, change, _) = self.changes.open.remove(at);
        match error {
            Some(why) => self.refuse((change.request(), "rejected"), &why, fx),
            None => self.adopt(change, fx),
        }
    }

    fn adopt(&self, change: Change, fx: &mut Vec<Effect>) {
        let (code, what) = match change {
            Change::Model(_) => ("model_changed", "model"),
            Change::PermissionMode(_) => ("permission_mode_changed", "permission mode"),
        };
        let message = format!("The {what} is now {}.", change.value());
        fx.push(Effect::Adopt(change));
        self.emit(Notice::new(Level::Info, code, message), fx);
    }

    pub(super) fn changes_due(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        while let Some(at) = self.changes.open.iter().position(|(_, _, until)| *until <= now) {
            let (_, change, _) = self.changes.open.remove(at);
            let why = format!("the agent did not answer within {:?}", self.limits.control);
            self.refuse((change.request(), "timeout"), &why, fx);
        }
    }

    /// Whoever was asked is gone.
    pub(super) fn changes_failed(&mut self, fx: &mut Vec<Effect>) {
        for (_, change, _) in std::mem::take(&mut self.changes.open) {
            self.refuse((change.request(), "ending"), "the agent's process ended before it answered", fx);
        }
    }
}
