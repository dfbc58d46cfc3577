//! Permission handler: the caller's function that decides whether a tool may run.

use std::future::Future;
use std::pin::Pin;

use ostler_core::event::Permission;
use ostler_core::machine::PermissionAnswer;

/// A future that resolves to the answer to a permission request.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>>;

/// Answers permission requests. Several can be pending at once; a future is dropped when the agent
/// withdraws its request.
pub trait PermissionHandler: Send + Sync {
    /// Decides whether the tool call may run.
    fn ask<'a>(&'a self, request: &'a Permission) -> AnswerFuture<'a>;
}

impl<F, R> PermissionHandler for F
where
    F: Fn(Permission) -> R + Send + Sync,
    R: Future<Output = PermissionAnswer> + Send + 'static,
{
    fn ask<'a>(&'a self, request: &'a Permission) -> AnswerFuture<'a> {
        Box::pin(self(request.clone()))
    }
}
