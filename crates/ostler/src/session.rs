//! Sessions: a handle that sends requests, readers that follow the events, and a driver task that
//! owns the child process, the conversation and the session machine.
//!
//! ```
//! use ostler::spec::AfterTurn;
//! use ostler::{Agents, EventKind, Host, Spec};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let agent = Agents::builtin().get("scripted").unwrap();
//! let spec = Spec::new("hello").after_turn(AfterTurn::Wait);
//! let mut session = agent.start(&Host::default(), spec).unwrap();
//! let remote = session.remote(); // can be cloned and sent to other tasks
//! let mut turns = 0;
//! while let Some(event) = session.next().await {
//!     if let EventKind::TurnEnded(_) = event.kind {
//!         turns += 1;
//!         if turns == 1 { remote.send("and again").unwrap() } else { remote.stop() }
//!     }
//! }
//! assert_eq!(turns, 2);
//! # });
//! ```

#[cfg(unix)]
mod bridge_server;
#[cfg(not(unix))]
#[path = "session/bridge_server_unsupported.rs"]
mod bridge_server;
mod backlog;
#[cfg(feature = "acp")]
mod files;
#[cfg(not(feature = "acp"))]
#[path = "session/files_unsupported.rs"]
mod files;
mod stdin;
mod child;
mod chunk;
pub(crate) mod engine;
mod event_queue;
mod inbox;
mod raw_log;
mod reader;
mod relay;
mod remote;
mod spill;
mod status;
mod trace;
pub(crate) mod tool_results;
mod driver;
mod jobs;
mod launch_state;
mod timer;

use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use ostler_core::dialect::{Dialect, Launching, Version};
use ostler_core::event::{Ended, Event, EventKind, Notice, TurnEnded};
use ostler_core::log::{LogError, NewSession};
use ostler_core::machine::PermissionAnswer;
use ostler_core::outcome::Outcome;
use ostler_core::spec::Spec;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::breaker::SessionBreaker;
use crate::host::{Delivery, Host};
use crate::process::{Child, PreparedCommand};

use backlog::Backlog;
use reader::OwnReader;
use status::Shared;
use tool_results::Submissions;

pub use ostler_core::machine::{Charge, Interruption};
pub use ostler_core::request::{SessionReply, SessionRequest};
pub use reader::{ReadItem, Reader};
pub use relay::{Relay, RelayError, RelayedRequest};
pub use remote::{PendingInterrupt, Remote, RequestError, SessionEnded, SubmittedResult, WhenBusy};
pub use status::SessionStatus;

/// Everything needed to start a session.
pub(crate) struct SessionSetup {
    pub(crate) spec: Spec,
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) host: Host,
    /// Prepares the child each time the agent is started, or returns the outcome of a failed start.
    pub(crate) launch: LaunchFn,
    pub(crate) install_hint: Option<&'static str>,
    pub(crate) id: Arc<str>,
    /// The agent's working directory.
    pub(crate) dir: PathBuf,
    /// Ostler's id of the session that this one continues.
    pub(crate) continues: Option<String>,
    /// Events of the session that this one resumes, for an agent that stores none itself.
    pub(crate) past: Arc<[Event]>,
    pub(crate) breaker: SessionBreaker,
    pub(crate) submissions: Arc<Submissions>,
}

/// Prepares a child that speaks the given dialect.
pub(crate) type LaunchFn =
    Box<dyn FnMut(&'static dyn Dialect, &Launching<'_>) -> Result<LaunchedChild, Outcome> + Send>;

/// A child that is ready to be started, with notices for the caller.
pub(crate) struct LaunchedChild {
    pub(crate) source: ChildSource,
    pub(crate) notices: Vec<Notice>,
    /// The agent version that wrote the resumed session.
    pub(crate) written_by: Option<Version>,
}

impl From<Child> for LaunchedChild {
    fn from(child: Child) -> Self {
        Self {
            source: ChildSource::InProcess(child),
            notices: Vec::new(),
            written_by: None,
        }
    }
}

/// What runs the agent.
pub(crate) enum ChildSource {
    /// A prepared process, and an optional delay before it is started.
    Process(Box<PreparedCommand>, Option<Duration>),
    /// A task inside this process.
    InProcess(Child),
}

/// A session with an agent.
///
/// It is a [`Stream`] of every event in order; the last one is [`EventKind::Ended`].
/// [`Session::next`] does the same without the traits of streams. There can be other readers
/// ([`Remote::events`]), and a slow reader does not slow the agent down.
///
/// The common requests are methods of the session; [`Session::remote`] has all of them. Dropping
/// the session ends the agent.
///
/// ```no_run
/// # async fn example(mut session: ostler::Session) {
/// while let Some(event) = session.next().await {
///     if let ostler::EventKind::TurnEnded(turn) = event.kind {
///         println!("{}", turn.text);
///         session.stop();
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Session {
    remote: Remote,
    reader: OwnReader,
    /// Dropped with the session, which signals the driver to end the agent.
    _alive: oneshot::Sender<()>,
}

impl Stream for Session {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.get_mut().reader.poll_event(cx)
    }
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// Ostler's session id.
    pub session: Arc<str>,
    /// The agent's own session id, which a later run can resume.
    pub native_session: Option<String>,
    /// The end of the last turn, with its answer.
    pub turn: Option<TurnEnded>,
    /// The end of the session.
    pub ended: Ended,
}

impl Run {
    /// Returns the answer, or the partial text of a turn that was cut short.
    #[must_use]
    pub fn text(&self) -> &str {
        self.turn.as_ref().map_or("", |t| &t.text)
    }

    /// Returns the outcome of the session.
    pub fn outcome(&self) -> &Outcome {
        &self.ended.outcome
    }
}

impl Session {
    /// Starts a session. Must be called within a tokio runtime.
    pub(crate) fn start(setup: SessionSetup) -> Self {
        let setup = Box::new(setup);
        let (host, submissions) = (&setup.host, setup.submissions.clone());
        let backlog = new_backlog(host, setup.id.clone());
        let shared = Arc::new(Shared::new(setup.id.clone(), backlog.clone()));
        let (requests, inbox) = inbox::inbox();
        let (alive, dropped) = oneshot::channel();
        let remote = Remote {
            requests,
            shared: shared.clone(),
            submissions: submissions.clone(),
        };
        let span = trace::session_span(&setup);
        let caller = driver::Caller {
            inbox,
            dropped,
            shared,
            submissions,
        };
        tokio::spawn(driver::run(setup, caller).instrument(span));
        Self {
            remote,
            reader: OwnReader::new(backlog),
            _alive: alive,
        }
    }

    /// Creates a session that runs elsewhere, such as on another machine: its requests go to the
    /// returned relay, and its events come from there.
    ///
    /// # Errors
    /// If the host's log does not open the session.
    pub fn relayed(host: &Host, session: &NewSession) -> Result<(Self, Relay), LogError> {
        if let Some(log) = host.log() {
            log.open(session)?;
        }
        Ok(Self::with_relay(host, &session.session))
    }

    /// Follows a relayed session again that an earlier process followed. Its events so far are read
    /// from the host's log. May block.
    ///
    /// # Errors
    /// If the host has no log, or the log cannot be read.
    pub fn rejoined(host: &Host, id: &str) -> Result<(Self, Relay), LogError> {
        let Some(log) = host.log() else {
            return Err(LogError(
                "a session without a log cannot be followed again".into(),
            ));
        };
        let (session, mut relay) = Self::with_relay(host, id);
        loop {
            let page = log.read(id, relay.last() + 1, usize::MAX)?;
            if page.is_empty() {
                break;
            }
            relay.recall(page);
        }
        Ok((session, relay))
    }

    fn with_relay(host: &Host, id: &str) -> (Self, Relay) {
        let (id, log): (Arc<str>, _) = (id.into(), host.log().cloned());
        let backlog = new_backlog(host, id.clone());
        let shared = Arc::new(Shared::new(id, backlog.clone()));
        let (requests, inbox) = inbox::inbox();
        let (alive, dropped) = oneshot::channel();
        let remote = Remote {
            requests,
            shared: shared.clone(),
            submissions: Arc::default(),
        };
        let session = Self {
            remote,
            reader: OwnReader::new(backlog),
            _alive: alive,
        };
        (session, Relay::new(inbox, dropped, shared, log))
    }

    /// Returns a handle that controls the session from elsewhere.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Returns the session id.
    #[must_use]
    pub fn id(&self) -> &str {
        self.remote.id()
    }

    /// Sends a message, as [`Remote::send`] does.
    ///
    /// # Errors
    /// If the session has ended.
    pub fn send(&self, message: impl Into<String>) -> Result<(), SessionEnded> {
        self.remote.send(message)
    }

    /// Asks the agent to end the current turn, as [`Remote::interrupt`] does.
    pub fn interrupt(&self) -> PendingInterrupt {
        self.remote.interrupt()
    }

    /// Answers a permission request, as [`Remote::answer`] does.
    ///
    /// # Errors
    /// As for [`Remote::answer`].
    pub async fn answer(&self, id: &str, answer: PermissionAnswer) -> Result<(), RequestError> {
        self.remote.answer(id, answer).await
    }

    /// Ends the session gracefully, as [`Remote::stop`] does.
    pub fn stop(&self) {
        self.remote.stop();
    }

    /// Ends the session immediately.
    pub fn kill(&self) {
        self.remote.kill();
    }

    /// Returns a snapshot of the session's state.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        self.remote.status()
    }

    /// Returns true if [`Session::next`] would return immediately. If not, it is a good moment to
    /// flush output.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.reader.has_more()
    }

    /// Waits for the next event. Returns `None` after the last one. Events that are no longer in
    /// memory are read from the log.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.reader.poll_event(cx)).await
    }

    /// Reads all events to the end and returns the result.
    ///
    /// ```no_run
    /// # async fn example(mut session: ostler::Session) {
    /// let run = session.wait().await;
    /// println!("{}: {}", run.outcome().cause, run.text());
    /// # }
    /// ```
    pub async fn wait(&mut self) -> Run {
        let mut run = Run {
            session: self.remote.shared.id.clone(),
            native_session: None,
            turn: None,
            ended: Ended {
                outcome: driver::lost_outcome(),
                exit_code: None,
                signal: None,
                usage: None,
            },
        };
        while let Some(event) = self.next().await {
            match event.kind {
                EventKind::Started(started) => run.native_session = started.native_session,
                EventKind::TurnEnded(turn) => run.turn = Some(*turn),
                EventKind::Ended(ended) => run.ended = *ended,
                _ => {}
            }
        }
        run
    }
}

/// Creates the backlog of a session.
fn new_backlog(host: &Host, session: Arc<str>) -> Arc<Backlog> {
    let backlog = Backlog::new(session, host.log().cloned(), host.temp_dir());
    if host.delivery() == Delivery::Durable {
        backlog.serve_from_log();
    }
    backlog
}
