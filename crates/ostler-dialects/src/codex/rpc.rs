//! Messages to the app-server: JSON-RPC, one message per line, without the field that names it.

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

/// Asks for something. The id says what, so that the answer needs no memory.
pub(super) fn request<T: Serialize + ?Sized>(
    (id, method): (&str, &str),
    params: &T,
    out: &mut Outbox,
) {
    #[derive(Serialize)]
    struct Request<'a, T: ?Sized> {
        id: &'a str,
        method: &'a str,
        params: &'a T,
    }
    write(&Request { id, method, params }, out);
}

/// Tells something.
pub(super) fn note(method: &str, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Note<'a> {
        method: &'a str,
    }
    write(&Note { method }, out);
}

/// Answers a request of Codex's. `id` is JSON, as it came.
pub(super) fn reply<T: Serialize + ?Sized>(id: &str, result: &T, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Reply<'a, T: ?Sized> {
        id: RawJson,
        result: &'a T,
    }
    write(
        &Reply {
            id: raw(id),
            result,
        },
        out,
    );
}

/// Answers a request that is not understood here.
pub(super) fn refuse(id: &str, message: &str, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Refusal<'a> {
        id: RawJson,
        error: Fault<'a>,
    }
    #[derive(Serialize)]
    struct Fault<'a> {
        code: i32,
        message: &'a str,
    }
    write(
        &Refusal {
            id: raw(id),
            error: Fault {
                code: -32601,
                message,
            },
        },
        out,
    );
}

fn raw(id: &str) -> RawJson {
    RawJson::parse(id).unwrap_or_else(|_| RawJson::null())
}

fn write<T: Serialize>(message: &T, out: &mut Outbox) {
    out.push(FromConversation::Write(
        format!("{}\n", RawJson::of(message).get()).into_bytes(),
    ));
}

/// Returns true if a recording that begins with this text is of Codex's app server.
pub(super) fn is_recorded(opening: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Introduced {
        #[serde(rename = "result")]
        _result: Introduction,
    }
    #[derive(serde::Deserialize)]
    struct Introduction {
        #[serde(rename = "userAgent")]
        _user_agent: serde::de::IgnoredAny,
        #[serde(rename = "codexHome")]
        _codex_home: serde::de::IgnoredAny,
    }
    crate::recording::lines::<Introduced>(opening)
        .next()
        .is_some()
}
