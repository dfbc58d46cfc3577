//! Bodies and queries of requests, and JSON responses.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Reply;
use crate::problem::{Problem, ProblemKind};

/// Maximum size of a body.
const MAX_BODY: usize = 8 * 1024 * 1024;

/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a body of JSON.
pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    // A web page can send other types without asking.
    let is_json = kind.is_some_and(|kind| {
        kind.split(|byte| *byte == b';')
            .next()
            .is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"application/json"))
    });
    if !is_json {
        let why = "expected a body of JSON, with `Content-Type: application/json`";
        return Err(Problem::new(ProblemKind::UnsupportedMediaType, why));
    }
    let body = Limited::new(body, MAX_BODY).collect();
    match tokio::time::timeout(BODY_TIMEOUT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
            ProblemKind::TooLarge,
            format!("the body exceeds {MAX_BODY} bytes"),
        )),
        Ok(Err(error)) => Err(Problem::new(ProblemKind::BadRequest, error.to_string())),
        Err(_) => Err(Problem::new(
            ProblemKind::TooSlow,
            "the body did not arrive in time",
        )),
    }
}

/// Runs a change to its end, even if the client disconnects: a change that is half done would stay
/// so.
pub(super) async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(change).await {
        Ok(result) => result,
        Err(error) => Err(Problem::new(ProblemKind::Internal, error.to_string())),
    }
}

/// Parses a body.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::new(ProblemKind::BadRequest, error.to_string()))
}

/// Creates a response of JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    let text = serde_json::to_string(value)
        .map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))?;
    Ok(text_response(status, "application/json", text))
}

/// Creates a response of text.
pub(super) fn text_response(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The parameters of a query, decoded. Each is taken once, and unknown ones are an error.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: Option<&str>) -> Result<Self, Problem> {
        let pairs = query.unwrap_or_default().split('&');
        let pairs = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode(name)?, decode(value)?))
        });
        pairs.collect::<Result<_, Problem>>().map(Self)
    }

    /// Takes a parameter.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// Takes all parameters of a name.
    pub(super) fn take_all(&mut self, name: &str) -> Vec<String> {
        std::iter::from_fn(|| self.take(name)).collect()
    }

    /// Takes a parameter and parses it; `expected` describes its values.
    pub(super) fn take_as<T: std::str::FromStr>(
        &mut self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, Problem> {
        let value = self.take(name);
        value
            .map(|value| value.parse().map_err(|_| invalid(name, &value, expected)))
            .transpose()
    }

    /// Fails if a parameter is left.
    pub(super) fn finish(self) -> Result<(), Problem> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Problem::new(
                ProblemKind::BadRequest,
                format!("unknown or repeated parameter {name:?}"),
            )),
        }
    }
}

/// The problem of a parameter with an invalid value.
pub(super) fn invalid(name: &str, value: &str, expected: &str) -> Problem {
    Problem::new(
        ProblemKind::BadRequest,
        format!("{name} = {value:?}: expected {expected}"),
    )
}

/// Decodes percent-encoded text: a name or value of a query.
pub(super) fn decode(text: &str) -> Result<String, Problem> {
    let fail = || invalid("query", text, "percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, tail) = rest.split_at_checked(2).ok_or_else(fail)?;
                let digits = std::str::from_utf8(digits).map_err(|_| fail())?;
                // `from_str_radix` accepts a sign.
                if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(fail());
                }
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| fail())?);
                rest = tail;
            }
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| fail())
}

/// Parses a time: `90`, `90s`, `5m`.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let (number, factor) = match text.strip_suffix('m') {
        Some(number) => (number, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    let number: u64 = number.parse().ok()?;
    Some(Duration::from_secs(number.checked_mul(factor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded_and_checked() {
        let mut query = Query::parse(Some("a=b+c&d=%C3%A9%2B&label=x&label=y&e")).unwrap();
        assert_eq!(query.take("a").as_deref(), Some("b c"));
        assert_eq!(query.take("d").as_deref(), Some("é+"));
        assert_eq!(query.take_all("label"), ["x", "y"]);
        assert_eq!(query.take_as::<u64>("n", "a number").unwrap(), None);
        assert!(query.finish().is_err(), "`e` is left");
        for bad in ["%", "%4", "%+1", "%zz", "%ff"] {
            assert!(Query::parse(Some(bad)).is_err(), "{bad}");
        }
        let mut query = Query::parse(Some("n=x")).unwrap();
        assert!(query.take_as::<u64>("n", "a number").is_err());
        assert!(Query::parse(None).unwrap().finish().is_ok());
    }

    #[test]
    fn times_are_seconds_or_minutes() {
        for (text, expected) in [
            ("90", Some(90)),
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("", None),
            ("1h", None),
            ("-1", None),
            ("18446744073709551615m", None),
        ] {
            assert_eq!(seconds(text), expected.map(Duration::from_secs), "{text}");
        }
    }
}
