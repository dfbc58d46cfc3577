//! The session machine: what happens becomes what to do. No clock, no process, no channel; time comes in with each input.
//!
//! Two promises, kept for every sequence of inputs: each turn that began ends exactly once, and the session ends exactly
//! once, last. Whoever drives the machine feeds it [`Input`]s, performs the [`Effect`]s in order, and calls it again with
//! [`Input::Tick`] when [`Machine::deadline`] has passed.

mod account;
mod ending;
mod tools;
mod turn;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use crate::dialect::{Exit, Say, TurnOver};
use crate::event::{Level, Notice, Origin, Refused, SessionState, State, TurnStarted, What};
use crate::outcome::{Cause, Outcome};
use crate::spec::{AfterTurn, Limits};
use crate::usage::{Scope, Usage};

use account::Account;
use ending::Ladder;
use tools::Tools;
use turn::{Pending, Turn};

/// Something happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The caller wants the agent started.
    Start,
    /// The agent's process runs.
    Spawned,
    /// The agent's process could not be started.
    SpawnFailed(Outcome),
    /// The caller sent a message.
    Send(String),
    /// The agent printed a line, whatever it means: it is alive.
    Activity,
    /// The agent said something.
    Heard(What),
    /// Ostler itself has something to say.
    Remark(Notice),
    /// The agent began a turn.
    TurnBegan,
    /// The agent ended a turn.
    TurnOver(TurnOver),
    /// So many of the agent's background tasks are running.
    Background(usize),
    /// The caller wants the turn ended.
    Interrupt,
    /// The caller wants messages held back.
    Pause,
    /// The caller wants held messages delivered.
    Resume,
    /// The caller wants the session ended, in good order.
    Stop,
    /// The caller wants the session ended, now.
    Kill,
    /// The agent's process is gone, and this is what the dialect makes of it.
    Exited(Exit, Option<TurnOver>),
    /// Time passed.
    Tick,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly every effect is an event; a box each would cost more than it saves"
)]
pub enum Effect {
    /// Stamp it and tell the caller.
    Emit {
        /// The turn it belongs to.
        turn: u32,
        /// What happened.
        what: What,
    },
    /// Start the agent's process. It answers [`Input::Start`], once; a driver that starts the process with that input has
    /// nothing left to do.
    Spawn,
    /// Say it to the agent.
    Say(Say),
    /// Close the agent's stdin.
    CloseInput,
    /// Tell the agent's processes to end.
    Terminate,
    /// Kill the agent's processes.
    Kill,
}

/// A hundred years: nobody waits so long, and a driver's clock need not reach so far.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The machine of one session.
#[derive(Debug)]
pub struct Machine {
    state: SessionState,
    after_turn: AfterTurn,
    limits: Limits,
    turns: u32,
    open: Option<Turn>,
    queue: VecDeque<String>,
    spawned: Option<Duration>,
    paused: bool,
    background: usize,
    ladder: Option<Ladder>,
    /// Whether only the agent's background tasks keep a finished session open.
    lingering: bool,
    /// When the first turn began.
    since: Option<Duration>,
    tools: Tools,
    account: Account,
    budget_warned: bool,
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
            turns: 0,
            open: None,
            queue: VecDeque::new(),
            spawned: None,
            paused: false,
            background: 0,
            ladder: None,
            lingering: false,
            since: None,
            tools: Tools::default(),
            account: Account::new(),
            budget_warned: false,
            last: None,
        }
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

    /// Whether a turn is under way.
    #[must_use]
    pub fn in_turn(&self) -> bool {
        self.open.is_some()
    }

    /// When [`Input::Tick`] is due, if nothing else happens before.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        if self.state == SessionState::Ended {
            return None;
        }
        let turn = self.open.as_ref().and_then(|t| t.deadline(&self.limits, self.tools.running()));
        let ladder = self.ladder.map(|l| l.until);
        let next = [ladder, self.startup_deadline(), self.linger_deadline(), turn].into_iter().flatten().min();
        next.filter(|at| *at < NEVER)
    }

    /// Takes an input and appends what is to be done.
    pub fn handle(&mut self, now: Duration, input: Input, fx: &mut Vec<Effect>) {
        if self.state == SessionState::Ended {
            return;
        }
        match input {
            Input::Start => self.start(fx),
            Input::Spawned => self.spawned(now, fx),
            Input::SpawnFailed(outcome) => self.spawn_failed(outcome, fx),
            Input::Send(prompt) => self.send(now, prompt, fx),
            Input::Activity => self.activity(now, fx),
            Input::Heard(what) => self.heard(now, what, fx),
            Input::Remark(notice) => self.emit(notice, fx),
            Input::TurnBegan => self.turn_began(now, fx),
            Input::TurnOver(over) => self.turn_over(now, over, fx),
            Input::Background(running) => self.background(now, running, fx),
            Input::Interrupt => self.interrupt(now, fx),
            Input::Pause => self.pause(fx),
            Input::Resume => self.resume(now, fx),
            Input::Stop => self.stop(now, fx),
            Input::Kill => self.kill(now, fx),
            Input::Exited(exit, blame) => self.exited(&exit, blame, fx),
            Input::Tick => self.tick(now, fx),
        }
    }

    // --- the way in ---------------------------------------------------------------------------------------------

    fn start(&mut self, fx: &mut Vec<Effect>) {
        if self.state == SessionState::Created {
            self.go(SessionState::Starting, fx);
            fx.push(Effect::Spawn);
        }
    }

    fn spawned(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.state == SessionState::Starting && self.spawned.is_none() {
            self.spawned = Some(now);
            self.next_turn(now, fx);
        }
    }

    fn spawn_failed(&mut self, outcome: Outcome, fx: &mut Vec<Effect>) {
        if self.spawned.is_some() {
            return;
        }
        // The message was accepted, so it gets its turn, and the turn its ending.
        if let Some(prompt) = self.queue.pop_front() {
            self.begin(Duration::ZERO, Some(&prompt), fx);
            self.close_turn(TurnOver::bare(outcome.clone()), fx);
        }
        self.end(outcome, &Exit::default(), fx);
    }

    fn send(&mut self, now: Duration, prompt: String, fx: &mut Vec<Effect>) {
        if self.ladder.is_some() {
            self.refuse("send", "the session is being ended", fx);
            return;
        }
        self.queue.push_back(prompt);
        if self.spawned.is_some() {
            self.next_turn(now, fx);
        }
    }

    /// Begins the next turn if a message waits and nothing stands in its way.
    fn next_turn(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if self.paused || self.open.is_some() || self.ladder.is_some() {
            return;
        }
        if let Some(prompt) = self.queue.pop_front() {
            self.begin(now, Some(&prompt), fx);
            fx.push(Effect::Say(Say::Prompt(prompt)));
        }
    }

    /// Begins a turn: the caller's, with a message, or the agent's own.
    fn begin(&mut self, now: Duration, prompt: Option<&str>, fx: &mut Vec<Effect>) {
        let origin = if prompt.is_some() { Origin::Caller } else { Origin::Agent };
        self.turns += 1;
        self.account.settle();
        // A session of one task has one deadline, however many turns the agent adds by itself.
        let first = *self.since.get_or_insert(now);
        let since = if self.after_turn == AfterTurn::End { first } else { now };
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

    fn activity(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.open {
            turn.touch(now);
        }
        self.awake(fx);
    }

    fn heard(&mut self, now: Duration, what: What, fx: &mut Vec<Effect>) {
        if let Some(turn) = &mut self.open {
            turn.note(now, &what);
        }
        if let Some(what) = self.tools.note(what) {
            let used = if let What::Usage(usage) = &what { Some(usage.clone()) } else { None };
            self.emit(what, fx);
            if let Some(usage) = used {
                self.used(now, &usage, fx);
            }
        }
        self.awake(fx);
    }

    fn used(&mut self, now: Duration, usage: &Usage, fx: &mut Vec<Effect>) {
        if let Some(turn) = &self.open {
            let before = self.account.total().cost_usd.unwrap_or(0.0);
            let spent = match usage.scope {
                Scope::Turn => turn.used.cost().map(|cost| before + cost),
                Scope::Session => usage.cost_usd,
            };
            if let Some(spent) = spent {
                self.spend(now, spent, fx);
            }
        } else if self.account.late(usage) {
            self.tell_total(fx);
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

    /// The state of a session that is neither starting nor ending.
    fn settled(&self) -> SessionState {
        match (self.paused, &self.open) {
            (true, _) => SessionState::Paused,
            (false, Some(_)) => SessionState::Working,
            (false, None) => SessionState::Idle,
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

    fn turn_over(&mut self, now: Duration, over: TurnOver, fx: &mut Vec<Effect>) {
        self.awake(fx);
        if self.open.is_none() {
            let message = format!("The agent ended a turn that was already over ({}).", over.outcome.cause);
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
        if self.ladder.is_some() {
            return;
        }
        self.go(self.settled(), fx);
        self.next_turn(now, fx);
        let done = self.open.is_none() && self.queue.is_empty() && self.turns > 0 && !self.paused;
        let over = done && self.after_turn == AfterTurn::End;
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
        let until = now.saturating_add(self.limits.grace);
        let only_background = self.waits_for_background();
        match &mut self.open {
            Some(turn) if turn.pending.is_none() => {
                turn.pending = Some(Pending::Interrupt(until));
                fx.push(Effect::Say(Say::Interrupt));
            }
            Some(_) => {}
            None if only_background => {
                self.last = Some(turn::background_interrupted());
                self.close_input(now, fx);
            }
            None => self.refuse("interrupt", "no turn is under way", fx),
        }
    }

    fn pause(&mut self, fx: &mut Vec<Effect>) {
        if self.ladder.is_some() {
            self.refuse("pause", "the session is being ended", fx);
            return;
        }
        self.paused = true;
        if matches!(self.state, SessionState::Idle | SessionState::Working) {
            self.go(SessionState::Paused, fx);
        }
    }

    fn resume(&mut self, now: Duration, fx: &mut Vec<Effect>) {
        self.paused = false;
        if self.state == SessionState::Paused {
            self.go(self.settled(), fx);
        }
        if self.spawned.is_some() && self.open.is_none() && self.state != SessionState::Starting {
            self.rest(now, fx);
        } else if self.spawned.is_some() {
            self.next_turn(now, fx);
        }
    }

    // --- small things -------------------------------------------------------------------------------------------

    fn go(&mut self, to: SessionState, fx: &mut Vec<Effect>) {
        if self.state != to {
            let from = std::mem::replace(&mut self.state, to);
            self.emit(State { from, to }, fx);
        }
    }

    fn emit(&self, what: impl Into<What>, fx: &mut Vec<Effect>) {
        fx.push(Effect::Emit { turn: self.turns, what: what.into() });
    }

    fn refuse(&self, request: &str, why: &str, fx: &mut Vec<Effect>) {
        self.emit(Refused { request: request.into(), why: why.into() }, fx);
    }

    /// Money was spent within the open turn: a warning, and past the limit the end of the turn.
    fn spend(&mut self, now: Duration, spent: f64, fx: &mut Vec<Effect>) {
        self.warn_of_budget(spent, fx);
        if let (Some(limit), Some(turn)) = (self.limits.budget_usd, &mut self.open)
            && spent >= limit
            && turn.pending.is_none()
        {
            let outcome =
                Outcome::new(Cause::Budget, format!("The turn has cost ${spent:.4}, the budget is ${limit}."))
                    .hint("Raise the budget (--max-budget-usd), or give a smaller task.");
            turn.pending = Some(Pending::Limit((Box::new(outcome), now.saturating_add(self.limits.grace))));
            fx.push(Effect::Say(Say::Interrupt));
        }
    }

    /// Once 80 % of the money is spent, a warning, once.
    fn warn_of_budget(&mut self, spent: f64, fx: &mut Vec<Effect>) {
        if let Some(limit) = self.limits.budget_usd.filter(|l| !self.budget_warned && spent >= 0.8 * l) {
            self.budget_warned = true;
            let message = format!("${spent:.4} of the budget of ${limit} is spent.");
            self.emit(Notice::new(Level::Warning, "budget_near", message), fx);
        }
    }
}
