//! A session: a handle that asks, readers that follow, and a task that owns the child, the conversation and the machine.

#[cfg(unix)]
mod bridge_server;
#[cfg(not(unix))]
#[path = "session/bridge_server_unsupported.rs"]
mod bridge_server;
mod backlog;
mod files;
mod fuse;
mod stdin;
mod child;
pub(crate) mod engine;
mod event_queue;
mod raw_log;
mod reader;
mod remote;
mod spill;
mod status;
pub(crate) mod tool_results;
mod driver;
mod pending_requests;
mod jobs;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::{Dialect, Version};
use ostler_core::event::{Ended, Event, EventKind, Notice, TurnEnded};
use ostler_core::outcome::Outcome;
use ostler_core::spec::Spec;
use tokio::sync::{mpsc, oneshot};

use crate::host::Host;
use crate::process::{Child, PreparedCommand};

use backlog::Backlog;
pub(crate) use fuse::Fuse;
use reader::OwnReader;
use status::Shared;
use tool_results::Submissions;

pub use reader::{Reader, Reading};
pub use remote::{
    Interrupting, Interruption, Remote, RequestError, SessionEnded, Submitted, WhenBusy,
};
pub use status::Status;

/// What a session needs to begin.
pub(crate) struct SessionSetup {
    pub(crate) spec: Spec,
    pub(crate) dialect: &'static dyn Dialect,
    pub(crate) host: Host,
    /// Makes what the conversation talks to, each time the agent is started; or says why that cannot be.
    pub(crate) launch: Launch,
    pub(crate) install_hint: Option<&'static str>,
    pub(crate) id: Arc<str>,
    /// The directory that the agent works in.
    pub(crate) dir: PathBuf,
    /// The session it goes on with, as Ostler names it.
    pub(crate) continues: Option<String>,
    pub(crate) breaker: Fuse,
    pub(crate) submissions: Arc<Submissions>,
}

/// Makes what a conversation in this language talks to.
pub(crate) type Launch =
    Box<dyn FnMut(&'static dyn Dialect, &Spec) -> Result<LaunchedChild, Outcome> + Send>;

/// What was made, and what the caller should know about it.
pub(crate) struct LaunchedChild {
    pub(crate) body: Body,
    pub(crate) notices: Vec<Notice>,
    /// The version of the agent that wrote the session it goes on with.
    pub(crate) written_by: Option<Version>,
}

impl From<Child> for LaunchedChild {
    fn from(child: Child) -> Self {
        Self {
            body: Body::Inner(child),
            notices: Vec::new(),
            written_by: None,
        }
    }
}

/// Where the agent's lines come from.
pub(crate) enum Body {
    /// A process, prepared and not started, and how long to wait before it is.
    Process(Box<PreparedCommand>, Option<Duration>),
    /// A task inside this process.
    Inner(Child),
}

/// A session with an agent.
///
/// [`Session::next`] gives every event in order; the last one is [`EventKind::Ended`]. Others can read too ([`Remote::events`]), and
/// the agent waits for nobody. What can be asked of a session is in [`Remote`], to which a session dereferences. What is left
/// of the agent is ended when the session is dropped.
#[derive(Debug)]
pub struct Session {
    remote: Remote,
    reader: OwnReader,
    _leash: oneshot::Sender<()>,
}

impl std::ops::Deref for Session {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        &self.remote
    }
}

/// What one run came to.
#[derive(Debug, Clone)]
pub struct Run {
    /// The session, as Ostler names it.
    pub session: Arc<str>,
    /// The agent's own name of the session: what a later run can resume.
    pub native_session: Option<String>,
    /// How the last turn ended, with the answer.
    pub turn: Option<TurnEnded>,
    /// How the session ended.
    pub ended: Ended,
}

impl Run {
    /// The answer, or what had been said when the turn was cut short.
    #[must_use]
    pub fn text(&self) -> &str {
        self.turn.as_ref().map_or("", |t| &t.text)
    }

    /// How it ended.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.ended.outcome
    }
}

impl Session {
    pub(crate) fn begin(setup: SessionSetup) -> Self {
        let (host, submissions) = (&setup.host, setup.submissions.clone());
        let backlog = Backlog::new(setup.id.clone(), host.log().cloned(), host.temp_dir());
        let shared = Arc::new(Shared::new(setup.id.clone(), backlog.clone()));
        let (tell, inbox) = mpsc::unbounded_channel();
        let (held, leash) = oneshot::channel();
        let remote = Remote {
            tell,
            shared: shared.clone(),
            submissions: submissions.clone(),
        };
        tokio::spawn(driver::run(
            setup,
            driver::Caller {
                inbox,
                leash,
                shared,
                submissions,
            },
        ));
        Self {
            remote,
            reader: OwnReader::new(backlog),
            _leash: held,
        }
    }

    /// A handle to ask things of the session from elsewhere.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Whether [`Session::next`] would answer at once. A good moment to flush what was written is when it would not.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.reader.has_more()
    }

    /// The next event; none after the last. A reader that was slow gets what it missed from the log.
    pub async fn next(&mut self) -> Option<Event> {
        self.reader.next().await
    }

    /// Reads to the end and says what it came to.
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
                outcome: driver::lost(),
                exit_code: None,
                signal: None,
                usage: None,
            },
        };
        while let Some(event) = self.next().await {
            match event.kind {
                EventKind::Started(started) => run.native_session = started.native_session,
                EventKind::TurnEnded(turn) => run.turn = Some(turn),
                EventKind::Ended(ended) => run.ended = ended,
                _ => {}
            }
        }
        run
    }
}
