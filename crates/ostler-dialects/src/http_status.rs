//! Meaning of HTTP statuses from model APIs, whichever agent reports them.

use ostler_core::outcome::Cause;

/// Hint for [`Cause::ServerError`].
pub(crate) const SERVER_ERROR_HINT: &str = "The model API failed; this is usually temporary. Try \
    again in a few minutes, or use another model.";

/// Returns the cause of a status that all providers use alike, or `None` for a status that means
/// nothing by itself.
pub(crate) fn cause(status: u16) -> Option<Cause> {
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

/// Returns the first error status (400 to 599) that follows one of these markers in an agent's
/// message.
pub(crate) fn status_after(text: &str, markers: &[&str]) -> Option<u16> {
    markers
        .iter()
        .flat_map(|marker| text.split(marker).skip(1))
        .find_map(|rest| {
            let digits = rest
                .get(..3)
                .filter(|_| !rest[3..].starts_with(|c: char| c.is_ascii_digit()))?;
            digits
                .parse()
                .ok()
                .filter(|status| (400..600).contains(status))
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

    #[test]
    fn status_is_read_after_its_marker() {
        for (text, want) in [
            ("request failed (HTTP 401)", Some(401)),
            ("HTTP 4011", None),
            ("HTTP 40", None),
            ("HTTP é", None),
            ("HTTP 200, then HTTP 502", Some(502)),
            ("500", None),
        ] {
            assert_eq!(status_after(text, &["HTTP "]), want, "{text}");
        }
    }
}
