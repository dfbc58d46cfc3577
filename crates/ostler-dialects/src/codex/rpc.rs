//! Messages to the app-server: JSON-RPC without the `jsonrpc` field, one message per line.

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

/// Sends a request. The id names its purpose, so no pending requests need to be tracked.
pub(super) fn request<T: Serialize + ?Sized>(
    (id, method): (&str, &str),
    params: &T,
    out: &mut Outbox,
) {
    #[derive(Serialize)]
    struct RpcRequest<'a, T: ?Sized> {
        id: &'a str,
        method: &'a str,
        params: &'a T,
    }
    write(&RpcRequest { id, method, params }, out);
}

/// Sends a notification.
pub(super) fn notify(method: &str, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Notification<'a> {
        method: &'a str,
    }
    write(&Notification { method }, out);
}

/// Replies to a request of Codex. `id` is JSON, as received.
pub(super) fn reply<T: Serialize + ?Sized>(id: &str, result: &T, out: &mut Outbox) {
    #[derive(Serialize)]
    struct RpcReply<'a, T: ?Sized> {
        id: RawJson,
        result: &'a T,
    }
    write(
        &RpcReply {
            id: parse_id(id),
            result,
        },
        out,
    );
}

/// Replies to an unsupported request with an error.
pub(super) fn reply_error(id: &str, message: &str, out: &mut Outbox) {
    #[derive(Serialize)]
    struct ErrorReply<'a> {
        id: RawJson,
        error: RpcError<'a>,
    }
    #[derive(Serialize)]
    struct RpcError<'a> {
        code: i32,
        message: &'a str,
    }
    write(
        &ErrorReply {
            id: parse_id(id),
            error: RpcError {
                code: -32601,
                message,
            },
        },
        out,
    );
}

fn parse_id(id: &str) -> RawJson {
    RawJson::parse(id).unwrap_or_else(|_| RawJson::null())
}

fn write<T: Serialize>(message: &T, out: &mut Outbox) {
    out.push(FromConversation::Write(
        format!("{}\n", RawJson::of(message).get()).into_bytes(),
    ));
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
