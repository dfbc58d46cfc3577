//! Who answers when it is asked whether a tool may run: a function of the caller's.

use std::future::Future;
use std::pin::Pin;

use ostler_core::event::Permission;
use ostler_core::machine::PermissionAnswer;

/// What a question came to.
pub type AnswerFuture<'a> = Pin<Box<dyn Future<Output = PermissionAnswer> + Send + 'a>>;

/// Answers questions about tools. Several can be open at once; each is dropped when the
/// agent withdraws it.
pub trait PermissionHandler: Send + Sync {
    /// Whether this may run.
    fn ask<'a>(&'a self, question: &'a Permission) -> AnswerFuture<'a>;
}

impl<F, R> PermissionHandler for F
where
    F: Fn(Permission) -> R + Send + Sync,
    R: Future<Output = PermissionAnswer> + Send + 'static,
{
    fn ask<'a>(&'a self, question: &'a Permission) -> AnswerFuture<'a> {
        Box::pin(self(question.clone()))
    }
}
