//! Tool calls and what came of them.

use ostler_core::dialect::Outbox;
use ostler_core::event::{DecidedBy, Decision, Permission, ToolCall, ToolResult};
use ostler_core::raw_json::RawJson;
use serde_json::value::RawValue;

use super::conversation::CopilotConversation;
use super::wire::Data;
use crate::lenient::Node;

/// The code of a call that was not allowed.
const DENIED: &str = "denied";

/// The model's message names the calls that it wants.
pub(super) fn requested(talk: &mut CopilotConversation, data: &Data<'_>, out: &mut Outbox) {
    for request in data.tool_requests.0.iter().filter_map(Node::map) {
        if let (Some(id), Some(name)) = (request.tool_call_id.owned(), request.name.owned()) {
            call(talk, (id, name, request.arguments), data, out);
        }
    }
}

/// A tool begins to work. Its call was named before, unless it came from elsewhere.
pub(super) fn began(talk: &mut CopilotConversation, data: &Data<'_>, out: &mut Outbox) {
    if let (Some(id), Some(name)) = (data.tool_call_id.owned(), data.tool_name.owned()) {
        call(talk, (id, name, data.arguments), data, out);
    }
}

fn call(
    talk: &mut CopilotConversation,
    it: (String, String, Option<&RawValue>),
    data: &Data<'_>,
    out: &mut Outbox,
) {
    let (id, name, arguments) = it;
    if talk.tools.insert(id.clone(), name.clone()).is_none() {
        let input = arguments.map_or_else(RawJson::null, RawJson::keep);
        out.event(ToolCall {
            id,
            name,
            input,
            parent: data.parent_tool_call_id.owned(),
        });
    }
}

/// A tool came to its end.
pub(super) fn ended(talk: &mut CopilotConversation, data: &Data<'_>, out: &mut Outbox) {
    let Some(id) = data.tool_call_id.owned() else {
        return;
    };
    let name = talk
        .tools
        .get(&id)
        .cloned()
        .or_else(|| data.tool_name.owned());
    let error = data.error.map();
    let denied = error.is_some_and(|error| error.code.text() == Some(DENIED));
    let said = error
        .map(|error| error.message.or_empty())
        .or_else(|| data.error.text());
    let output = match data.result.map() {
        Some(result) if data.success.is_true() => result.content.or_empty(),
        _ => said.or_else(|| data.result.text()).unwrap_or_default(),
    };
    if denied {
        let tool = name.clone().unwrap_or_default();
        talk.denied.insert(tool.clone());
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
    // A command that failed is a success to Copilot, because it ran.
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
