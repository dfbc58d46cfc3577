//! Messages of the caller: queued for the next turn, steered into the open one, or refused.

use std::time::Duration;

use super::{Effect, Machine};
use crate::dialect::ToAgent;
use crate::event::{Level, Notice};

impl Machine {
    pub(super) fn send(&mut self, now: Duration, prompt: String, fx: &mut Vec<Effect>) {
        if self.is_ending() {
            return self.refuse(("send", "ending"), "the session is being ended", fx);
        }
        if self.is_out_of_turns(now, fx) {
            return;
        }
        self.queue.push_back(prompt);
        self.next_turn(now, fx);
    }

    pub(super) fn steer(&mut self, now: Duration, prompt: String, fx: &mut Vec<Effect>) {
        match &self.open {
            Some(turn)
                if self.capabilities.steer
                    && turn.pending.is_none()
                    && !self.paused
                    && self.spawned.is_some() =>
            {
                // The notice is the message: whoever goes on from the log has to know it.
                self.emit(Notice::new(Level::Info, "steered", prompt.clone()), fx);
                fx.push(Effect::Send(ToAgent::Steer(prompt)));
            }
            Some(_) if !self.capabilities.steer => {
                let why =
                    "the agent takes no message while a turn is under way; send it to wait instead";
                self.refuse(("send", "unsupported"), why, fx);
            }
            _ => self.send(now, prompt, fx),
        }
    }

    pub(super) fn send_now(&mut self, now: Duration, prompt: String, fx: &mut Vec<Effect>) {
        if self.open.is_some() || !self.queue.is_empty() || self.paused {
            let why = if self.paused {
                "the session is paused"
            } else {
                "a turn is under way"
            };
            return self.refuse(("send", "busy"), why, fx);
        }
        self.send(now, prompt, fx);
    }

    /// Begins the next turn if a message waits and nothing stands in its way. An agent that is not there is started first.
    pub(super) fn next_turn(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.paused || self.open.is_some() || self.ladder.is_some() || self.queue.is_empty() {
            return;
        }
        if self.spawned.is_none() {
            return self.wake(fx);
        }
        if let Some(prompt) = self.queue.pop_front() {
            self.begin(now, Some(&prompt), fx);
            fx.push(Effect::Send(ToAgent::Prompt(prompt)));
        }
    }
}
