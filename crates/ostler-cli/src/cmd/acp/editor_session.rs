//! One session of an editor: handles its requests and sends its updates, in order and at the
//! editor's pace.

use std::collections::{BTreeMap, VecDeque};

use ostler::event::{Decision, Origin, Permission};
use ostler::{
    Event, EventKind, Outcome, PendingInterrupt, PermissionAnswer, RequestError, Session,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::history::History;
use super::pipes;
use super::request::{EditorRequest, QueuedRequest};
use super::session_params::{ModelOption, Modes};
use super::stop_reason::{self, PromptResponse};
use super::update::{ToolCallUpdate, Update, UpdateMapper, When};
use super::wire::{self, Data, Failure, Id};
use crate::output;

/// Maximum number of waiting lines before requests are deferred.
const QUEUE_LIMIT: usize = 256;

/// A session and its state.
pub(super) struct EditorSession {
    /// Session id that the editor uses.
    pub(super) id: String,
    pub(super) session: Session,
    pub(super) out: mpsc::Sender<String>,
    pub(super) inbox: mpsc::UnboundedReceiver<QueuedRequest>,
    pub(super) updates: UpdateMapper,
    pub(super) modes: Option<Modes>,
    pub(super) model: Option<ModelOption>,
    /// History to send first, and the id of the request to answer afterwards.
    pub(super) history: Option<(Id, History)>,
    pub(super) state: EditorState,
}

/// State of a session.
#[derive(Default)]
pub(super) struct EditorState {
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
pub(super) struct ClosedSession {
    pub(super) id: String,
    /// Lines that are still to be sent.
    pub(super) lines: Vec<String>,
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
    kind: Change,
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

/// Parameters of `session/request_permission`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PermissionParams<'a> {
    session_id: &'a str,
    tool_call: ToolCallUpdate,
    options: [PermissionOption; 3],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PermissionOption {
    option_id: &'static str,
    name: &'static str,
    kind: &'static str,
}

const PERMISSION_OPTIONS: [(&str, &str); 3] = [
    ("allow_once", "Allow"),
    ("allow_always", "Allow for the rest of the session"),
    ("reject_once", "Reject"),
];

/// Response to opening a session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SessionInfo<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modes: Option<&'a Modes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_options: Option<Vec<&'a ModelOption>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigOptions<'a> {
    config_options: Vec<&'a ModelOption>,
}

/// An empty response.
#[derive(Serialize)]
pub(super) struct EmptyResponse {}

/// Denial message for the model when the user rejects a call.
const DENIED_BY_USER: &str = "The user does not want this to be done.";

impl EditorSession {
    /// Returns the response for a new session.
    pub(super) fn opened(&self) -> SessionInfo<'_> {
        let config_options = self.model.as_ref().map(|model| vec![model]);
        SessionInfo {
            session_id: Some(&self.id),
            modes: self.modes.as_ref(),
            config_options,
        }
    }

    /// Returns the response for a session whose id the editor gave.
    pub(super) fn reopened(&self) -> SessionInfo<'_> {
        SessionInfo {
            session_id: None,
            ..self.opened()
        }
    }

    /// Queues a line before all output of the session.
    pub(super) fn first(&mut self, line: String) {
        self.state.queue.push_back(line);
    }

    /// Serves the session until it is closed, and returns the remaining lines.
    pub(super) async fn serve(mut self) -> ClosedSession {
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
                queued = self.inbox.recv() => self.on_queued(queued),
                Some(changed) = self.state.changes.join_next() => {
                    changed.into_iter().for_each(|change| self.on_change(change));
                }
                () = std::future::ready(()), if can_run_next => self.run_next_waiting(),
                () = std::future::ready(()), if is_flushed && has_history => {
                    self.send_history_page();
                }
            }
        }
        self.into_closed()
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
    fn into_closed(mut self) -> ClosedSession {
        self.inbox.close(); // from now on the server rejects requests for this session
        let mut rest = std::mem::take(&mut self.state.waiting);
        rest.extend(std::iter::from_fn(|| self.inbox.try_recv().ok()));
        let mut lines: Vec<String> = self
            .state
            .close_requests
            .iter()
            .map(|id| wire::response(id, &EmptyResponse {}))
            .collect();
        lines.extend(rest.into_iter().filter_map(|queued| match queued.request {
            EditorRequest::Close(id) => Some(wire::response(&id, &EmptyResponse {})),
            EditorRequest::Prompt(id, _)
            | EditorRequest::SetMode(id, _)
            | EditorRequest::SetOption(id, ..) => Some(closing_error(&id)),
            EditorRequest::Cancel
            | EditorRequest::Reply(..)
            | EditorRequest::End
            | EditorRequest::Kill => None,
        }));
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
            EditorRequest::Close(id) => {
                self.state.close_requests.push(id);
                self.cancel();
                if self.state.closing.is_none() {
                    self.close(Closing::Closed);
                }
            }
            EditorRequest::Prompt(id, _)
            | EditorRequest::SetMode(id, _)
            | EditorRequest::SetOption(id, ..)
                if self.state.closing.is_some() =>
            {
                self.send_line(closing_error(&id));
            }
            EditorRequest::Prompt(id, text) => self.prompt(id, text),
            EditorRequest::Cancel => self.cancel(),
            EditorRequest::SetMode(id, mode) => self.set_mode(id, mode),
            EditorRequest::SetOption(id, option, value) => self.set_option(id, &option, value),
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

    fn prompt(&mut self, id: Id, text: String) {
        if self.state.prompt.is_some() {
            let why = Failure::request(
                "a prompt is already running in this session; wait for it or cancel it",
            );
            return self.send_line(wire::failure(Some(&id), &why));
        }
        let sent = self.session.send(text);
        match (sent, &self.state.ended) {
            (Ok(()), None) => {
                self.state.prompt = Some(Prompt {
                    id,
                    is_cancelled: false,
                });
            }
            (_, Some(outcome)) => {
                let failure = stop_reason::failed(outcome, "");
                self.send_line(wire::failure(Some(&id), &failure));
            }
            // The end of the session follows and explains why.
            (Err(_), None) => {
                self.state.prompt = Some(Prompt {
                    id,
                    is_cancelled: false,
                });
            }
        }
    }

    fn cancel(&mut self) {
        if let Some(prompt) = &mut self.state.prompt {
            prompt.is_cancelled = true;
            interrupt(self.session.interrupt());
        }
    }

    fn set_mode(&mut self, id: Id, mode: String) {
        if !self.modes.as_ref().is_some_and(|modes| modes.has(&mode)) {
            let why = Failure::params(format!("unknown mode {mode:?}"));
            return self.send_line(wire::failure(Some(&id), &why));
        }
        let remote = self.session.remote();
        self.state.changes.spawn(async move {
            let result = remote.set_permission_mode(&*mode).await;
            ChangeResult {
                id,
                kind: Change::Mode(mode),
                result,
            }
        });
    }

    fn set_option(&mut self, id: Id, option: &str, value: String) {
        if self.model.as_ref().is_none_or(|model| model.id != option) {
            let why = Failure::params(format!("unknown option {option:?}"));
            return self.send_line(wire::failure(Some(&id), &why));
        }
        let remote = self.session.remote();
        self.state.changes.spawn(async move {
            let result = remote.set_model(&*value).await;
            ChangeResult {
                id,
                kind: Change::Model(value),
                result,
            }
        });
    }

    fn on_change(&mut self, ChangeResult { id, kind, result }: ChangeResult) {
        if let Err(error) = result {
            let why = Failure::internal(error.to_string(), Data::default());
            return self.send_line(wire::failure(Some(&id), &why));
        }
        let line = match (kind, &mut self.modes, &mut self.model) {
            (Change::Mode(mode), Some(modes), _) => {
                modes.current_mode_id = mode;
                wire::response(&id, &EmptyResponse {})
            }
            (Change::Model(name), _, Some(model)) => {
                model.select(&name);
                wire::response(
                    &id,
                    &ConfigOptions {
                        config_options: vec![model],
                    },
                )
            }
            _ => wire::response(&id, &EmptyResponse {}),
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
            Some(error) => wire::failure(Some(&id), &Failure::internal(error, Data::default())),
            None => wire::response(&id, &self.reopened()),
        };
        self.send_line(line);
    }

    fn send_updates(&mut self, event: &Event, when: When) {
        for update in self.updates.updates_for(event, when) {
            let line = wire::notification(
                "session/update",
                &UpdateParams {
                    session_id: &self.id,
                    update: &update,
                },
            );
            self.send_line(line);
        }
    }

    /// Sends an event to the editor, then updates the state.
    fn on_event(&mut self, event: Option<&Event>) {
        let Some(event) = event else {
            let no_result = || {
                Outcome::new(
                    ostler::Cause::Protocol,
                    "the session ended without a result",
                )
            };
            return self.end(self.state.ended.clone().unwrap_or_else(no_result));
        };
        if self.state.closing != Some(Closing::Ended) {
            self.send_updates(event, When::Live);
        }
        match &event.kind {
            EventKind::TurnStarted(turn) => {
                self.state.is_ours = turn.origin == Origin::Caller;
                // The prompt was cancelled before its turn started.
                if self.state.is_ours
                    && self
                        .state
                        .prompt
                        .as_ref()
                        .is_some_and(|prompt| prompt.is_cancelled)
                {
                    interrupt(self.session.interrupt());
                }
            }
            EventKind::TurnEnded(turn) if std::mem::take(&mut self.state.is_ours) => {
                let is_cancelled = self
                    .state
                    .prompt
                    .as_ref()
                    .is_some_and(|prompt| prompt.is_cancelled);
                self.answer(&match is_cancelled {
                    true => Ok(stop_reason::cancelled(turn.usage.clone())),
                    false => stop_reason::response(&turn.outcome, &turn.text, turn.usage.clone()),
                });
            }
            EventKind::Refused(refused) if refused.request == "send" => {
                self.answer(&Err(Failure::internal(&*refused.why, Data::default())));
            }
            EventKind::Permission(permission) => self.on_permission(permission),
            EventKind::Notice(notice) if notice.level >= ostler::event::Level::Warning => {
                output::eprint_line(&format!(
                    "{}: {}",
                    self.id,
                    ostler::clip::sanitize(&notice.message)
                ));
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
        let is_cancelled = self
            .state
            .prompt
            .as_ref()
            .is_some_and(|prompt| prompt.is_cancelled);
        self.answer(&if is_cancelled {
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
            let options = PERMISSION_OPTIONS.map(|(id, name)| PermissionOption {
                option_id: id,
                name,
                kind: id,
            });
            let tool_call = self.updates.question(permission);
            let question = PermissionParams {
                session_id: &self.id,
                tool_call,
                options,
            };
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
            #[derive(Serialize)]
            #[serde(rename_all = "camelCase")]
            struct CancelParams {
                request_id: String,
            }
            self.state.queued.remove(&question);
            let params = CancelParams {
                request_id: self.question_id(question),
            };
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
    let why = Failure::request("the session is being closed");
    wire::failure(
        Some(id),
        &why.hint("start another session with session/new, or resume this one with session/load"),
    )
}

/// Ignores the result of an interrupt; the end of the turn shows it.
fn interrupt(queued: PendingInterrupt) {
    drop(queued);
}

/// Parses the reply to a question. Anything but an allow option denies.
fn parse_reply(reply: Option<&RawValue>) -> PermissionAnswer {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PermissionReply {
        outcome: SelectedOption,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct SelectedOption {
        outcome: String,
        option_id: String,
    }
    let reply: PermissionReply = reply
        .and_then(|reply| serde_json::from_str(reply.get()).ok())
        .unwrap_or_default();
    match (&*reply.outcome.outcome, &*reply.outcome.option_id) {
        ("selected", "allow_once") => PermissionAnswer::Allow,
        ("selected", "allow_always") => PermissionAnswer::AllowAlways,
        _ => PermissionAnswer::Deny(DENIED_BY_USER.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_but_an_allow_option_denies() {
        let of = |text: &str| parse_reply(Some(serde_json::from_str(text).unwrap()));
        assert_eq!(
            of(r#"{"outcome":{"outcome":"selected","optionId":"allow_once"}}"#),
            PermissionAnswer::Allow
        );
        assert_eq!(
            of(r#"{"outcome":{"outcome":"selected","optionId":"allow_always"}}"#),
            PermissionAnswer::AllowAlways
        );
        let no = PermissionAnswer::Deny(DENIED_BY_USER.into());
        for other in [
            r#"{"outcome":{"outcome":"selected","optionId":"reject_once"}}"#,
            r#"{"outcome":{"outcome":"selected","optionId":"allow"}}"#,
            r#"{"outcome":{"outcome":"cancelled","optionId":"allow_once"}}"#,
            r#"{"outcome":"selected"}"#,
            "{}",
            "null",
        ] {
            assert_eq!(of(other), no, "{other}");
        }
        assert_eq!(parse_reply(None), no, "an error is no answer");
    }
}
