//! Session engine: the half of a session that makes decisions and performs no I/O.
//!
//! It feeds the session machine and the agent's conversation, and routes what they produce:
//! conversation output to the machine, messages to the conversation, events to the
//! [`EventQueue`]. Each entry point runs until nothing is left to route. [`Action`]s are queued, in
//! order, for the driver to perform.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::{
    self, Action, Conversation, Dialect, Exit, FromConversation, Outbox, ToAgent, Version,
};
use ostler_core::event::{EventKind, SessionState, Timestamp};
use ostler_core::lines::Line;
use ostler_core::machine::{CallerRequest, Completion, Effect, Input, Machine};
use tokio::sync::oneshot;

use super::event_queue::EventQueue;
use super::remote::PendingRequest;
use super::trace;
use crate::clock::SessionClock;
use crate::resume;

/// The conversation, the session machine, and the queues they fill.
pub(crate) struct Engine {
    pub(super) clock: SessionClock,
    /// The time at which the lines that are being handled were read.
    read_at: Option<Duration>,
    pub(super) machine: Machine,
    conversation: Box<dyn Conversation>,
    outbox: Outbox,
    effects: Vec<Effect>,
    pub(crate) events: EventQueue,
    /// Actions for the driver to perform, in order.
    pub(super) actions: VecDeque<Action>,
    /// Requests whose callers are waiting for the result.
    pending: HashMap<CallerRequest, oneshot::Sender<Completion>>,
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

impl Engine {
    pub(crate) fn new(
        session: Arc<str>,
        conversation: Box<dyn Conversation>,
        machine: Machine,
    ) -> Self {
        Self {
            clock: SessionClock::start(),
            read_at: None,
            machine,
            conversation,
            outbox: Outbox::default(),
            effects: Vec::new(),
            events: EventQueue::new(session),
            actions: VecDeque::new(),
            pending: HashMap::new(),
            classifier: None,
            native_session: None,
            written_by: None,
            first_prompt: None,
            final_event: None,
        }
    }

    /// Sets the dialect that classifies tool calls, so that they are checked against the policy.
    pub(super) fn with_classifier(mut self, dialect: &'static dyn Dialect) -> Self {
        self.classifier = Some(dialect);
        self
    }

    /// Feeds an input to the machine, and processes everything that follows from it.
    pub(crate) fn handle(&mut self, input: Input) {
        self.machine.handle(self.now(), input, &mut self.effects);
        self.pump();
    }

    /// Returns the session time.
    fn now(&self) -> Duration {
        self.read_at.unwrap_or_else(|| self.clock.now())
    }

    /// Handles lines that were read together at a given wall time, without reading the clocks for
    /// each of them.
    pub(super) fn handle_chunk(&mut self, at: Timestamp, handle: impl FnOnce(&mut Self)) {
        self.read_at = Some(self.clock.now());
        self.events.stamp_with(Some(at));
        handle(self);
        self.read_at = None;
        self.events.stamp_with(None);
    }

    /// Lets the conversation act, and processes everything that follows from it. `then` is fed to
    /// the machine after the conversation's output.
    fn converse(&mut self, then: Input, act: impl FnOnce(&mut dyn Conversation, &mut Outbox)) {
        act(&mut *self.conversation, &mut self.outbox);
        self.drain_outbox();
        self.handle(then);
    }

    /// Processes effects and conversation output until none are left. Actions are queued for the
    /// driver.
    fn pump(&mut self) {
        while !self.effects.is_empty() {
            let mut effects = std::mem::take(&mut self.effects);
            for effect in effects.drain(..) {
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
                    Effect::Complete {
                        request,
                        completion,
                    } => self.complete(request, completion),
                    Effect::Do(action) => self.actions.push_back(action),
                }
            }
            self.effects = effects; // reuse its allocation
            self.drain_outbox();
        }
    }

    /// Releases the memory of queues that are empty, for a session that may be idle for long.
    pub(super) fn shrink(&mut self) {
        self.machine.shrink();
        self.effects.shrink_to_fit();
        self.outbox.shrink();
        self.actions.shrink_to_fit();
    }

    /// Registers a request whose caller waits for the result.
    pub(super) fn register(&mut self, pending: PendingRequest) {
        self.pending.insert(pending.request, pending.done);
    }

    /// Sends the result of a request to its caller.
    pub(super) fn complete(&mut self, request: CallerRequest, completion: Completion) {
        if let Some(done) = self.pending.remove(&request) {
            let _ = done.send(completion); // the caller may have stopped waiting
        }
    }

    /// Feeds the conversation's output to the machine.
    fn drain_outbox(&mut self) {
        if self.outbox.is_empty() {
            return;
        }
        let now = self.now();
        for output in self.outbox.drain() {
            if let FromConversation::Event(EventKind::ToolCall(call)) = &output
                && let Some(dialect) = self.classifier
            {
                let tool_use = dialect.tool_use(&call.name, &call.input);
                let called = Input::ToolCalled(call.id.clone(), tool_use);
                self.machine.handle(now, called, &mut self.effects);
            }
            self.machine.handle(now, output.into(), &mut self.effects);
        }
    }

    /// Queues an event. The `ended` event is held back for [`Self::emit_final`].
    fn emit(&mut self, turn: u32, kind: EventKind) {
        match &kind {
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

    /// Queues the final event. Everything else must already have been published.
    pub(crate) fn emit_final(&mut self) {
        if let Some((turn, kind)) = self.final_event.take() {
            self.events.push(turn, kind);
        }
    }

    /// Sends a message, such as a tool result, to the agent. The message bypasses the machine,
    /// which only records the activity.
    pub(super) fn send(&mut self, message: ToAgent) {
        self.converse(Input::Activity, |conversation, out| {
            conversation.send(message, out);
        });
    }

    /// Replaces the conversation, for a newly spawned child.
    pub(super) fn set_conversation(&mut self, conversation: Box<dyn Conversation>) {
        self.conversation = conversation;
    }

    /// Switches to another dialect of the same agent.
    pub(super) fn set_dialect(&mut self, dialect: &'static dyn Dialect) {
        self.machine.set_capabilities(dialect.about().capabilities);
        self.classifier = self.classifier.map(|_| dialect);
    }

    /// Handles a successful spawn.
    pub(crate) fn on_spawned(&mut self) {
        self.converse(Input::Spawned, |conversation, out| {
            conversation.on_start(out);
        });
    }

    /// Handles a line from the child's stdout.
    pub(crate) fn on_line(&mut self, line: Line<'_>) {
        trace::line_from_agent(&line);
        self.first_prompt = None;
        self.converse(Input::Activity, |conversation, out| {
            dialect::deliver_line(conversation, line, out);
        });
    }

    /// Handles a line from a bridge connection.
    pub(super) fn on_bridge_line(&mut self, from: u32, line: &str) {
        self.converse(Input::Activity, |conversation, out| {
            conversation.on_bridge_line(from, line, out);
        });
    }

    /// Returns true if a bridge connection is still waiting for a reply.
    pub(super) fn owes_bridge_reply(&self, to: u32) -> bool {
        self.conversation.owes_bridge_reply(to)
    }

    /// Handles the end of a bridge connection.
    pub(super) fn on_bridge_closed(&mut self, from: u32) {
        self.converse(Input::Activity, |conversation, out| {
            conversation.on_bridge_closed(from, out);
        });
    }

    /// Handles the child's exit, and lets the conversation explain it.
    pub(crate) fn on_exit(&mut self, exit: Exit) {
        self.conversation.on_exit(&exit, &mut self.outbox);
        let (now, mut blame) = (self.clock.now(), None);
        for output in self.outbox.drain() {
            match output {
                FromConversation::TurnEnded(result) => blame = Some(result),
                FromConversation::Event(_) => {
                    self.machine.handle(now, output.into(), &mut self.effects);
                }
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
