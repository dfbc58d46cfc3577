//! A session: a handle that sends, and a task that owns the child, the conversation and the machine.

mod input;
pub(crate) mod mind;
mod output;
mod task;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ostler_core::dialect::Conversation;
use ostler_core::event::{Ended, Event, TurnEnded, What};
use ostler_core::machine::Input;
use ostler_core::outcome::Outcome;
use ostler_core::spec::Spec;
use tokio::sync::mpsc;

use crate::process::{Child, Prepared, SpawnError};

/// What a session needs to begin.
pub(crate) struct Beginning {
    pub(crate) spec: Spec,
    pub(crate) conversation: Box<dyn Conversation>,
    pub(crate) body: Body,
    pub(crate) install_hint: Option<&'static str>,
    pub(crate) id: Arc<str>,
    /// Where the task puts the number of the agent's process.
    pub(crate) pid: Arc<AtomicU32>,
}

/// Where the agent's lines come from.
pub(crate) enum Body {
    /// A process, prepared and not started; or why it cannot be.
    Process(Box<Result<Prepared, SpawnError>>),
    /// A task inside this process; or why it cannot be.
    Inner(Box<dyn FnOnce() -> Result<Child, SpawnError> + Send>),
}

/// A session with an agent.
///
/// Events come in order and without a gap from [`Session::next`]; the last one is [`What::Ended`]. What is left of the
/// agent is ended when the session is dropped.
#[derive(Debug)]
pub struct Session {
    id: Arc<str>,
    pid: Arc<AtomicU32>,
    remote: Remote,
    events: mpsc::Receiver<Vec<Event>>,
    batch: std::vec::IntoIter<Event>,
}

/// Ends or interrupts a session from elsewhere, for example from a signal handler. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Remote(mpsc::UnboundedSender<Input>);

impl Remote {
    /// Sends a message. It waits its turn when one is under way; when it cannot be delivered, an event says so.
    pub fn send(&self, message: impl Into<String>) {
        self.tell(Input::Send(message.into()));
    }

    /// Asks the agent to end the turn that is under way.
    pub fn interrupt(&self) {
        self.tell(Input::Interrupt);
    }

    /// Ends the session in good order: interrupt, end of input, SIGTERM, SIGKILL, each given its time.
    pub fn stop(&self) {
        self.tell(Input::Stop);
    }

    /// Ends the session at once.
    pub fn kill(&self) {
        self.tell(Input::Kill);
    }

    fn tell(&self, input: Input) {
        // A session that has ended hears nothing any more, and needs to hear nothing.
        let _ = self.0.send(input);
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
    pub(crate) fn begin(beginning: Beginning) -> Self {
        let (id, pid) = (beginning.id.clone(), beginning.pid.clone());
        let (tell, inbox) = mpsc::unbounded_channel();
        let (publish, events) = mpsc::channel(1);
        tokio::spawn(task::run(beginning, inbox, publish));
        Self { id, pid, remote: Remote(tell), events, batch: Vec::new().into_iter() }
    }

    /// The session's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A handle to end or interrupt the session from elsewhere.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The number of the agent's process; none before it is started, and for an agent without a process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|pid| *pid != 0)
    }

    /// Whether [`Session::next`] would answer at once. A good moment to flush what was written is when it would not.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.batch.as_slice().is_empty() || !self.events.is_empty()
    }

    /// The next event; none after the last.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.batch.next() {
                return Some(event);
            }
            self.batch = self.events.recv().await?.into_iter();
        }
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
            session: self.id.clone(),
            native_session: None,
            turn: None,
            ended: Ended { outcome: task::lost(), exit_code: None, signal: None, usage: None },
        };
        while let Some(event) = self.next().await {
            match event.what {
                What::Started(started) => run.native_session = started.native_session,
                What::TurnEnded(turn) => run.turn = Some(turn),
                What::Ended(ended) => run.ended = ended,
                _ => {}
            }
        }
        run
    }
}
