//! Channel of requests to a session. Control messages always arrive; the number of waiting requests
//! is bounded.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::wire::Id;

/// Maximum number of requests waiting for a session.
const MAX_WAITING: usize = 64;

/// A message from the editor to a session.
pub(crate) enum EditorRequest {
    /// A request, which expects a response.
    Call(Id, Call),
    Cancel,
    /// Answer of the editor to a question.
    Reply(u64, Option<Box<RawValue>>),
    /// The program ends: gracefully (`End`) or at once (`Kill`).
    End,
    Kill,
}

/// A request that expects a response.
pub(crate) enum Call {
    Prompt(String),
    SetMode(String),
    SetOption { option: String, value: String },
    Close,
}

impl EditorRequest {
    /// Returns true if the message expects a response.
    pub(crate) fn is_request(&self) -> bool {
        matches!(self, Self::Call(..))
    }
}

/// A request, with the permit it holds while it waits.
pub(crate) struct QueuedRequest {
    pub(crate) request: EditorRequest,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why a request was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SubmitError {
    /// Too many requests are waiting.
    Full,
    /// The session was closed.
    Closed,
}

/// Sending half of the channel. Order is preserved: a cancel applies to the prompt before it.
pub(crate) struct RequestSender {
    sender: mpsc::UnboundedSender<QueuedRequest>,
    permits: Arc<Semaphore>,
}

/// Creates a channel to a session. The session receives messages at once and defers requests
/// itself, so nothing accumulates in the channel.
pub(crate) fn channel() -> (RequestSender, mpsc::UnboundedReceiver<QueuedRequest>) {
    let (sender, inbox) = mpsc::unbounded_channel();
    (
        RequestSender {
            sender,
            permits: Arc::new(Semaphore::new(MAX_WAITING)),
        },
        inbox,
    )
}

impl RequestSender {
    /// Queues a message. Only requests are bounded, because they get an error response if rejected.
    pub(crate) fn submit(&self, request: EditorRequest) -> Result<(), SubmitError> {
        let acquire = || self.permits.clone().try_acquire_owned();
        let permit = request.is_request().then(acquire).transpose();
        let queued = QueuedRequest {
            request,
            _permit: permit.map_err(|_| SubmitError::Full)?,
        };
        self.sender.send(queued).map_err(|_| SubmitError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Incoming, parse};

    fn prompt() -> EditorRequest {
        let Incoming::Request { id, .. } = parse(r#"{"id":1,"method":"m"}"#) else {
            panic!()
        };
        EditorRequest::Call(id, Call::Prompt("hello".into()))
    }

    #[test]
    fn only_requests_are_bounded() {
        let (requests, mut inbox) = channel();
        for _ in 0..MAX_WAITING {
            assert_eq!(requests.submit(prompt()), Ok(()));
        }
        assert_eq!(requests.submit(prompt()), Err(SubmitError::Full));
        for control in [
            || EditorRequest::Cancel,
            || EditorRequest::Reply(1, None),
            || EditorRequest::End,
            || EditorRequest::Kill,
        ] {
            assert_eq!(requests.submit(control()), Ok(()));
        }
        // Order is preserved, and received requests release their permits.
        assert!((0..MAX_WAITING).all(|_| {
            inbox
                .try_recv()
                .is_ok_and(|asked| asked.request.is_request())
        }));
        assert!(matches!(
            inbox.try_recv().map(|asked| asked.request),
            Ok(EditorRequest::Cancel)
        ));
        assert_eq!(requests.submit(prompt()), Ok(()));
        inbox.close();
        assert_eq!(
            requests.submit(EditorRequest::Cancel),
            Err(SubmitError::Closed)
        );
    }
}
