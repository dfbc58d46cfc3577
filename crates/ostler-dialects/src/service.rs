//! What a status of the model's service means, whichever agent passes it on.

use ostler_core::outcome::Cause;

/// The cause of a status that all services use alike; none for one that says nothing by itself.
pub(crate) fn cause(status: u16) -> Option<Cause> {
    Some(match status {
        401 | 403 => Cause::Auth,
        402 | 429 => Cause::RateLimit,
        503 | 529 => Cause::Overloaded,
        400 | 404 | 413 | 422 => Cause::BadRequest,
        408 | 500..=599 => Cause::Network,
        _ => return None,
    })
}
