//! Messages from the caller: queued for the next turn, steered into the current one, or refused.

use super::Machine;
use crate::dialect::ToAgent;
use crate::event::{Level, NoticeCode, RefusalCode, RequestKind};

impl Machine {
    pub(super) fn send(&mut self, message: ToAgent) {
        if self.is_ending() {
            return self.refuse(
                RequestKind::Send,
                RefusalCode::Ending,
                "the session is ending",
            );
        }
        if self.refuse_if_out_of_turns() {
            return;
        }
        self.queue.push_back(message);
        self.next_turn();
    }

    pub(super) fn steer(&mut self, prompt: String) {
        match self.life.turn() {
            Some(turn) if self.capabilities.steer && turn.pending.is_none() && !self.paused => {
                // The notice contains the message, because a session resumed from the log needs it.
                self.notice(Level::Info, NoticeCode::Steered, prompt.clone());
                self.step.push(ToAgent::Steer(prompt));
            }
            Some(_) if !self.capabilities.steer => {
                let why = "this agent accepts no message during a turn; queue it instead";
                self.refuse(RequestKind::Send, RefusalCode::Unsupported, why);
            }
            _ => self.send(ToAgent::Prompt(prompt)),
        }
    }

    pub(super) fn send_now(&mut self, message: ToAgent) {
        if self.in_turn() || !self.queue.is_empty() || self.paused {
            let why = if self.paused {
                "the session is paused"
            } else {
                "a turn is in progress"
            };
            return self.refuse(RequestKind::Send, RefusalCode::Busy, why);
        }
        self.send(message);
    }

    /// Starts the next turn if a message is queued and nothing prevents it. Starts the agent first
    /// if no process is running.
    pub(super) fn next_turn(&mut self) {
        if self.paused || self.in_turn() || !self.life.is_unescalated() || self.queue.is_empty() {
            return;
        }
        if self.life.process().is_none() {
            return self.wake();
        }
        if let Some(message) = self.queue.pop_front() {
            self.begin_turn(Some(message.prompt()));
            self.step.push(message);
        }
    }
}
