//! Tool calls and their results.

use ostler_core::dialect::Outbox;
use ostler_core::event::{DecidedBy, Permission, ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde_json::value::RawValue;

use super::output::CopilotOutput;
use super::wire::Data;
use crate::permissions;

/// Error code of a denied call.
const DENIED: &str = "denied";

/// Emits the calls that the model's message requests.
pub(super) fn on_requests(turn: &mut CopilotOutput, data: &Data<'_>, out: &mut Outbox) {
    for request in &*data.tool_requests {
        if let (Some(id), Some(name)) = (request.tool_call_id.owned(), request.name.owned()) {
            let input = request.arguments;
            emit_call(turn, call(id, name, input, data), out);
        }
    }
}

/// Handles the start of a tool. Its call was emitted with the message, unless the model did not
/// request it.
pub(super) fn on_start(turn: &mut CopilotOutput, data: &Data<'_>, out: &mut Outbox) {
    if let (Some(id), Some(name)) = (data.tool_call_id.owned(), data.tool_name.owned()) {
        emit_call(turn, call(id, name, data.arguments, data), out);
    }
}

fn call(id: String, name: String, input: Option<&RawValue>, data: &Data<'_>) -> ToolCall {
    ToolCall {
        id,
        name,
        input: input.map_or_else(RawJson::null, RawJson::from_raw),
        parent: data.parent_tool_call_id.owned(),
    }
}

/// Emits a call, unless it was emitted before.
fn emit_call(turn: &mut CopilotOutput, call: ToolCall, out: &mut Outbox) {
    let known = turn.tools.insert(call.id.clone(), call.name.clone());
    if known.is_none() {
        out.event(call);
    }
}

/// Handles the end of a tool.
pub(super) fn on_complete(turn: &mut CopilotOutput, data: &Data<'_>, out: &mut Outbox) {
    let Some(id) = data.tool_call_id.owned() else {
        return;
    };
    let name = turn
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
        turn.denied.insert(tool.clone());
        out.event(Permission {
            message: Some(output.to_owned()),
            ..permissions::denied(DecidedBy::Agent, id.clone(), tool)
        });
    }
    // Copilot reports a failed command as a success, because it ran.
    let code = data.shell_execution.exit_code.count();
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
