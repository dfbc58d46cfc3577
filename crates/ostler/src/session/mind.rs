//! The deciding half of a session: what is heard and asked goes in, events and things to do come out.

use std::sync::Arc;

use ostler_core::dialect::{self, Conversation, Exit, Out, Outbox};
use ostler_core::event::SessionState;
use ostler_core::lines::Line;
use ostler_core::machine::{Effect, Input, Machine};
use tokio::io::AsyncWrite;

use super::input::Incoming;
use super::output::Outgoing;
use crate::clock::SessionClock;

/// The deciding half: conversation and machine, and what they want done.
pub(crate) struct Mind {
    pub(super) clock: SessionClock,
    pub(super) machine: Machine,
    conversation: Box<dyn Conversation>,
    outbox: Outbox,
    effects: Vec<Effect>,
    pub(crate) out: Outgoing,
    pub(super) stdin: Incoming,
    pub(super) orders: Vec<Order>,
}

/// What is left for the driver to do with the process.
pub(super) enum Order {
    Terminate,
    Kill,
}

impl Mind {
    pub(crate) fn new(session: Arc<str>, conversation: Box<dyn Conversation>, machine: Machine) -> Self {
        Self {
            clock: SessionClock::start(),
            machine,
            conversation,
            outbox: Outbox::default(),
            effects: Vec::new(),
            out: Outgoing::new(session),
            stdin: Incoming::new(None),
            orders: Vec::new(),
        }
    }

    /// Feeds the machine, then everything that follows from it.
    pub(crate) fn handle(&mut self, input: Input) {
        self.machine.handle(self.clock.now(), input, &mut self.effects);
        while !self.effects.is_empty() {
            for effect in std::mem::take(&mut self.effects) {
                match effect {
                    Effect::Emit { turn, what } => self.out.push(turn, what),
                    Effect::Say(say) => self.conversation.say(say, &mut self.outbox),
                    Effect::CloseInput => self.stdin.close(),
                    Effect::Terminate => self.orders.push(Order::Terminate),
                    Effect::Kill => self.orders.push(Order::Kill),
                    Effect::Spawn => {} // `run` starts the child as soon as the machine says `Start`
                }
            }
            self.settle();
        }
    }

    /// Passes on what the conversation wants done.
    fn settle(&mut self) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for out in outbox.drain() {
            let input = match out {
                Out::Write(bytes) => {
                    self.stdin.push(bytes);
                    continue;
                }
                Out::Event(what) => Input::Heard(what),
                Out::TurnBegan => Input::TurnBegan,
                Out::TurnOver(over) => Input::TurnOver(over),
                Out::Background(running) => Input::Background(running),
            };
            self.machine.handle(self.clock.now(), input, &mut self.effects);
        }
        if self.outbox.is_empty() {
            self.outbox = outbox; // its memory serves the next line
        }
    }

    /// The child is there; `stdin` is the way to it, if there is one.
    pub(crate) fn open(&mut self, stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>) {
        self.stdin = Incoming::new(stdin);
        self.conversation.open(&mut self.outbox);
        self.settle();
        self.handle(Input::Spawned);
    }

    /// The child printed a line.
    pub(crate) fn hear(&mut self, line: Line<'_>) {
        dialect::hear(&mut *self.conversation, line, &mut self.outbox);
        self.settle();
        self.handle(Input::Activity);
    }

    /// The child is gone.
    pub(crate) fn finish(&mut self, exit: Exit) {
        let mut outbox = Outbox::default();
        self.conversation.finish(&exit, &mut outbox);
        let mut blame = None;
        for out in outbox.drain() {
            match out {
                Out::TurnOver(over) => blame = Some(over),
                Out::Event(what) => self.handle(Input::Heard(what)),
                Out::Write(_) | Out::TurnBegan | Out::Background(_) => {}
            }
        }
        self.handle(Input::Exited(exit, blame));
    }

    pub(crate) fn in_turn(&self) -> bool {
        self.machine.in_turn()
    }

    pub(super) fn ended(&self) -> bool {
        self.machine.state() == SessionState::Ended
    }
}
