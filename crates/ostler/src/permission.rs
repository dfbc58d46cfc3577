//! Permissions: rules for what an agent may do, and the caller's answers to its requests.
//!
//! A [`Policy`] decides most calls without a person. What its rules leave open goes to the
//! [`PermissionHandler`] of the host, which can be a closure.
//!
//! ```
//! use ostler::Host;
//! use ostler::permission::{Permission, PermissionAnswer};
//!
//! let host = Host::default().with_permission_handler(|request: Permission| async move {
//!     if request.tool == "Read" {
//!         PermissionAnswer::Allow
//!     } else {
//!         PermissionAnswer::Deny("only reading is allowed here".into())
//!     }
//! });
//! ```

use futures_util::future::BoxFuture;

pub use ostler_core::event::Permission;
pub use ostler_core::machine::PermissionAnswer;
pub use ostler_core::permission::*;

/// A future that resolves to the answer to a permission request.
pub type AnswerFuture<'a> = BoxFuture<'a, PermissionAnswer>;

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
