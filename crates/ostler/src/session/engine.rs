//! Session engine: the half of a session that makes decisions and performs no I/O.
//!
//! It feeds the session machine and the agent's conversation and collects what they produce. Events
//! go to the [`EventQueue`], bytes for the agent to the [`StdinQueue`], and everything else becomes
//! an [`Action`] for the driver.

use std::sync::Arc;

use ostler_core::dialect::{
    self, Change, Conversation, Dialect, Exit, FileJob, FromConversation, Outbox, ToAgent, ToolJob,
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

/// The conversation, the session machine, and the queues they fill.
pub(crate) struct Engine {
    pub(super) clock: SessionClock,
    pub(super) machine: Machine,
    conversation: Box<dyn Conversation>,
    outbox: Outbox,
    effects: Vec<Effect>,
    pub(crate) events: EventQueue,
    pub(super) stdin: StdinQueue,
    pub(super) actions: Vec<Action>,
    pub(super) pending: PendingRequests,
    /// The dialect that classifies tool calls for the policy; `None` without a policy.
    classifier: Option<&'static dyn Dialect>,
    /// The agent's own session id, as last reported.
    pub(super) native_session: Option<String>,
    /// The agent version that wrote the resumed session, until the agent reports its current one.
    pub(super) written_by: Option<Version>,
    /// The first prompt, until the agent prints its first line.
    pub(super) first_prompt: Option<String>,
    /// The `ended` event, held back until everything else has been published.
    final_event: Option<(u32, EventKind)>,
}

/// Something the driver must do.
pub(super) enum Action {
    /// Start the agent's process.
    Spawn,
    /// Send SIGTERM to the agent's process group.
    Terminate,
    /// Kill everything that belongs to the agent.
    Kill,
    /// Suspend the agent's processes.
    Freeze,
    /// Resume suspended processes.
    Thaw,
    /// Use this setting from the next spawn on.
    Adopt(Change),
    /// Ask the permission handler.
    AskPermission(Permission),
    /// Stop asking: the permission request with this id was decided or withdrawn.
    CancelPermission(String),
    /// Run one of the caller's tools.
    RunTool(ToolJob),
    /// Cancel the tool call with this id.
    CancelTool(String),
    /// Read or write a file in the workspace.
    AccessFile(FileJob),
    /// Write a line to a bridge connection.
    WriteBridge(u32, Vec<u8>),
    /// Report a turn's outcome to the circuit breaker.
    RecordTurn(Outcome),
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
            events: EventQueue::new(session),
            stdin: StdinQueue::new(None),
            actions: Vec::new(),
            pending: PendingRequests::default(),
            classifier: None,
            native_session: None,
            written_by: None,
            first_prompt: None,
            final_event: None,
        }
    }

    /// Checks every tool call against the policy, as `dialect` classifies it.
    pub(super) fn with_classifier(mut self, dialect: &'static dyn Dialect) -> Self {
        self.classifier = Some(dialect);
        self
    }

    /// Feeds an input to the machine and runs effects until none are left.
    pub(crate) fn handle(&mut self, input: Input) {
        self.machine
            .handle(self.clock.now(), input, &mut self.effects);
        while !self.effects.is_empty() {
            for effect in std::mem::take(&mut self.effects) {
                match effect {
                    Effect::Emit { turn, kind } => self.emit(turn, kind),
                    Effect::Send(message) => {
                        if let ToAgent::Prompt(prompt) = &message
                            && self.machine.turn() == 1
                        {
                            self.first_prompt = Some(prompt.clone());
                        }
                        self.conversation.send(message, &mut self.outbox);
                    }
                    Effect::CloseInput => self.stdin.close(),
                    Effect::Terminate => self.actions.push(Action::Terminate),
                    Effect::Kill => self.actions.push(Action::Kill),
                    Effect::Spawn => self.actions.push(Action::Spawn),
                    Effect::Freeze => self.actions.push(Action::Freeze),
                    Effect::Thaw => self.actions.push(Action::Thaw),
                    Effect::Adopt(change) => self.actions.push(Action::Adopt(change)),
                }
            }
            self.pump();
        }
    }

    /// Queues an event, completes the requests it answers, and pushes the actions it calls for.
    fn emit(&mut self, turn: u32, kind: EventKind) {
        self.pending.on_event(&kind);
        match &kind {
            EventKind::Permission(permission) if permission.decision == Decision::Asked => {
                self.actions.push(Action::AskPermission(permission.clone()));
            }
            EventKind::Permission(permission) => {
                self.actions
                    .push(Action::CancelPermission(permission.id.clone()));
            }
            EventKind::TurnEnded(ended) => {
                self.actions.push(Action::RecordTurn(ended.outcome.clone()));
            }
            EventKind::Started(started) => {
                self.native_session.clone_from(&started.native_session);
                let versions = self.written_by.take().zip(started.agent_version.as_deref());
                let id = started.native_session.as_deref().unwrap_or_default();
                let notice = versions.and_then(|(written_by, current)| {
                    resume::newer_version_notice(id, written_by, current)
                });
                self.events.push(turn, kind);
                return notice
                    .into_iter()
                    .for_each(|notice| self.events.push(turn, notice.into()));
            }
            EventKind::Ended(_) => return self.final_event = Some((turn, kind)),
            _ => {}
        }
        self.events.push(turn, kind);
    }

    /// Queues an event after the machine has ended, before the final event.
    pub(super) fn emit_late(&mut self, kind: EventKind) {
        self.events.push(self.machine.turn(), kind);
    }

    /// Queues the final event. Everything else must have been published.
    pub(crate) fn emit_final(&mut self) {
        if let Some((turn, kind)) = self.final_event.take() {
            self.events.push(turn, kind);
        }
    }

    /// Routes the conversation's output to the machine, the stdin queue and the driver.
    fn pump(&mut self) {
        let mut outbox = std::mem::take(&mut self.outbox);
        for message in outbox.drain() {
            let input = match message {
                FromConversation::Write(bytes) => {
                    self.stdin.push(bytes);
                    continue;
                }
                FromConversation::EndInput => {
                    self.stdin.close();
                    continue;
                }
                FromConversation::Terminate => {
                    self.actions.push(Action::Terminate);
                    continue;
                }
                FromConversation::RunTool(job) => {
                    self.actions.push(Action::RunTool(job));
                    continue;
                }
                FromConversation::CancelTool(id) => {
                    self.actions.push(Action::CancelTool(id));
                    continue;
                }
                FromConversation::AccessFile(job) => {
                    self.actions.push(Action::AccessFile(job));
                    continue;
                }
                FromConversation::WriteBridge { to, line } => {
                    self.actions.push(Action::WriteBridge(to, line));
                    continue;
                }
                FromConversation::Event(EventKind::ToolCall(call)) => {
                    if let Some(dialect) = self.classifier {
                        let tool_use = dialect.tool_use(&call.name, &call.input);
                        let called = Input::ToolCalled(call.id.clone(), tool_use);
                        self.machine
                            .handle(self.clock.now(), called, &mut self.effects);
                    }
                    Input::Event(call.into())
                }
                FromConversation::Event(kind) => Input::Event(kind),
                FromConversation::TurnStarted => Input::TurnStarted,
                FromConversation::TurnEnded(result) => Input::TurnEnded(result),
                FromConversation::Background(running) => Input::Background(running),
                FromConversation::AskPermission(request) => Input::PermissionRequested(request),
                FromConversation::WithdrawPermission(id) => Input::PermissionWithdrawn(id),
                FromConversation::Changed { id, error } => Input::Changed(id, error),
                FromConversation::EndProcess => Input::EndProcess,
            };
            self.machine
                .handle(self.clock.now(), input, &mut self.effects);
        }
        if self.outbox.is_empty() {
            self.outbox = outbox; // reuse its allocation for the next line
        }
    }

    /// Sends a message, such as a tool result, to the agent without involving the machine.
    pub(super) fn send(&mut self, message: ToAgent) {
        self.conversation.send(message, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// Replaces the conversation, for a newly spawned child.
    pub(super) fn set_conversation(&mut self, conversation: Box<dyn Conversation>) {
        self.conversation = conversation;
        self.outbox = Outbox::default();
    }

    /// Switches to another dialect of the same agent.
    pub(super) fn set_dialect(&mut self, dialect: &'static dyn Dialect) {
        self.machine.set_capabilities(dialect.capabilities());
        self.classifier = self.classifier.map(|_| dialect);
    }

    /// Handles a successful spawn. `stdin` is the child's stdin, if it has one.
    pub(crate) fn on_spawned(&mut self, stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>) {
        self.stdin = StdinQueue::new(stdin);
        self.conversation.on_start(&mut self.outbox);
        self.pump();
        self.handle(Input::Spawned);
    }

    /// Handles a line from the child's stdout.
    pub(crate) fn on_line(&mut self, line: Line<'_>) {
        self.first_prompt = None;
        dialect::deliver_line(&mut *self.conversation, line, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// Handles a line from a bridge connection.
    pub(super) fn on_bridge_line(&mut self, from: u32, line: &str) {
        self.conversation
            .on_bridge_line(from, line, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// Returns true if a bridge connection is still waiting for a reply.
    pub(super) fn owes_bridge_reply(&self, to: u32) -> bool {
        self.conversation.owes_bridge_reply(to)
    }

    /// Handles the end of a bridge connection.
    pub(super) fn on_bridge_closed(&mut self, from: u32) {
        self.conversation.on_bridge_closed(from, &mut self.outbox);
        self.pump();
        self.handle(Input::Activity);
    }

    /// Handles the child's exit, and lets the conversation explain it.
    pub(crate) fn on_exit(&mut self, exit: Exit) {
        let mut outbox = Outbox::default();
        self.conversation.on_exit(&exit, &mut outbox);
        let mut blame = None;
        for message in outbox.drain() {
            match message {
                FromConversation::TurnEnded(result) => blame = Some(result),
                FromConversation::Event(kind) => self.handle(Input::Event(kind)),
                _ => {} // the child is gone and can receive nothing
            }
        }
        self.handle(Input::Exited(exit, blame));
    }

    pub(crate) fn in_turn(&self) -> bool {
        self.machine.in_turn()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.machine.state() == SessionState::Ended
    }
}
