//! MCP server for the caller's tools. It does no I/O, so it can sit behind any transport.
//!
//! The transport passes each message to [`ToolServer::on_message`] and returns the response.

mod schema;

use std::collections::BTreeMap;

pub(crate) use schema::adapt;

use ostler_core::dialect::{FromConversation, Outbox, ToolJob};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::lenient::{Node, Scalar, Table, wire};
use crate::surrogates;

/// The server's name.
pub(crate) const SERVER: &str = "ostler";

/// Protocol version announced if the client does not name one.
const PROTOCOL: &str = "2025-06-18";

wire! {
    /// A JSON-RPC message to the server.
    struct ClientMessage {
        id: Option<&'a RawValue>,
        method: Scalar<'a>,
        params: Node<'a, ClientParams<'a>>,
    }

    /// Parameters of a [`ClientMessage`].
    struct ClientParams {
        name: Scalar<'a>,
        arguments: Option<&'a RawValue>,
        #[serde(rename = "_meta")]
        meta: Table<'a, Scalar<'a>>,
        #[serde(rename = "protocolVersion")]
        protocol_version: Scalar<'a>,
        #[serde(rename = "requestId")]
        request_id: Option<&'a RawValue>,
    }
}

/// The server and its pending calls.
#[derive(Debug)]
pub(crate) struct ToolServer {
    /// The response to `tools/list`.
    list: RawJson,
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
    rpc: RawJson,
    /// Token under which the client expects progress notifications.
    token: Option<RawJson>,
    /// Number of progress reports sent.
    reports: u64,
}

#[derive(Serialize)]
struct Tools<'a> {
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: RawJson,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RawJson>,
}

impl<'a> Tool<'a> {
    fn new(offer: &'a ToolOffer, quirks: &'a ClientQuirks) -> Self {
        let ToolOffer {
            name,
            description,
            parameters,
        } = offer;
        Self {
            name,
            description,
            input_schema: adapt(parameters),
            meta: quirks.meta.as_ref(),
        }
    }
}

/// Client-specific extensions of MCP: tool metadata, call metadata and result handling.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientQuirks {
    /// `_meta` of every tool.
    pub(crate) meta: Option<RawJson>,
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
    Response(RpcResponse),
    /// The message was a notification. Transports that reply even to those send this response.
    Notification(RpcResponse),
    /// A call was started; [`ToolServer::finish`] returns its response.
    CallStarted,
}

/// A JSON-RPC response.
#[derive(Debug, Serialize)]
pub(crate) struct RpcResponse {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<RawJson>,
    #[serde(flatten)]
    payload: RpcPayload,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum RpcPayload {
    Result(RawJson),
    Error(RpcError),
}

#[derive(Debug, Serialize)]
struct RpcError {
    code: i32,
    message: String,
}

impl RpcResponse {
    fn new(id: Option<RawJson>, payload: RpcPayload) -> Self {
        Self {
            jsonrpc: "2.0",
            id,
            payload,
        }
    }
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    content: [Block<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<StructuredText<'a>>,
    is_error: bool,
}

/// A plain text wrapped as a structured result.
#[derive(Serialize)]
struct StructuredText<'a> {
    result: &'a str,
}

impl ToolServer {
    pub(crate) fn new(offers: &[ToolOffer], quirks: &ClientQuirks) -> Self {
        Self {
            list: RawJson::of(&Tools {
                tools: offers
                    .iter()
                    .map(|offer| Tool::new(offer, quirks))
                    .collect(),
            }),
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

    /// Returns the client that waits for a call and the response with its result, or `None` if no
    /// such call is pending.
    pub(crate) fn finish(
        &mut self,
        job: &str,
        ok: bool,
        output: &str,
    ) -> Option<(u32, RpcResponse)> {
        let PendingCall { client, rpc, .. } = self.pending.remove(job)?;
        let content = [Block {
            r#type: "text",
            text: output,
        }];
        let needs_wrapping = self.reads_json
            && !output.trim_start().starts_with('{')
            && RawJson::parse(output).is_ok();
        let structured_content = needs_wrapping.then_some(StructuredText { result: output });
        let result = RawJson::of(&CallResult {
            content,
            structured_content,
            is_error: !ok,
        });
        Some((
            client,
            RpcResponse::new(Some(rpc), RpcPayload::Result(result)),
        ))
    }

    /// Returns the client that waits for a call and a progress notification for it, or `None` if
    /// the client did not ask for progress.
    ///
    /// MCP clients abandon a call after a while (a minute, by default) unless they receive progress
    /// notifications.
    #[cfg(feature = "acp")]
    pub(crate) fn progress(&mut self, job: &str, message: &str) -> Option<(u32, RawJson)> {
        #[derive(Serialize)]
        struct Notification<'a> {
            jsonrpc: &'static str,
            method: &'static str,
            params: ProgressParams<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ProgressParams<'a> {
            progress_token: &'a RawJson,
            progress: u64,
            message: &'a str,
        }
        let PendingCall {
            client,
            token,
            reports,
            ..
        } = self.pending.get_mut(job)?;
        let progress_token = token.as_ref()?;
        *reports += 1;
        let params = ProgressParams {
            progress_token,
            progress: *reports,
            message,
        };
        Some((
            *client,
            RawJson::of(&Notification {
                jsonrpc: "2.0",
                method: "notifications/progress",
                params,
            }),
        ))
    }

    /// Handles a client's message. A tool call becomes the job with the given id.
    pub(crate) fn on_message(
        &mut self,
        (client, job): (u32, &str),
        text: &str,
        out: &mut Outbox,
    ) -> Handled {
        let mut buffer = String::new();
        let message: Node<'_, ClientMessage<'_>> = surrogates::read(text, &mut buffer);
        let empty = ClientMessage::default();
        let message = message.map().unwrap_or(&empty);
        let id = message
            .id
            .filter(|id| id.get() != "null")
            .map(RawJson::from_raw);
        let payload = match message.method.or_empty() {
            "initialize" => RpcPayload::Result(initialize_result(message)),
            "ping" => RpcPayload::Result(empty_object()),
            "tools/list" => RpcPayload::Result(self.list.clone()),
            "tools/call" => match self.call((client, job), message, out) {
                None => return Handled::CallStarted,
                Some(error) => RpcPayload::Error(error),
            },
            "notifications/cancelled" => {
                self.on_cancelled(client, message, out);
                RpcPayload::Result(empty_object())
            }
            method if id.is_some() => RpcPayload::Error(RpcError {
                code: -32601,
                message: format!("no method {method:?}"),
            }),
            _ => RpcPayload::Result(empty_object()),
        };
        let request = id.is_some() || matches!(payload, RpcPayload::Error(_));
        let response = RpcResponse::new(id, payload);
        if request {
            Handled::Response(response)
        } else {
            Handled::Notification(response)
        }
    }

    /// Starts a call, or returns what is wrong with it.
    fn call(
        &mut self,
        (client, job): (u32, &str),
        message: &ClientMessage<'_>,
        out: &mut Outbox,
    ) -> Option<RpcError> {
        let invalid = |message: String| {
            Some(RpcError {
                code: -32602,
                message,
            })
        };
        let Some(id) = message.id.filter(|id| id.get() != "null") else {
            return invalid("the call has no id".into());
        };
        let Some(params) = message.params.map() else {
            return invalid("the call has no parameters".into());
        };
        let Some(name) = self
            .names
            .iter()
            .find(|name| Some(name.as_str()) == params.name.text())
            .cloned()
        else {
            return invalid(format!("unknown tool {:?}", params.name.or_empty()));
        };
        let meta = |key: &str| {
            let rows = params.meta.0.iter().flatten();
            rows.rev()
                .find(|(name, _)| &**name == key)
                .map(|(_, value)| value)
        };
        let meta_text = |key: &str| meta(key).and_then(Scalar::owned);
        let token = meta("progressToken").and_then(|token| match token {
            Scalar::Text(text) => Some(RawJson::of(text)),
            Scalar::Count(count) => Some(RawJson::of(count)),
            _ => None,
        });
        self.pending.insert(
            job.to_owned(),
            PendingCall {
                client,
                rpc: RawJson::from_raw(id),
                token,
                reports: 0,
            },
        );
        out.push(FromConversation::RunTool(ToolJob {
            id: job.to_owned(),
            call: self.call_key.and_then(meta_text),
            name,
            input: params
                .arguments
                .map_or_else(empty_object, RawJson::from_raw),
        }));
        None
    }

    /// Cancels the call with the JSON-RPC id in the parameters. No response is due.
    fn on_cancelled(&mut self, client: u32, message: &ClientMessage<'_>, out: &mut Outbox) {
        let Some(rpc) = message.params.map().and_then(|params| params.request_id) else {
            return;
        };
        let same = |call: &PendingCall| call.client == client && call.rpc.get() == rpc.get();
        let job = self
            .pending
            .iter()
            .find(|(_, call)| same(call))
            .map(|(job, _)| job.clone());
        if let Some(job) = job.filter(|job| self.cancel(job)) {
            out.push(FromConversation::CancelTool(job));
        }
    }
}

fn empty_object() -> RawJson {
    RawJson::of(&BTreeMap::<&str, &str>::new())
}

fn initialize_result(message: &ClientMessage<'_>) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct InitializeResult<'a> {
        protocol_version: &'a str,
        capabilities: Capabilities,
        server_info: ServerInfo,
    }
    #[derive(Serialize)]
    struct Capabilities {
        tools: BTreeMap<&'static str, bool>,
    }
    #[derive(Serialize)]
    struct ServerInfo {
        name: &'static str,
        version: &'static str,
    }
    let params = message.params.map();
    RawJson::of(&InitializeResult {
        protocol_version: params
            .and_then(|params| params.protocol_version.text())
            .unwrap_or(PROTOCOL),
        capabilities: Capabilities {
            tools: BTreeMap::new(),
        },
        server_info: ServerInfo {
            name: SERVER,
            version: "1",
        },
    })
}
