//! Meaning of an HTTP status of the model's service, whichever agent passes it on.

use ostler_core::outcome::Cause;

/// What to do about [`Cause::ServerError`].
pub(crate) const SERVER_ERROR_HINT: &str = "The model's service failed; this is usually temporary: try again in a few minutes, or use another model.";

/// Returns the cause of a status that all services use alike, or `None` for one that says nothing by itself.
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

/// Returns the first error status (400 to 599) that stands behind one of these marks in an agent's sentence.
pub(crate) fn status_after(text: &str, marks: &[&str]) -> Option<u16> {
    marks
        .iter()
        .flat_map(|mark| text.split(mark).skip(1))
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
    fn a_failing_service_is_neither_busy_nor_out_of_reach() {
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
    fn a_status_stands_behind_its_mark() {
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
