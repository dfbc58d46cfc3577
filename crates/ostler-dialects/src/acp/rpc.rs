//! JSON-RPC towards the agent: requests with numbers of ours, answers under ids of its own.

use std::collections::BTreeMap;

use ostler_core::dialect::{FromConversation, Outbox};
use ostler_core::raw_json::RawJson;
use serde::Serialize;

/// What a request of ours was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The handshake.
    Initialize,
    /// The login that a setting named.
    Authenticate,
    /// A session, new or gone on with; whether it is an earlier one.
    Session(bool),
    /// A wish of the spec's, before the first message: which setting.
    Setup(&'static str),
    /// A round trip that shows that everything before it was heard.
    Barrier,
    /// A turn.
    Prompt,
    /// A change, with the caller's number.
    Change(u64),
}

/// The requests of ours that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Rpc {
    sent: u64,
    open: BTreeMap<u64, Wanted>,
}

#[derive(Serialize)]
struct Call<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    method: &'a str,
    params: P,
}

impl Rpc {
    /// Whether a change that the caller wants is under way.
    pub(super) fn is_changing(&self) -> bool {
        self.open
            .values()
            .any(|wanted| matches!(wanted, Wanted::Change(_)))
    }

    /// Asks for something.
    pub(super) fn request<P: Serialize>(
        &mut self,
        wanted: Wanted,
        (method, params): (&str, P),
        out: &mut Outbox,
    ) {
        self.sent += 1;
        self.open.insert(self.sent, wanted);
        write(
            &Call {
                jsonrpc: "2.0",
                id: Some(self.sent),
                method,
                params,
            },
            out,
        );
    }

    /// What the request of this id was for; none when there is no such request. Some make a text of our number.
    pub(super) fn answered(&mut self, id: &str) -> Option<Wanted> {
        let number = id
            .strip_prefix('"')
            .and_then(|id| id.strip_suffix('"'))
            .unwrap_or(id);
        self.open.remove(&number.parse().ok()?)
    }
}

/// Tells something.
pub(super) fn notify<P: Serialize>(method: &str, params: P, out: &mut Outbox) {
    write(
        &Call {
            jsonrpc: "2.0",
            id: None,
            method,
            params,
        },
        out,
    );
}

#[derive(Serialize)]
struct Reply<'a, R> {
    jsonrpc: &'static str,
    id: &'a RawJson,
    result: R,
}

/// Answers a request of the agent's.
pub(super) fn reply<R: Serialize>(id: &RawJson, result: R, out: &mut Outbox) {
    write(
        &Reply {
            jsonrpc: "2.0",
            id,
            result,
        },
        out,
    );
}

/// There is no such method.
pub(super) const NO_METHOD: i32 = -32601;
/// The parameters are wrong.
pub(super) const BAD_PARAMS: i32 = -32602;
/// It did not work.
pub(super) const INTERNAL: i32 = -32603;
/// There is no such file, or no such session.
pub(super) const NOT_FOUND: i32 = -32002;

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: &'a RawJson,
    error: Why<'a>,
}

#[derive(Serialize)]
struct Why<'a> {
    code: i32,
    message: &'a str,
}

/// Refuses a request of the agent's.
pub(super) fn refuse(id: &RawJson, code: i32, message: &str, out: &mut Outbox) {
    write(
        &Failure {
            jsonrpc: "2.0",
            id,
            error: Why { code, message },
        },
        out,
    );
}

fn write<T: Serialize>(message: &T, out: &mut Outbox) {
    out.push(FromConversation::Write(
        format!("{}\n", RawJson::of(message).get()).into_bytes(),
    ));
}
