//! The task of one session: reads, asks the machine, does what it says. It alone owns the child.

mod beside;
mod keep;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::{Change, Conversation, Exit, Say};
use ostler_core::event::{Event, Level, Notice, Refused};
use ostler_core::log::{Appending, Log, LogError};
use ostler_core::machine::{Input, Machine};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Asks, keys};
use tokio::sync::{mpsc, oneshot};

use super::Beginning;
use super::aside::{Aside, Met};
use super::backlog::Batch;
use super::files::Files;
use super::life::{self, Life, Sign};
use super::mind::{Mind, Order};
use super::raw_log::{Bound, RawLog};
use super::remote::Wish;
use super::status::Shared;
use super::submit::Submissions;
use super::work::{Done, Work};
use crate::clock;
use crate::process::{Interrupted, SpawnError};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// How many chunks that wait in the pipe are read before a limit is taken for reached: more than a pipe holds.
const CATCH_UP: usize = 32;

/// How long the last words of an agent are awaited after its process is gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The outcome of a session whose task vanished: a fault of Ostler itself.
pub(super) fn lost() -> Outcome {
    Outcome::new(Cause::Protocol, "The session ended without saying how; this is a fault in Ostler.")
}

/// What the caller holds, seen from the task.
pub(super) struct Caller {
    pub(super) inbox: mpsc::UnboundedReceiver<Wish>,
    /// Resolves when the session was dropped: nobody can end it any more, so it ends.
    pub(super) leash: oneshot::Receiver<()>,
    pub(super) shared: Arc<Shared>,
    pub(super) submissions: Arc<Submissions>,
}

/// Runs a session from its first state to its last event.
pub(super) async fn run(beginning: Beginning, caller: Caller) {
    let _finish = Finish(caller.shared.clone());
    let mut driver = Driver::new(beginning, caller);
    let prompt = std::mem::take(&mut driver.beginning.spec.prompt);
    if !prompt.is_empty() {
        driver.mind.handle(Input::Send(prompt));
    }
    driver.mind.handle(Input::Start);
    driver.drive().await;
}

/// However the task ends, its readers do not wait for ever.
struct Finish(Arc<Shared>);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.backlog.finish();
    }
}

/// The doing half: the child's streams, the caller's wishes, the clock.
struct Driver {
    mind: Mind,
    beginning: Beginning,
    caller: Caller,
    leashed: bool,
    life: Life,
    /// Why the agent's stdin cannot be written any more, and until when its exit may explain it.
    input_lost: Option<(std::io::Error, tokio::time::Instant)>,
    /// How often the agent was started.
    starts: u32,
    /// Set while another language is tried: what was said in the first.
    again: Option<Option<String>>,
    copies: Vec<RawLog>,
    /// How much of the agent's output earlier processes of the session have printed, and this one.
    raw: (u64, u64),
    work: Work,
    aside: Aside,
    /// Whether the caller knows that its tools cannot be reached.
    told_no_bridge: bool,
    /// How often there was trouble beside the agent, by its code.
    troubles: BTreeMap<&'static str, u64>,
    log: Option<Arc<dyn Log>>,
    /// Events on their way into the log.
    keeping: Option<(Appending, Batch, usize)>,
    /// What the session went on with when it began.
    past: Arc<[Event]>,
}

/// What woke the driver up.
enum Woken {
    Asked(Box<Wish>),
    Life(Sign),
    Wrote,
    InputLost(std::io::Error),
    Kept(Result<(), LogError>),
    Done(Done),
    Beside(Met),
    CallerGone,
    Time,
}

impl Driver {
    fn new(beginning: Beginning, caller: Caller) -> Self {
        let Beginning { spec, dialect, host, id, .. } = &beginning;
        let asks = if host.asker().is_some() { Asks::Somebody } else { spec.asks };
        let workspace = beginning.dir.display().to_string();
        let machine = Machine::new(spec.limits.clone(), spec.after_turn).able(dialect.capabilities()).ruled(
            spec.policy.clone(),
            workspace,
            asks,
        );
        let mut mind = Mind::new(id.clone(), Box::new(Nobody), machine);
        if spec.policy.is_some() {
            mind = mind.ruled(*dialect);
        }
        let work = Work::new(host, caller.submissions.clone(), Files::new(host, &beginning.dir, spec));
        // Before anything is started: a log that cannot be opened must not hold up an agent that runs already.
        let log = keep::open_log(&beginning, &mut mind, &caller.shared);
        let kept = log.as_ref().and_then(|log| log.raw(id));
        let copies = [(&spec.raw_log, Bound::None), (&kept, Bound::stored(spec.limits.raw_bytes))];
        let copies = copies.into_iter().filter_map(|(path, bound)| Some((path.as_ref()?, bound)));
        let copies = copies.map(|(path, bound)| RawLog::open(path, bound, &mut mind)).collect();
        let past = beginning.spec.past.clone();
        Self {
            past,
            mind,
            beginning,
            caller,
            leashed: true,
            life: Life::Asleep,
            input_lost: None,
            starts: 0,
            again: None,
            copies,
            raw: (0, 0),
            work,
            aside: Aside::new(),
            told_no_bridge: false,
            troubles: BTreeMap::new(),
            log,
            keeping: None,
        }
    }

    async fn drive(mut self) {
        let mut buffers = (vec![0; CHUNK], vec![0; CHUNK / 8]);
        self.obey();
        while !self.mind.ended() {
            self.publish();
            match self.sleep((&mut buffers.0, &mut buffers.1)).await {
                Woken::Asked(wish) => self.wish(*wish),
                Woken::Life(sign) => self.live(sign, &buffers),
                Woken::Kept(result) => self.kept(result),
                Woken::Done(done) => self.done(done),
                Woken::Beside(met) => self.met(met),
                Woken::CallerGone => {
                    self.leashed = false;
                    self.mind.handle(Input::Stop);
                }
                Woken::Wrote => {}
                // An agent that exits explains itself by its exit, which may be a moment away.
                Woken::InputLost(error) => {
                    let until = self.mind.clock.now() + LAST_WORDS;
                    self.input_lost = Some((error, self.mind.clock.instant(until)));
                }
                Woken::Time => {
                    self.catch_up(&mut buffers.0).await;
                    self.report_lost_input();
                    self.mind.handle(Input::Tick);
                }
            }
            self.obey();
            self.leave_if_over();
            self.obey();
        }
        if let Life::Awake(living) = &mut self.life
            && living.exit.is_none()
        {
            living.control.abandon();
        }
        self.aside.close();
        self.refuse_the_rest();
        self.tell_the_rest().await;
    }

    // --- the caller ---------------------------------------------------------------------------------------------

    fn wish(&mut self, wish: Wish) {
        let Wish { input, ticket } = wish;
        if let Life::Starting(starting) = &mut self.life {
            // An interrupt is kept until there is somebody to interrupt; a start can be called off.
            match input {
                Input::Interrupt if self.mind.machine.has_message() || self.again.is_some() => {
                    starting.interrupted = true;
                    ticket.into_iter().for_each(|ticket| self.mind.tickets.push(ticket));
                    return;
                }
                Input::Stop | Input::Kill => {
                    let error = SpawnError::CalledOff(Interrupted(starting.interrupted));
                    self.life = Life::Asleep;
                    self.not_started(error.outcome(None));
                    return self.mind.handle(Input::Stop);
                }
                _ => {}
            }
        }
        ticket.into_iter().for_each(|ticket| self.mind.tickets.push(ticket));
        self.mind.handle(input);
    }

    /// What was asked and not heard before the end is refused: nothing is lost without a word.
    fn refuse_the_rest(&mut self) {
        self.caller.inbox.close();
        while let Ok(wish) = self.caller.inbox.try_recv() {
            if let Input::Send(_) | Input::Steer(_) | Input::SendNow(_) = wish.input {
                let why = "the session ended before the message was delivered".to_owned();
                self.mind.add(Refused { request: "send".into(), why, code: "ending".into() }.into());
            }
        }
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Answered(id, answer) => {
                self.work.is_done(&id);
                self.mind.handle(Input::Answered(id, answer));
            }
            Done::Tool { id, ok, output } => {
                self.work.is_done(&id);
                self.mind.say(Say::ToolDone { id, ok, output });
            }
            Done::File(id, result) => self.mind.say(Say::FileDone { id, result }),
            Done::Progress { id, message } => {
                self.mind.handle(Input::Remark(Notice::new(Level::Info, "tool_progress", message.clone())));
                self.mind.say(Say::ToolProgress { id, message });
            }
        }
    }

    // --- the agent ----------------------------------------------------------------------------------------------

    /// Does what the machine wants done.
    fn obey(&mut self) {
        while !self.mind.orders.is_empty() {
            for order in std::mem::take(&mut self.mind.orders) {
                self.follow(order);
            }
        }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Spawn if self.mind.ended() => {}
            Order::Spawn => self.start(),
            Order::Ask(question) => self.work.ask(question),
            Order::Asked(id) | Order::ToolOff(id) => self.work.call_off(&id),
            Order::Tool(order) => self.work.run(order),
            Order::File(order) => self.work.file(order),
            Order::WriteAside(to, line) => self.answer_aside(to, line),
            Order::Adopt(Change::Model(model)) => self.beginning.spec.settings.set(keys::MODEL, model),
            Order::Adopt(Change::PermissionMode(mode)) => {
                self.beginning.spec.settings.set(keys::PERMISSION_MODE, mode);
            }
            Order::TurnEnded(outcome) => self.beginning.breaker.record(&outcome),
            Order::Terminate | Order::Kill | Order::Freeze | Order::Thaw => {
                let Some(living) = self.life.living() else { return };
                match order {
                    Order::Terminate => living.control.terminate(),
                    Order::Kill => living.control.kill(),
                    Order::Freeze => living.control.freeze(),
                    _ => living.control.thaw(),
                }
            }
        }
    }

    fn live(&mut self, sign: Sign, (stdout, stderr): &(Vec<u8>, Vec<u8>)) {
        match sign {
            Sign::Started(Ok(child)) => return self.awake(child),
            Sign::Started(Err(error)) => {
                self.life = Life::Asleep;
                return self.not_started(error.outcome(self.beginning.install_hint));
            }
            Sign::Stdout(Ok(n @ 1..)) => return self.read(&stdout[..n]),
            _ => {}
        }
        let until = self.mind.clock.instant(self.mind.clock.now() + LAST_WORDS);
        let Some(living) = self.life.living() else { return };
        match sign {
            Sign::Stdout(_) => living.stdout = None,
            Sign::Stderr(Ok(n @ 1..)) => living.errors.push(&stderr[..n]),
            Sign::Stderr(_) => living.stderr = None,
            Sign::Exited(status) => living.exit = Some((status, until)),
            Sign::Started(_) => {}
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.caller.shared.heard(clock::wall());
        for copy in &mut self.copies {
            copy.write(bytes, &mut self.mind);
        }
        self.raw.1 += bytes.len() as u64;
        let (mind, before) = (&mut self.mind, self.raw.0);
        if let Life::Awake(living) = &mut self.life {
            living.lines.push_placed(bytes, |line, at| {
                mind.out.raw_offset = before + at;
                mind.hear(line);
            });
        }
    }

    /// Reports an agent that runs on without reading its input: no message can reach it any more.
    fn report_lost_input(&mut self) {
        let now = self.mind.clock.instant(self.mind.clock.now());
        let lost = self.input_lost.take_if(|(_, until)| *until <= now);
        let runs = self.life.living().is_some_and(|living| living.exit.is_none());
        if let Some((error, _)) = lost.filter(|_| runs) {
            let name = self.beginning.dialect.name();
            let message = format!(
                "Cannot write to the stdin of {name}: {error}. It runs, but does not read its input: no message reaches it."
            );
            self.mind.handle(Input::Remark(Notice::new(Level::Warning, "input_lost", message)));
        }
    }

    /// Before time is called, what was said in time is heard: this process may have been stopped for a while, or busy.
    async fn catch_up(&mut self, buffer: &mut [u8]) {
        if !self.mind.out.has_room(appending(&self.keeping)) {
            self.mind.handle(Input::Activity); // it is the log that is slow, not the agent
        }
        self.catch_up_beside().await;
        for _ in 0..CATCH_UP {
            let Some(living) = self.life.living() else { return };
            match tokio::time::timeout(Duration::ZERO, life::read(&mut living.stdout, buffer)).await {
                Ok(Ok(n @ 1..)) => self.read(&buffer[..n]),
                Ok(_) => return living.stdout = None,
                Err(_) => return,
            }
        }
    }

    /// Once the process is gone and its last words are read, its part in the session is over.
    fn leave_if_over(&mut self) {
        let now = self.mind.clock.instant(self.mind.clock.now());
        let Some(living) = self.life.living() else { return };
        let Some((status, until)) = living.exit else { return };
        if !living.is_drained() && now < until {
            return;
        }
        let Life::Awake(mut living) = std::mem::replace(&mut self.life, Life::Asleep) else { return };
        self.caller.shared.set_pid(0);
        self.input_lost = None;
        let (mind, before) = (&mut self.mind, self.raw.0);
        living.lines.finish_placed(|line, at| {
            mind.out.raw_offset = before + at;
            mind.hear(line);
        });
        self.raw = (self.raw.0 + self.raw.1, 0);
        self.work.clear();
        self.close_aside();
        for remark in living.control.remarks() {
            self.mind.handle(Input::Remark(remark));
        }
        let exit = Exit { code: status.code, signal: status.signal, stderr: living.errors.text() };
        if !self.tries_another(&exit) {
            self.mind.finish(exit);
        }
    }

    /// Waits for the next thing to happen. Each branch can be dropped without losing anything.
    async fn sleep(&mut self, (stdout, stderr): (&mut [u8], &mut [u8])) -> Woken {
        let Mind { clock, machine, stdin, out, .. } = &mut self.mind;
        let exit = if let Life::Awake(living) = &self.life { living.exit } else { None };
        let input_lost = self.input_lost.as_ref().map(|(_, until)| *until);
        let wake = machine.deadline().map(|at| clock.instant(at));
        let wake = wake.into_iter().chain(exit.map(|(_, until)| until)).chain(input_lost).min();
        // What a process leaves in its pipe is little, and must be read before the session ends, reader or not.
        let backlog = self.caller.shared.backlog.clone();
        let may_read = (out.has_room(appending(&self.keeping)) && backlog.has_room()) || exit.is_some();
        tokio::select! {
            result = kept(&mut self.keeping), if self.keeping.is_some() => Woken::Kept(result),
            Some(wish) = self.caller.inbox.recv() => Woken::Asked(Box::new(wish)),
            _ = &mut self.caller.leash, if self.leashed => Woken::CallerGone,
            sign = self.life.sign(may_read, stdout, stderr) => Woken::Life(sign),
            done = self.work.next() => Woken::Done(done),
            met = self.aside.next(may_read), if self.life.is_awake() => Woken::Beside(met),
            wrote = stdin.write(), if stdin.wants_to_write() => wrote.map_or_else(Woken::InputLost, |()| Woken::Wrote),
            () = backlog.room(), if !may_read => Woken::Wrote, // the reader has come along: there may be room again
            () = until(wake), if wake.is_some() => Woken::Time,
        }
    }
}

async fn kept(keeping: &mut Option<(Appending, Batch, usize)>) -> Result<(), LogError> {
    match keeping {
        Some((appending, ..)) => appending.as_mut().await,
        None => std::future::pending().await,
    }
}

/// The size of the events on their way into the log.
fn appending(keeping: &Option<(Appending, Batch, usize)>) -> usize {
    keeping.as_ref().map_or(0, |(_, _, bytes)| *bytes)
}

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Stands in for a conversation until there is somebody to talk to.
struct Nobody;

impl Conversation for Nobody {
    fn open(&mut self, _: &mut ostler_core::dialect::Outbox) {}
    fn say(&mut self, _: Say, _: &mut ostler_core::dialect::Outbox) {}
    fn hear(&mut self, _: &str, _: &mut ostler_core::dialect::Outbox) {}
    fn finish(&mut self, _: &Exit, _: &mut ostler_core::dialect::Outbox) {}
}
