//! Requests to an agent that speaks ACP, and the error codes of the replies to its own.

use crate::jsonrpc::{Purpose, RequestId};

/// Error code: internal error.
pub(super) const INTERNAL_ERROR: i32 = -32603;
/// Error code: no such file or session.
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;

/// Purpose of a pending request.
#[derive(Debug)]
pub(super) enum RequestKind {
    /// The handshake.
    Initialize,
    /// The login that a setting selects.
    Authenticate,
    /// Opening a session; true if it is an earlier one.
    Session(bool),
    /// A setting to apply before the first prompt, by its key.
    Setup(&'static str),
    /// A round trip after which everything sent before has arrived.
    Barrier,
    /// A turn.
    Prompt,
    /// A change, with the caller's id for it.
    Change(u64),
}

impl Purpose for RequestKind {
    fn id(&self, count: &mut u64) -> RequestId {
        *count += 1;
        RequestId::number(*count)
    }
}
