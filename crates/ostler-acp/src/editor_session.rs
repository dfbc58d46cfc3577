//! One session of an editor: handles its requests and sends its updates, in order and at the
//! editor's pace.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ostler::event::{Decision, Origin, Permission, RequestKind};
use ostler::session::RequestError;
use ostler::{Event, EventKind, Outcome, Session};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::embedder::Embedder;
use crate::history::History;
use crate::permission_question::{PermissionParams, parse_reply};
use crate::pipes;
use crate::request::{Call, EditorRequest, QueuedRequest};
use crate::session_params::{ModelOption, Modes};
use crate::stop_reason::{self, PromptResponse};
use crate::update::{Update, UpdateMapper, When};
use crate::wire::{self, Failure, Id};

/// Maximum number of waiting lines before requests are deferred.
const QUEUE_LIMIT: usize = 256;

/// A session and its state.
pub(crate) struct EditorSession {
    /// Session id that the editor uses.
    pub(crate) id: String,
    pub(crate) session: Session,
    pub(crate) out: mpsc::Sender<String>,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) updates: UpdateMapper,
    pub(crate) modes: Option<Modes>,
    pub(crate) model: Option<ModelOption>,
    /// History to send first, and the id of the request to answer afterwards.
    pub(crate) history: Option<(Id, History)>,
    pub(crate) state: EditorState,
}

/// State of a session.
#[derive(Default)]
pub(crate) struct EditorState {
    /// Lines to send to the editor.
    queue: VecDeque<String>,
    /// Whether the editor no longer reads.
    is_disconnected: bool,
    /// Requests deferred until the editor has read earlier lines, with the cancels between them.
    waiting: VecDeque<QueuedRequest>,
    prompt: Option<Prompt>,
    /// Whether the current turn belongs to the prompt.
    is_ours: bool,
    /// Unanswered permission requests: question number to permission id.
    queued: BTreeMap<u64, String>,
    questions: u64,
    changes: JoinSet<ChangeResult>,
    closing: Option<Closing>,
    /// Deadline for the editor to read the next line, while the program is ending.
    read_deadline: Option<Instant>,
    close_requests: Vec<Id>,
    /// Outcome, once the session has ended.
    ended: Option<Outcome>,
}

impl EditorState {
    /// Returns true if the current prompt was cancelled.
    fn is_cancelled(&self) -> bool {
        self.prompt.as_ref().is_some_and(|it| it.is_cancelled)
    }

    /// Restarts the deadline for the next line.
    fn renew_deadline(&mut self) {
        self.read_deadline = self.read_deadline.map(|_| pipes::read_deadline());
    }
}

struct Prompt {
    id: Id,
    is_cancelled: bool,
}

/// A session that was closed.
pub(crate) struct ClosedSession {
    pub(crate) id: String,
    /// Lines that are still to be sent.
    pub(crate) lines: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// The editor closed the session.
    Closed,
    /// The program is ending; the editor may not be reading.
    Ended,
}

/// Result of a change of mode or model.
struct ChangeResult {
    id: Id,
    change: Change,
    result: Result<(), RequestError>,
}

enum Change {
    Mode(String),
    Model(String),
}

/// Parameters of `session/update`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateParams<'a> {
    session_id: &'a str,
    update: &'a Update,
}

/// Response to opening a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionInfo<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modes: Option<&'a Modes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_options: Option<Vec<&'a ModelOption>>,
}

impl EditorSession {
    /// Returns the response for a new session.
    pub(crate) fn opened(&self) -> SessionInfo<'_> {
        SessionInfo {
            session_id: Some(&self.id),
            modes: self.modes.as_ref(),
            config_options: self.model.as_ref().map(|model| vec![model]),
        }
    }

    /// Returns the response for a session whose id the editor gave.
    pub(crate) fn reopened(&self) -> SessionInfo<'_> {
        SessionInfo {
            session_id: None,
            ..self.opened()
        }
    }

    /// Queues a line before all output of the session.
    pub(crate) fn first(&mut self, line: String) {
        self.state.queue.push_back(line);
    }

    /// Serves the session until it is closed, and returns the remaining lines.
    pub(crate) async fn serve(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<QueuedRequest>,
    ) -> ClosedSession {
        while !self.is_done() {
            let is_flushed = self.state.queue.is_empty();
            if is_flushed {
                self.state.renew_deadline();
            }
            let has_history = self.history.is_some();
            let wants_events = (is_flushed && !has_history) || self.state.closing.is_some();
            let can_run_next =
                self.state.queue.len() < QUEUE_LIMIT && !self.state.waiting.is_empty();
            tokio::select! {
                permit = pipes::reserve(self.out.clone(), self.state.read_deadline),
                    if !is_flushed =>
                {
                    match (permit, self.state.queue.pop_front()) {
                        (Some(permit), Some(line)) => {
                            drop(permit.send(line));
                            self.state.renew_deadline();
                        }
                        _ => self.abandon(),
                    }
                }
                event = self.session.next(), if wants_events && self.state.ended.is_none() => {
                    self.on_event(event.as_ref());
                }
                queued = inbox.recv() => self.on_queued(queued),
                Some(changed) = self.state.changes.join_next() => {
                    changed.into_iter().for_each(|change| self.on_change(change));
                }
                () = std::future::ready(()), if can_run_next => self.run_next_waiting(),
                () = std::future::ready(()), if is_flushed && has_history => {
                    self.send_history_page();
                }
            }
        }
        inbox.close(); // from now on the server rejects requests for this session
        self.into_closed(std::iter::from_fn(|| inbox.try_recv().ok()))
    }

    fn is_done(&self) -> bool {
        let EditorState {
            closing,
            ended,
            queue,
            changes,
            ..
        } = &self.state;
        closing.is_some() && ended.is_some() && queue.is_empty() && changes.is_empty()
    }

    fn close(&mut self, how: Closing) {
        self.state.closing = Some(how);
        self.state.read_deadline = (how == Closing::Ended).then(pipes::read_deadline);
        if let Some((id, _)) = self.history.take() {
            self.send_line(closing_error(&id));
        }
        self.session.stop();
    }

    /// Closes the session because the editor no longer reads.
    fn abandon(&mut self) {
        self.state.is_disconnected = true;
        self.state.queue.clear();
        self.close(Closing::Ended);
    }

    /// Returns the last lines: responses to close requests, and errors for requests that came too
    /// late.
    fn into_closed(mut self, late: impl Iterator<Item = QueuedRequest>) -> ClosedSession {
        let rest = std::mem::take(&mut self.state.waiting).into_iter();
        let rest = rest.chain(late).filter_map(|queued| match queued.request {
            EditorRequest::Call(id, Call::Close) => Some(wire::done(&id)),
            EditorRequest::Call(id, _) => Some(closing_error(&id)),
            _ => None,
        });
        let closed = self.state.close_requests.iter().map(wire::done);
        let lines = closed.chain(rest).collect();
        ClosedSession { id: self.id, lines }
    }

    /// Handles a queued request. Requests are deferred while the editor does not read; everything
    /// else runs at once.
    fn on_queued(&mut self, queued: Option<QueuedRequest>) {
        let Some(queued) = queued else {
            return self.on_request(EditorRequest::End);
        };
        let EditorState { queue, waiting, .. } = &mut self.state;
        match &queued.request {
            request
                if request.is_request() && (queue.len() >= QUEUE_LIMIT || !waiting.is_empty()) =>
            {
                waiting.push_back(queued);
            }
            // It applies to the current prompt and to a deferred one.
            EditorRequest::Cancel
                if waiting.back().is_some_and(|last| last.request.is_request()) =>
            {
                waiting.push_back(queued);
                self.cancel();
            }
            _ => self.on_request(queued.request),
        }
    }

    /// Runs the oldest deferred request.
    fn run_next_waiting(&mut self) {
        if let Some(queued) = self.state.waiting.pop_front() {
            self.on_request(queued.request);
        }
    }

    fn on_request(&mut self, request: EditorRequest) {
        match request {
            EditorRequest::Call(id, Call::Close) => {
                self.state.close_requests.push(id);
                self.cancel();
                if self.state.closing.is_none() {
                    self.close(Closing::Closed);
                }
            }
            EditorRequest::Call(id, _) if self.state.closing.is_some() => {
                self.send_line(closing_error(&id));
            }
            EditorRequest::Call(id, Call::Prompt(text)) => self.prompt(id, text),
            EditorRequest::Call(id, Call::SetMode(mode)) => {
                if self.modes.as_ref().is_some_and(|modes| modes.has(&mode)) {
                    self.change(id, Change::Mode(mode));
                } else {
                    self.fail(&id, &Failure::params(format!("unknown mode {mode:?}")));
                }
            }
            EditorRequest::Call(id, Call::SetOption { option, value }) => {
                if self.model.as_ref().is_some_and(|model| model.id == option) {
                    self.change(id, Change::Model(value));
                } else {
                    self.fail(&id, &Failure::params(format!("unknown option {option:?}")));
                }
            }
            EditorRequest::Cancel => self.cancel(),
            EditorRequest::Reply(question, reply) => self.on_reply(question, reply.as_deref()),
            // A closed channel keeps returning `End`.
            EditorRequest::End if self.state.closing == Some(Closing::Ended) => {}
            EditorRequest::End => self.close(Closing::Ended),
            EditorRequest::Kill => {
                self.abandon();
                self.session.kill();
            }
        }
    }

    fn send_line(&mut self, line: String) {
        if !self.state.is_disconnected {
            self.state.queue.push_back(line);
        }
    }

    /// Sends the error response to a request.
    fn fail(&mut self, id: &Id, why: &Failure) {
        self.send_line(wire::failure(Some(id), why));
    }

    fn prompt(&mut self, id: Id, text: String) {
        if self.state.prompt.is_some() {
            let why = "a prompt is already running in this session; wait for it or cancel it";
            return self.fail(&id, &Failure::request(why));
        }
        let _ = self.session.send(text); // if it fails, the end of the session explains why
        if let Some(outcome) = &self.state.ended {
            let failure = stop_reason::failed(outcome, "");
            return self.fail(&id, &failure);
        }
        self.state.prompt = Some(Prompt {
            id,
            is_cancelled: false,
        });
    }

    fn cancel(&mut self) {
        if let Some(prompt) = &mut self.state.prompt {
            prompt.is_cancelled = true;
            self.interrupt();
        }
    }

    /// Interrupts the turn. Its end shows the result.
    fn interrupt(&self) {
        drop(self.session.interrupt());
    }

    fn change(&mut self, id: Id, change: Change) {
        let remote = self.session.remote();
        self.state.changes.spawn(async move {
            let result = match &change {
                Change::Mode(mode) => remote.set_permission_mode(&**mode).await,
                Change::Model(model) => remote.set_model(&**model).await,
            };
            ChangeResult { id, change, result }
        });
    }

    fn on_change(&mut self, ChangeResult { id, change, result }: ChangeResult) {
        if let Err(error) = result {
            return self.fail(&id, &Failure::internal(error.to_string()));
        }
        let line = match (change, &mut self.modes, &mut self.model) {
            (Change::Model(name), _, Some(model)) => {
                model.select(&name);
                wire::response(&id, &json!({"configOptions": [model]}))
            }
            (Change::Mode(mode), Some(modes), _) => {
                modes.current_mode_id = mode;
                wire::done(&id)
            }
            _ => wire::done(&id),
        };
        self.send_line(line);
    }

    /// Sends the next page of the history; after the last one, answers the load request.
    fn send_history_page(&mut self) {
        let Some((_, history)) = &mut self.history else {
            return;
        };
        match history.page() {
            Ok(Some(events)) => events
                .iter()
                .for_each(|event| self.send_updates(event, When::History)),
            Ok(None) => self.finish_history(None),
            Err(error) => self.finish_history(Some(error.to_string())),
        }
    }

    fn finish_history(&mut self, error: Option<String>) {
        let Some((id, _)) = self.history.take() else {
            return;
        };
        let line = match error {
            Some(error) => wire::failure(Some(&id), &Failure::internal(error)),
            None => wire::response(&id, &self.reopened()),
        };
        self.send_line(line);
    }

    fn send_updates(&mut self, event: &Event, when: When) {
        for update in self.updates.updates_for(event, when) {
            let params = UpdateParams {
                session_id: &self.id,
                update: &update,
            };
            self.send_line(wire::notification("session/update", &params));
        }
    }

    /// Sends an event to the editor, then updates the state.
    fn on_event(&mut self, event: Option<&Event>) {
        let Some(event) = event else {
            let why = "the session ended without a result";
            let no_result = || Outcome::new(ostler::Cause::Protocol, why);
            return self.end(self.state.ended.clone().unwrap_or_else(no_result));
        };
        if self.state.closing != Some(Closing::Ended) {
            self.send_updates(event, When::Live);
        }
        match &event.kind {
            EventKind::TurnStarted(turn) => {
                self.state.is_ours = turn.origin == Origin::Caller;
                // The prompt was cancelled before its turn started.
                if self.state.is_ours && self.state.is_cancelled() {
                    self.interrupt();
                }
            }
            EventKind::TurnEnded(turn) if std::mem::take(&mut self.state.is_ours) => {
                let usage = turn.usage.clone();
                self.answer(&if self.state.is_cancelled() {
                    Ok(stop_reason::cancelled(usage))
                } else {
                    stop_reason::response(&turn.outcome, &turn.text, usage)
                });
            }
            EventKind::Refused(refused) if refused.request == RequestKind::Send => {
                self.answer(&Err(Failure::internal(&*refused.why)));
            }
            EventKind::Permission(permission) => self.on_permission(permission),
            EventKind::Notice(notice) if notice.level >= ostler::event::Level::Warning => {
                self.embedder
                    .warn(&format!("{}: {}", self.id, notice.message));
            }
            EventKind::Ended(ended) => self.end(ended.outcome.clone()),
            _ => {}
        }
    }

    fn answer(&mut self, result: &Result<PromptResponse, Failure>) {
        if let Some(prompt) = self.state.prompt.take() {
            self.send_line(wire::answer(&prompt.id, result));
        }
    }

    fn end(&mut self, outcome: Outcome) {
        self.answer(&if self.state.is_cancelled() {
            Ok(stop_reason::cancelled(None))
        } else {
            Err(stop_reason::failed(&outcome, ""))
        });
        self.state.ended = Some(outcome);
    }

    /// Asks the editor about a permission, or cancels the question if it was decided elsewhere.
    fn on_permission(&mut self, permission: &Permission) {
        if permission.decision == Decision::Asked {
            self.state.questions += 1;
            self.state
                .queued
                .insert(self.state.questions, permission.id.clone());
            let question = PermissionParams::new(&self.id, self.updates.question(permission));
            let id = self.question_id(self.state.questions);
            return self.send_line(wire::request(&id, "session/request_permission", &question));
        }
        let open = self
            .state
            .queued
            .iter()
            .find(|(_, about)| **about == permission.id)
            .map(|(question, _)| *question);
        if let Some(question) = open {
            self.state.queued.remove(&question);
            let params = json!({"requestId": self.question_id(question)});
            self.send_line(wire::notification("$/cancel_request", &params));
        }
    }

    /// Returns the request id of a question, which identifies its answer.
    fn question_id(&self, question: u64) -> String {
        format!("{}/{question}", self.id)
    }

    fn on_reply(&mut self, question: u64, reply: Option<&RawValue>) {
        let Some(about) = self.state.queued.remove(&question) else {
            return;
        };
        let (remote, answer) = (self.session.remote(), parse_reply(reply));
        // An event reports whether the answer arrived in time.
        tokio::spawn(async move { drop(remote.answer(&about, answer).await) });
    }
}

/// Returns the error for a request to a session that is closing.
fn closing_error(id: &Id) -> String {
    let why = Failure::request("the session is being closed")
        .hint("start another session with session/new, or resume this one with session/load");
    wire::failure(Some(id), &why)
}
