//! Session driver: the task that owns the child process and runs the session loop.
//!
//! It waits for the next [`Wakeup`], passes it to the [`Engine`], and performs the [`Action`]s that
//! the engine requests.

mod bridge;
mod persist;
mod spawn;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::{Action, Conversation, Exit, Outbox, ToAgent};
use ostler_core::event::{Level, Notice, NoticeCode, RefusalCode, Refused, RequestKind};
use ostler_core::log::{Log, LogError};
use ostler_core::machine::{Input, Machine};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::Attendance;
use tokio::sync::oneshot;

use super::SessionSetup;
use super::bridge_server::{BridgeEvent, BridgeServer};
use super::child::{self, ChildEvent, ChildState};
use super::engine::Engine;
use super::files::Files;
use super::inbox::Inbox;
use super::jobs::{JobResult, Jobs};
use super::launch_state::LaunchState;
use super::raw_log::{Bound, RawLog};
use super::remote::Request;
use super::status::Shared;
use super::stdin::StdinQueue;
use super::timer::Timer;
use super::tool_results::Submissions;
use crate::clock;
use crate::process::{Interrupted, SpawnError};
use persist::PendingAppends;

/// Maximum number of catch-up reads before a deadline is applied: enough to drain a full pipe.
const CATCH_UP_READS: usize = 32;

/// How long to wait for the remaining output of a process that has exited, and for an exit that
/// explains a failed write to stdin.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// Returns the outcome of a session whose driver ended without one, which is a bug in Ostler.
pub(super) fn lost_outcome() -> Outcome {
    Outcome::new(
        Cause::Protocol,
        "The session ended without an outcome; this is a bug in Ostler.",
    )
}

/// The driver's ends of the channels to the session handle.
pub(super) struct Caller {
    pub(super) inbox: Inbox,
    /// Resolves when the session handle is dropped, which stops the session.
    pub(super) dropped: oneshot::Receiver<()>,
    pub(super) shared: Arc<Shared>,
    pub(super) submissions: Arc<Submissions>,
}

/// Runs a session from its start to its final event.
pub(super) async fn run(setup: Box<SessionSetup>, caller: Caller) {
    let _close = CloseBacklog(caller.shared.clone());
    // Boxed, so that the task's future does not reserve space for it more than once.
    let mut driver = Box::new(Driver::new(setup, caller));
    let prompt = std::mem::take(&mut driver.setup.spec.prompt);
    let approved = std::mem::take(&mut driver.setup.spec.approved_calls);
    if !approved.is_empty() {
        driver.engine.handle(Input::Approve(approved));
    } else if !prompt.is_empty() {
        driver.engine.handle(Input::Send(prompt));
    }
    for message in std::mem::take(&mut driver.setup.spec.follow_ups) {
        driver.engine.handle(Input::Send(message));
    }
    driver.engine.handle(Input::Start);
    driver.drive().await;
}

/// Closes the backlog however the task ends, so that no reader waits forever.
struct CloseBacklog(Arc<Shared>);

impl Drop for CloseBacklog {
    fn drop(&mut self) {
        self.0.backlog.close();
    }
}

/// The driver of one session, which owns the child, its streams, the timers and the caller's
/// requests.
struct Driver {
    engine: Engine,
    setup: Box<SessionSetup>,
    caller: Caller,
    /// Whether the session handle still exists.
    has_caller: bool,
    child: ChildState,
    stdin: StdinQueue,
    /// A failed write to the child's stdin, and the deadline for an exit that would explain it.
    stdin_error: Option<(std::io::Error, tokio::time::Instant)>,
    /// Number of spawns so far with the current transport.
    spawns: u32,
    /// `Some` while the fallback transport is being started. Contains the prompt already sent over
    /// the first transport, if any.
    fallback: Option<Option<String>>,
    raw_logs: Vec<RawLog>,
    raw_bytes: RawBytes,
    jobs: Jobs,
    bridge: BridgeServer,
    /// Whether a missing bridge has been reported.
    reported_no_bridge: bool,
    /// Number of bridge problems, by notice code.
    bridge_problems: BTreeMap<NoticeCode, u64>,
    log: Option<Arc<dyn Log>>,
    appending: PendingAppends,
    /// Waits for the next deadline.
    timer: Timer,
    /// Whether a batch was published and readers have not had a chance to run since.
    has_published: bool,
    /// Changes made during the session that apply to the next launch.
    state: LaunchState,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.hand_over();
    }
}

/// Number of bytes read from stdout.
#[derive(Default, PartialEq, Eq)]
struct RawBytes {
    /// From earlier processes of the session.
    earlier: u64,
    /// From the current one.
    current: u64,
}

/// A reason for the driver to wake up.
enum Wakeup {
    Request(Box<Request>),
    Child(ChildEvent),
    StdinWritten,
    StdinFailed(std::io::Error),
    Persisted(Result<(), LogError>),
    Job(JobResult),
    Bridge(BridgeEvent),
    /// The session's own reader advanced, so there may be room for more events.
    ReaderAdvanced,
    CallerDropped,
    Deadline,
}

impl Driver {
    fn new(setup: Box<SessionSetup>, caller: Caller) -> Self {
        let SessionSetup {
            spec,
            dialect,
            host,
            id,
            ..
        } = &*setup;
        let attendance = if host.permission_handler().is_some() {
            Attendance::Attended
        } else {
            spec.attendance
        };
        let workspace = setup.dir.display().to_string();
        let machine = Machine::new(spec.limits.clone(), spec.after_turn)
            .with_capabilities(dialect.about().capabilities)
            .with_policy(spec.policy.clone(), workspace, attendance);
        let mut engine = Engine::new(id.clone(), Box::new(NoConversation), machine);
        if spec.policy.is_some() {
            engine = engine.with_classifier(*dialect);
        }
        let jobs = Jobs::new(host, caller.submissions.clone());
        // Open the log before the agent starts: opening it may block.
        let log = persist::open_log(&setup, &mut engine, &caller.shared);
        let stored = log.as_ref().and_then(|log| log.raw(id));
        let raw_logs = [
            (&spec.raw_log, Bound::None),
            (&stored, Bound::stored(spec.limits.raw_bytes)),
        ];
        let raw_logs = raw_logs
            .into_iter()
            .filter_map(|(path, bound)| Some((path.as_ref()?, bound)))
            .map(|(path, bound)| RawLog::open(path, bound, &mut engine))
            .collect();
        if dialect.about().capabilities.resumes_from_events {
            caller.shared.backlog.keep_history();
        }
        let state = LaunchState::new(setup.past.clone());
        Self {
            state,
            engine,
            setup,
            caller,
            has_caller: true,
            child: ChildState::NotRunning,
            stdin: StdinQueue::new(None),
            stdin_error: None,
            spawns: 0,
            fallback: None,
            raw_logs,
            raw_bytes: RawBytes::default(),
            jobs,
            bridge: BridgeServer::new(),
            reported_no_bridge: false,
            bridge_problems: BTreeMap::new(),
            log,
            appending: PendingAppends::default(),
            timer: Timer::default(),
            has_published: false,
        }
    }

    async fn drive(&mut self) {
        self.run_actions();
        while !self.engine.has_ended() {
            self.publish();
            if std::mem::take(&mut self.has_published) {
                // On a single-threaded runtime, readers would otherwise fall behind.
                tokio::task::yield_now().await;
                self.caller.shared.backlog.evict();
            }
            self.start_appends();
            if !self.engine.in_turn() {
                self.engine.shrink();
            }
            match self.next_wakeup().await {
                Wakeup::Request(request) => self.on_request(*request),
                Wakeup::Child(event) => self.on_child_event(event),
                Wakeup::Persisted(result) => self.on_persisted(result),
                Wakeup::Job(result) => self.on_job_result(result),
                Wakeup::Bridge(event) => self.on_bridge_event(event),
                Wakeup::CallerDropped => {
                    self.has_caller = false;
                    self.engine.handle(Input::Stop);
                }
                Wakeup::StdinWritten | Wakeup::ReaderAdvanced => {}
                // If the agent is exiting, its exit status explains the failed write better.
                Wakeup::StdinFailed(error) => {
                    let until = self.engine.clock.now() + EXIT_GRACE;
                    self.stdin_error = Some((error, self.engine.clock.instant(until)));
                }
                Wakeup::Deadline => {
                    self.catch_up().await;
                    self.report_stdin_error();
                    self.engine.handle(Input::Tick);
                }
            }
            self.run_actions();
            self.reap_child();
            self.run_actions();
        }
        if let ChildState::Running(running) = &mut self.child
            && running.exit.is_none()
        {
            running.control.abandon();
        }
        self.bridge.close();
        self.refuse_unread_requests();
        self.publish_remaining().await;
    }

    // --- requests and jobs --------------------------------------------------------------------

    fn on_request(&mut self, request: Request) {
        let Request { input, pending } = request;
        if let Some(pending) = pending {
            self.engine.register(pending);
        }
        if let ChildState::Starting(starting) = &mut self.child {
            // An interrupt waits until the agent can handle it; a stop cancels the start.
            match input {
                Input::Interrupt(request)
                    if self.engine.machine.has_message() || self.fallback.is_some() =>
                {
                    return starting.interrupts.push(request);
                }
                Input::Stop | Input::Kill => {
                    let interrupted = Interrupted(!starting.interrupts.is_empty());
                    let error = SpawnError::Cancelled(interrupted);
                    self.on_spawn_failed(error.outcome(None));
                    return self.engine.handle(Input::Stop);
                }
                _ => {}
            }
        }
        self.engine.handle(input);
    }

    /// Refuses messages that arrived too late to be read, so that none is lost silently.
    fn refuse_unread_requests(&mut self) {
        self.caller.inbox.close();
        while let Some(request) = self.caller.inbox.take() {
            if let Input::Send(_) | Input::Steer(_) | Input::SendNow(_) | Input::Approve(_) =
                request.input
            {
                let refused = Refused {
                    request: RequestKind::Send,
                    why: "the session ended before the message was delivered".to_owned(),
                    code: RefusalCode::Ending,
                };
                self.engine.emit_late(refused.into());
            }
        }
    }

    fn on_job_result(&mut self, result: JobResult) {
        match result {
            JobResult::Permission(id, answer) => {
                self.jobs.forget(&id);
                let request = None;
                self.engine.handle(Input::PermissionAnswered {
                    id,
                    answer,
                    request,
                });
            }
            JobResult::Tool { id, ok, output } => {
                self.jobs.forget(&id);
                self.engine.send(ToAgent::ToolDone { id, ok, output });
            }
            JobResult::File(id, result) => self.engine.send(ToAgent::FileDone { id, result }),
            JobResult::Progress { id, message } => {
                self.notice(Level::Info, NoticeCode::ToolProgress, message.clone());
                self.engine.send(ToAgent::ToolProgress { id, message });
            }
        }
    }

    /// Emits a notice from Ostler itself.
    fn notice(&mut self, level: Level, code: NoticeCode, message: impl Into<String>) {
        self.engine
            .handle(Input::Notice(Notice::new(level, code, message)));
    }

    // --- actions ------------------------------------------------------------------------------

    /// Performs the engine's actions until none are left.
    fn run_actions(&mut self) {
        while let Some(action) = self.engine.actions.pop_front() {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Spawn if self.engine.has_ended() => {}
            Action::Spawn => self.spawn(),
            Action::Write(bytes) => self.stdin.push(bytes),
            Action::CloseInput => self.stdin.close(),
            Action::AskHandler(permission) => self.jobs.ask(permission),
            Action::CancelAsk(id) | Action::CancelTool(id) => self.jobs.cancel(&id),
            Action::RunTool(job) => self.jobs.run_tool(job),
            Action::AccessFile(job) => {
                let SessionSetup {
                    host, dir, spec, ..
                } = &*self.setup;
                self.jobs.access_file(job, || Files::new(host, dir, spec));
            }
            Action::WriteBridge { to, line } => self.write_bridge(to, line),
            Action::Adopt(change) => self.state.adopt(change),
            Action::RecordTurn(outcome) => self.setup.breaker.record(&outcome),
            Action::Terminate | Action::Kill | Action::Freeze | Action::Thaw => {
                let Some(running) = self.child.running() else {
                    return;
                };
                match action {
                    Action::Terminate => running.control.terminate(),
                    Action::Kill => running.control.kill(),
                    Action::Freeze => running.control.freeze(),
                    _ => running.control.thaw(),
                }
            }
        }
    }

    // --- the child ----------------------------------------------------------------------------

    fn on_child_event(&mut self, event: ChildEvent) {
        let event = match event {
            ChildEvent::Started(Ok(child)) => return self.on_spawned(child),
            ChildEvent::Started(Err(error)) => {
                return self.on_spawn_failed(error.outcome(self.setup.install_hint));
            }
            ChildEvent::Stdout(Ok(chunk)) if !chunk.is_empty() => return self.on_stdout(&chunk),
            other => other,
        };
        let clock = self.engine.clock;
        let until = clock.instant(clock.now() + EXIT_GRACE);
        let Some(running) = self.child.running() else {
            return;
        };
        match event {
            ChildEvent::Stdout(_) => running.stdout = None,
            ChildEvent::Stderr(Ok(chunk)) if !chunk.is_empty() => running.errors.push(&chunk),
            ChildEvent::Stderr(_) => running.stderr = None,
            ChildEvent::Exited(status) => running.exit = Some((status, until)),
            ChildEvent::Started(_) => {}
        }
    }

    fn on_stdout(&mut self, bytes: &[u8]) {
        let at = clock::wall();
        self.caller.shared.set_last_activity(at);
        for raw_log in &mut self.raw_logs {
            raw_log.write(bytes, &mut self.engine);
        }
        self.raw_bytes.current += bytes.len() as u64;
        let base = self.raw_bytes.earlier;
        if let ChildState::Running(running) = &mut self.child {
            self.engine.handle_chunk(at, |engine| {
                running.lines.push_with_offset(bytes, |line, offset| {
                    engine.events.raw_offset = base + offset;
                    engine.on_line(line);
                });
            });
        }
    }

    /// Warns if the agent is still running although its stdin is broken.
    fn report_stdin_error(&mut self) {
        let now = self.engine.clock.instant(self.engine.clock.now());
        let error = self.stdin_error.take_if(|(_, until)| *until <= now);
        let is_running = self
            .child
            .running()
            .is_some_and(|running| running.exit.is_none());
        if let Some((error, _)) = error.filter(|_| is_running) {
            let name = self.setup.dialect.about().name;
            let message = format!(
                "Cannot write to the stdin of {name}: {error}. \
                 The process is still running, but messages no longer reach it."
            );
            self.notice(Level::Warning, NoticeCode::InputLost, message);
        }
    }

    /// Reads output that arrived before the deadline but went unread because this process was
    /// suspended or busy.
    async fn catch_up(&mut self) {
        let has_room = self.caller.shared.backlog.has_room();
        if !has_room || !self.engine.events.has_room(self.appending.bytes()) {
            self.engine.handle(Input::Activity); // the log or the reader is slow, not the agent
        }
        self.catch_up_bridge().await;
        for _ in 0..CATCH_UP_READS {
            let Some(running) = self.child.running() else {
                return;
            };
            let read = child::read(&mut running.stdout);
            match tokio::time::timeout(Duration::ZERO, read).await {
                Ok(Ok(chunk)) if !chunk.is_empty() => self.on_stdout(&chunk),
                Ok(_) => return running.stdout = None,
                Err(_) => return,
            }
        }
    }

    /// Handles the child's exit once its output is drained or [`EXIT_GRACE`] has passed.
    fn reap_child(&mut self) {
        let clock = self.engine.clock;
        let Some(running) = self.child.running() else {
            return;
        };
        let Some((status, until)) = running.exit else {
            return;
        };
        if !running.is_drained() && clock.instant(clock.now()) < until {
            return;
        }
        let ChildState::Running(mut running) =
            std::mem::replace(&mut self.child, ChildState::NotRunning)
        else {
            return;
        };
        self.caller.shared.set_pid(0);
        self.stdin_error = None;
        let (engine, base) = (&mut self.engine, self.raw_bytes.earlier);
        running.lines.finish_with_offset(|line, offset| {
            engine.events.raw_offset = base + offset;
            engine.on_line(line);
        });
        self.raw_bytes.earlier += std::mem::take(&mut self.raw_bytes.current);
        self.jobs.clear();
        self.close_bridge();
        for notice in running.control.take_notices() {
            self.engine.handle(Input::Notice(notice));
        }
        let exit = Exit {
            code: status.code,
            signal: status.signal,
            stderr: running.errors.text(),
        };
        if !self.try_fallback_transport(&exit) {
            self.engine.on_exit(exit);
        }
    }

    /// Waits for the next wakeup. Every branch is cancel safe.
    async fn next_wakeup(&mut self) -> Wakeup {
        let appending_bytes = self.appending.bytes();
        let Engine {
            clock,
            machine,
            events,
            ..
        } = &mut self.engine;
        let exit = if let ChildState::Running(running) = &self.child {
            running.exit
        } else {
            None
        };
        let deadline = machine
            .deadline()
            .map(|at| clock.instant(at))
            .into_iter()
            .chain(exit.map(|(_, until)| until))
            .chain(self.stdin_error.as_ref().map(|(_, until)| *until))
            .min();
        // A process that has exited leaves at most a full pipe, which is read even without room.
        let backlog = self.caller.shared.backlog.clone();
        let has_room =
            events.has_room(appending_bytes) && self.appending.has_room() && backlog.has_room();
        let may_read = has_room || exit.is_some();
        tokio::select! {
            result = self.appending.next(), if !self.appending.is_empty() => {
                Wakeup::Persisted(result)
            }
            request = self.caller.inbox.next() => Wakeup::Request(request),
            _ = &mut self.caller.dropped, if self.has_caller => Wakeup::CallerDropped,
            event = self.child.event(may_read) => Wakeup::Child(event),
            result = self.jobs.next() => Wakeup::Job(result),
            event = self.bridge.next(may_read), if self.child.is_running() => Wakeup::Bridge(event),
            written = self.stdin.write(), if self.stdin.wants_to_write() => {
                written.map_or_else(Wakeup::StdinFailed, |()| Wakeup::StdinWritten)
            }
            () = backlog.reader_advanced(), if !may_read => Wakeup::ReaderAdvanced,
            () = self.timer.wait_until(deadline) => Wakeup::Deadline,
        }
    }
}

/// Placeholder conversation until a child is running.
struct NoConversation;

impl Conversation for NoConversation {
    fn on_start(&mut self, _: &mut Outbox) {}
    fn send(&mut self, _: ToAgent, _: &mut Outbox) {}
    fn on_line(&mut self, _: &str, _: &mut Outbox) {}
    fn on_exit(&mut self, _: &Exit, _: &mut Outbox) {}
}
