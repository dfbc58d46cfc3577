//! MCP server for the caller's tools, over Claude Code's control channel.
//!
//! There is no process and no socket: each message arrives as an `mcp_message`, and the answer is
//! returned in the reply. Claude Code waits for a call up to `MCP_TOOL_TIMEOUT`, regardless of
//! progress notifications; `launch.rs` sets it.

use std::collections::BTreeMap;

use ostler_core::dialect::Outbox;
use ostler_core::permission::{ToolKind, ToolUse};
use ostler_core::raw_json::RawJson;
use ostler_core::spec::ToolOffer;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::control::reply;
use super::tool_use;
use super::wire::Request;
use crate::mcp::{self, ClientQuirks, FromClient, Handled, ToolOutput};
use crate::tools;

pub(super) use crate::mcp::SERVER;

/// Prefix that Claude Code adds to the names of this server's tools.
pub(super) const PREFIX: &str = "mcp__ostler__";

/// Maximum number of characters of a result that reach the model. This is the highest limit Claude
/// Code accepts: longer results go to a file, and the model gets its path.
const RESULT_CHARS: u32 = 500_000;

/// Metadata key with the id of the tool call, as it appears in Claude Code's events.
const CALL_KEY: &str = "claudecode/toolUseId";

/// The server, with Claude Code's names for its tools.
#[derive(Debug)]
pub(super) struct Server {
    server: mcp::ToolServer,
    /// The caller's tool names, by Claude Code's names.
    names: BTreeMap<String, String>,
}

/// Returns Claude Code's name for one of the caller's tools.
pub(super) fn native(name: &str) -> String {
    format!("{PREFIX}{}", tools::plain_name(name))
}

impl Server {
    pub(super) fn new(offers: &[ToolOffer]) -> Self {
        let meta = Some(json!({
            "anthropic/alwaysLoad": true,
            "anthropic/maxResultSizeChars": RESULT_CHARS,
        }));
        Self {
            server: mcp::ToolServer::new(
                offers,
                &ClientQuirks {
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

    /// Returns true if there are tools to serve.
    pub(super) fn has_tools(&self) -> bool {
        !self.names.is_empty()
    }

    /// Returns true if the request is addressed to this server.
    pub(super) fn serves(&self, request: &Request<'_>) -> bool {
        self.has_tools() && request.server_name.text() == Some(SERVER)
    }

    /// Returns true if a call with this id is pending.
    pub(super) fn is_open(&self, id: &str) -> bool {
        self.server.is_pending(id)
    }

    /// Drops a cancelled call. Returns false if no such call was pending.
    pub(super) fn cancel(&mut self, id: &str) -> bool {
        self.server.cancel(id)
    }

    /// Returns the caller's name for one of its tools, unless Claude Code has a tool with the same
    /// name: policy rules for that tool would then apply to the caller's.
    fn caller_name(&self, tool: &str) -> Option<&str> {
        self.names
            .get(tool)
            .map(String::as_str)
            .filter(|name| !tools::is_taken(tool_use::TOOLS, name))
    }

    /// Returns the tool name used in events: the caller's name for its tools, Claude Code's for all
    /// others.
    pub(super) fn display_name(&self, tool: &str) -> String {
        self.caller_name(tool).unwrap_or(tool).to_owned()
    }

    /// Describes what a tool call would do.
    pub(super) fn tool_use(&self, tool: &str, input: &RawJson) -> ToolUse {
        match self.caller_name(tool) {
            Some(name) => ToolUse::new(name, ToolKind::Other),
            None => tool_use::tool_use(tool, input),
        }
    }

    /// Sends the result of a call. Does nothing if the call is no longer pending.
    pub(super) fn done(&mut self, id: &str, output: ToolOutput<'_>, out: &mut Outbox) {
        if let Some(response) = self.server.finish(id, output) {
            respond(id, &response.message, out);
        }
    }
}

fn respond(request: &str, answer: &RawJson, out: &mut Outbox) {
    #[derive(Serialize)]
    struct Response<'a> {
        mcp_response: &'a RawJson,
    }
    reply(
        request,
        &Response {
            mcp_response: answer,
        },
        out,
    );
}

/// Handles an MCP message. Notifications get an answer too, because the control request that
/// carries them expects one.
pub(super) fn on_message(
    server: &mut Server,
    request_id: &str,
    request: &Request<'_>,
    out: &mut Outbox,
) {
    let message = FromClient {
        client: 0,
        job: request_id,
        text: request.message.map_or("null", RawValue::get),
    };
    match server.server.on_message(message, out) {
        Handled::Response(answer) | Handled::Notification(answer) => {
            respond(request_id, &answer, out);
        }
        Handled::CallStarted => {}
    }
}
