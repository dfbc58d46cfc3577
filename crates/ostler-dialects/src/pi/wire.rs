//! Types of the lines that pi prints. They borrow from the line, and ignore unknown fields.

use serde_json::value::RawValue;

use crate::json_lines::camel_case_wire;
use crate::lenient::{Node, Object, Objects, Scalar};

camel_case_wire! {
    /// Any line except `message_update`.
    struct PiLine {
        #[serde(rename = "type")]
        kind,
        // response
        id,
        command,
        success,
        error,
        data: Node<'a, State<'a>>,
        // message_end
        message: Node<'a, Message<'a>>,
        // tool_execution_…
        tool_call_id,
        tool_name,
        args: Option<&'a RawValue>,
        result: Node<'a, ToolOutput<'a>>,
        is_error,
        // auto_retry_…, compaction_…
        attempt,
        max_attempts,
        delay_ms,
        error_message,
        aborted,
        will_retry,
        // extension_ui_request
        method,
        title,
        notify_type,
        // extension_error
        extension_path,
    }

    /// A `message_update` line. It also contains the whole message so far, twice, which is ignored.
    struct UpdateLine {
        assistant_message_event: Object<Update<'a>>,
    }

    /// A streamed update of a message.
    struct Update {
        #[serde(rename = "type")]
        kind,
        content_index,
        delta,
    }

    /// State of the session, in the response to `get_state`.
    struct State {
        session_id,
        model: Object<Model<'a>>,
        is_streaming,
        is_compacting,
        pending_message_count,
    }

    /// A model and its provider.
    struct Model {
        id,
        provider,
    }

    /// A message in the conversation.
    struct Message {
        role,
        content: Objects<Block<'a>>,
        provider,
        model,
        usage: Object<MessageUsage<'a>>,
        stop_reason,
        error_message,
    }

    /// A part of a message: text, thinking or a tool call.
    struct Block {
        #[serde(rename = "type")]
        kind,
        text,
        thinking,
        id,
        name,
        arguments: Option<&'a RawValue>,
    }

    /// Tokens and cost of a message.
    struct MessageUsage {
        input,
        output,
        cache_read,
        cache_write,
        cost: Object<Cost<'a>>,
    }

    /// Cost of a message in US dollars.
    struct Cost {
        total,
    }

    /// Result of a tool.
    struct ToolOutput {
        content: Objects<Block<'a>>,
    }
}

impl Message<'_> {
    /// Returns the model in the form that the setting `model` accepts.
    pub(super) fn model_name(&self) -> Option<String> {
        model_name(&self.provider, &self.model)
    }
}

impl Model<'_> {
    /// Returns the model in the form that the setting `model` accepts.
    pub(super) fn name(&self) -> Option<String> {
        model_name(&self.provider, &self.id)
    }
}

/// Joins the names of a provider and its model. Without a model, pi reports both as `unknown`.
fn model_name(provider: &Scalar<'_>, id: &Scalar<'_>) -> Option<String> {
    match (provider.text()?, id.text()?) {
        ("unknown", "unknown") => None,
        (provider, id) => Some(format!("{provider}/{id}")),
    }
}

/// Joins the text blocks of a result with line breaks.
pub(super) fn texts(content: &[Block<'_>]) -> String {
    let texts = content.iter().filter_map(|block| block.text.text());
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns true if the text looks like the beginning of a recording of pi.
pub(super) fn is_recorded(opening: &str) -> bool {
    crate::recording::lines::<PiLine<'_>>(opening).any(|line| match line.kind.or_empty() {
        "agent_start" => true,
        "response" => {
            (line.success.is_true() || line.success.is_false())
                && matches!(line.command.or_empty(), "get_state" | "prompt")
        }
        _ => false,
    })
}
