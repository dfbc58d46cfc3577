//! The task of one session: reads, asks the machine, does what it says. It alone owns the child.

mod bridge;
mod persist;
mod start;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::{Change, Conversation, Exit, ToAgent};
use ostler_core::event::{Event, Level, Notice, Refused};
use ostler_core::log::{Appending, Log, LogError};
use ostler_core::machine::{Input, Machine};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::{Attendance, keys};
use tokio::sync::{mpsc, oneshot};

use super::SessionSetup;
use super::backlog::Batch;
use super::bridge_server::{BridgeEvent, BridgeServer};
use super::child::{self, ChildEvent, ChildState};
use super::engine::{Engine, Order};
use super::files::Files;
use super::jobs::{JobResult, Jobs};
use super::raw_log::{Bound, RawLog};
use super::remote::Request;
use super::status::Shared;
use super::tool_results::Submissions;
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
    Outcome::new(
        Cause::Protocol,
        "The session ended without saying how; this is a fault in Ostler.",
    )
}

/// What the caller holds, seen from the task.
pub(super) struct Caller {
    pub(super) inbox: mpsc::UnboundedReceiver<Request>,
    /// Resolves when the session was dropped: nobody can end it any more, so it ends.
    pub(super) leash: oneshot::Receiver<()>,
    pub(super) shared: Arc<Shared>,
    pub(super) submissions: Arc<Submissions>,
}

/// Runs a session from its first state to its last event.
pub(super) async fn run(setup: SessionSetup, caller: Caller) {
    let _finish = Finish(caller.shared.clone());
    let mut driver = Driver::new(setup, caller);
    let prompt = std::mem::take(&mut driver.setup.spec.prompt);
    if !prompt.is_empty() {
        driver.engine.handle(Input::Send(prompt));
    }
    driver.engine.handle(Input::Start);
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
    engine: Engine,
    setup: SessionSetup,
    caller: Caller,
    leashed: bool,
    child: ChildState,
    /// Why the agent's stdin cannot be written any more, and until when its exit may explain it.
    input_lost: Option<(std::io::Error, tokio::time::Instant)>,
    /// How often the agent was started.
    starts: u32,
    /// Set while another language is tried: what was said in the first.
    again: Option<Option<String>>,
    copies: Vec<RawLog>,
    /// How much of the agent's output earlier processes of the session have printed, and this one.
    raw: (u64, u64),
    jobs: Jobs,
    bridge: BridgeServer,
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
enum Wakeup {
    Asked(Box<Request>),
    ChildState(ChildEvent),
    Wrote,
    InputLost(std::io::Error),
    Kept(Result<(), LogError>),
    JobResult(JobResult),
    Bridge(BridgeEvent),
    CallerGone,
    Time,
}

impl Driver {
    fn new(setup: SessionSetup, caller: Caller) -> Self {
        let SessionSetup {
            spec,
            dialect,
            host,
            id,
            ..
        } = &setup;
        let attendance = if host.permission_handler().is_some() {
            Attendance::Attended
        } else {
            spec.attendance
        };
        let workspace = setup.dir.display().to_string();
        let machine = Machine::new(spec.limits.clone(), spec.after_turn)
            .able(dialect.capabilities())
            .ruled(spec.policy.clone(), workspace, attendance);
        let mut engine = Engine::new(id.clone(), Box::new(NoConversation), machine);
        if spec.policy.is_some() {
            engine = engine.ruled(*dialect);
        }
        let jobs = Jobs::new(
            host,
            caller.submissions.clone(),
            Files::new(host, &setup.dir, spec),
        );
        // Before anything is started: a log that cannot be opened must not hold up an agent that runs already.
        let log = persist::open_log(&setup, &mut engine, &caller.shared);
        let kept = log.as_ref().and_then(|log| log.raw(id));
        let copies = [
            (&spec.raw_log, Bound::None),
            (&kept, Bound::stored(spec.limits.raw_bytes)),
        ];
        let copies = copies
            .into_iter()
            .filter_map(|(path, bound)| Some((path.as_ref()?, bound)));
        let copies = copies
            .map(|(path, bound)| RawLog::open(path, bound, &mut engine))
            .collect();
        let past = setup.spec.past.clone();
        Self {
            past,
            engine,
            setup,
            caller,
            leashed: true,
            child: ChildState::NotRunning,
            input_lost: None,
            starts: 0,
            again: None,
            copies,
            raw: (0, 0),
            jobs,
            bridge: BridgeServer::new(),
            told_no_bridge: false,
            troubles: BTreeMap::new(),
            log,
            keeping: None,
        }
    }

    async fn drive(mut self) {
        let mut buffers = (vec![0; CHUNK], vec![0; CHUNK / 8]);
        self.run_orders();
        while !self.engine.ended() {
            self.publish();
            match self.sleep((&mut buffers.0, &mut buffers.1)).await {
                Wakeup::Asked(request) => self.request(*request),
                Wakeup::ChildState(event) => self.on_child_event(event, &buffers),
                Wakeup::Kept(result) => self.kept(result),
                Wakeup::JobResult(done) => self.done(done),
                Wakeup::Bridge(on_bridge_event) => self.on_bridge_event(on_bridge_event),
                Wakeup::CallerGone => {
                    self.leashed = false;
                    self.engine.handle(Input::Stop);
                }
                Wakeup::Wrote => {}
                // An agent that exits explains itself by its exit, which may be a moment away.
                Wakeup::InputLost(error) => {
                    let until = self.engine.clock.now() + LAST_WORDS;
                    self.input_lost = Some((error, self.engine.clock.instant(until)));
                }
                Wakeup::Time => {
                    self.catch_up(&mut buffers.0).await;
                    self.report_lost_input();
                    self.engine.handle(Input::Tick);
                }
            }
            self.run_orders();
            self.leave_if_over();
            self.run_orders();
        }
        if let ChildState::Running(running) = &mut self.child
            && running.exit.is_none()
        {
            running.control.abandon();
        }
        self.bridge.close();
        self.refuse_the_rest();
        self.tell_the_rest().await;
    }

    // --- the caller ---------------------------------------------------------------------------------------------

    fn request(&mut self, request: Request) {
        let Request { input, request } = request;
        if let ChildState::StartingChild(starting) = &mut self.child {
            // An interrupt is kept until there is somebody to interrupt; a start can be called off.
            match input {
                Input::Interrupt if self.engine.machine.has_message() || self.again.is_some() => {
                    starting.interrupted = true;
                    request
                        .into_iter()
                        .for_each(|request| self.engine.pending.push(request));
                    return;
                }
                Input::Stop | Input::Kill => {
                    let error = SpawnError::CalledOff(Interrupted(starting.interrupted));
                    self.child = ChildState::NotRunning;
                    self.not_started(error.outcome(None));
                    return self.engine.handle(Input::Stop);
                }
                _ => {}
            }
        }
        request
            .into_iter()
            .for_each(|request| self.engine.pending.push(request));
        self.engine.handle(input);
    }

    /// What was asked and not heard before the end is refused: nothing is lost without a word.
    fn refuse_the_rest(&mut self) {
        self.caller.inbox.close();
        while let Ok(request) = self.caller.inbox.try_recv() {
            if let Input::Send(_) | Input::Steer(_) | Input::SendNow(_) = request.input {
                let why = "the session ended before the message was delivered".to_owned();
                self.engine.add(
                    Refused {
                        request: "send".into(),
                        why,
                        code: "ending".into(),
                    }
                    .into(),
                );
            }
        }
    }

    fn done(&mut self, done: JobResult) {
        match done {
            JobResult::Answered(id, answer) => {
                self.jobs.is_done(&id);
                self.engine.handle(Input::Answered(id, answer));
            }
            JobResult::Tool { id, ok, output } => {
                self.jobs.is_done(&id);
                self.engine.say(ToAgent::ToolDone { id, ok, output });
            }
            JobResult::File(id, result) => self.engine.say(ToAgent::FileDone { id, result }),
            JobResult::Progress { id, message } => {
                self.engine.handle(Input::Remark(Notice::new(
                    Level::Info,
                    "tool_progress",
                    message.clone(),
                )));
                self.engine.say(ToAgent::ToolProgress { id, message });
            }
        }
    }

    // --- the agent ----------------------------------------------------------------------------------------------

    /// Does what the machine wants done.
    fn run_orders(&mut self) {
        while !self.engine.orders.is_empty() {
            for order in std::mem::take(&mut self.engine.orders) {
                self.follow(order);
            }
        }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Spawn if self.engine.ended() => {}
            Order::Spawn => self.start(),
            Order::Ask(question) => self.jobs.ask(question),
            Order::Asked(id) | Order::ToolOff(id) => self.jobs.call_off(&id),
            Order::Tool(order) => self.jobs.run(order),
            Order::File(order) => self.jobs.file(order),
            Order::WriteBridge(to, line) => self.answer_aside(to, line),
            Order::Adopt(Change::Model(model)) => self.setup.spec.settings.set(keys::MODEL, model),
            Order::Adopt(Change::PermissionMode(mode)) => {
                self.setup.spec.settings.set(keys::PERMISSION_MODE, mode);
            }
            Order::TurnEnded(outcome) => self.setup.breaker.record(&outcome),
            Order::Terminate | Order::Kill | Order::Freeze | Order::Thaw => {
                let Some(running) = self.child.running() else {
                    return;
                };
                match order {
                    Order::Terminate => running.control.terminate(),
                    Order::Kill => running.control.kill(),
                    Order::Freeze => running.control.freeze(),
                    _ => running.control.thaw(),
                }
            }
        }
    }

    fn on_child_event(&mut self, event: ChildEvent, (stdout, stderr): &(Vec<u8>, Vec<u8>)) {
        match event {
            ChildEvent::Started(Ok(child)) => return self.awake(child),
            ChildEvent::Started(Err(error)) => {
                self.child = ChildState::NotRunning;
                return self.not_started(error.outcome(self.setup.install_hint));
            }
            ChildEvent::Stdout(Ok(n @ 1..)) => return self.read(&stdout[..n]),
            _ => {}
        }
        let until = self
            .engine
            .clock
            .instant(self.engine.clock.now() + LAST_WORDS);
        let Some(running) = self.child.running() else {
            return;
        };
        match event {
            ChildEvent::Stdout(_) => running.stdout = None,
            ChildEvent::Stderr(Ok(n @ 1..)) => running.errors.push(&stderr[..n]),
            ChildEvent::Stderr(_) => running.stderr = None,
            ChildEvent::Exited(status) => running.exit = Some((status, until)),
            ChildEvent::Started(_) => {}
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.caller.shared.heard(clock::wall());
        for copy in &mut self.copies {
            copy.write(bytes, &mut self.engine);
        }
        self.raw.1 += bytes.len() as u64;
        let (engine, before) = (&mut self.engine, self.raw.0);
        if let ChildState::Running(running) = &mut self.child {
            running.lines.push_placed(bytes, |line, at| {
                engine.out.raw_offset = before + at;
                engine.hear(line);
            });
        }
    }

    /// Reports an agent that runs on without reading its input: no message can reach it any more.
    fn report_lost_input(&mut self) {
        let now = self.engine.clock.instant(self.engine.clock.now());
        let lost = self.input_lost.take_if(|(_, until)| *until <= now);
        let runs = self
            .child
            .running()
            .is_some_and(|running| running.exit.is_none());
        if let Some((error, _)) = lost.filter(|_| runs) {
            let name = self.setup.dialect.name();
            let message = format!(
                "Cannot write to the stdin of {name}: {error}. It runs, but does not read its input: no message reaches it."
            );
            self.engine.handle(Input::Remark(Notice::new(
                Level::Warning,
                "input_lost",
                message,
            )));
        }
    }

    /// Before time is called, what was said in time is heard: this process may have been stopped for a while, or busy.
    async fn catch_up(&mut self, buffer: &mut [u8]) {
        if !self.engine.out.has_room(appending(&self.keeping)) {
            self.engine.handle(Input::Activity); // it is the log that is slow, not the agent
        }
        self.catch_up_beside().await;
        for _ in 0..CATCH_UP {
            let Some(running) = self.child.running() else {
                return;
            };
            match tokio::time::timeout(Duration::ZERO, child::read(&mut running.stdout, buffer))
                .await
            {
                Ok(Ok(n @ 1..)) => self.read(&buffer[..n]),
                Ok(_) => return running.stdout = None,
                Err(_) => return,
            }
        }
    }

    /// Once the process is gone and its last words are read, its part in the session is over.
    fn leave_if_over(&mut self) {
        let now = self.engine.clock.instant(self.engine.clock.now());
        let Some(running) = self.child.running() else {
            return;
        };
        let Some((status, until)) = running.exit else {
            return;
        };
        if !running.is_drained() && now < until {
            return;
        }
        let ChildState::Running(mut running) =
            std::mem::replace(&mut self.child, ChildState::NotRunning)
        else {
            return;
        };
        self.caller.shared.set_pid(0);
        self.input_lost = None;
        let (engine, before) = (&mut self.engine, self.raw.0);
        running.lines.finish_placed(|line, at| {
            engine.out.raw_offset = before + at;
            engine.hear(line);
        });
        self.raw = (self.raw.0 + self.raw.1, 0);
        self.jobs.clear();
        self.close_aside();
        for remark in running.control.remarks() {
            self.engine.handle(Input::Remark(remark));
        }
        let exit = Exit {
            code: status.code,
            signal: status.signal,
            stderr: running.errors.text(),
        };
        if !self.tries_another(&exit) {
            self.engine.finish(exit);
        }
    }

    /// Waits for the next thing to happen. Each branch can be dropped without losing anything.
    async fn sleep(&mut self, (stdout, stderr): (&mut [u8], &mut [u8])) -> Wakeup {
        let Engine {
            clock,
            machine,
            stdin,
            out,
            ..
        } = &mut self.engine;
        let exit = if let ChildState::Running(running) = &self.child {
            running.exit
        } else {
            None
        };
        let input_lost = self.input_lost.as_ref().map(|(_, until)| *until);
        let wake = machine.deadline().map(|at| clock.instant(at));
        let wake = wake
            .into_iter()
            .chain(exit.map(|(_, until)| until))
            .chain(input_lost)
            .min();
        // What a process leaves in its pipe is little, and must be read before the session ends, reader or not.
        let backlog = self.caller.shared.backlog.clone();
        let may_read =
            (out.has_room(appending(&self.keeping)) && backlog.has_room()) || exit.is_some();
        tokio::select! {
            result = kept(&mut self.keeping), if self.keeping.is_some() => Wakeup::Kept(result),
            Some(request) = self.caller.inbox.recv() => Wakeup::Asked(Box::new(request)),
            _ = &mut self.caller.leash, if self.leashed => Wakeup::CallerGone,
            event = self.child.event(may_read, stdout, stderr) => Wakeup::ChildState(event),
            done = self.jobs.next() => Wakeup::JobResult(done),
            on_bridge_event = self.bridge.next(may_read), if self.child.is_running() => Wakeup::Bridge(on_bridge_event),
            wrote = stdin.write(), if stdin.wants_to_write() => wrote.map_or_else(Wakeup::InputLost, |()| Wakeup::Wrote),
            () = backlog.room(), if !may_read => Wakeup::Wrote, // the reader has come along: there may be room again
            () = until(wake), if wake.is_some() => Wakeup::Time,
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

/// Placeholder conversation until a child is running.
struct NoConversation;

impl Conversation for NoConversation {
    fn on_start(&mut self, _: &mut ostler_core::dialect::Outbox) {}
    fn send(&mut self, _: ToAgent, _: &mut ostler_core::dialect::Outbox) {}
    fn on_line(&mut self, _: &str, _: &mut ostler_core::dialect::Outbox) {}
    fn on_exit(&mut self, _: &Exit, _: &mut ostler_core::dialect::Outbox) {}
}
