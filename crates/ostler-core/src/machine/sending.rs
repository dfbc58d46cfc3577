//! Messages from the caller: queued for the next turn, steered into the current one, or refused.

use std::time::Duration;

use super::{Effect, Machine};
use crate::dialect::ToAgent;
use crate::event::{Level, Notice};

impl Machine {
    pub(super) fn send(&mut self, now: Duration, prompt: String, fx: &mut Vec<Effect>) {
        if self.is_ending() {
            return self.refuse(("send", "ending"), "the session is ending", fx);
        }
        if self.refuse_if_out_of_turns(now, fx) {
            return;
        }
        self.queue.push_back(prompt);
        self.next_turn(now, fx);
    }

    pub(super) fn steer(&mut self, now: Duration, prompt: String, fx: &mut Vec<Effect>) {
        match &self.current_turn {
            Some(turn)
                if self.capabilities.steer
                    && turn.pending.is_none()
                    && !self.paused
                    && self.spawned_at.is_some() =>
            {
                // The notice contains the message, because a session resumed from the log needs it.
                self.emit(Notice::new(Level::Info, "steered", prompt.clone()), fx);
                fx.push(Effect::Send(ToAgent::Steer(prompt)));
            }
            Some(_) if !self.capabilities.steer => {
                let why = "this agent accepts no message during a turn; queue it instead";
                self.refuse(("send", "unsupported"), why, fx);
            }
            _ => self.send(now, prompt, fx),
        }
    }

    pub(super) fn send_now(&mut self, now: Duration, prompt: String, fx: &mut Vec<Effect>) {
        if self.current_turn.is_some() || !self.queue.is_empty() || self.paused {
            let why = if self.paused {
                "the session is paused"
            } else {
                "a turn is in progress"
            };
            return self.refuse(("send", "busy"), why, fx);
        }
        self.send(now, prompt, fx);
    }

    /// Starts the next turn if a message is queued and nothing prevents it. Starts the agent first
    /// if no process is running.
    pub(super) fn next_turn(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.paused
            || self.current_turn.is_some()
            || self.escalation.is_some()
            || self.queue.is_empty()
        {
            return;
        }
        if self.spawned_at.is_none() {
            return self.wake(fx);
        }
        if let Some(prompt) = self.queue.pop_front() {
            self.begin_turn(now, Some(&prompt), fx);
            fx.push(Effect::Send(ToAgent::Prompt(prompt)));
        }
    }
}
