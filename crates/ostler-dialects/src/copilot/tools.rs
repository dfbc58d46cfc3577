//! Tool calls and their results.

use ostler_core::dialect::Outbox;
use ostler_core::event::{DecidedBy, Decision, Permission, ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde_json::value::RawValue;

use super::conversation::CopilotConversation;
use super::wire::Data;
use crate::lenient::Node;

/// Error code of a denied call.
const DENIED: &str = "denied";

/// Emits the calls that the model's message requests.
pub(super) fn on_requests(
    conversation: &mut CopilotConversation,
    data: &Data<'_>,
    out: &mut Outbox,
) {
    for request in data.tool_requests.0.iter().filter_map(Node::map) {
        if let (Some(id), Some(name)) = (request.tool_call_id.owned(), request.name.owned()) {
            call(conversation, (id, name, request.arguments), data, out);
        }
    }
}

/// Handles the start of a tool. Its call was emitted with the message, unless the model did not
/// request it.
pub(super) fn on_start(conversation: &mut CopilotConversation, data: &Data<'_>, out: &mut Outbox) {
    if let (Some(id), Some(name)) = (data.tool_call_id.owned(), data.tool_name.owned()) {
        call(conversation, (id, name, data.arguments), data, out);
    }
}

fn call(
    conversation: &mut CopilotConversation,
    it: (String, String, Option<&RawValue>),
    data: &Data<'_>,
    out: &mut Outbox,
) {
    let (id, name, arguments) = it;
    if conversation
        .tools
        .insert(id.clone(), name.clone())
        .is_none()
    {
        let input = arguments.map_or_else(RawJson::null, RawJson::from_raw);
        out.event(ToolCall {
            id,
            name,
            input,
            parent: data.parent_tool_call_id.owned(),
        });
    }
}

/// Handles the end of a tool.
pub(super) fn on_complete(
    conversation: &mut CopilotConversation,
    data: &Data<'_>,
    out: &mut Outbox,
) {
    let Some(id) = data.tool_call_id.owned() else {
        return;
    };
    let name = conversation
        .tools
        .get(&id)
        .cloned()
        .or_else(|| data.tool_name.owned());
    let error = data.error.map();
    let denied = error.is_some_and(|error| error.code.text() == Some(DENIED));
    let error_text = error
        .map(|error| error.message.or_empty())
        .or_else(|| data.error.text());
    let output = match data.result.map() {
        Some(result) if data.success.is_true() => result.content.or_empty(),
        _ => error_text
            .or_else(|| data.result.text())
            .unwrap_or_default(),
    };
    if denied {
        let tool = name.clone().unwrap_or_default();
        conversation.denied.insert(tool.clone());
        out.event(Permission {
            id: id.clone(),
            tool,
            kind: None,
            input: None,
            decision: Decision::Denied,
            by: DecidedBy::Agent,
            message: Some(output.to_owned()),
        });
    }
    // Copilot reports a failed command as a success, because it ran.
    let code = data
        .shell_execution
        .map()
        .and_then(|shell| shell.exit_code.count());
    let ok = data.success.is_true() && !denied && code.is_none_or(|code| code == 0);
    out.event(ToolResult {
        id,
        name,
        ok,
        output: output.to_owned(),
        denied,
        content: None,
    });
}
