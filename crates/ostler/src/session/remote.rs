//! Remote handle of a session: sends requests to the session's driver from any task or thread.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::dialect::Change;
use ostler_core::event::{Notice, Refused};
use ostler_core::machine::{
    CallerRequest, Charge, Completion, Input, Interruption, PermissionAnswer,
};
use ostler_core::request::{SessionReply, SessionRequest};
use tokio::sync::oneshot;

use super::inbox::Sender;
use super::reader::Reader;
use super::status::{SessionStatus, Shared};
use super::tool_results::Submissions;

/// A request to a session, and the caller that waits for its completion.
pub(super) struct Request {
    pub(super) input: Input,
    pub(super) pending: Option<PendingRequest>,
}

/// A caller that waits for the completion of a request.
pub(super) struct PendingRequest {
    pub(super) request: CallerRequest,
    pub(super) done: oneshot::Sender<Completion>,
}

/// The session has ended and takes no more requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SessionEnded;

/// The reason why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
    /// The request was refused, which is also reported as an event. The `code` identifies the
    /// reason, for example `decided` for an answer that came too late.
    #[error("{}: {}", .0.request, .0.why)]
    Refused(Refused),
}

/// What to do with a message that arrives during a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenBusy {
    /// Queue it for the next turn.
    #[default]
    Queue,
    /// Add it to the current turn if the agent supports that; otherwise refuse it with an event.
    Steer,
    /// Refuse it with an event.
    Refuse,
}

/// The result of a tool that the caller ran itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmittedResult {
    /// Id of the call: the `id` of the `tool_call` event.
    pub id: String,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// The output for the model.
    pub output: String,
}

/// Controls a session from anywhere: another task, a signal handler. Cheap to clone.
#[derive(Clone)]
pub struct Remote {
    pub(super) requests: Sender,
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
    /// Returns the session id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.shared.id
    }

    /// Sends a message. During a turn it is queued. If it cannot be delivered after all, a
    /// `refused` event reports it.
    ///
    /// # Errors
    /// If the session has ended.
    pub fn send(&self, message: impl Into<String>) -> Result<(), SessionEnded> {
        self.send_when(message, WhenBusy::Queue)
    }

    /// Sends a message; `busy` says what to do with it during a turn.
    ///
    /// # Errors
    /// If the session has ended.
    pub fn send_when(
        &self,
        message: impl Into<String>,
        busy: WhenBusy,
    ) -> Result<(), SessionEnded> {
        self.request(match busy {
            WhenBusy::Queue => Input::Send(message.into()),
            WhenBusy::Steer => Input::Steer(message.into()),
            WhenBusy::Refuse => Input::SendNow(message.into()),
        })
    }

    /// Approves tool calls that the last turn ended with. Only for sessions with a model loop.
    pub(crate) fn approve(&self, calls: Vec<String>) -> Result<(), SessionEnded> {
        self.request(Input::Approve(calls))
    }

    /// Asks the agent to end the current turn. The request is sent immediately; await the returned
    /// value for the result.
    pub fn interrupt(&self) -> PendingInterrupt {
        PendingInterrupt(self.request_and_wait(Input::Interrupt))
    }

    /// Answers a permission request, given by the `id` of its `permission` event. Only the first
    /// answer counts.
    ///
    /// # Errors
    /// If there is no such request, it is decided already, or the session has ended.
    pub async fn answer(&self, id: &str, answer: PermissionAnswer) -> Result<(), RequestError> {
        let id = id.to_owned();
        completed(self.request_and_wait(|request| Input::PermissionAnswered {
            id,
            answer,
            request: Some(request),
        }))
        .await
    }

    /// Submits results of tools that the caller runs itself: those in `Spec::tools` that the host
    /// does not implement.
    ///
    /// # Errors
    /// If one of the calls already has a result, or the session has ended.
    pub fn submit_tool_results(
        &self,
        results: impl IntoIterator<Item = SubmittedResult>,
    ) -> Result<(), RequestError> {
        if self.requests.is_closed() {
            return Err(RequestError::Ended);
        }
        // Submit all of them and return the first refusal.
        let refusals = results
            .into_iter()
            .filter_map(|result| self.submissions.submit(result).err());
        refusals
            .collect::<Vec<_>>()
            .into_iter()
            .next()
            .map_or(Ok(()), |refused| Err(RequestError::Refused(refused)))
    }

    /// Returns true if the agent waits for the caller to submit the result of this call.
    pub(crate) fn awaits_result(&self, call: &str) -> bool {
        self.submissions.awaits(call)
    }

    /// Changes the model, from the next turn on.
    ///
    /// # Errors
    /// If the agent does not support it, refuses, does not reply in time, or the session has ended.
    pub async fn set_model(&self, model: impl Into<String>) -> Result<(), RequestError> {
        self.change(Change::Model(model.into())).await
    }

    /// Changes the agent's permission mode, given by the agent's own name for it.
    ///
    /// # Errors
    /// As for [`Remote::set_model`].
    pub async fn set_permission_mode(&self, mode: impl Into<String>) -> Result<(), RequestError> {
        self.change(Change::PermissionMode(mode.into())).await
    }

    async fn change(&self, change: Change) -> Result<(), RequestError> {
        completed(self.request_and_wait(|request| Input::Change(request, change))).await
    }

    /// Holds back messages, in order, until [`Remote::resume`]. The current turn continues.
    pub fn pause(&self) {
        let _ = self.request(Input::Pause);
    }

    /// Holds back messages and suspends the agent's processes (Unix). Time spent suspended does not
    /// count towards limits. Refused with an event for an agent without processes.
    pub fn freeze(&self) {
        let _ = self.request(Input::Freeze);
    }

    /// Delivers the messages that were held back and resumes suspended processes.
    pub fn resume(&self) {
        let _ = self.request(Input::Resume);
    }

    /// Ends the session gracefully: interrupt, end of input, SIGTERM, SIGKILL, each with a grace
    /// period.
    pub fn stop(&self) {
        // A session that has already ended needs no request.
        let _ = self.request(Input::Stop);
    }

    /// Ends the session immediately.
    pub fn kill(&self) {
        let _ = self.request(Input::Kill);
    }

    /// Returns a snapshot of the session's state.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        self.shared.status()
    }

    /// Returns the agent's process id, or `None` if it has no process or is not running.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.shared.pid()
    }

    /// Returns a reader of the session's events, starting at number `from` (the first is 1). It is
    /// independent of all other readers, and the agent never waits for it.
    ///
    /// Every event can be read if the host has a log. Without one, this is so for the newest events
    /// (1,024, or 2 MiB) and for everything after them, once the first reader was created.
    #[must_use]
    pub fn events(&self, from: u64) -> Reader {
        self.shared.backlog.add_reader();
        Reader::new(self.shared.backlog.clone(), from)
    }

    /// Adds a notice to the session's events.
    pub fn notice(&self, notice: Notice) {
        let _ = self.request(Input::Notice(notice));
    }

    /// Sets what other sessions used on behalf of this one, in all. It counts towards the budget.
    pub fn charge(&self, charge: Charge) {
        let _ = self.request(Input::Charge(charge));
    }

    /// Carries out a request that came from elsewhere, in the order of the calls. The future
    /// resolves to its result.
    pub fn perform(
        &self,
        request: SessionRequest,
    ) -> impl Future<Output = SessionReply> + Send + use<> {
        let plain = |input| Performed::Sent(self.request(input));
        let waiting = Performed::Waiting;
        let performed = match request {
            SessionRequest::Send(text) => plain(Input::Send(text)),
            SessionRequest::Steer(text) => plain(Input::Steer(text)),
            SessionRequest::SendNow(text) => plain(Input::SendNow(text)),
            SessionRequest::Approve(calls) => plain(Input::Approve(calls)),
            SessionRequest::Pause => plain(Input::Pause),
            SessionRequest::Freeze => plain(Input::Freeze),
            SessionRequest::Resume => plain(Input::Resume),
            SessionRequest::Stop => plain(Input::Stop),
            SessionRequest::Kill => plain(Input::Kill),
            SessionRequest::Notice(notice) => plain(Input::Notice(notice)),
            SessionRequest::Charge(charge) => plain(Input::Charge(charge)),
            SessionRequest::Interrupt => waiting(self.request_and_wait(Input::Interrupt)),
            SessionRequest::Change(change) => {
                waiting(self.request_and_wait(|request| Input::Change(request, change)))
            }
            SessionRequest::Answer { id, answer } => {
                waiting(self.request_and_wait(|request| Input::PermissionAnswered {
                    id,
                    answer,
                    request: Some(request),
                }))
            }
        };
        async move {
            match performed {
                Performed::Sent(Ok(())) => SessionReply::Done,
                Performed::Sent(Err(SessionEnded)) => SessionReply::Ended,
                Performed::Waiting(completion) => match completion.await {
                    Ok(completion) => completion.into(),
                    Err(_) => SessionReply::Ended,
                },
            }
        }
    }

    fn request(&self, input: Input) -> Result<(), SessionEnded> {
        let pending = None;
        self.requests.send(Request { input, pending })
    }

    fn request_and_wait(
        &self,
        input: impl FnOnce(CallerRequest) -> Input,
    ) -> oneshot::Receiver<Completion> {
        let (done, completion) = oneshot::channel();
        let request = self.shared.next_request();
        let (input, pending) = (input(request), Some(PendingRequest { request, done }));
        let _ = self.requests.send(Request { input, pending });
        completion // resolves with an error if the session has ended
    }
}

/// A request under way.
enum Performed {
    Sent(Result<(), SessionEnded>),
    Waiting(oneshot::Receiver<Completion>),
}

async fn completed(completion: oneshot::Receiver<Completion>) -> Result<(), RequestError> {
    match completion.await {
        Ok(Completion::Refused(refused)) => Err(RequestError::Refused(refused)),
        Ok(_) => Ok(()),
        Err(_) => Err(RequestError::Ended),
    }
}

/// An interrupt that was requested. Await it for its result; it takes effect either way.
#[derive(Debug)]
pub struct PendingInterrupt(oneshot::Receiver<Completion>);

impl IntoFuture for PendingInterrupt {
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
