//! Channel of requests to a session. Control messages always arrive; the number of waiting requests
//! is bounded.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::wire::Id;

/// Maximum number of requests waiting for a session.
const MAX_WAITING: usize = 64;

/// A message from the editor to a session.
pub(super) enum EditorRequest {
    Prompt(Id, String),
    Cancel,
    SetMode(Id, String),
    SetOption(Id, String, String),
    Close(Id),
    /// Answer of the editor to a question.
    Reply(u64, Option<Box<RawValue>>),
    /// The program ends: gracefully (`End`) or at once (`Kill`).
    End,
    Kill,
}

impl EditorRequest {
    /// Returns true if the message expects a response.
    pub(super) fn is_request(&self) -> bool {
        matches!(
            self,
            Self::Prompt(..) | Self::SetMode(..) | Self::SetOption(..) | Self::Close(_)
        )
    }
}

/// A request, with the permit it holds while it waits.
pub(super) struct QueuedRequest {
    pub(super) request: EditorRequest,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why a request was not queued.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubmitError {
    /// Too many requests are waiting.
    Full,
    /// The session was closed.
    Closed,
}

/// Sending half of the channel. Order is preserved: a cancel applies to the prompt before it.
pub(super) struct RequestSender {
    sender: mpsc::UnboundedSender<QueuedRequest>,
    permits: Arc<Semaphore>,
}

/// Creates a channel to a session. The session receives messages at once and defers requests
/// itself, so nothing accumulates in the channel.
pub(super) fn channel() -> (RequestSender, mpsc::UnboundedReceiver<QueuedRequest>) {
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
    pub(super) fn submit(&self, request: EditorRequest) -> Result<(), SubmitError> {
        let permit = match request.is_request() {
            true => Some(
                self.permits
                    .clone()
                    .try_acquire_owned()
                    .map_err(|_| SubmitError::Full)?,
            ),
            false => None,
        };
        self.sender
            .send(QueuedRequest {
                request,
                _permit: permit,
            })
            .map_err(|_| SubmitError::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::acp::wire::{Incoming, parse};

    fn prompt() -> EditorRequest {
        let Incoming::Request { id, .. } = parse(r#"{"id":1,"method":"m"}"#) else {
            panic!()
        };
        EditorRequest::Prompt(id, "hello".into())
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
