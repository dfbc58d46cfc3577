//! Requests to the app-server, which speaks JSON-RPC without the `jsonrpc` field.

use crate::jsonrpc::{Framing, Purpose, RequestId, UNVERSIONED};

/// Form of the messages.
pub(super) const RPC: Framing = UNVERSIONED;

/// Purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Initialize,
    Thread,
    Turn,
    Steer,
    Interrupt,
    /// Termination of the commands that an interrupted turn left running.
    Clean,
}

impl Purpose for RequestKind {
    /// The id names the purpose, so that a recording is easy to read.
    fn id(&self, count: &mut u64) -> RequestId {
        let name = match self {
            Self::Initialize => return RequestId::text("initialize"),
            Self::Thread => return RequestId::text("thread"),
            Self::Turn => "turn",
            Self::Steer => "steer",
            Self::Interrupt => "interrupt",
            Self::Clean => "clean",
        };
        *count += 1;
        RequestId::text(&format!("{name}-{count}"))
    }
}

/// Returns true if a recording that begins with this text is of Codex's app-server.
pub(super) fn recognizes(opening: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct InitializeResponse {
        #[serde(rename = "result")]
        _result: InitializeResult,
    }
    #[derive(serde::Deserialize)]
    struct InitializeResult {
        #[serde(rename = "userAgent")]
        _user_agent: serde::de::IgnoredAny,
        #[serde(rename = "codexHome")]
        _codex_home: serde::de::IgnoredAny,
    }
    crate::recording::lines::<InitializeResponse>(opening)
        .next()
        .is_some()
}
