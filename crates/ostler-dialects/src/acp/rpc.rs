//! JSON-RPC client: requests to the agent under Ostler's ids, and replies to the agent's requests
//! under its own.

use std::collections::BTreeMap;

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

/// Purpose of a pending request.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Pending requests.
#[derive(Debug, Default)]
pub(super) struct RpcClient {
    last_id: u64,
    open: BTreeMap<u64, RequestKind>,
}

#[derive(Serialize)]
struct OutgoingMessage<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

impl RpcClient {
    /// Returns true if a change requested by the caller is pending.
    pub(super) fn is_changing(&self) -> bool {
        self.open
            .values()
            .any(|kind| matches!(kind, RequestKind::Change(_)))
    }

    /// Sends a request.
    pub(super) fn request<P: Serialize>(
        &mut self,
        kind: RequestKind,
        (method, params): (&str, P),
        out: &mut Outbox,
    ) {
        self.last_id += 1;
        self.open.insert(self.last_id, kind);
        write(
            &OutgoingMessage {
                jsonrpc: "2.0",
                id: Some(self.last_id),
                method,
                params,
            },
            out,
        );
    }

    /// Removes the pending request with this id and returns its purpose. Some agents return the
    /// number as a string.
    pub(super) fn complete(&mut self, id: &str) -> Option<RequestKind> {
        let number = id
            .strip_prefix('"')
            .and_then(|id| id.strip_suffix('"'))
            .unwrap_or(id);
        self.open.remove(&number.parse().ok()?)
    }
}

/// Sends a notification.
pub(super) fn notify<P: Serialize>(method: &str, params: P, out: &mut Outbox) {
    write(
        &OutgoingMessage {
            jsonrpc: "2.0",
            id: None,
            method,
            params,
        },
        out,
    );
}

#[derive(Serialize)]
struct RpcReply<'a, R> {
    jsonrpc: &'static str,
    id: &'a RawJson,
    result: R,
}

/// Replies to a request of the agent.
pub(super) fn reply<R: Serialize>(id: &RawJson, result: R, out: &mut Outbox) {
    write(
        &RpcReply {
            jsonrpc: "2.0",
            id,
            result,
        },
        out,
    );
}

/// Error code: unknown method.
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
/// Error code: invalid parameters.
pub(super) const INVALID_PARAMS: i32 = -32602;
/// Error code: internal error.
pub(super) const INTERNAL_ERROR: i32 = -32603;
/// Error code: no such file or session.
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;

#[derive(Serialize)]
struct RpcFailure<'a> {
    jsonrpc: &'static str,
    id: &'a RawJson,
    error: RpcErrorBody<'a>,
}

#[derive(Serialize)]
struct RpcErrorBody<'a> {
    code: i32,
    message: &'a str,
}

/// Replies to a request of the agent with an error.
pub(super) fn reply_error(id: &RawJson, code: i32, message: &str, out: &mut Outbox) {
    write(
        &RpcFailure {
            jsonrpc: "2.0",
            id,
            error: RpcErrorBody { code, message },
        },
        out,
    );
}

fn write<T: Serialize>(message: &T, out: &mut Outbox) {
    out.push(FromConversation::Write(
        format!("{}\n", RawJson::of(message).get()).into_bytes(),
    ));
}
