//! What is asked of a session, and the way to it: what must arrive always does, and only so many requests wait at a time.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::wire::Id;

/// How many requests may wait for a session.
const MAX_WAITING: usize = 64;

/// Something asked of a session.
pub(super) enum EditorRequest {
    Prompt(Id, String),
    Cancel,
    SetMode(Id, String),
    SetOption(Id, String, String),
    Close(Id),
    /// The editor answered a question.
    Reply(u64, Option<Box<RawValue>>),
    /// The program ends: in good order, or at once.
    End,
    Kill,
}

impl EditorRequest {
    /// Whether it wants an answer.
    pub(super) fn is_request(&self) -> bool {
        matches!(
            self,
            Self::Prompt(..) | Self::SetMode(..) | Self::SetOption(..) | Self::Close(_)
        )
    }
}

/// A wish, and the place that it takes while it waits.
pub(super) struct QueuedRequest {
    pub(super) request: EditorRequest,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Why a wish does not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubmitError {
    /// Too many requests wait.
    Full,
    /// The session is gone.
    Closed,
}

/// The way to a session. All wishes keep their order: a cancel is for the prompt before it.
pub(super) struct RequestSender {
    sender: mpsc::UnboundedSender<QueuedRequest>,
    permits: Arc<Semaphore>,
}

/// A way to a session, and its end there. Whoever serves the session takes what comes at once, and keeps the requests until
/// there is time for them: so nothing gathers on the way.
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
    /// Asks for something. Only a request can be one too many: it gets an answer either way.
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
    fn only_requests_can_be_too_many() {
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
        // They come in their order, and what was taken makes room.
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
