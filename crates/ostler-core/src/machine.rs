//! The session machine: what happens becomes what to do. No clock, no process, no channel; time comes in with each input.
//!
//! Two promises, kept for every sequence of inputs: each turn that began ends exactly once, and the session ends exactly
//! once, last. Whoever drives the machine feeds it [`Input`]s, performs the [`Effect`]s in order, and calls it again with
//! [`Input::Tick`] when [`Machine::deadline`] has passed.

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
use budget::Warned;
use changes::Changes;
use ending::Ladder;
use heartbeat::Heartbeat;
use permissions::Permissions;
use tools::Tools;
use turn::{Pending, Turn};
use volume::Volume;

/// Something happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The caller wants the agent started.
    Start,
    /// The agent's process runs.
    Spawned,
    /// The agent's process could not be started.
    SpawnFailed(Outcome),
    /// The caller sent a message; it waits while a turn is under way.
    Send(String),
    /// The caller sent a message for the turn that is under way; it begins one when there is none.
    Steer(String),
    /// The caller sent a message that must not wait.
    SendNow(String),
    /// The agent printed a line. Whatever it means, the agent is alive.
    Activity,
    /// The agent reported an event.
    Event(EventKind),
    /// Ostler itself has a notice for the caller.
    Notice(Notice),
    /// The agent began a turn.
    TurnStarted,
    /// The agent ended a turn.
    TurnEnded(TurnResult),
    /// The number of the agent's background tasks that are running.
    Background(usize),
    /// The caller wants the turn ended.
    Interrupt,
    /// The caller wants messages held back.
    Pause,
    /// The same, and the agent's processes stopped where they are.
    Freeze,
    /// The caller wants held messages delivered, and the agent to go on.
    Resume,
    /// The caller wants something to be different.
    Change(Change),
    /// The agent did what was asked, or says why not.
    Changed(u64, Option<String>),
    /// The agent called a tool: the call's id, and what the policy needs to know about it.
    ToolCalled(String, ToolUse),
    /// The agent asks for permission to run a tool.
    PermissionRequested(PermissionRequest),
    /// The agent withdrew a permission request.
    PermissionWithdrawn(String),
    /// The caller answered a permission request, given by its id.
    PermissionAnswered(String, PermissionAnswer),
    /// The caller wants the session ended gracefully.
    Stop,
    /// The caller wants the session ended, now.
    Kill,
    /// The agent's process is of no more use; the session outlives it.
    EndProcess,
    /// The agent's process is gone, and this is what the dialect makes of it.
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
    /// Start the agent's process: for the first time, or again, to go on where it was.
    Spawn,
    /// The agent's processes are to stop where they are.
    Freeze,
    /// They are to go on.
    Thaw,
    /// From the next start on, this is different.
    Adopt(Change),
    /// Send a message to the agent.
    Send(ToAgent),
    /// Close the agent's stdin.
    CloseInput,
    /// Tell the agent's processes to end.
    Terminate,
    /// Kill the agent's processes.
    Kill,
}

/// A person's answer to the question whether a tool may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// It may.
    Allow,
    /// It may, and so may the same thing for the rest of the session.
    AllowAlways,
    /// It may not; the model is told why.
    Deny(String),
}

/// A hundred years: nobody waits so long, and a driver's clock need not reach so far.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The machine of one session.
#[derive(Debug)]
pub struct Machine {
    state: SessionState,
    after_turn: AfterTurn,
    limits: Limits,
    capabilities: Capabilities,
    turns: u32,
    open: Option<Turn>,
    queue: VecDeque<String>,
    /// Since when the agent's process runs; none while there is none.
    spawned: Option<Duration>,
    /// Whether the process is being started.
    starting: bool,
    /// Whether there ever was one.
    lived: bool,
    paused: bool,
    /// Since when the agent's processes are stopped.
    frozen: Option<Duration>,
    background: usize,
    ladder: Option<Ladder>,
    /// Whether only the agent's background tasks keep a finished session open.
    lingering: bool,
    /// When the first turn began.
    since: Option<Duration>,
    tools: Tools,
    account: Account,
    permissions: Permissions,
    changes: Changes,
    warned: Warned,
    heartbeat: Heartbeat,
    volume: Volume,
    last: Option<Outcome>,
}

impl Machine {
    /// A session that was created and not started.
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
            open: None,
            queue: VecDeque::new(),
            spawned: None,
            starting: false,
            lived: false,
            paused: false,
            frozen: None,
            background: 0,
            ladder: None,
            lingering: false,
            since: None,
            tools: Tools::default(),
            account: Account::new(),
            permissions: Permissions::default(),
            changes: Changes::default(),
            warned: Warned::default(),
            heartbeat: Heartbeat::default(),
            volume: Volume::default(),
            last: None,
        }
    }

    /// Sets the permission policy and the directory it applies to. `attendance` says whether a person
    /// answers permission requests.
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

    /// The state it is in.
    #[must_use]
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// The turn that is under way, or the last one; 0 before the first.
    #[must_use]
    pub fn turn(&self) -> u32 {
        self.turns
    }

    /// Whether a message waits to be delivered.
    #[must_use]
    pub fn has_message(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether a turn is under way.
    #[must_use]
    pub fn in_turn(&self) -> bool {
        self.open.is_some()
    }

    /// Whether the end of the agent's process is the end of the session.
    #[must_use]
    pub fn ends_on_exit(&self) -> bool {
        self.is_ending() || !self.can_sleep() || !self.lived
    }

    /// When [`Input::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        if self.state == SessionState::Ended {
            return None;
        }
        let ladder = self.ladder.map(|l| l.until);
        if self.frozen.is_some() {
            return ladder.filter(|at| *at < NEVER); // its time stands still
        }
        let turn = self
            .open
            .as_ref()
            .and_then(|t| t.deadline(&self.limits, self.may_be_silent()));
        let waits = [
            self.startup_deadline(),
            self.linger_deadline(),
            self.changes.deadline(),
            self.budget_deadline(),
        ];
        let waits = waits.into_iter().chain([self.silence_deadline()]);
        let next = waits.chain([ladder, turn]).flatten().min();
        next.filter(|at| *at < NEVER)
    }

    /// Takes an input and appends what is to be done.
    pub fn handle(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        if !self.is_over() {
            self.handle_bounded(now, input, fx);
        }
    }

    fn take(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        match input {
            Input::Start => self.start(fx),
            Input::Spawned => self.spawned(now, fx),
            Input::SpawnFailed(outcome) => self.spawn_failed(now, outcome, fx),
            Input::Send(prompt) => self.send(now, prompt, fx),
            Input::Steer(prompt) => self.steer(now, prompt, fx),
            Input::SendNow(prompt) => self.send_now(now, prompt, fx),
            Input::Activity => self.activity(now),
            Input::Event(kind) => self.heard(now, kind, fx),
            Input::Notice(notice) => self.emit(notice, fx),
            Input::TurnStarted => self.turn_began(now, fx),
            Input::TurnEnded(over) => self.turn_over(now, over, fx),
            Input::Background(running) => self.background(now, running, fx),
            Input::Interrupt => self.interrupt(now, fx),
            Input::Pause => self.pause(fx),
            Input::Freeze => self.freeze(now, fx),
            Input::Resume => self.resume(now, fx),
            Input::Change(change) => self.change(now, change, fx),
            Input::Changed(id, error) => self.changed(id, error, fx),
            Input::ToolCalled(call, wants) => self.permissions.called(call, &wants),
            Input::PermissionRequested(ask) => self.asked(now, ask, fx),
            Input::PermissionWithdrawn(id) => self.withdrawn(now, &id, fx),
            Input::PermissionAnswered(id, answer) => self.answered(now, (&id, answer), fx),
            Input::Stop => self.stop(now, fx),
            Input::Kill => self.kill(now, fx),
            Input::EndProcess => self.give_up_process(now, fx),
            Input::Exited(exit, blame) => self.exited(now, (&exit, blame), fx),
            Input::Tick => self.tick(now, fx),
        }
    }

    // --- turns -------------------------------------------------------------------------------------------------------

    /// Begins a turn: the caller's, with a message, or the agent's own.
    fn begin(&mut self, now: Duration, prompt: Option<&str>, fx: &mut Vec<Effect>) {
        let origin = if prompt.is_some() {
            Origin::Caller
        } else {
            Origin::Agent
        };
        self.turns += 1;
        self.account.settle();
        self.heartbeat = Heartbeat::begin(now);
        // A session of one task has one deadline, however many turns the agent adds by itself.
        let first = *self.since.get_or_insert(now);
        let since = if self.after_turn == AfterTurn::End {
            first
        } else {
            now
        };
        self.open = Some(Turn::new(origin, now, since, self.limits.output));
        if self.state != SessionState::Starting {
            self.awake(fx);
        }
        // A recording is replayed without knowing what was asked.
        let prompt = prompt.filter(|text| !text.is_empty()).map(str::to_owned);
        self.emit(TurnStarted { origin, prompt }, fx);
        if self.state == SessionState::Idle {
            self.go(SessionState::Working, fx);
        }
    }

    // --- what the agent says ------------------------------------------------------------------------------------

    fn activity(&mut self, now: Duration) {
        // A line that means nothing by itself, an answer of a handshake say, ends no phase: it may be the start that goes on.
        if let Some(turn) = &mut self.open {
            turn.touch(now);
            turn.awake = true;
        }
    }

    fn heard(&mut self, now: Duration, kind: EventKind, fx: &mut Vec<Effect>) {
        // What it remarks while it comes up is no sign that it is at work: who it is comes first. After an error nothing may
        // come any more until a turn is asked for, and a session is not to be starting for ever.
        let is_remark = match &kind {
            EventKind::Notice(notice) => notice.level != Level::Error || self.open.is_some(),
            kind => matches!(kind, EventKind::Unreadable(_)),
        };
        if let Some(turn) = &mut self.open {
            turn.note(now, &kind);
            turn.awake = true;
        }
        if let Some(notice) = self.permissions.bypassed(&kind) {
            self.emit(notice, fx);
        }
        if let Some(kind) = self.tools.note(kind) {
            let used = if let EventKind::Usage(usage) = &kind {
                Some(usage.clone())
            } else {
                None
            };
            self.emit(kind, fx);
            if let Some(usage) = used {
                self.used(now, &usage, fx);
            }
        }
        if !is_remark {
            self.awake(fx);
        }
    }

    /// The agent's first word ends the starting phase.
    fn awake(&mut self, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.open {
            turn.awake = true;
        }
        if self.state == SessionState::Starting {
            self.go(self.settled(), fx);
        }
    }

    fn turn_began(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.open {
            turn.touch(now);
        } else if self.ladder.is_none() && self.spawned.is_some() {
            self.begin(now, None, fx);
        }
        self.awake(fx);
    }

    fn turn_over(&mut self, now: Duration, over: TurnResult, fx: &mut Vec<Effect>) {
        self.awake(fx);
        if self.open.is_none() {
            let message = format!(
                "The agent ended a turn that was already over ({}).",
                over.outcome.cause
            );
            self.emit(Notice::new(Level::Debug, "late_result", message), fx);
            for part in &over.usage {
                self.emit(part.clone(), fx);
                self.used(now, part, fx);
            }
            return;
        }
        let last = self.close_turn(over, fx);
        match last {
            Some(Pending::Limit(_) | Pending::Stop(_)) => self.close_input(now, fx),
            Some(Pending::Interrupt(_)) | None => self.rest(now, fx),
        }
    }

    /// A turn is over: on with the next message, or wait, or end.
    fn rest(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.ladder.is_some() || self.is_spent(now, fx) {
            return;
        }
        self.go(self.settled(), fx);
        if !self.lives_for_a_turn() {
            self.next_turn(now, fx);
        }
        let done = self.open.is_none() && self.queue.is_empty() && self.turns > 0 && !self.paused;
        let over = done && self.after_turn == AfterTurn::End;
        if !over && self.lives_for_a_turn() {
            return self.put_to_sleep(now, fx);
        }
        // Closing stdin under background tasks would cut them off.
        self.lingering = over && self.background > 0;
        if over && !self.lingering {
            self.close_input(now, fx);
        }
    }

    fn background(&mut self, now: Duration, running: usize, fx: &mut Vec<Effect>) {
        self.background = running;
        if self.open.is_none() && self.spawned.is_some() {
            self.rest(now, fx);
        }
    }

    // --- what the caller wants ----------------------------------------------------------------------------------

    fn interrupt(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.thaw(now, fx); // what stands still hears nothing
        let until = now.saturating_add(self.limits.grace);
        let only_background = self.waits_for_background();
        match &mut self.open {
            Some(turn) if turn.pending.is_none() => {
                turn.pending = Some(Pending::Interrupt(until));
                fx.push(Effect::Send(ToAgent::Interrupt));
            }
            Some(_) => {}
            None if only_background => {
                self.last = Some(turn::background_interrupted());
                self.close_input(now, fx);
            }
            None => self.refuse(("interrupt", "no_turn"), "no turn is under way", fx),
        }
    }

    // --- small things -------------------------------------------------------------------------------------------

    fn is_over(&self) -> bool {
        self.state == SessionState::Ended
    }

    fn go(&mut self, to: SessionState, fx: &mut Vec<Effect>) {
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
