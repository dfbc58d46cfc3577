//! The server of the caller's tools, as Claude Code sees it: MCP over the control channel.
//!
//! No process and no socket: each message comes as an `mcp_message` and its answer goes back in the reply. Claude Code
//! waits for a call as long as `MCP_TOOL_TIMEOUT` says, whatever is said about progress; `launch.rs` sets it.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::permission::{ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use serde::Serialize;
use serde_json::value::RawValue;

use super::control::reply;
use super::tool_use;
use super::wire::Request;
use crate::mcp::{self, Answer, Custom, Heard};

pub(super) use crate::mcp::SERVER;

/// What Claude Code puts before the names of the server's tools.
pub(super) const PREFIX: &str = "mcp__ostler__";

/// How many characters of a result reach the model. More is not possible: it goes to a file, and the model gets its path.
const RESULT_CHARS: u32 = 500_000;

/// Where Claude Code says which tool call of its events a call of the server belongs to.
const CALL_KEY: &str = "claudecode/toolUseId";

/// The server, and Claude Code's names for its tools.
#[derive(Debug)]
pub(super) struct Server {
    server: mcp::Server,
    /// The caller's name for each tool, by Claude Code's.
    names: BTreeMap<String, String>,
}

/// Claude Code's name for a tool of the caller's.
pub(super) fn native(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    format!("{PREFIX}{}", name.chars().map(plain).collect::<String>())
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
        let meta = Some(RawJson::of(&Meta {
            always_load: true,
            result_chars: RESULT_CHARS,
        }));
        Self {
            server: mcp::Server::new(
                offers,
                &Custom {
                    meta,
                    call_key: Some(CALL_KEY),
                    reads_json: false,
                },
            ),
            names: offers
                .iter()
                .map(|offer| (native(&offer.name), offer.name.clone()))
                .collect(),
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
        self.server.is_open(id)
    }

    /// Nobody waits for the call any more; false when nobody did.
    pub(super) fn call_off(&mut self, id: &str) -> bool {
        self.server.call_off(id)
    }

    /// The caller's name for one of its tools. One that is also a name of Claude Code's is not used: rules about that tool
    /// would decide on the caller's.
    fn own(&self, tool: &str) -> Option<&str> {
        self.names
            .get(tool)
            .map(String::as_str)
            .filter(|name| !tool_use::is_taken(name))
    }

    /// The name that events show: the caller's for its own tools, Claude Code's for all others.
    pub(super) fn shown(&self, tool: &str) -> String {
        self.own(tool).unwrap_or(tool).to_owned()
    }

    /// What a call would do.
    pub(super) fn wants(&self, tool: &str, input: &RawJson) -> ToolUse {
        match self.own(tool) {
            Some(name) => ToolUse::of(name, ToolKind::Other),
            None => tool_use::tool_use(tool, input),
        }
    }

    /// What came of a call. Of one that nobody waits for, nothing is said.
    pub(super) fn done(&mut self, id: &str, (ok, output): (bool, &str), out: &mut Outbox) {
        if let Some((_, answer)) = self.server.done(id, ok, output) {
            respond(id, &answer, out);
        }
    }
}

fn respond(request: &str, answer: &Answer, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Response<'a> {
        mcp_response: &'a Answer,
    }
    reply(
        request,
        &Response {
            mcp_response: answer,
        },
        out,
    );
}

/// Reads a message to the server. A notification gets its answer too: the control request that brought it waits for one.
pub(super) fn hear(server: &mut Server, request_id: &str, request: &Request<'_>, out: &mut Outbox) {
    let text = request.message.map_or("null", RawValue::get);
    match server.server.hear((0, request_id), text, out) {
        Heard::Answer(answer) | Heard::Note(answer) => respond(request_id, &answer, out),
        Heard::Ordered => {}
    }
}
