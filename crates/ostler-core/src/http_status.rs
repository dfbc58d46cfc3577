//! Meaning of HTTP statuses of model APIs, whichever agent reports them.

use crate::outcome::Cause;

/// Hint for [`Cause::ServerError`].
pub const SERVER_ERROR_HINT: &str = "The model API failed; this is usually temporary. Try \
    again in a few minutes, or use another model.";

/// Returns the cause of a status that all providers use alike, or `None` for a status that means
/// nothing by itself.
pub fn cause(status: u16) -> Option<Cause> {
    Some(match status {
        401 | 403 => Cause::Auth,
        402 | 429 => Cause::RateLimit,
        503 | 529 => Cause::Overloaded,
        400 | 404 | 413 | 422 => Cause::BadRequest,
        408 => Cause::Network,
        500..=599 => Cause::ServerError,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_errors_are_neither_overload_nor_network() {
        for (status, want) in [
            (500, Some(Cause::ServerError)),
            (502, Some(Cause::ServerError)),
            (504, Some(Cause::ServerError)),
            (520, Some(Cause::ServerError)),
            (503, Some(Cause::Overloaded)),
            (529, Some(Cause::Overloaded)),
            (408, Some(Cause::Network)),
            (600, None),
        ] {
            assert_eq!(cause(status), want, "{status}");
        }
    }
}
