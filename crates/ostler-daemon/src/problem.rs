//! Errors of the API: RFC 9457 problem details with a cause, a stable number and a hint.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use ostler_core::names::named;
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::spec::SpecError;
use ostler_store::StoreError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// What went wrong with a request. The list only grows, and numbers are never reused.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ProblemKind {
        /// The daemon failed.
        Internal = "internal",
        /// The request is not valid.
        BadRequest = "bad_request",
        /// The spec of the session is not valid.
        BadSpec = "bad_spec",
        /// The agent does not exist.
        UnknownAgent = "unknown_agent",
        /// The session does not exist.
        UnknownSession = "unknown_session",
        /// The session has ended.
        SessionEnded = "session_ended",
        /// The session cannot do this now.
        Refused = "refused",
        /// The approval does not exist.
        UnknownApproval = "unknown_approval",
        /// The approval was answered before.
        AlreadyDecided = "already_decided",
        /// The approval expired or was withdrawn.
        ApprovalExpired = "approval_expired",
        /// The request has no valid credentials.
        Unauthenticated = "unauthenticated",
        /// The caller may not do this.
        Forbidden = "forbidden",
        /// The request comes from a web page, or names another host.
        CrossOrigin = "cross_origin",
        /// There is no such resource.
        NotFound = "not_found",
        /// The resource does not support this method.
        MethodNotAllowed = "method_not_allowed",
        /// The body is not JSON.
        UnsupportedMediaType = "unsupported_media_type",
        /// The body is too large.
        TooLarge = "too_large",
        /// The body did not arrive in time.
        TooSlow = "too_slow",
        /// The idempotency key was used for another request.
        KeyReused = "key_reused",
        /// A request with this idempotency key is being processed.
        KeyBusy = "key_busy",
        /// The circuit breaker is open, or the agent cannot be started.
        Unavailable = "unavailable",
        /// The daemon is shutting down.
        ShuttingDown = "shutting_down",
        /// The store failed: a full disk, a locked or damaged database.
        StoreFailed = "store_failed",
        /// Another process runs the session.
        NotRunning = "not_running",
    }
}

impl ProblemKind {
    /// Returns the HTTP status.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadRequest | Self::BadSpec | Self::UnknownAgent => StatusCode::BAD_REQUEST,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::CrossOrigin => StatusCode::FORBIDDEN,
            Self::UnknownSession | Self::UnknownApproval | Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::SessionEnded
            | Self::Refused
            | Self::AlreadyDecided
            | Self::KeyBusy
            | Self::NotRunning => StatusCode::CONFLICT,
            Self::ApprovalExpired => StatusCode::GONE,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::KeyReused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable | Self::ShuttingDown => StatusCode::SERVICE_UNAVAILABLE,
            Self::StoreFailed => StatusCode::INSUFFICIENT_STORAGE,
        }
    }

    /// Returns the number in the registry of error codes (S2-33).
    #[must_use]
    pub fn code(self) -> u16 {
        2000 + match self {
            Self::Internal => 0,
            Self::BadRequest => 1,
            Self::BadSpec => 2,
            Self::UnknownAgent => 3,
            Self::UnknownSession => 4,
            Self::SessionEnded => 5,
            Self::Refused => 6,
            Self::UnknownApproval => 7,
            Self::AlreadyDecided => 8,
            Self::ApprovalExpired => 9,
            Self::Unauthenticated => 10,
            Self::Forbidden => 11,
            Self::CrossOrigin => 12,
            Self::NotFound => 13,
            Self::MethodNotAllowed => 14,
            Self::TooLarge => 15,
            Self::TooSlow => 16,
            Self::KeyReused => 17,
            Self::KeyBusy => 18,
            Self::Unavailable => 19,
            Self::ShuttingDown => 20,
            Self::StoreFailed => 21,
            Self::UnsupportedMediaType => 22,
            Self::NotRunning => 23,
        }
    }
}

/// An error of the API, for a person and for programs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// What went wrong.
    pub kind: ProblemKind,
    /// One sentence for a person.
    pub detail: String,
    /// Suggested next step.
    pub hint: Option<String>,
    /// When to try again, in seconds.
    pub retry_after: Option<u64>,
}

/// A problem on the wire (`application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProblemBody {
    /// Always `about:blank`: the cause identifies the problem.
    #[serde(rename = "type")]
    pub type_: String,
    /// The meaning of the HTTP status.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// One sentence for a person.
    pub detail: String,
    /// The cause, for programs.
    pub cause: String,
    /// The number of the cause.
    pub code: u16,
    /// The code of source document 002: `OBEY-` and the number.
    pub obey: String,
    /// Suggested next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// Creates a problem with a message and nothing else.
    pub fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            hint: None,
            retry_after: None,
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the problem as it is sent.
    #[must_use]
    pub fn body(&self) -> ProblemBody {
        let (status, code) = (self.kind.status(), self.kind.code());
        ProblemBody {
            type_: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            detail: self.detail.clone(),
            cause: self.kind.as_str().to_owned(),
            code,
            obey: format!("OBEY-{code}"),
            hint: self.hint.clone(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::Ambiguous { .. } => ProblemKind::BadRequest,
            StoreError::Running { .. } => ProblemKind::Refused,
            StoreError::Session { .. } => ProblemKind::UnknownSession,
            _ => ProblemKind::StoreFailed,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<SpecError> for Problem {
    fn from(error: SpecError) -> Self {
        Self::new(ProblemKind::BadSpec, error.to_string())
    }
}

impl From<Outcome> for Problem {
    fn from(outcome: Outcome) -> Self {
        let kind = match outcome.cause {
            Cause::BadRequest => ProblemKind::BadSpec,
            _ => ProblemKind::Unavailable,
        };
        Self {
            hint: outcome.hint,
            ..Self::new(kind, outcome.message)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let body = serde_json::to_string(&self.body()).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.kind.status();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.kind == ProblemKind::Unauthenticated {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"ostler\""),
            );
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    // S2-33
    #[test]
    fn every_kind_has_its_own_number_in_the_registry() {
        let codes: HashSet<u16> = ProblemKind::ALL
            .into_iter()
            .map(ProblemKind::code)
            .collect();
        assert_eq!(codes.len(), ProblemKind::ALL.len());
        assert!(codes.iter().all(|code| (2000..=2032).contains(code)));
    }
}
