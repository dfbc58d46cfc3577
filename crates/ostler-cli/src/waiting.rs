//! Waiting for something that may not exist.

/// Waits for a future; pending forever if there is none.
pub(crate) async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
