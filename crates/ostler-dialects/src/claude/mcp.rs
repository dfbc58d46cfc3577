//! The server of the caller's tools, as Claude Code sees it: MCP over the control channel.
//!
//! No process and no socket: each message comes as an `mcp_message` and its answer goes back in the reply. Claude Code
//! waits for a call as long as `MCP_TOOL_TIMEOUT` says, whatever is said about progress; `launch.rs` sets it.

use std::collections::BTreeMap;

use ostler_core::dialect::{Out, Outbox, ToolOrder};
use ostler_core::permission::{ToolKind, ToolUse};
use ostler_core::raw::Raw;
use ostler_core::spec::ToolOffer;
use serde::Serialize;
use serde_json::value::RawValue;

use super::control::reply;
use super::wire::{Request, Rpc};
use super::{schema, uses};
use crate::lenient::Node;
use crate::surrogates;

/// The server's name.
pub(super) const SERVER: &str = "ostler";

/// What Claude Code puts before the names of the server's tools.
pub(super) const PREFIX: &str = "mcp__ostler__";

/// Said when Claude Code does not say which version of the protocol it speaks.
const PROTOCOL: &str = "2025-06-18";

/// How many characters of a result reach the model. More is not possible: it goes to a file, and the model gets its path.
const RESULT_CHARS: u32 = 500_000;

/// The server and the calls that are open.
#[derive(Debug)]
pub(super) struct Server {
    /// The answer to `tools/list`.
    list: Raw,
    /// The caller's name for each tool, by Claude Code's.
    names: BTreeMap<String, String>,
    /// Open calls by the id of the control request, with the id of the JSON-RPC request.
    orders: BTreeMap<String, Raw>,
}

/// Claude Code's name for a tool of the caller's.
pub(super) fn native(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    format!("{PREFIX}{}", name.chars().map(plain).collect::<String>())
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
    input_schema: Raw,
    #[serde(rename = "_meta")]
    meta: Meta,
}

impl<'a> Tool<'a> {
    fn new(offer: &'a ToolOffer) -> Self {
        let meta = Meta { always_load: true, result_chars: RESULT_CHARS };
        let input_schema = schema::adapt(&offer.parameters);
        Self { name: &offer.name, description: &offer.description, input_schema, meta }
    }
}

#[derive(Serialize)]
struct Meta {
    /// Else the model would have to search for the tool before it can see it.
    #[serde(rename = "anthropic/alwaysLoad")]
    always_load: bool,
    #[serde(rename = "anthropic/maxResultSizeChars")]
    result_chars: u32,
}

impl Server {
    pub(super) fn new(offers: &[ToolOffer]) -> Self {
        Self {
            list: Raw::of(&Tools { tools: offers.iter().map(Tool::new).collect() }),
            names: offers.iter().map(|offer| (native(&offer.name), offer.name.clone())).collect(),
            orders: BTreeMap::new(),
        }
    }

    /// Whether there is anything to serve.
    pub(super) fn has_tools(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether a request is for this server.
    pub(super) fn serves(&self, request: &Request<'_>) -> bool {
        self.has_tools() && request.server_name.text() == Some(SERVER)
    }

    /// Whether a call of this id is open.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.orders.contains_key(id)
    }

    /// Nobody waits for the call any more; false when nobody did.
    pub(super) fn call_off(&mut self, id: &str) -> bool {
        self.orders.remove(id).is_some()
    }

    /// The caller's name for one of its tools. One that is also a name of Claude Code's is not used: rules about that tool
    /// would decide on the caller's.
    fn own(&self, tool: &str) -> Option<&str> {
        self.names.get(tool).map(String::as_str).filter(|name| !uses::is_taken(name))
    }

    /// The name that events show: the caller's for its own tools, Claude Code's for all others.
    pub(super) fn shown(&self, tool: &str) -> String {
        self.own(tool).unwrap_or(tool).to_owned()
    }

    /// What a call would do.
    pub(super) fn wants(&self, tool: &str, input: &Raw) -> ToolUse {
        match self.own(tool) {
            Some(name) => ToolUse::of(name, ToolKind::Other),
            None => uses::tool_use(tool, input),
        }
    }

    /// What came of a call. Of one that nobody waits for, nothing is said.
    pub(super) fn done(&mut self, id: &str, (ok, output): (bool, &str), out: &mut Outbox) {
        let Some(rpc) = self.orders.remove(id) else { return };
        let content = [Block { r#type: "text", text: output }];
        respond(id, Some(&rpc), &Said::Result(Raw::of(&Result { content, is_error: !ok })), out);
    }
}

#[derive(Serialize)]
struct Block<'a> {
    r#type: &'static str,
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Result<'a> {
    content: [Block<'a>; 1],
    is_error: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Result(Raw),
    Error(Fault),
}

#[derive(Serialize)]
struct Fault {
    code: i32,
    message: String,
}

fn respond(request: &str, id: Option<&Raw>, said: &Said, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Response<'a> {
        mcp_response: Message<'a>,
    }
    #[derive(Serialize)]
    struct Message<'a> {
        jsonrpc: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        id: Option<&'a Raw>,
        #[serde(flatten)]
        said: &'a Said,
    }
    reply(request, &Response { mcp_response: Message { jsonrpc: "2.0", id, said } }, out);
}

/// Reads a message to the server.
pub(super) fn hear(server: &mut Server, request_id: &str, request: &Request<'_>, out: &mut Outbox) {
    let text = request.message.map_or("null", RawValue::get);
    let mended;
    let message: Node<'_, Rpc<'_>> = match serde_json::from_str(text) {
        Ok(message) => message,
        Err(_) => {
            mended = surrogates::mend(text);
            serde_json::from_str(&mended).unwrap_or_default()
        }
    };
    let empty = Rpc::default();
    let message = message.map().unwrap_or(&empty);
    let id = message.id.filter(|id| id.get() != "null").map(Raw::keep);
    let said = match message.method.or_empty() {
        "initialize" => Said::Result(initialized(message)),
        "ping" => Said::Result(nothing()),
        "tools/list" => Said::Result(server.list.clone()),
        "tools/call" => match call(server, request_id, message, out) {
            None => return,
            Some(fault) => Said::Error(fault),
        },
        "notifications/cancelled" => {
            cancelled(server, message, out);
            Said::Result(nothing())
        }
        method if id.is_some() => Said::Error(Fault { code: -32601, message: format!("no method {method:?}") }),
        // A notification; the control request that brought it is answered all the same.
        _ => Said::Result(nothing()),
    };
    respond(request_id, id.as_ref(), &said, out);
}

fn nothing() -> Raw {
    Raw::of(&BTreeMap::<&str, &str>::new())
}

fn initialized(message: &Rpc<'_>) -> Raw {
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
    Raw::of(&Initialized {
        protocol_version: params.and_then(|params| params.protocol_version.text()).unwrap_or(PROTOCOL),
        capabilities: Able { tools: BTreeMap::new() },
        server_info: Info { name: SERVER, version: "1" },
    })
}

/// Orders a call; else says what is wrong with it.
fn call(server: &mut Server, request_id: &str, message: &Rpc<'_>, out: &mut Outbox) -> Option<Fault> {
    let wrong = |message: String| Some(Fault { code: -32602, message });
    let Some(id) = message.id.filter(|id| id.get() != "null") else { return wrong("a call without an id".into()) };
    let Some(params) = message.params.map() else { return wrong("a call without parameters".into()) };
    let Some(name) = server.names.values().find(|name| Some(name.as_str()) == params.name.text()).cloned() else {
        return wrong(format!("no tool {:?}", params.name.or_empty()));
    };
    server.orders.insert(request_id.to_owned(), Raw::keep(id));
    out.push(Out::Tool(ToolOrder {
        id: request_id.to_owned(),
        call: params.meta.map().and_then(|meta| meta.tool_use_id.owned()),
        name,
        input: params.arguments.map_or_else(nothing, Raw::keep),
    }));
    None
}

/// The call of a JSON-RPC id is not wanted any more. It needs no answer.
fn cancelled(server: &mut Server, message: &Rpc<'_>, out: &mut Outbox) {
    let Some(rpc) = message.params.map().and_then(|params| params.request_id) else { return };
    let order = server.orders.iter().find(|(_, id)| id.get() == rpc.get()).map(|(order, _)| order.clone());
    if let Some(order) = order.filter(|order| server.call_off(order)) {
        out.push(Out::ToolOff(order));
    }
}
