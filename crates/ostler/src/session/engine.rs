//! The deciding half of a session: what is heard and asked goes in, events and things to do come out.

use std::sync::Arc;

use ostler_core::dialect::{
    self, Change, Conversation, Dialect, Exit, FileOrder, FromConversation, Outbox, ToolOrder,
    Version,
};
use ostler_core::event::{Decision, EventKind, Permission, SessionState};
use ostler_core::lines::Line;
use ostler_core::machine::{Effect, Input, Machine};
use ostler_core::outcome::Outcome;
use tokio::io::AsyncWrite;

use super::event_queue::EventQueue;
use super::pending_requests::PendingRequests;
use super::stdin::StdinQueue;
use crate::clock::SessionClock;
use crate::resume;

/// The deciding half: conversation and machine, and what they want done.
pub(crate) struct Engine {
    pub(super) clock: SessionClock,
    pub(super) machine: Machine,
    conversation: Box<dyn Conversation>,
    outbox: Outbox,
    effects: Vec<Effect>,
    pub(crate) out: EventQueue,
    pub(super) stdin: StdinQueue,
    pub(super) orders: Vec<Order>,
    pub(super) pending: PendingRequests,
    /// Says what a tool call would do, when there are rules about that.
    ruled: Option<&'static dyn Dialect>,
    /// How the agent calls its session, as last heard.
    pub(super) native: Option<String>,
    /// The version of the agent that wrote the session it goes on with, until the agent has said its own.
    pub(super) written_by: Option<Version>,
    /// The first message, until the agent's first word.
    pub(super) first: Option<String>,
    /// The session's last event. It is told when nothing else is left to tell.
    last: Option<(u32, EventKind)>,
}

/// What is left for the driver to do.
pub(super) enum Order {
    Spawn,
    Terminate,
    Kill,
    Freeze,
    Thaw,
    /// From the next start on, this is different.
    Adopt(Change),
    /// Somebody is to be asked.
    Ask(Permission),
    /// The question is answered or withdrawn.
    Asked(String),
    /// A tool of the caller's is to run.
    Tool(ToolOrder),
    /// Nobody waits for it any more.
    ToolOff(String),
    /// A file of the workspace is to be read or written.
    File(FileOrder),
    /// A program that the agent started to reach the caller's tools gets a line.
    WriteBridge(u32, Vec<u8>),
    /// A turn came to its end.
    TurnEnded(Outcome),
}

impl Engine {
    pub(crate) fn new(
        session: Arc<str>,
        conversation: Box<dyn Conversation>,
        machine: Machine,
    ) -> Self {
        Self {
            clock: SessionClock::start(),
            machine,
            conversation,
            outbox: Outbox::default(),
            effects: Vec::new(),
            out: EventQueue::new(session),
            stdin: StdinQueue::new(None),
            orders: Vec::new(),
            pending: PendingRequests::default(),
            ruled: None,
            native: None,
            written_by: None,
            first: None,
            last: None,
        }
    }

    /// Every tool call is looked at with the eyes of the rules.
    pub(super) fn ruled(mut self, dialect: &'static dyn Dialect) -> Self {
        self.ruled = Some(dialect);
        self
    }

    /// Feeds the machine, then everything that follows from it.
    pub(crate) fn handle(&mut self, input: Input) {
        self.machine
            .handle(self.clock.now(), input, &mut self.effects);
        while !self.effects.is_empty() {
            for effect in std::mem::take(&mut self.effects) {
                match effect {
                    Effect::Emit { turn, kind } => self.tell(turn, kind),
                    Effect::Say(say) => {
                        if let dialect::ToAgent::Prompt(prompt) = &say
                            && self.machine.turn() == 1
                        {
                            self.first = Some(prompt.clone());
                        }
                        self.conversation.send(say, &mut self.outbox);
                    }
                    Effect::CloseInput => self.stdin.close(),
                    Effect::Terminate => self.orders.push(Order::Terminate),
                    Effect::Kill => self.orders.push(Order::Kill),
                    Effect::Spawn => self.orders.push(Order::Spawn),
                    Effect::Freeze => self.orders.push(Order::Freeze),
                    Effect::Thaw => self.orders.push(Order::Thaw),
                    Effect::Adopt(change) => self.orders.push(Order::Adopt(change)),
                }
            }
            self.pump();
        }
    }

    /// An event: who waits for it hears of it, and what it asks for is done.
    fn tell(&mut self, turn: u32, kind: EventKind) {
        self.pending.note(&kind);
        match &kind {
            EventKind::Permission(permission) if permission.decision == Decision::Asked => {
                self.orders.push(Order::Ask(permission.clone()));
            }
            EventKind::Permission(permission) => {
                self.orders.push(Order::Asked(permission.id.clone()))
            }
            EventKind::TurnEnded(ended) => {
                self.orders.push(Order::TurnEnded(ended.outcome.clone()))
            }
            EventKind::Started(started) => {
                self.native.clone_from(&started.native_session);
                let versions = self.written_by.take().zip(started.agent_version.as_deref());
                let id = started.native_session.as_deref().unwrap_or_default();
                let notice =
                    versions.and_then(|(written_by, own)| resume::newer(id, written_by, own));
                self.out.push(turn, kind);
                return notice
                    .into_iter()
                    .for_each(|notice| self.out.push(turn, notice.into()));
            }
            EventKind::Ended(_) => return self.last = Some((turn, kind)),
            _ => {}
        }
        self.out.push(turn, kind);
    }

    /// Tells something after the machine has ended, before its last word.
    pub(super) fn add(&mut self, kind: EventKind) {
        self.out.push(self.machine.turn(), kind);
    }

    /// Nothing is left to tell but the last event.
    pub(crate) fn farewell(&mut self) {
        if let Some((turn, kind)) = self.last.take() {
            self.out.push(turn, kind);
        }
    }

    /// Passes on what the conversation wants done.
    fn pump(&mut self) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for out in outbox.drain() {
            let input = match out {
                FromConversation::Write(bytes) => {
                    self.stdin.push(bytes);
                    continue;
                }
                FromConversation::EndInput => {
                    self.stdin.close();
                    continue;
                }
                FromConversation::Terminate => {
                    self.orders.push(Order::Terminate);
                    continue;
                }
                FromConversation::Tool(order) => {
                    self.orders.push(Order::Tool(order));
                    continue;
                }
                FromConversation::ToolOff(id) => {
                    self.orders.push(Order::ToolOff(id));
                    continue;
                }
                FromConversation::File(order) => {
                    self.orders.push(Order::File(order));
                    continue;
                }
                FromConversation::WriteBridge { to, line } => {
                    self.orders.push(Order::WriteBridge(to, line));
                    continue;
                }
                FromConversation::Event(EventKind::ToolCall(call)) => {
                    if let Some(dialect) = self.ruled {
                        let called = Input::Called(
                            call.id.clone(),
                            dialect.tool_use(&call.name, &call.input),
                        );
                        self.machine
                            .handle(self.clock.now(), called, &mut self.effects);
                    }
                    Input::Heard(call.into())
                }
                FromConversation::Event(kind) => Input::Heard(kind),
                FromConversation::TurnBegan => Input::TurnBegan,
                FromConversation::TurnOver(over) => Input::TurnOver(over),
                FromConversation::Background(running) => Input::Background(running),
                FromConversation::Ask(ask) => Input::Asked(ask),
                FromConversation::Withdraw(id) => Input::Withdrawn(id),
                FromConversation::Changed { id, error } => Input::Changed(id, error),
                FromConversation::EndProcess => Input::EndProcess,
            };
            self.machine
                .handle(self.clock.now(), input, &mut self.effects);
        }
        if self.outbox.is_empty() {
            self.outbox = outbox; // its memory serves the next line
        }
    }

    /// Something of the caller's tools is to be said to the agent.
    pub(super) fn say(&mut self, say: dialect::ToAgent) {
        self.conversation.send(say, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// The agent is started again: another conversation begins.
    pub(super) fn converse(&mut self, conversation: Box<dyn Conversation>) {
        self.conversation = conversation;
        self.outbox = Outbox::default();
    }

    /// The child is there; `stdin` is the way to it, if there is one.
    pub(crate) fn open(&mut self, stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>) {
        self.stdin = StdinQueue::new(stdin);
        self.conversation.on_start(&mut self.outbox);
        self.pump();
        self.handle(Input::Spawned);
    }

    /// From now on it is another language.
    pub(super) fn speaks(&mut self, dialect: &'static dyn Dialect) {
        self.machine.set_able(dialect.capabilities());
        self.ruled = self.ruled.map(|_| dialect);
    }

    /// The child printed a line.
    pub(crate) fn hear(&mut self, line: Line<'_>) {
        self.first = None;
        dialect::deliver_line(&mut *self.conversation, line, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// A program that the agent started said a line.
    pub(super) fn on_bridge_line(&mut self, from: u32, line: &str) {
        self.conversation
            .on_bridge_line(from, line, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// Whether such a program is owed an answer.
    pub(super) fn owes_bridge_reply(&self, to: u32) -> bool {
        self.conversation.owes_bridge_reply(to)
    }

    /// Such a program is gone.
    pub(super) fn on_bridge_closed(&mut self, from: u32) {
        self.conversation.on_bridge_closed(from, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// The child is gone.
    pub(crate) fn finish(&mut self, exit: Exit) {
        let mut outbox = Outbox::default();
        self.conversation.on_exit(&exit, &mut outbox);
        let mut blame = None;
        for out in outbox.drain() {
            match out {
                FromConversation::TurnOver(over) => blame = Some(over),
                FromConversation::Event(kind) => self.handle(Input::Heard(kind)),
                _ => {} // there is nobody left to say it to
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
