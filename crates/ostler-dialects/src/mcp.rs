//! A server of the caller's tools that speaks MCP: pure, so that it can stand behind any pipe.
//!
//! Whoever carries the messages hands each to [`Server::hear`] and brings the answer back.

mod schema;

use std::collections::BTreeMap;

pub(crate) use schema::adapt;

use ostler_core::dialect::{FromConversation, Outbox, ToolOrder};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::lenient::{Node, Scalar, Table, wire};
use crate::surrogates;

/// The server's name.
pub(crate) const SERVER: &str = "ostler";

/// Said when the client does not say which version of the protocol it speaks.
const PROTOCOL: &str = "2025-06-18";

wire! {
    /// A JSON-RPC message to the server.
    struct Rpc {
        id: Option<&'a RawValue>,
        method: Scalar<'a>,
        params: Node<'a, RpcParams<'a>>,
    }

    /// Its parameters.
    struct RpcParams {
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

/// The server and the calls that are open.
#[derive(Debug)]
pub(crate) struct Server {
    /// The answer to `tools/list`.
    list: RawJson,
    names: Vec<String>,
    /// Where the client writes which tool call of its events a call belongs to; none: it does not say.
    call_key: Option<&'static str>,
    reads_json: bool,
    /// Open calls by their order.
    orders: BTreeMap<String, Open>,
}

/// A call that has no answer yet.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "acp"),
    expect(dead_code, reason = "only ACP agents are told of progress")
)]
struct Open {
    client: u32,
    /// The id of its JSON-RPC request.
    rpc: RawJson,
    /// The token under which the client wants to hear of progress.
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
    fn new(offer: &'a ToolOffer, custom: &'a Custom) -> Self {
        let ToolOffer {
            name,
            description,
            parameters,
        } = offer;
        Self {
            name,
            description,
            input_schema: adapt(parameters),
            meta: custom.meta.as_ref(),
        }
    }
}

/// What a client is told about tools beyond what MCP says, and what it tells about calls.
#[derive(Debug, Clone, Default)]
pub(crate) struct Custom {
    /// The `_meta` of every tool.
    pub(crate) meta: Option<RawJson>,
    /// The key in the `_meta` of a call that names the tool call of the client's events.
    pub(crate) call_key: Option<&'static str>,
    /// Whether the client takes a text that is JSON for a structured result, and fails when it is no object.
    pub(crate) reads_json: bool,
}

/// What came of a message.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The answer to a request.
    Answer(Answer),
    /// It was a notification; where even those are answered, this is the answer.
    Note(Answer),
    /// A call was ordered; its answer comes with [`Server::done`].
    Ordered,
}

/// An answer of the server's, as JSON-RPC.
#[derive(Debug, Serialize)]
pub(crate) struct Answer {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<RawJson>,
    #[serde(flatten)]
    said: Said,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Result(RawJson),
    Error(Fault),
}

#[derive(Debug, Serialize)]
struct Fault {
    code: i32,
    message: String,
}

impl Answer {
    fn new(id: Option<RawJson>, said: Said) -> Self {
        Self {
            jsonrpc: "2.0",
            id,
            said,
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
struct Done<'a> {
    content: [Block<'a>; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Given<'a>>,
    is_error: bool,
}

/// A text as the structured result that it is not.
#[derive(Serialize)]
struct Given<'a> {
    result: &'a str,
}

impl Server {
    pub(crate) fn new(offers: &[ToolOffer], custom: &Custom) -> Self {
        Self {
            list: RawJson::of(&Tools {
                tools: offers
                    .iter()
                    .map(|offer| Tool::new(offer, custom))
                    .collect(),
            }),
            names: offers.iter().map(|offer| offer.name.clone()).collect(),
            call_key: custom.call_key,
            reads_json: custom.reads_json,
            orders: BTreeMap::new(),
        }
    }

    /// Whether a call of this order is open.
    pub(crate) fn is_open(&self, order: &str) -> bool {
        self.orders.contains_key(order)
    }

    /// The orders of all calls that are open.
    #[cfg(feature = "acp")]
    pub(crate) fn open(&self) -> Vec<String> {
        self.orders.keys().cloned().collect()
    }

    /// The orders of a client's calls that are open.
    #[cfg(feature = "acp")]
    pub(crate) fn open_for(&self, client: u32) -> impl Iterator<Item = &String> {
        self.orders
            .iter()
            .filter(move |(_, open)| open.client == client)
            .map(|(order, _)| order)
    }

    /// Nobody waits for the call any more; false when nobody did.
    pub(crate) fn call_off(&mut self, order: &str) -> bool {
        self.orders.remove(order).is_some()
    }

    /// What came of a call: the client that waits, and its answer. Of one that nobody waits for, nothing is said.
    pub(crate) fn done(&mut self, order: &str, ok: bool, output: &str) -> Option<(u32, Answer)> {
        let Open { client, rpc, .. } = self.orders.remove(order)?;
        let content = [Block {
            r#type: "text",
            text: output,
        }];
        let misread = self.reads_json
            && !output.trim_start().starts_with('{')
            && RawJson::parse(output).is_ok();
        let structured_content = misread.then_some(Given { result: output });
        let result = RawJson::of(&Done {
            content,
            structured_content,
            is_error: !ok,
        });
        Some((client, Answer::new(Some(rpc), Said::Result(result))))
    }

    /// Returns the client that waits for a call and the notification about its progress, or `None`
    /// if it did not ask for any.
    ///
    /// MCP clients give a call up after a time (a minute, by default) unless they hear of progress.
    #[cfg(feature = "acp")]
    pub(crate) fn progress(&mut self, order: &str, message: &str) -> Option<(u32, RawJson)> {
        #[derive(Serialize)]
        struct Note<'a> {
            jsonrpc: &'static str,
            method: &'static str,
            params: Report<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Report<'a> {
            progress_token: &'a RawJson,
            progress: u64,
            message: &'a str,
        }
        let Open {
            client,
            token,
            reports,
            ..
        } = self.orders.get_mut(order)?;
        let progress_token = token.as_ref()?;
        *reports += 1;
        let params = Report {
            progress_token,
            progress: *reports,
            message,
        };
        Some((
            *client,
            RawJson::of(&Note {
                jsonrpc: "2.0",
                method: "notifications/progress",
                params,
            }),
        ))
    }

    /// Reads a message of a client. A call that it asks for becomes the order of that name.
    pub(crate) fn hear(
        &mut self,
        (client, order): (u32, &str),
        text: &str,
        out: &mut Outbox,
    ) -> Heard {
        let mut room = String::new();
        let message: Node<'_, Rpc<'_>> = surrogates::read(text, &mut room);
        let empty = Rpc::default();
        let message = message.map().unwrap_or(&empty);
        let id = message
            .id
            .filter(|id| id.get() != "null")
            .map(RawJson::keep);
        let said = match message.method.or_empty() {
            "initialize" => Said::Result(initialized(message)),
            "ping" => Said::Result(nothing()),
            "tools/list" => Said::Result(self.list.clone()),
            "tools/call" => match self.call((client, order), message, out) {
                None => return Heard::Ordered,
                Some(fault) => Said::Error(fault),
            },
            "notifications/cancelled" => {
                self.cancelled(client, message, out);
                Said::Result(nothing())
            }
            method if id.is_some() => Said::Error(Fault {
                code: -32601,
                message: format!("no method {method:?}"),
            }),
            _ => Said::Result(nothing()),
        };
        let request = id.is_some() || matches!(said, Said::Error(_));
        let answer = Answer::new(id, said);
        if request {
            Heard::Answer(answer)
        } else {
            Heard::Note(answer)
        }
    }

    /// Orders a call; else says what is wrong with it.
    fn call(
        &mut self,
        (client, order): (u32, &str),
        message: &Rpc<'_>,
        out: &mut Outbox,
    ) -> Option<Fault> {
        let wrong = |message: String| {
            Some(Fault {
                code: -32602,
                message,
            })
        };
        let Some(id) = message.id.filter(|id| id.get() != "null") else {
            return wrong("a call without an id".into());
        };
        let Some(params) = message.params.map() else {
            return wrong("a call without parameters".into());
        };
        let Some(name) = self
            .names
            .iter()
            .find(|name| Some(name.as_str()) == params.name.text())
            .cloned()
        else {
            return wrong(format!("no tool {:?}", params.name.or_empty()));
        };
        let meta = |key: &str| {
            let rows = params.meta.0.iter().flatten();
            rows.rev()
                .find(|(name, _)| &**name == key)
                .map(|(_, value)| value)
        };
        let said = |key: &str| meta(key).and_then(Scalar::owned);
        let token = meta("progressToken").and_then(|token| match token {
            Scalar::Text(text) => Some(RawJson::of(text)),
            Scalar::Count(count) => Some(RawJson::of(count)),
            _ => None,
        });
        self.orders.insert(
            order.to_owned(),
            Open {
                client,
                rpc: RawJson::keep(id),
                token,
                reports: 0,
            },
        );
        out.push(FromConversation::Tool(ToolOrder {
            id: order.to_owned(),
            call: self.call_key.and_then(said),
            name,
            input: params.arguments.map_or_else(nothing, RawJson::keep),
        }));
        None
    }

    /// The call of a JSON-RPC id is not wanted any more. It needs no answer.
    fn cancelled(&mut self, client: u32, message: &Rpc<'_>, out: &mut Outbox) {
        let Some(rpc) = message.params.map().and_then(|params| params.request_id) else {
            return;
        };
        let same = |open: &Open| open.client == client && open.rpc.get() == rpc.get();
        let order = self
            .orders
            .iter()
            .find(|(_, call)| same(call))
            .map(|(order, _)| order.clone());
        if let Some(order) = order.filter(|order| self.call_off(order)) {
            out.push(FromConversation::ToolOff(order));
        }
    }
}

fn nothing() -> RawJson {
    RawJson::of(&BTreeMap::<&str, &str>::new())
}

fn initialized(message: &Rpc<'_>) -> RawJson {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized<'a> {
        protocol_version: &'a str,
        capabilities: Able,
        server_info: Info,
    }
    #[derive(Serialize)]
    struct Able {
        tools: BTreeMap<&'static str, bool>,
    }
    #[derive(Serialize)]
    struct Info {
        name: &'static str,
        version: &'static str,
    }
    let params = message.params.map();
    RawJson::of(&Initialized {
        protocol_version: params
            .and_then(|params| params.protocol_version.text())
            .unwrap_or(PROTOCOL),
        capabilities: Able {
            tools: BTreeMap::new(),
        },
        server_info: Info {
            name: SERVER,
            version: "1",
        },
    })
}
