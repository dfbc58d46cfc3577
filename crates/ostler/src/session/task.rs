//! The task of one session: reads, asks the machine, does what it says. It alone owns the child.

use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ostler_core::clip::HeadTail;
use ostler_core::dialect::Exit;
use ostler_core::event::{Event, Level, Notice};
use ostler_core::lines::Lines;
use ostler_core::machine::{Input, Machine};
use ostler_core::outcome::{Cause, Outcome};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::mind::{Mind, Order};
use super::{Beginning, Body};
use crate::process::{self, Child, Control, ExitStatus, Interrupted, SpawnError};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// How many chunks that wait in the pipe are read before a limit is taken for reached: more than a pipe holds.
const CATCH_UP: usize = 32;

/// How long the last words of an agent are awaited after its process is gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How much of the beginning and of the end of stderr is kept.
const STDERR_HALF: usize = 4 * 1024;

/// The outcome of a session whose task vanished: a fault of Ostler itself.
pub(super) fn lost() -> Outcome {
    Outcome::new(Cause::Protocol, "The session ended without saying how; this is a fault in Ostler.")
}

/// Runs a session from its first state to its last event.
pub(super) async fn run(
    beginning: Beginning,
    mut inbox: mpsc::UnboundedReceiver<Input>,
    publish: mpsc::Sender<Vec<Event>>,
) {
    let Beginning { spec, conversation, body, install_hint, id, pid } = beginning;
    let mut mind = Mind::new(id, conversation, Machine::new(spec.limits.clone(), spec.after_turn));
    mind.handle(Input::Send(spec.prompt));
    mind.handle(Input::Start);
    // Before anything is started: a log that cannot be opened must not hold up an agent that runs already.
    let log = RawLog::open(spec.raw_log, &mut mind);
    let child = match body {
        Body::Inner(start) => start().map(|child| (child, Interrupted(false))).map_err(|e| e.outcome(install_hint)),
        Body::Process(prepared) => match *prepared {
            Ok(prepared) => {
                let patience = spec.limits.startup;
                let child = process::spawn(prepared);
                unless_called_off(child, patience, &mut inbox, &mut mind).await.map_err(|e| e.outcome(install_hint))
            }
            Err(error) => Err(error.outcome(install_hint)),
        },
    };
    match child {
        Ok((mut child, interrupted)) => {
            pid.store(child.pid.unwrap_or(0), Ordering::Relaxed);
            if let Some(remark) = child.remark.take() {
                mind.handle(Input::Remark(remark));
            }
            let mut driver = Driver::new(child, log, mind);
            if interrupted.0 {
                driver.mind.handle(Input::Interrupt);
            }
            driver.drive(inbox, publish).await;
        }
        Err(outcome) => {
            mind.handle(Input::SpawnFailed(outcome));
            let _ = publish.send(mind.out.take()).await;
        }
    }
}

/// Starting takes milliseconds, unless something is wrong with the machine; then the caller can still call it off. A start
/// that is dropped cleans up after itself. An interrupt is kept until there is somebody to interrupt.
async fn unless_called_off(
    start: impl Future<Output = Result<Child, SpawnError>>,
    patience: Option<Duration>,
    inbox: &mut mpsc::UnboundedReceiver<Input>,
    mind: &mut Mind,
) -> Result<(Child, Interrupted), SpawnError> {
    let limit = patience.map(|p| mind.clock.instant(p));
    let mut interrupted = Interrupted(false);
    tokio::pin!(start);
    loop {
        tokio::select! {
            child = &mut start => return child.map(|child| (child, interrupted)),
            () = until(limit), if limit.is_some() => return Err(SpawnError::TooSlow(patience.unwrap_or_default())),
            Some(input) = inbox.recv() => match input {
                Input::Interrupt => interrupted = Interrupted(true),
                Input::Stop | Input::Kill => return Err(SpawnError::CalledOff(interrupted)),
                other => mind.handle(other),
            },
        }
    }
}

/// The doing half: the child's streams, the caller's wishes, the clock.
struct Driver {
    mind: Mind,
    stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    control: Box<dyn Control>,
    /// How the process went, and until when its last words are awaited.
    exit: Option<(ExitStatus, tokio::time::Instant)>,
    lines: Lines,
    errors: HeadTail,
    log: RawLog,
}

/// What woke the driver up.
enum Woken {
    Asked(Box<Input>),
    Stdout(std::io::Result<usize>),
    Stderr(std::io::Result<usize>),
    Wrote,
    Exited(ExitStatus),
    Published,
    ReaderGone,
    Time,
}

impl Driver {
    fn new(mut child: Child, log: RawLog, mut mind: Mind) -> Self {
        mind.open(child.stdin.take());
        Self {
            mind,
            stdout: Some(child.stdout),
            stderr: child.stderr,
            control: child.control,
            exit: None,
            lines: Lines::new(),
            errors: HeadTail::new(STDERR_HALF),
            log,
        }
    }

    async fn drive(mut self, mut inbox: mpsc::UnboundedReceiver<Input>, publish: mpsc::Sender<Vec<Event>>) {
        let mut stdout = vec![0; CHUNK];
        let mut stderr = vec![0; CHUNK / 8];
        let mut publish = Some(publish);
        while !self.mind.ended() {
            match self.sleep(&mut inbox, publish.as_ref(), (&mut stdout, &mut stderr)).await {
                Woken::Asked(input) => self.mind.handle(*input),
                Woken::Stdout(Ok(n @ 1..)) => self.read(&stdout[..n]),
                Woken::Stdout(_) => self.stdout = None,
                Woken::Stderr(Ok(n @ 1..)) => self.errors.push(&stderr[..n]),
                Woken::Stderr(_) => self.stderr = None,
                Woken::Exited(status) => {
                    self.exit = Some((status, self.mind.clock.instant(self.mind.clock.now() + LAST_WORDS)));
                }
                Woken::ReaderGone => {
                    // Nobody will hear the rest, and nobody can end the session any more: so it ends.
                    publish = None;
                    self.mind.handle(Input::Stop);
                }
                Woken::Wrote | Woken::Published => {}
                Woken::Time => {
                    self.catch_up(&mut stdout).await;
                    self.mind.handle(Input::Tick);
                }
            }
            self.obey();
            self.leave_if_over();
        }
        if self.exit.is_none() {
            self.control.abandon();
        }
        if let Some(publish) = publish {
            let _ = publish.send(self.mind.out.take()).await;
        }
    }

    /// Before time is called, what was said in time is heard: this process may have been stopped for a while, or busy.
    async fn catch_up(&mut self, buffer: &mut [u8]) {
        if !self.mind.out.has_room() {
            self.mind.handle(Input::Activity); // it is the reader that is silent, not the agent
        }
        for _ in 0..CATCH_UP {
            let waiting = tokio::time::timeout(Duration::ZERO, read(&mut self.stdout, buffer));
            match waiting.await {
                Ok(Ok(n @ 1..)) => self.read(&buffer[..n]),
                Ok(_) => return self.stdout = None,
                Err(_) => return,
            }
        }
    }

    /// Waits for the next thing to happen. Each branch can be dropped without losing anything.
    async fn sleep(
        &mut self,
        inbox: &mut mpsc::UnboundedReceiver<Input>,
        publish: Option<&mpsc::Sender<Vec<Event>>>,
        (stdout, stderr): (&mut [u8], &mut [u8]),
    ) -> Woken {
        let Mind { clock, machine, stdin, out, .. } = &mut self.mind;
        if publish.is_none() {
            out.take();
        }
        let wake = machine.deadline().map(|at| clock.instant(at));
        let wake = wake.into_iter().chain(self.exit.map(|(_, until)| until)).min();
        // What a process leaves in its pipe is little, and must be read before the session ends, reader or not.
        let may_read = out.has_room() || self.exit.is_some();
        let must_publish = !out.is_empty();
        tokio::select! {
            permit = async { publish?.reserve().await.ok() }, if must_publish && publish.is_some() => match permit {
                Some(permit) => { permit.send(out.take()); Woken::Published }
                None => Woken::ReaderGone,
            },
            () = gone(publish), if !must_publish && publish.is_some() => Woken::ReaderGone,
            Some(input) = inbox.recv() => Woken::Asked(Box::new(input)),
            n = read(&mut self.stdout, stdout), if may_read && self.stdout.is_some() => Woken::Stdout(n),
            n = read(&mut self.stderr, stderr), if self.stderr.is_some() => Woken::Stderr(n),
            _ = stdin.write(), if stdin.wants_to_write() => Woken::Wrote,
            status = self.control.wait(), if self.exit.is_none() => Woken::Exited(status),
            () = until(wake), if wake.is_some() => Woken::Time,
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        self.log.write(bytes, &mut self.mind);
        self.mind.out.weigh(bytes.len());
        self.lines.push(bytes, |line| self.mind.hear(line));
    }

    /// Does with the process what the machine wants done.
    fn obey(&mut self) {
        for order in std::mem::take(&mut self.mind.orders) {
            match order {
                Order::Terminate => self.control.terminate(),
                Order::Kill => self.control.kill(),
            }
        }
    }

    /// Once the process is gone and its last words are read, the session can end.
    fn leave_if_over(&mut self) {
        let Some((status, until)) = self.exit else { return };
        let drained = self.stdout.is_none() && self.stderr.is_none();
        if drained || self.mind.clock.instant(self.mind.clock.now()) >= until {
            self.lines.finish(|line| self.mind.hear(line));
            self.mind.finish(Exit { code: status.code, signal: status.signal, stderr: self.errors.text() });
        }
    }
}

async fn read(stream: &mut Option<Box<dyn AsyncRead + Send + Unpin>>, buffer: &mut [u8]) -> std::io::Result<usize> {
    match stream {
        Some(stream) => stream.read(buffer).await,
        None => Ok(0),
    }
}

/// Resolves when the reader dropped the session: then an agent that is silent must be ended too.
async fn gone(publish: Option<&mpsc::Sender<Vec<Event>>>) {
    match publish {
        Some(publish) => publish.closed().await,
        None => std::future::pending().await,
    }
}

async fn until(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The copy of what the agent prints. If it cannot be written, one notice says so and the run goes on.
struct RawLog(Option<File>);

impl RawLog {
    fn open(path: Option<std::path::PathBuf>, mind: &mut Mind) -> Self {
        let Some(path) = path else { return Self(None) };
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // A pipe without a reader is an error now, not a wait for ever.
            let flags = rustix::fs::OFlags::NONBLOCK.bits();
            options.mode(0o600).custom_flags(i32::try_from(flags).unwrap_or(0));
        }
        match options.open(&path).and_then(keep_private) {
            Ok(file) => Self(Some(file)),
            Err(error) => {
                Self::complain(&format!("The raw log {} cannot be opened: {error}.", path.display()), mind);
                Self(None)
            }
        }
    }

    fn write(&mut self, bytes: &[u8], mind: &mut Mind) {
        if let Some(file) = &mut self.0
            && let Err(error) = file.write_all(bytes)
        {
            self.0 = None;
            Self::complain(&format!("The raw log cannot be written any more: {error}."), mind);
        }
    }

    fn complain(message: &str, mind: &mut Mind) {
        let notice = Notice::new(Level::Warning, "raw_log_failed", message);
        mind.handle(Input::Remark(notice));
    }
}

/// A log that was there before, and open to others, is for its owner alone from now on.
fn keep_private(file: File) -> std::io::Result<File> {
    #[cfg(unix)]
    if file.metadata()?.is_file() {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}
