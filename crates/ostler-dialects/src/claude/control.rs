//! Control channel: requests from Ostler to Claude Code, requests from Claude Code to its host, and
//! the replies.
//!
//! A malformed permission request is never approved. Nothing blocks: pending requests are stored by
//! id, and replies are matched to them.

use ostler_core::dialect::{Action, Change, FromConversation, Outbox};
use ostler_core::event::{Level, Notice, NoticeCode};
use ostler_core::raw_json::RawJson;
use serde::Serialize;
use serde_json::{Value, json};

use super::conversation::ClaudeConversation;
use super::wire::ClaudeLine;
use super::{mcp, permissions};
use crate::json_lines::{self, without_nulls};

/// Interrupt of the current turn.
#[derive(Debug, Default)]
pub(super) struct Interrupt {
    /// Whether an interrupt is held until the agent produces output.
    held: bool,
    /// Number of interrupts sent; each needs a unique id.
    sent: u64,
}

impl Interrupt {
    /// Requests an interrupt.
    pub(super) fn request(&mut self) {
        self.held = true;
    }

    /// Sends a held interrupt. With `cancel_queued`, it also cancels steering messages that have
    /// not reached the model; otherwise Claude Code would start another turn with them.
    pub(super) fn release(&mut self, cancel_queued: bool, out: &mut Outbox) {
        if std::mem::take(&mut self.held) {
            self.sent += 1;
            let id = format!("ostler-interrupt-{}", self.sent);
            let cancel_queued = cancel_queued.then_some(true);
            let message = json!({"subtype": "interrupt", "cancel_queued": cancel_queued});
            request(&id, message, out);
        }
    }

    /// Discards a held interrupt when a new turn begins.
    pub(super) fn discard(&mut self) {
        self.held = false;
    }
}

/// Request id of the handshake.
const INITIALIZE: &str = "ostler-initialize";

/// Request id prefix for changes. The caller's number follows it.
const CHANGE: &str = "ostler-change-";

/// Callback id of the policy hook.
pub(super) const HOOK: &str = "ostler-policy";

/// Hook timeout in seconds: about three weeks, because a person may have to answer. Much larger
/// values overflow Claude Code's millisecond timers.
const HOOK_TIMEOUT: u32 = 2_000_000;

/// Announces the hook if there is a policy, and the MCP server if there are tools.
pub(super) fn initialize(policy: bool, tools: bool, out: &mut Outbox) {
    let hook = json!({"hookCallbackIds": [HOOK], "timeout": HOOK_TIMEOUT});
    let message = json!({
        "subtype": "initialize",
        "hooks": policy.then(|| json!({"PreToolUse": [hook]})),
        "sdkMcpServers": tools.then_some([mcp::SERVER]),
    });
    request(INITIALIZE, message, out);
}

/// Requests a change of the model or the permission mode.
pub(super) fn change(id: u64, change: &Change, out: &mut Outbox) {
    let message = match change {
        Change::Model(model) => json!({"subtype": "set_model", "model": model}),
        Change::PermissionMode(mode) => json!({"subtype": "set_permission_mode", "mode": mode}),
    };
    request(&format!("{CHANGE}{id}"), message, out);
}

fn request(id: &str, message: Value, out: &mut Outbox) {
    let request = without_nulls(message);
    json_lines::send(
        &json!({"type": "control_request", "request_id": id, "request": request}),
        out,
    );
}

/// Replies to a control request.
pub(super) fn reply<T: Serialize>(request_id: &str, response: &T, out: &mut Outbox) {
    #[derive(Serialize)]
    struct ControlReply<'a, T> {
        r#type: &'static str,
        response: ControlResponse<'a, T>,
    }
    #[derive(Serialize)]
    struct ControlResponse<'a, T> {
        subtype: &'static str,
        request_id: &'a str,
        response: &'a T,
    }
    let reply = ControlReply {
        r#type: "control_response",
        response: ControlResponse {
            subtype: "success",
            request_id,
            response,
        },
    };
    json_lines::send(&reply, out);
}

/// Handles a `control_request`.
pub(super) fn on_request(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    raw: &str,
    out: &mut Outbox,
) {
    let request = &line.request;
    let subtype = request.subtype.or_empty();
    let warn = |code: NoticeCode, message: String, out: &mut Outbox| {
        out.event(Notice {
            raw: RawJson::parse(raw).ok(),
            ..Notice::new(Level::Warning, code, message)
        });
    };
    let Some(id) = line.request_id.text().filter(|id| !id.is_empty()) else {
        let message = format!(
            "Claude Code sent a control request ({subtype:?}) without an id; it cannot be answered."
        );
        return warn(NoticeCode::ControlMalformed, message, out);
    };
    if conversation.permissions.is_open(id) || conversation.server.is_open(id) {
        let message = format!(
            "Claude Code sent a control request ({subtype:?}) with the id of a pending one."
        );
        return warn(NoticeCode::ControlMalformed, message, out);
    }
    match subtype {
        "can_use_tool" => {
            permissions::can_use_tool(conversation, id, request, out);
        }
        "hook_callback" if conversation.needs_handshake() => {
            permissions::hook(conversation, id, request, out);
        }
        "mcp_message" if conversation.server.serves(request) => {
            mcp::on_message(&mut conversation.server, id, request, out);
        }
        _ => {
            let response = json!({
                "subtype": "error",
                "request_id": id,
                "error": "not supported by this host",
            });
            json_lines::send(
                &json!({"type": "control_response", "response": response}),
                out,
            );
            let message = format!(
                "Claude Code sent a control request ({subtype:?}) that Ostler does not support."
            );
            warn(NoticeCode::ControlUnsupported, message, out);
        }
    }
}

/// Handles a `control_cancel_request`: Claude Code no longer waits for the reply.
pub(super) fn on_cancel(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    out: &mut Outbox,
) {
    let Some(id) = line.request_id.text() else {
        return;
    };
    if conversation.permissions.withdraw(id) {
        out.push(FromConversation::WithdrawPermission(id.to_owned()));
    } else if conversation.server.cancel(id) {
        out.push(Action::CancelTool(id.to_owned()));
    }
}

/// Handles a `control_response`, the reply to one of our requests.
pub(super) fn on_response(
    conversation: &mut ClaudeConversation,
    line: &ClaudeLine<'_>,
    out: &mut Outbox,
) {
    let response = &line.response;
    let refused = response.subtype.text() == Some("error");
    let error = refused.then(|| {
        response
            .error
            .text()
            .unwrap_or("no reason given")
            .to_owned()
    });
    let id = response.request_id.or_empty();
    if let Some(id) = id
        .strip_prefix(CHANGE)
        .and_then(|number| number.parse().ok())
    {
        return out.push(FromConversation::Changed { id, error });
    }
    // Other successes are not reported.
    let Some(error) = error else { return };
    let is_handshake = id == INITIALIZE;
    let level = if is_handshake {
        Level::Error
    } else {
        Level::Warning
    };
    out.notice(
        level,
        NoticeCode::ControlError,
        format!("Claude Code rejected a request: {error}"),
    );
    if is_handshake {
        // Without the hook the policy would be bypassed; without the server the tools would be
        // missing.
        conversation.interrupt(out);
    }
}
