//! What is asked of a session, and the way to it: what must arrive always does, and only so many requests wait at a time.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::wire::Id;

/// How many requests may wait for a session.
const WAITING: usize = 64;

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
pub(super) struct Asked {
    pub(super) wish: EditorRequest,
    _place: Option<OwnedSemaphorePermit>,
}

/// Why a wish does not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotAsked {
    /// Too many requests wait.
    Crowded,
    /// The session is gone.
    Gone,
}

/// The way to a session. All wishes keep their order: a cancel is for the prompt before it.
pub(super) struct Asking {
    to: mpsc::UnboundedSender<Asked>,
    room: Arc<Semaphore>,
}

/// A way to a session, and its end there. Whoever serves the session takes what comes at once, and keeps the requests until
/// there is time for them: so nothing gathers on the way.
pub(super) fn way() -> (Asking, mpsc::UnboundedReceiver<Asked>) {
    let (to, inbox) = mpsc::unbounded_channel();
    (
        Asking {
            to,
            room: Arc::new(Semaphore::new(WAITING)),
        },
        inbox,
    )
}

impl Asking {
    /// Asks for something. Only a request can be one too many: it gets an answer either way.
    pub(super) fn ask(&self, wish: EditorRequest) -> Result<(), NotAsked> {
        let place = match wish.is_request() {
            true => Some(
                self.room
                    .clone()
                    .try_acquire_owned()
                    .map_err(|_| NotAsked::Crowded)?,
            ),
            false => None,
        };
        self.to
            .send(Asked {
                wish,
                _place: place,
            })
            .map_err(|_| NotAsked::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::acp::wire::{Heard, read};

    fn prompt() -> EditorRequest {
        let Heard::Request { id, .. } = read(r#"{"id":1,"method":"m"}"#) else {
            panic!()
        };
        EditorRequest::Prompt(id, "hello".into())
    }

    #[test]
    fn only_requests_can_be_too_many() {
        let (asking, mut inbox) = way();
        for _ in 0..WAITING {
            assert_eq!(asking.ask(prompt()), Ok(()));
        }
        assert_eq!(asking.ask(prompt()), Err(NotAsked::Crowded));
        for control in [
            || EditorRequest::Cancel,
            || EditorRequest::Reply(1, None),
            || EditorRequest::End,
            || EditorRequest::Kill,
        ] {
            assert_eq!(asking.ask(control()), Ok(()));
        }
        // They come in their order, and what was taken makes room.
        assert!((0..WAITING).all(|_| inbox.try_recv().is_ok_and(|asked| asked.wish.is_request())));
        assert!(matches!(
            inbox.try_recv().map(|asked| asked.wish),
            Ok(EditorRequest::Cancel)
        ));
        assert_eq!(asking.ask(prompt()), Ok(()));
        inbox.close();
        assert_eq!(asking.ask(EditorRequest::Cancel), Err(NotAsked::Gone));
    }
}
