//! Calls: requests of a session's callers on their way to its worker.
//!
//! A request is sent again until its reply is there, and carried out once: the worker takes them in
//! the order of their numbers. A caller that waits gets a refusal after a while.

use std::collections::VecDeque;
use std::time::Duration;

use ostler::event::{
    EventKind, Level, Notice, NoticeCode, RefusalCode, Refused, RequestKind, Timestamp,
};
use ostler::session::{RelayedRequest, SessionReply, SessionRequest};
use tokio::time::Instant;

use crate::clock;
use crate::message::SessionCall;

/// How long a caller waits for a worker. An interrupt includes the agent's grace periods.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the worker may carry a request out, by its clock.
const VALIDITY_MS: i64 = 10 * 60 * 1000;

/// What is sent to the worker.
enum Content {
    /// A request of a caller.
    Request(RelayedRequest),
    /// A notice in place of a request that is too large. The events are numbered by the worker, so
    /// that only it can add one.
    Notice(Notice),
}

impl Content {
    fn request(&self) -> SessionRequest {
        match self {
            Self::Request(request) => request.request.clone(),
            Self::Notice(notice) => SessionRequest::Notice(notice.clone()),
        }
    }

    fn is_message(&self) -> bool {
        match self {
            Self::Request(request) => request.request.is_message(),
            Self::Notice(_) => false,
        }
    }

    fn complete(self, reply: SessionReply) {
        if let Self::Request(request) = self {
            request.complete(reply);
        }
    }
}

/// A request whose reply is missing.
struct OpenCall {
    number: u64,
    content: Content,
    /// When its caller gives up.
    until: Option<Instant>,
}

/// The open requests of a session.
pub(super) struct Calls {
    caller: String,
    next: u64,
    open: VecDeque<OpenCall>,
    /// Events about messages that were not delivered.
    refused: Vec<Refused>,
}

impl Calls {
    pub(super) fn new() -> Self {
        Self {
            caller: uuid::Uuid::new_v4().to_string(),
            next: 1,
            open: VecDeque::new(),
            refused: Vec::new(),
        }
    }

    /// Adds a request.
    pub(super) fn push(&mut self, request: RelayedRequest) {
        let until = request.is_awaited().then(|| clock::now() + PATIENCE);
        self.open.push_back(OpenCall {
            number: self.next,
            content: Content::Request(request),
            until,
        });
        self.next += 1;
    }

    /// Refuses the last request, which is too large for the server. A notice takes its place.
    pub(super) fn refuse_newest(&mut self, most: usize) {
        let Some(call) = self.open.back_mut() else {
            return;
        };
        let why = format!(
            "a request to a session in a fleet has at most {most} bytes, which its server sets"
        );
        let message = format!("A request was not delivered: {why}.");
        let notice = Notice::new(Level::Warning, NoticeCode::Worker, message);
        let content = std::mem::replace(&mut call.content, Content::Notice(notice));
        call.until = None;
        let refused = Refused {
            request: content.request().kind().unwrap_or(RequestKind::Send),
            why,
            code: RefusalCode::Rejected,
        };
        if content.is_message() {
            self.refused.push(refused.clone());
        }
        content.complete(SessionReply::Refused(refused));
    }

    /// Returns true if a request to stop the session has no reply yet.
    pub(super) fn is_stopping(&self) -> bool {
        self.open.iter().any(|call| match &call.content {
            Content::Request(request) => request.request == SessionRequest::Stop,
            Content::Notice(_) => false,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the last request as it is sent.
    pub(super) fn newest(&self, now: Timestamp) -> Option<SessionCall> {
        self.open.back().map(|call| self.message(call, now))
    }

    /// Returns all requests as they are sent, in order.
    pub(super) fn all(&self, now: Timestamp) -> Vec<SessionCall> {
        self.open
            .iter()
            .map(|call| self.message(call, now))
            .collect()
    }

    fn message(&self, call: &OpenCall, now: Timestamp) -> SessionCall {
        SessionCall {
            caller: self.caller.clone(),
            number: call.number,
            oldest: self.open.front().map_or(call.number, |call| call.number),
            not_after: Timestamp(now.0.saturating_add(VALIDITY_MS)),
            request: call.content.request(),
        }
    }

    /// Passes a reply on to its caller.
    pub(super) fn on_reply(&mut self, caller: &str, number: u64, reply: SessionReply) {
        if caller != self.caller {
            return; // of an earlier process
        }
        let at = self.open.iter().position(|call| call.number == number);
        if let Some(call) = at.and_then(|at| self.open.remove(at)) {
            if reply == SessionReply::Ended && call.content.is_message() {
                self.refused.push(undelivered());
            }
            call.content.complete(reply);
        }
    }

    /// Returns when the next caller gives up.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.open.iter().filter_map(|call| call.until).min()
    }

    /// Refuses the requests of callers that have waited long enough.
    pub(super) fn expire(&mut self) {
        let now = clock::now();
        let is_due = |call: &OpenCall| call.until.is_some_and(|until| until <= now);
        let (due, open) = self.open.drain(..).partition(is_due);
        self.open = open;
        let due: VecDeque<OpenCall> = due;
        for call in due {
            let kind = call.content.request().kind();
            call.content.complete(SessionReply::Refused(Refused {
                request: kind.unwrap_or(RequestKind::Send),
                why: "the worker that runs the session did not answer in time".to_owned(),
                code: RefusalCode::Timeout,
            }));
        }
    }

    /// Returns an event for each message that did not arrive.
    pub(super) fn refusals(&self) -> Vec<EventKind> {
        let messages = self.open.iter().filter(|call| call.content.is_message());
        let ending = messages.map(|_| undelivered());
        let refused = self.refused.iter().cloned().chain(ending);
        refused.map(EventKind::from).collect()
    }
}

/// Returns the event for a message that did not arrive.
fn undelivered() -> Refused {
    Refused {
        request: RequestKind::Send,
        why: "the session ended before the message was delivered".to_owned(),
        code: RefusalCode::Ending,
    }
}
