//! MCP server for the caller's tools. It does no I/O, so it can sit behind any transport.
//!
//! The transport passes each message to [`ToolServer::on_message`] and returns the response.

use std::collections::BTreeMap;

pub(crate) use ostler_model::adapt;

use ostler_core::dialect::{Action, Outbox, ToolJob};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::json_lines::without_nulls;
use crate::jsonrpc::{Failure, INVALID_PARAMS, Incoming, METHOD_NOT_FOUND, RequestId, V2};
use crate::lenient::{Object, Scalar, Table, wire};
use crate::surrogates;

/// The server's name.
pub(crate) const SERVER: &str = "ostler";

/// Protocol version announced if the client does not name one.
const PROTOCOL: &str = "2025-06-18";

/// A JSON-RPC message to the server.
type ClientMessage<'a> = Incoming<'a, ClientParams<'a>, IgnoredAny>;

wire! {
    /// Parameters of a [`ClientMessage`].
    struct ClientParams {
        name,
        arguments: Option<&'a RawValue>,
        #[serde(rename = "_meta")]
        meta: Table<'a, Scalar<'a>>,
        #[serde(rename = "protocolVersion")]
        protocol_version,
        #[serde(rename = "requestId")]
        request_id: Option<&'a RawValue>,
    }
}

/// The server and its pending calls.
#[derive(Debug)]
pub(crate) struct ToolServer {
    /// The tools, as `tools/list` describes them.
    tools: Vec<Value>,
    names: Vec<String>,
    /// Key in a call's `_meta` with the id of the tool call in the client's events, if it sends
    /// one.
    call_key: Option<&'static str>,
    reads_json: bool,
    /// Pending calls by job id.
    pending: BTreeMap<String, PendingCall>,
}

/// A call without a response so far.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "acp"),
    expect(dead_code, reason = "progress is reported to ACP agents only")
)]
struct PendingCall {
    client: u32,
    /// Id of its JSON-RPC request.
    rpc: RequestId,
    /// Token under which the client expects progress notifications.
    token: Option<Value>,
    /// Number of progress reports sent.
    reports: u64,
}

/// Client-specific extensions of MCP: tool metadata, call metadata and result handling.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientQuirks {
    /// `_meta` of every tool.
    pub(crate) meta: Option<Value>,
    /// Key in a call's `_meta` with the id of the tool call in the client's events.
    pub(crate) call_key: Option<&'static str>,
    /// Whether the client parses a JSON text as a structured result, and fails if it is not an
    /// object.
    pub(crate) reads_json: bool,
}

/// Result of handling a message.
#[derive(Debug)]
pub(crate) enum Handled {
    /// The response to a request.
    Response(RawJson),
    /// The message was a notification. Transports that reply even to those send this response.
    Notification(RawJson),
    /// A call was started; [`ToolServer::finish`] returns its response.
    CallStarted,
}

/// Result of a tool call, for the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToolOutput<'a> {
    /// Whether the tool succeeded.
    pub(crate) ok: bool,
    /// Its output.
    pub(crate) text: &'a str,
}

impl<'a> ToolOutput<'a> {
    /// Returns the result of a call that failed for this reason.
    pub(crate) const fn failed(text: &'a str) -> Self {
        Self { ok: false, text }
    }
}

/// A message for one of the server's clients.
#[derive(Debug)]
pub(crate) struct ToClient {
    /// The client.
    #[cfg_attr(
        not(feature = "acp"),
        expect(dead_code, reason = "only bridges for ACP agents are several clients")
    )]
    pub(crate) client: u32,
    /// The message.
    pub(crate) message: RawJson,
}

/// A message from one of the server's clients.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FromClient<'a> {
    /// The client.
    pub(crate) client: u32,
    /// Id for the job, if the message is a tool call.
    pub(crate) job: &'a str,
    /// The message.
    pub(crate) text: &'a str,
}

impl ToolServer {
    pub(crate) fn new(offers: &[ToolOffer], quirks: &ClientQuirks) -> Self {
        let tool = |offer: &ToolOffer| {
            without_nulls(json!({
                "name": offer.name,
                "description": offer.description,
                "inputSchema": adapt(&offer.parameters),
                "_meta": quirks.meta,
            }))
        };
        Self {
            tools: offers.iter().map(tool).collect(),
            names: offers.iter().map(|offer| offer.name.clone()).collect(),
            call_key: quirks.call_key,
            reads_json: quirks.reads_json,
            pending: BTreeMap::new(),
        }
    }

    /// Returns true if a call with this job id is pending.
    pub(crate) fn is_pending(&self, job: &str) -> bool {
        self.pending.contains_key(job)
    }

    /// Returns the job ids of all pending calls.
    #[cfg(feature = "acp")]
    pub(crate) fn pending_jobs(&self) -> Vec<String> {
        self.pending.keys().cloned().collect()
    }

    /// Returns the job ids of a client's pending calls.
    #[cfg(feature = "acp")]
    pub(crate) fn pending_for(&self, client: u32) -> impl Iterator<Item = &String> {
        self.pending
            .iter()
            .filter(move |(_, call)| call.client == client)
            .map(|(job, _)| job)
    }

    /// Drops a cancelled call. Returns false if no such call was pending.
    pub(crate) fn cancel(&mut self, job: &str) -> bool {
        self.pending.remove(job).is_some()
    }

    /// Returns the response with the result of a call, or `None` if no such call is pending.
    pub(crate) fn finish(&mut self, job: &str, output: ToolOutput<'_>) -> Option<ToClient> {
        let PendingCall { client, rpc, .. } = self.pending.remove(job)?;
        let ToolOutput { ok, text } = output;
        let needs_wrapping =
            self.reads_json && !text.trim_start().starts_with('{') && RawJson::parse(text).is_ok();
        let result = without_nulls(json!({
            "content": [{"type": "text", "text": text}],
            "structuredContent": needs_wrapping.then(|| json!({ "result": text })),
            "isError": !ok,
        }));
        let message = V2.response(Some(&rpc), result);
        Some(ToClient { client, message })
    }

    /// Returns a progress notification for a call, or `None` if the client did not ask for
    /// progress.
    ///
    /// MCP clients abandon a call after a while (a minute, by default) unless they receive progress
    /// notifications.
    #[cfg(feature = "acp")]
    pub(crate) fn progress(&mut self, job: &str, message: &str) -> Option<ToClient> {
        let PendingCall {
            client,
            token,
            reports,
            ..
        } = self.pending.get_mut(job)?;
        let token = token.as_ref()?;
        *reports += 1;
        let params = json!({"progressToken": token, "progress": reports, "message": message});
        Some(ToClient {
            client: *client,
            message: V2.notification("notifications/progress", Some(params)),
        })
    }

    /// Handles a client's message. A tool call becomes a job.
    pub(crate) fn on_message(&mut self, from: FromClient<'_>, out: &mut Outbox) -> Handled {
        let mut buffer = String::new();
        let message: Object<ClientMessage<'_>> = surrogates::read(from.text, &mut buffer);
        let id = message.id();
        let method = message.method().unwrap_or_default();
        let result = match method {
            "initialize" => initialize_result(&message.params),
            "tools/list" => json!({ "tools": self.tools }),
            "tools/call" => {
                let Err(InvalidCall(why)) = self.start_call(from, &message, out) else {
                    return Handled::CallStarted;
                };
                return Handled::Response(error(id.as_ref(), INVALID_PARAMS, &why));
            }
            "notifications/cancelled" => {
                self.on_cancelled(from.client, &message.params, out);
                json!({})
            }
            method if method != "ping" && id.is_some() => {
                let why = format!("no method {method:?}");
                return Handled::Response(error(id.as_ref(), METHOD_NOT_FOUND, &why));
            }
            _ => json!({}),
        };
        let response = V2.response(id.as_ref(), result);
        if id.is_some() {
            Handled::Response(response)
        } else {
            Handled::Notification(response)
        }
    }

    /// Starts a call.
    fn start_call(
        &mut self,
        from: FromClient<'_>,
        message: &ClientMessage<'_>,
        out: &mut Outbox,
    ) -> Result<(), InvalidCall> {
        let rpc = message.id();
        let rpc = rpc.ok_or_else(|| InvalidCall("the call has no id".to_owned()))?;
        let params = &message.params;
        let name = self
            .names
            .iter()
            .find(|name| Some(name.as_str()) == params.name.text())
            .ok_or_else(|| InvalidCall(format!("unknown tool {:?}", params.name.or_empty())))?;
        let meta = |key: &str| {
            let rows = params.meta.0.iter().flatten();
            rows.rev()
                .find(|(name, _)| &**name == key)
                .map(|(_, value)| value)
        };
        let meta_text = |key: &str| meta(key).and_then(Scalar::owned);
        let token = meta("progressToken").and_then(|token| match token {
            Scalar::Text(text) => Some(json!(text)),
            Scalar::Count(count) => Some(json!(count)),
            _ => None,
        });
        self.pending.insert(
            from.job.to_owned(),
            PendingCall {
                client: from.client,
                rpc,
                token,
                reports: 0,
            },
        );
        out.push(Action::RunTool(ToolJob {
            id: from.job.to_owned(),
            call: self.call_key.and_then(meta_text),
            name: name.clone(),
            input: params
                .arguments
                .map_or_else(|| RawJson::of(&json!({})), RawJson::from_raw),
        }));
        Ok(())
    }

    /// Cancels the call with the JSON-RPC id in the parameters. No response is due.
    fn on_cancelled(&mut self, client: u32, params: &ClientParams<'_>, out: &mut Outbox) {
        let Some(rpc) = params.request_id.and_then(RequestId::from_raw) else {
            return;
        };
        let same = |call: &PendingCall| call.client == client && call.rpc == rpc;
        let job = self
            .pending
            .iter()
            .find(|(_, call)| same(call))
            .map(|(job, _)| job.clone());
        if let Some(job) = job.filter(|job| self.cancel(job)) {
            out.push(Action::CancelTool(job));
        }
    }
}

/// What is wrong with a call.
struct InvalidCall(String);

fn error(id: Option<&RequestId>, code: i32, message: &str) -> RawJson {
    V2.error(id, Failure { code, message })
}

fn initialize_result(params: &ClientParams<'_>) -> Value {
    json!({
        "protocolVersion": params.protocol_version.text().unwrap_or(PROTOCOL),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": SERVER, "version": "1"},
    })
}
