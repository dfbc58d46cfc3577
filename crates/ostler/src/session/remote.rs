//! The handle of a session: what can be asked of it, from anywhere.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::dialect::Change;
use ostler_core::event::Refused;
use ostler_core::machine::{Answer, Input};
use tokio::sync::{mpsc, oneshot};

use super::reader::Reader;
use super::status::{Shared, Status};
use super::tool_results::Submissions;

/// Something asked of a session, and who waits for what comes of it.
pub(super) struct Request {
    pub(super) input: Input,
    pub(super) request: Option<PendingRequest>,
}

/// Who waits for what comes of a wish.
pub(super) struct PendingRequest {
    /// The request, as events name it.
    pub(super) request: &'static str,
    /// For an answer: the question.
    pub(super) about: Option<String>,
    pub(super) done: oneshot::Sender<Completion>,
}

/// What came of a wish.
#[derive(Debug)]
pub(super) enum Completion {
    JobResult,
    Refused(Refused),
    Interrupted(Interruption),
}

/// The session is over: nothing can be asked of it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session is over")]
pub struct SessionEnded;

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The session is over.
    #[error("the session is over")]
    Over,
    /// It was refused; an event says so too. Its `code` tells why in one word, for example `decided` for an answer that came too late.
    #[error("{}: {}", .0.request, .0.why)]
    Refused(Refused),
}

/// What came of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interruption {
    /// The agent acknowledged it; the turn ended by it.
    Acknowledged,
    /// The agent did not react and was ended.
    NotAcknowledged,
    /// The turn ended by itself before.
    TooLate,
    /// There was no turn to interrupt.
    NoTurn,
}

/// What happens to a message that comes while a turn is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// It waits its turn.
    #[default]
    Queue,
    /// It is given to the turn under way, if the agent takes such messages; else it is refused with an event.
    Steer,
    /// It is refused with an event.
    Refuse,
}

/// What came of a tool that the caller ran itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submitted {
    /// The call: the `id` of the `tool_call` event.
    pub id: String,
    /// Whether the tool did what it was asked.
    pub ok: bool,
    /// What the model is told.
    pub output: String,
}

/// Asks things of a session, from anywhere: another task, a signal handler. Cheap to clone.
#[derive(Clone)]
pub struct Remote {
    pub(super) tell: mpsc::UnboundedSender<Request>,
    pub(super) shared: Arc<Shared>,
    pub(super) submissions: Arc<Submissions>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("session", &self.shared.id)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// The session's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Sends a message. While a turn is under way it waits; if it cannot be delivered after all, an event says so.
    ///
    /// # Errors
    /// When the session is over.
    pub fn send(&self, message: impl Into<String>) -> Result<(), SessionEnded> {
        self.send_when(message, WhenBusy::Queue)
    }

    /// Sends a message, and says what happens to it while a turn is under way.
    ///
    /// # Errors
    /// When the session is over.
    pub fn send_when(
        &self,
        message: impl Into<String>,
        busy: WhenBusy,
    ) -> Result<(), SessionEnded> {
        self.tell(match busy {
            WhenBusy::Queue => Input::Send(message.into()),
            WhenBusy::Steer => Input::Steer(message.into()),
            WhenBusy::Refuse => Input::SendNow(message.into()),
        })
    }

    /// Asks the agent to end the turn that is under way. This happens at once; await it to know what came of it.
    pub fn interrupt(&self) -> Interrupting {
        Interrupting(self.ask(Input::Interrupt, "interrupt", None))
    }

    /// Answers a question: the `id` of the `permission` event, once. Whoever comes second is told so.
    ///
    /// # Errors
    /// When nobody asked, it was decided already, or the session is over.
    pub async fn answer(&self, id: &str, answer: Answer) -> Result<(), RequestError> {
        done(self.ask(
            Input::Answered(id.to_owned(), answer),
            "answer",
            Some(id.to_owned()),
        ))
        .await
    }

    /// Hands over what came of tools that the caller runs itself: those of `Spec::tools` for which the host has no function.
    ///
    /// # Errors
    /// When one of the calls has its result already, or the session is over.
    pub fn submit_tool_results(
        &self,
        results: impl IntoIterator<Item = Submitted>,
    ) -> Result<(), RequestError> {
        if self.tell.is_closed() {
            return Err(RequestError::Over);
        }
        // All of them are handed over; the first refusal is told.
        let refusals = results
            .into_iter()
            .filter_map(|result| self.submissions.submit(result).err());
        refusals
            .collect::<Vec<_>>()
            .into_iter()
            .next()
            .map_or(Ok(()), |refused| Err(RequestError::Refused(refused)))
    }

    /// Whether the agent waits for the caller to hand over the result of this call.
    pub(crate) fn awaits_result(&self, call: &str) -> bool {
        self.submissions.awaits(call)
    }

    /// Has the agent use another model from its next turn on.
    ///
    /// # Errors
    /// When the agent cannot or will not, does not answer in time, or the session is over.
    pub async fn set_model(&self, model: impl Into<String>) -> Result<(), RequestError> {
        self.change(Change::Model(model.into())).await
    }

    /// Changes what the agent may do without asking, in its own words.
    ///
    /// # Errors
    /// As for [`Remote::set_model`].
    pub async fn set_permission_mode(&self, mode: impl Into<String>) -> Result<(), RequestError> {
        self.change(Change::PermissionMode(mode.into())).await
    }

    async fn change(&self, change: Change) -> Result<(), RequestError> {
        let request = change.request();
        done(self.ask(Input::Change(change), request, None)).await
    }

    /// Holds messages back, in their order, until [`Remote::resume`]. The turn under way goes on.
    pub fn pause(&self) {
        let _ = self.tell(Input::Pause);
    }

    /// Holds messages back, and stops the agent's processes where they are (Unix). Their time does not count. For an agent
    /// without processes it is refused, with an event.
    pub fn freeze(&self) {
        let _ = self.tell(Input::Freeze);
    }

    /// Delivers what was held back, and lets the agent go on.
    pub fn resume(&self) {
        let _ = self.tell(Input::Resume);
    }

    /// Ends the session in good order: interrupt, end of input, SIGTERM, SIGKILL, each given its time.
    pub fn stop(&self) {
        // A session that has ended hears nothing any more, and needs to hear nothing.
        let _ = self.tell(Input::Stop);
    }

    /// Ends the session at once.
    pub fn kill(&self) {
        let _ = self.tell(Input::Kill);
    }

    /// What the session is doing now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status()
    }

    /// The number of the agent's process; none while there is none, and for an agent without a process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.shared.pid()
    }

    /// Reads the session's events from number `from` on (the first is 1), independently of all other readers. The agent does
    /// not wait for a reader.
    #[must_use]
    pub fn events(&self, from: u64) -> Reader {
        Reader::new(self.shared.backlog.clone(), from)
    }

    fn tell(&self, input: Input) -> Result<(), SessionEnded> {
        self.tell
            .send(Request {
                input,
                request: None,
            })
            .map_err(|_| SessionEnded)
    }

    fn ask(
        &self,
        input: Input,
        request: &'static str,
        about: Option<String>,
    ) -> oneshot::Receiver<Completion> {
        let (done, settled) = oneshot::channel();
        let _ = self.tell.send(Request {
            input,
            request: Some(PendingRequest {
                request,
                about,
                done,
            }),
        });
        settled // if the session is over, the other end is gone with the wish
    }
}

async fn done(settled: oneshot::Receiver<Completion>) -> Result<(), RequestError> {
    match settled.await {
        Ok(Completion::Refused(refused)) => Err(RequestError::Refused(refused)),
        Ok(_) => Ok(()),
        Err(_) => Err(RequestError::Over),
    }
}

/// An interrupt that was asked for. Await it to know what came of it; it happens all the same.
#[derive(Debug)]
pub struct Interrupting(oneshot::Receiver<Completion>);

impl IntoFuture for Interrupting {
    type Output = Interruption;
    type IntoFuture = Pin<Box<dyn Future<Output = Interruption> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            match self.0.await {
                Ok(Completion::Interrupted(interruption)) => interruption,
                _ => Interruption::NoTurn,
            }
        })
    }
}
