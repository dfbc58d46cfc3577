//! Session machine: turns inputs into effects. It has no clock, process or channel; the time is an
//! argument of each input.
//!
//! Two invariants hold for every sequence of inputs: each turn that started ends exactly once, and
//! the session ends exactly once, last. The driver feeds the machine [`Input`]s, performs the
//! [`Effect`]s in order, and calls it with [`Input::Tick`] once [`Machine::deadline`] has passed.

mod account;
mod permissions;
mod budget;
mod changes;
mod ending;
mod pause;
mod process;
mod request;
mod sending;
mod step;
mod heartbeat;
mod life;
mod tools;
mod turn;
mod volume;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::dialect::{Action, Capabilities, Change, Exit, FromConversation, ToAgent, TurnResult};
use crate::event::{
    EventKind, Level, Notice, NoticeCode, Origin, RefusalCode, RequestKind, SessionState, State,
    TurnStarted,
};
use crate::outcome::Outcome;
use crate::permission::{Policy, ToolUse};
use crate::spec::{AfterTurn, Attendance, Limits};

use account::Account;
pub use budget::Charge;
use budget::Warnings;
use changes::{ChangeRequest, Changes};
use heartbeat::Heartbeat;
use life::{Life, Work};
use permissions::Permissions;
pub use request::{CallerRequest, Completion, Interruption};
use step::Step;
use tools::Tools;
use turn::{EndReason, Pending, Turn};
use volume::Volume;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The caller starts the session.
    Start,
    /// The agent's process is running.
    Spawned,
    /// The agent's process could not be started.
    SpawnFailed(Outcome),
    /// The caller sent a message; it is queued while a turn is in progress.
    Send(String),
    /// The caller sent a message for the current turn; it starts one if there is none.
    Steer(String),
    /// The caller sent a message that must not be queued.
    SendNow(String),
    /// The caller approved tool calls that the last turn ended with, given by their ids.
    Approve(Vec<String>),
    /// The agent printed a line. Whatever it means, the agent is alive.
    Activity,
    /// The conversation with the agent reported something, or asks for something.
    Conversation(FromConversation),
    /// Ostler itself has a notice for the caller.
    Notice(Notice),
    /// Other sessions used this much of the budget in all. Replaces what they used before.
    Charge(Charge),
    /// The caller interrupts the turn.
    Interrupt(CallerRequest),
    /// The caller pauses the session: messages are held back.
    Pause,
    /// The caller pauses the session and suspends the agent's processes.
    Freeze,
    /// The caller resumes the session: held messages are delivered, and the agent continues.
    Resume,
    /// The caller changes the model or the permission mode.
    Change(CallerRequest, Change),
    /// The agent called a tool: the call's id, and what the policy needs to know about it.
    ToolCalled(String, ToolUse),
    /// A permission request was answered.
    PermissionAnswered {
        /// Id of the permission request.
        id: String,
        /// The answer.
        answer: PermissionAnswer,
        /// The caller's request; `None` if the permission handler answered.
        request: Option<CallerRequest>,
    },
    /// The caller stops the session gracefully.
    Stop,
    /// The caller kills the session.
    Kill,
    /// The agent's process exited; the dialect's explanation of the turn's end, if it has one.
    Exited(Exit, Option<TurnResult>),
    /// Time passed.
    Tick,
}

impl From<FromConversation> for Input {
    fn from(output: FromConversation) -> Self {
        Self::Conversation(output)
    }
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Number and timestamp the event, and publish it.
    Emit {
        /// The turn it belongs to.
        turn: u32,
        /// What happened.
        kind: EventKind,
    },
    /// Pass a message to the conversation with the agent.
    Send(ToAgent),
    /// Tell the caller the result of a request.
    Complete {
        /// The request.
        request: CallerRequest,
        /// Its result.
        completion: Completion,
    },
    /// Do something that only the driver can do.
    Do(Action),
}

impl From<Action> for Effect {
    fn from(action: Action) -> Self {
        Self::Do(action)
    }
}

impl From<ToAgent> for Effect {
    fn from(message: ToAgent) -> Self {
        Self::Send(message)
    }
}

/// A person's answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAnswer {
    /// Allow it.
    Allow,
    /// Allow it, and the same action for the rest of the session.
    AllowAlways,
    /// Deny it, with the reason for the model.
    Deny(String),
}

/// Deadlines from here on (a hundred years) are never due. A driver's clock need not support them.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// State machine of one session.
#[derive(Debug)]
pub struct Machine {
    /// The state as last published.
    state: SessionState,
    life: Life,
    after_turn: AfterTurn,
    limits: Limits,
    capabilities: Capabilities,
    turns: u32,
    queue: VecDeque<ToAgent>,
    /// Whether messages are held back.
    paused: bool,
    /// When the first turn started.
    first_turn_at: Option<Duration>,
    tools: Tools,
    account: Account,
    permissions: Permissions,
    changes: Changes,
    warnings: Warnings,
    /// What other sessions used on behalf of this one.
    charged: Charge,
    heartbeat: Heartbeat,
    volume: Volume,
    last_outcome: Option<Outcome>,
    /// The time of the current input, and the effects that it causes.
    step: Step,
}

impl Machine {
    /// Creates the machine of a session that has not been started.
    #[must_use]
    pub fn new(limits: Limits, after_turn: AfterTurn) -> Self {
        Self {
            state: SessionState::Created,
            life: Life::Created,
            after_turn,
            limits,
            capabilities: Capabilities {
                many_turns: true,
                ..Capabilities::default()
            },
            turns: 0,
            queue: VecDeque::new(),
            paused: false,
            first_turn_at: None,
            tools: Tools::default(),
            account: Account::new(),
            permissions: Permissions::default(),
            changes: Changes::default(),
            warnings: Warnings::default(),
            charged: Charge::default(),
            heartbeat: Heartbeat::default(),
            volume: Volume::default(),
            last_outcome: None,
            step: Step::default(),
        }
    }

    /// Sets the permission policy and the directory it applies to. `attendance` says whether a
    /// person answers permission requests.
    #[must_use]
    pub fn with_policy(
        mut self,
        policy: Option<Policy>,
        workspace: String,
        attendance: Attendance,
    ) -> Self {
        self.permissions = Permissions::new(policy, workspace, attendance);
        self
    }

    /// Returns the current state.
    #[must_use]
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// Returns the number of the current or last turn; 0 before the first.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.turns
    }

    /// Returns true if a message is queued.
    #[must_use]
    pub fn has_message(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns true if a turn is in progress.
    #[must_use]
    pub fn in_turn(&self) -> bool {
        self.life.turn().is_some()
    }

    /// Returns true if the session ends when the agent's process exits.
    #[must_use]
    pub fn ends_on_exit(&self) -> bool {
        let never_ran = matches!(
            self.life,
            Life::Created
                | Life::Starting {
                    is_restart: false,
                    ..
                }
        );
        self.is_ending() || !self.can_sleep() || never_ran
    }

    /// Returns when [`Input::Tick`] is due, unless another input comes first.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        if self.has_ended() {
            return None;
        }
        let escalation = self.life.escalation().map(|escalation| escalation.until);
        if self.life.is_frozen() {
            return escalation.filter(|at| *at < NEVER); // other time limits are suspended too
        }
        let turn = self
            .life
            .turn()
            .and_then(|t| t.deadline(&self.limits, self.may_be_silent()));
        let waits = [
            self.startup_deadline(),
            self.linger_deadline(),
            self.changes.deadline(),
            self.budget_deadline(),
        ];
        let waits = waits.into_iter().chain([self.heartbeat_deadline()]);
        let next = waits.chain([escalation, turn]).flatten().min();
        next.filter(|at| *at < NEVER)
    }

    /// Handles an input and appends the effects to perform.
    pub fn handle(&mut self, now: Duration, input: Input, effects: &mut Vec<Effect>) {
        if !self.has_ended() {
            self.step.now = now;
            self.handle_bounded(input);
            match effects.is_empty() {
                true => std::mem::swap(effects, &mut self.step.effects),
                false => effects.append(&mut self.step.effects),
            }
        }
    }

    /// Releases the memory of queues that are empty.
    pub fn shrink(&mut self) {
        self.step.effects.shrink_to_fit();
        self.queue.shrink_to_fit();
    }

    fn dispatch(&mut self, input: Input) {
        match input {
            Input::Start => self.start(),
            Input::Spawned => self.on_spawned(),
            Input::SpawnFailed(outcome) => self.on_spawn_failed(outcome),
            Input::Send(prompt) => self.send(ToAgent::Prompt(prompt)),
            Input::Steer(prompt) => self.steer(prompt),
            Input::SendNow(prompt) => self.send_now(ToAgent::Prompt(prompt)),
            Input::Approve(calls) => self.send_now(ToAgent::Approve(calls)),
            Input::Activity => self.on_activity(),
            Input::Conversation(output) => self.on_output(output),
            Input::Notice(notice) => self.emit(notice),
            Input::Charge(charge) => self.on_charge(charge),
            Input::Interrupt(request) => self.interrupt(request),
            Input::Pause => self.pause(),
            Input::Freeze => self.freeze(),
            Input::Resume => self.resume(),
            Input::Change(request, change) => self.change(ChangeRequest { request, change }),
            Input::ToolCalled(call, wants) => self.permissions.on_tool_called(call, &wants),
            Input::PermissionAnswered {
                id,
                answer,
                request,
            } => self.on_permission_answered(&id, answer, request),
            Input::Stop => self.stop(),
            Input::Kill => self.kill(),
            Input::Exited(exit, blame) => self.on_exited(&exit, blame),
            Input::Tick => self.tick(),
        }
    }

    /// Handles an output of the conversation.
    fn on_output(&mut self, output: FromConversation) {
        match output {
            FromConversation::Event(kind) => self.on_event(kind),
            FromConversation::TurnStarted => self.on_turn_started(),
            FromConversation::TurnEnded(result) => self.on_turn_ended(result),
            FromConversation::Background(running) => self.on_background(running),
            FromConversation::AskPermission(ask) => self.on_permission_requested(ask),
            FromConversation::WithdrawPermission(id) => self.on_permission_withdrawn(&id),
            FromConversation::Changed { id, error } => self.on_changed(id, error),
            FromConversation::EndProcess => self.terminate_process(),
            FromConversation::Do(action) => self.step.push(action),
        }
    }

    // --- turns

    /// Starts a turn. Without a prompt, it is one that the agent started by itself.
    fn begin_turn(&mut self, prompt: Option<&str>) {
        let turn = self.open_turn(prompt);
        if let Some(process) = self.life.process_mut() {
            process.work = Work::Turn(Box::new(turn));
        }
        self.publish_state();
    }

    /// Creates the next turn, and reports its start.
    fn open_turn(&mut self, prompt: Option<&str>) -> Turn {
        let origin = if prompt.is_some() {
            Origin::Caller
        } else {
            Origin::Agent
        };
        self.turns += 1;
        self.account.settle();
        self.heartbeat = Heartbeat::begin(self.step.now);
        // A session for one task has one deadline, however many turns the agent adds by itself.
        let first = *self.first_turn_at.get_or_insert(self.step.now);
        let since = if self.after_turn == AfterTurn::End {
            first
        } else {
            self.step.now
        };
        let mut turn = Turn::new(origin, self.step.now, since, self.limits.output);
        turn.awake = self.life.is_ready();
        // A replayed recording has no prompt, nor has an approval.
        let prompt = prompt.filter(|text| !text.is_empty()).map(str::to_owned);
        self.emit(TurnStarted { origin, prompt });
        turn
    }

    // --- input from the agent

    fn on_activity(&mut self) {
        // A line that yields no event, such as a handshake reply, does not end the starting phase.
        if let Some(turn) = self.life.turn_mut() {
            turn.touch(self.step.now);
            turn.awake = true;
        }
    }

    fn on_event(&mut self, kind: EventKind) {
        // A notice during startup does not mean that the agent is ready: it identifies itself
        // first. After an error, however, nothing may follow until the next turn, and the session
        // must not stay in `starting` forever.
        let is_incidental = match &kind {
            EventKind::Notice(notice) => notice.level != Level::Error || self.in_turn(),
            kind => matches!(kind, EventKind::Unreadable(_)),
        };
        if let Some(turn) = self.life.turn_mut() {
            turn.record(self.step.now, &kind);
            turn.awake = true;
        }
        if let Some(notice) = self.permissions.bypassed(&kind) {
            self.emit(notice);
        }
        if let Some(kind) = self.tools.record(kind) {
            let used = if let EventKind::Usage(usage) = &kind {
                Some(usage.clone())
            } else {
                None
            };
            self.emit(kind);
            if let Some(usage) = used {
                self.on_usage(&usage);
            }
        }
        if !is_incidental {
            self.mark_awake();
        }
    }

    /// Ends the starting phase at the agent's first meaningful output.
    fn mark_awake(&mut self) {
        if let Some(turn) = self.life.turn_mut() {
            turn.awake = true;
        }
        if !self.life.is_ready() {
            self.life.set_ready();
            self.publish_state();
        }
    }

    fn on_turn_started(&mut self) {
        if let Some(turn) = self.life.turn_mut() {
            turn.touch(self.step.now);
        } else if self.life.is_available() {
            self.begin_turn(None);
        }
        self.mark_awake();
    }

    fn on_turn_ended(&mut self, result: TurnResult) {
        self.mark_awake();
        if !self.in_turn() {
            let message = format!(
                "The agent ended a turn that had already ended ({}).",
                result.outcome.cause
            );
            self.notice(Level::Debug, NoticeCode::LateResult, message);
            for part in &result.usage {
                self.emit(part.clone());
                self.on_usage(part);
            }
            return;
        }
        match self.close_turn(result) {
            Some(pending) if pending.ends_session() => self.close_input(),
            _ => self.proceed(),
        }
    }

    /// Proceeds after a turn: starts the next one, waits, or ends the session.
    fn proceed(&mut self) {
        if !self.life.is_unescalated() || self.end_if_spent() {
            return;
        }
        self.life.set_ready();
        self.publish_state();
        if !self.has_one_process_per_turn() {
            self.next_turn();
        }
        let done = !self.in_turn() && self.queue.is_empty() && self.turns > 0 && !self.paused;
        let is_finished = done && self.after_turn == AfterTurn::End;
        if !is_finished && self.has_one_process_per_turn() {
            return self.end_turn_process();
        }
        let Some(process) = self.life.process_mut() else {
            return;
        };
        match process.work {
            Work::Turn(_) => {}
            // Closing stdin would cut off background tasks.
            _ if is_finished && process.background_tasks > 0 => process.work = Work::Lingering,
            _ => process.work = Work::Idle,
        }
        if is_finished && !self.life.waits_for_background() {
            self.close_input();
        }
    }

    fn on_background(&mut self, running: usize) {
        let Some(process) = self.life.process_mut() else {
            return;
        };
        process.background_tasks = running;
        if !self.in_turn() {
            self.proceed();
        }
    }

    // --- requests from the caller

    fn interrupt(&mut self, request: CallerRequest) {
        self.thaw(); // a suspended process receives nothing
        let until = self.step.after(self.limits.grace);
        let only_background = self.life.waits_for_background();
        if let Some(turn) = self.life.turn_mut() {
            turn.interrupts.push(request);
            if turn.pending.is_none() {
                turn.pending = Some(Pending::new(EndReason::Interrupt, until));
                self.step.push(ToAgent::Interrupt);
            }
            return;
        }
        self.step
            .complete(request, Completion::Interrupted(Interruption::NoTurn));
        if only_background {
            self.last_outcome = Some(turn::background_interrupted());
            self.close_input();
        } else {
            let (kind, code) = (RequestKind::Interrupt, RefusalCode::NoTurn);
            self.refuse(kind, code, "no turn is under way");
        }
    }

    // --- helpers

    fn has_ended(&self) -> bool {
        matches!(self.life, Life::Ended)
    }

    /// Publishes the state if it has changed.
    fn publish_state(&mut self) {
        self.set_state(self.current_state());
    }

    fn set_state(&mut self, to: SessionState) {
        if self.state != to {
            let from = std::mem::replace(&mut self.state, to);
            self.emit(State { from, to });
        }
    }

    fn emit(&mut self, kind: impl Into<EventKind>) {
        self.step.push(Effect::Emit {
            turn: self.turns,
            kind: kind.into(),
        });
    }

    fn notice(&mut self, level: Level, code: NoticeCode, message: impl Into<String>) {
        self.emit(Notice::new(level, code, message));
    }
}
