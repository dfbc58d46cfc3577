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
mod sending;
mod heartbeat;
mod tools;
mod turn;
mod volume;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::dialect::{Capabilities, Change, Exit, ToAgent, TurnResult};
use crate::event::{EventKind, Level, Notice, Origin, Refused, SessionState, State, TurnStarted};
use crate::outcome::Outcome;
use crate::permission::{PermissionRequest, Policy, ToolUse};
use crate::spec::{AfterTurn, Attendance, Limits};

use account::Account;
use budget::Warnings;
use changes::Changes;
use ending::Escalation;
use heartbeat::Heartbeat;
use permissions::Permissions;
use tools::Tools;
use turn::{Pending, Turn};
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
    /// The agent printed a line. Whatever it means, the agent is alive.
    Activity,
    /// The agent reported an event.
    Event(EventKind),
    /// Ostler itself has a notice for the caller.
    Notice(Notice),
    /// The agent started a turn.
    TurnStarted,
    /// The agent ended a turn.
    TurnEnded(TurnResult),
    /// Number of the agent's background tasks that are running.
    Background(usize),
    /// The caller interrupts the turn.
    Interrupt,
    /// The caller pauses the session: messages are held back.
    Pause,
    /// The caller pauses the session and suspends the agent's processes.
    Freeze,
    /// The caller resumes the session: held messages are delivered, and the agent continues.
    Resume,
    /// The caller changes the model or the permission mode.
    Change(Change),
    /// The agent's reply to a change: the request's id, and the error if it failed.
    Changed(u64, Option<String>),
    /// The agent called a tool: the call's id, and what the policy needs to know about it.
    ToolCalled(String, ToolUse),
    /// The agent asks for permission to run a tool.
    PermissionRequested(PermissionRequest),
    /// The agent withdrew a permission request.
    PermissionWithdrawn(String),
    /// The caller answered a permission request, given by its id.
    PermissionAnswered(String, PermissionAnswer),
    /// The caller stops the session gracefully.
    Stop,
    /// The caller kills the session.
    Kill,
    /// The agent's process is of no further use; the session outlives it.
    EndProcess,
    /// The agent's process exited; the dialect's explanation of the turn's end, if it has one.
    Exited(Exit, Option<TurnResult>),
    /// Time passed.
    Tick,
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
    /// Start the agent's process: for the first time, or again to resume the session.
    Spawn,
    /// Suspend the agent's processes.
    Freeze,
    /// Continue the suspended processes.
    Thaw,
    /// Use this value from the next start of the process on.
    Adopt(Change),
    /// Send a message to the agent.
    Send(ToAgent),
    /// Close the agent's stdin.
    CloseInput,
    /// Send SIGTERM to the agent's processes.
    Terminate,
    /// Send SIGKILL to the agent's processes.
    Kill,
}

/// A person's answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// Allow it.
    Allow,
    /// Allow it, and the same action for the rest of the session.
    AllowAlways,
    /// Deny it, with the reason for the model.
    Deny(String),
}

/// A hundred years: no one waits that long, and a driver's clock need not support it.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// State machine of one session.
#[derive(Debug)]
pub struct Machine {
    state: SessionState,
    after_turn: AfterTurn,
    limits: Limits,
    capabilities: Capabilities,
    turns: u32,
    current_turn: Option<Turn>,
    queue: VecDeque<String>,
    /// When the agent's process was started; `None` while there is none.
    spawned_at: Option<Duration>,
    /// Whether the process is being started.
    starting: bool,
    /// Whether there ever was a process.
    has_spawned: bool,
    paused: bool,
    /// Since when the agent's processes are suspended.
    frozen_since: Option<Duration>,
    background_tasks: usize,
    escalation: Option<Escalation>,
    /// Whether only the agent's background tasks hold a finished session open.
    lingering: bool,
    /// When the first turn started.
    first_turn_at: Option<Duration>,
    tools: Tools,
    account: Account,
    permissions: Permissions,
    changes: Changes,
    warnings: Warnings,
    heartbeat: Heartbeat,
    volume: Volume,
    last_outcome: Option<Outcome>,
}

impl Machine {
    /// Creates a session that is not started.
    #[must_use]
    pub fn new(limits: Limits, after_turn: AfterTurn) -> Self {
        Self {
            state: SessionState::Created,
            after_turn,
            limits,
            capabilities: Capabilities {
                many_turns: true,
                ..Capabilities::default()
            },
            turns: 0,
            current_turn: None,
            queue: VecDeque::new(),
            spawned_at: None,
            starting: false,
            has_spawned: false,
            paused: false,
            frozen_since: None,
            background_tasks: 0,
            escalation: None,
            lingering: false,
            first_turn_at: None,
            tools: Tools::default(),
            account: Account::new(),
            permissions: Permissions::default(),
            changes: Changes::default(),
            warnings: Warnings::default(),
            heartbeat: Heartbeat::default(),
            volume: Volume::default(),
            last_outcome: None,
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
        self.current_turn.is_some()
    }

    /// Returns true if the session ends when the agent's process exits.
    #[must_use]
    pub fn ends_on_exit(&self) -> bool {
        self.is_ending() || !self.can_sleep() || !self.has_spawned
    }

    /// Returns when [`Input::Tick`] is due, unless another input comes first.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        if self.state == SessionState::Ended {
            return None;
        }
        let escalation = self.escalation.map(|escalation| escalation.until);
        if self.frozen_since.is_some() {
            return escalation.filter(|at| *at < NEVER); // its time stands still
        }
        let turn = self
            .current_turn
            .as_ref()
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
    pub fn handle(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        if !self.has_ended() {
            self.handle_bounded(now, input, fx);
        }
    }

    fn dispatch(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        match input {
            Input::Start => self.start(fx),
            Input::Spawned => self.on_spawned(now, fx),
            Input::SpawnFailed(outcome) => self.on_spawn_failed(now, outcome, fx),
            Input::Send(prompt) => self.send(now, prompt, fx),
            Input::Steer(prompt) => self.steer(now, prompt, fx),
            Input::SendNow(prompt) => self.send_now(now, prompt, fx),
            Input::Activity => self.on_activity(now),
            Input::Event(kind) => self.on_event(now, kind, fx),
            Input::Notice(notice) => self.emit(notice, fx),
            Input::TurnStarted => self.on_turn_started(now, fx),
            Input::TurnEnded(result) => self.on_turn_ended(now, result, fx),
            Input::Background(running) => self.on_background(now, running, fx),
            Input::Interrupt => self.interrupt(now, fx),
            Input::Pause => self.pause(fx),
            Input::Freeze => self.freeze(now, fx),
            Input::Resume => self.resume(now, fx),
            Input::Change(change) => self.change(now, change, fx),
            Input::Changed(id, error) => self.on_changed(id, error, fx),
            Input::ToolCalled(call, wants) => self.permissions.on_tool_called(call, &wants),
            Input::PermissionRequested(ask) => self.on_permission_requested(now, ask, fx),
            Input::PermissionWithdrawn(id) => self.on_permission_withdrawn(now, &id, fx),
            Input::PermissionAnswered(id, answer) => {
                self.on_permission_answered(now, (&id, answer), fx);
            }
            Input::Stop => self.stop(now, fx),
            Input::Kill => self.kill(now, fx),
            Input::EndProcess => self.terminate_process(now, fx),
            Input::Exited(exit, blame) => self.on_exited(now, (&exit, blame), fx),
            Input::Tick => self.tick(now, fx),
        }
    }

    // --- turns

    /// Starts a turn: the caller's, with a message, or one of the agent's own.
    fn begin_turn(&mut self, now: Duration, prompt: Option<&str>, fx: &mut Vec<Effect>) {
        let origin = if prompt.is_some() {
            Origin::Caller
        } else {
            Origin::Agent
        };
        self.turns += 1;
        self.account.settle();
        self.heartbeat = Heartbeat::begin(now);
        // A session for one task has one deadline, however many turns the agent adds by itself.
        let first = *self.first_turn_at.get_or_insert(now);
        let since = if self.after_turn == AfterTurn::End {
            first
        } else {
            now
        };
        self.current_turn = Some(Turn::new(origin, now, since, self.limits.output));
        if self.state != SessionState::Starting {
            self.mark_awake(fx);
        }
        // A replayed recording has no prompt.
        let prompt = prompt.filter(|text| !text.is_empty()).map(str::to_owned);
        self.emit(TurnStarted { origin, prompt }, fx);
        if self.state == SessionState::Idle {
            self.set_state(SessionState::Working, fx);
        }
    }

    // --- input from the agent

    fn on_activity(&mut self, now: Duration) {
        // A line without a meaning, such as a handshake reply, does not end the starting phase.
        if let Some(turn) = &mut self.current_turn {
            turn.touch(now);
            turn.awake = true;
        }
    }

    fn on_event(&mut self, now: Duration, kind: EventKind, fx: &mut Vec<Effect>) {
        // A notice during startup does not mean that the agent is ready: it identifies itself
        // first. After an error, however, nothing may follow until the next turn, and the session
        // must not stay in `starting` forever.
        let is_incidental = match &kind {
            EventKind::Notice(notice) => {
                notice.level != Level::Error || self.current_turn.is_some()
            }
            kind => matches!(kind, EventKind::Unreadable(_)),
        };
        if let Some(turn) = &mut self.current_turn {
            turn.record(now, &kind);
            turn.awake = true;
        }
        if let Some(notice) = self.permissions.bypassed(&kind) {
            self.emit(notice, fx);
        }
        if let Some(kind) = self.tools.record(kind) {
            let used = if let EventKind::Usage(usage) = &kind {
                Some(usage.clone())
            } else {
                None
            };
            self.emit(kind, fx);
            if let Some(usage) = used {
                self.on_usage(now, &usage, fx);
            }
        }
        if !is_incidental {
            self.mark_awake(fx);
        }
    }

    /// Ends the starting phase at the agent's first meaningful output.
    fn mark_awake(&mut self, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.current_turn {
            turn.awake = true;
        }
        if self.state == SessionState::Starting {
            self.set_state(self.steady_state(), fx);
        }
    }

    fn on_turn_started(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.current_turn {
            turn.touch(now);
        } else if self.escalation.is_none() && self.spawned_at.is_some() {
            self.begin_turn(now, None, fx);
        }
        self.mark_awake(fx);
    }

    fn on_turn_ended(&mut self, now: Duration, result: TurnResult, fx: &mut Vec<Effect>) {
        self.mark_awake(fx);
        if self.current_turn.is_none() {
            let message = format!(
                "The agent ended a turn that had already ended ({}).",
                result.outcome.cause
            );
            self.emit(Notice::new(Level::Debug, "late_result", message), fx);
            for part in &result.usage {
                self.emit(part.clone(), fx);
                self.on_usage(now, part, fx);
            }
            return;
        }
        let last = self.close_turn(result, fx);
        match last {
            Some(Pending::Limit(_) | Pending::Stop(_)) => self.close_input(now, fx),
            Some(Pending::Interrupt(_)) | None => self.proceed(now, fx),
        }
    }

    /// Proceeds after a turn: starts the next one, waits, or ends the session.
    fn proceed(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.escalation.is_some() || self.end_if_spent(now, fx) {
            return;
        }
        self.set_state(self.steady_state(), fx);
        if !self.has_one_process_per_turn() {
            self.next_turn(now, fx);
        }
        let done =
            self.current_turn.is_none() && self.queue.is_empty() && self.turns > 0 && !self.paused;
        let is_finished = done && self.after_turn == AfterTurn::End;
        if !is_finished && self.has_one_process_per_turn() {
            return self.end_turn_process(now, fx);
        }
        // Closing stdin would cut off background tasks.
        self.lingering = is_finished && self.background_tasks > 0;
        if is_finished && !self.lingering {
            self.close_input(now, fx);
        }
    }

    fn on_background(&mut self, now: Duration, running: usize, fx: &mut Vec<Effect>) {
        self.background_tasks = running;
        if self.current_turn.is_none() && self.spawned_at.is_some() {
            self.proceed(now, fx);
        }
    }

    // --- requests of the caller

    fn interrupt(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.thaw(now, fx); // a suspended process receives nothing
        let until = now.saturating_add(self.limits.grace);
        let only_background = self.waits_for_background();
        match &mut self.current_turn {
            Some(turn) if turn.pending.is_none() => {
                turn.pending = Some(Pending::Interrupt(until));
                fx.push(Effect::Send(ToAgent::Interrupt));
            }
            Some(_) => {}
            None if only_background => {
                self.last_outcome = Some(turn::background_interrupted());
                self.close_input(now, fx);
            }
            None => self.refuse(("interrupt", "no_turn"), "no turn is under way", fx),
        }
    }

    // --- helpers

    fn has_ended(&self) -> bool {
        self.state == SessionState::Ended
    }

    fn set_state(&mut self, to: SessionState, fx: &mut Vec<Effect>) {
        if self.state != to {
            let from = std::mem::replace(&mut self.state, to);
            self.emit(State { from, to }, fx);
        }
    }

    fn emit(&self, kind: impl Into<EventKind>, fx: &mut Vec<Effect>) {
        fx.push(Effect::Emit {
            turn: self.turns,
            kind: kind.into(),
        });
    }

    fn refuse(&self, (request, code): (&str, &str), why: &str, fx: &mut Vec<Effect>) {
        self.emit(
            Refused {
                request: request.into(),
                why: why.into(),
                code: code.into(),
            },
            fx,
        );
    }
}
