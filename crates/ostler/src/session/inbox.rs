//! Inbox of a session: the requests that wait for its driver.
//!
//! Requests are rare, and every session has an inbox for as long as it lives. A channel of tokio
//! reserves space for 32 messages, which would be a twentieth of an idle session's memory.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::task::AtomicWaker;

use super::SessionEnded;
use super::remote::Request;

/// Creates an inbox.
pub(super) fn inbox() -> (Sender, Inbox) {
    let shared = Arc::new(Shared::default());
    (Sender(shared.clone()), Inbox(shared))
}

/// The side of the callers.
#[derive(Clone)]
pub(super) struct Sender(Arc<Shared>);

/// The side of the driver.
pub(super) struct Inbox(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Waker of the driver.
    waker: AtomicWaker,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Box<Request>>,
    is_closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Queues a request.
    pub(super) fn send(&self, request: Request) -> Result<(), SessionEnded> {
        let mut queue = self.0.lock();
        if queue.is_closed {
            return Err(SessionEnded);
        }
        queue.waiting.push_back(Box::new(request));
        drop(queue);
        self.0.waker.wake();
        Ok(())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().is_closed
    }
}

impl Inbox {
    /// Waits for the next request; forever if no caller is left. Cancel safe.
    pub(super) async fn next(&mut self) -> Box<Request> {
        poll_fn(|cx| {
            // Registered first: a request that arrives in between wakes the driver again.
            self.0.waker.register(cx.waker());
            self.take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Takes the next request that is waiting.
    pub(super) fn take(&mut self) -> Option<Box<Request>> {
        let mut queue = self.0.lock();
        let request = queue.waiting.pop_front();
        if queue.waiting.is_empty() {
            queue.waiting = VecDeque::new();
        }
        request
    }

    /// Refuses further requests.
    pub(super) fn close(&mut self) {
        self.0.lock().is_closed = true;
    }
}

/// Callers that wait for a request get an error, because the request is dropped.
impl Drop for Inbox {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.is_closed = true;
        let waiting = std::mem::take(&mut queue.waiting);
        drop(queue);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use ostler_core::machine::Input;

    use super::*;

    fn request() -> Request {
        Request {
            input: Input::Stop,
            pending: None,
        }
    }

    #[tokio::test]
    async fn requests_arrive_in_order_and_wake_the_driver() {
        let (sender, mut inbox) = inbox();
        let waiting = tokio::spawn(async move {
            let first = inbox.next().await;
            (first.input, inbox.next().await.input, inbox)
        });
        tokio::task::yield_now().await;
        sender.send(request()).unwrap();
        tokio::task::yield_now().await;
        let input = Input::Kill;
        sender.clone().send(Request { input, ..request() }).unwrap();
        let (first, second, mut inbox) = waiting.await.unwrap();
        assert!(matches!((first, second), (Input::Stop, Input::Kill)));
        assert!(inbox.take().is_none());
    }

    #[tokio::test]
    async fn a_closed_inbox_refuses_and_a_dropped_one_releases_its_callers() {
        let (sender, mut inbox) = inbox();
        let (done, completion) = tokio::sync::oneshot::channel();
        let pending = super::super::remote::PendingRequest {
            request: ostler_core::machine::CallerRequest(1),
            done,
        };
        let pending = Some(pending);
        sender
            .send(Request {
                pending,
                ..request()
            })
            .unwrap();
        inbox.close();
        assert!(sender.is_closed());
        assert_eq!(sender.send(request()), Err(SessionEnded));
        drop(inbox);
        assert!(completion.await.is_err(), "nothing will complete it");
    }
}
