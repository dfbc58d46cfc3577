//! Lines printed by the Copilot CLI, borrowed from the line. Other fields are ignored.

use serde_json::value::RawValue;

use crate::json_lines::camel_case_wire;
use crate::lenient::{List, Node, Object, Objects, Scalar};

camel_case_wire! {
    /// One line.
    struct CopilotLine {
        #[serde(rename = "type")]
        kind,
        data: Object<Data<'a>>,
        // result
        session_id,
        exit_code,
        // span
        attributes: Object<Attributes<'a>>,
    }

    /// Payload of a line.
    struct Data {
        model,
        message,
        content,
        delta_content,
        message_id,
        reasoning_id,
        parent_tool_call_id,
        tool_requests: Objects<ToolRequest<'a>>,
        // tool.execution_…
        tool_call_id,
        tool_name,
        arguments: Option<&'a RawValue>,
        success,
        result: Node<'a, ToolOutput<'a>>,
        error: Node<'a, ToolError<'a>>,
        // session.error, session.info, model.call_failure
        error_type,
        info_type,
        warning_type,
        status_code,
        outcome,
        shell_execution: Object<ShellExecution<'a>>,
        error_message,
        // system.notification
        kind: Object<NotificationKind<'a>>,
    }

    /// Type of a notification to the model.
    struct NotificationKind {
        #[serde(rename = "type")]
        word,
    }

    /// A tool call as requested by the model.
    struct ToolRequest {
        tool_call_id,
        name,
        arguments: Option<&'a RawValue>,
    }

    /// Result of a tool.
    struct ToolOutput {
        content,
    }

    /// Exit status of a command.
    struct ShellExecution {
        exit_code,
    }

    /// Error of a tool.
    struct ToolError {
        message,
        code,
    }

    /// Telemetry attributes of a model call.
    struct Attributes {
        #[serde(rename = "gen_ai.operation.name")]
        operation,
        #[serde(rename = "gen_ai.request.model")]
        asked,
        #[serde(rename = "gen_ai.response.model")]
        answered,
        #[serde(rename = "gen_ai.usage.input_tokens")]
        input,
        #[serde(rename = "gen_ai.usage.cache_read.input_tokens")]
        cache_read,
        #[serde(rename = "gen_ai.usage.cache_creation.input_tokens")]
        cache_write,
        #[serde(rename = "gen_ai.usage.output_tokens")]
        output,
        #[serde(rename = "gen_ai.usage.reasoning.output_tokens")]
        reasoning,
        #[serde(rename = "gen_ai.response.finish_reasons")]
        finish_reasons: List<Scalar<'a>>,
    }
}

/// Returns true if the text looks like the beginning of a Copilot recording.
pub(super) fn is_recorded(opening: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        #[serde(rename = "data")]
        _data: serde::de::IgnoredAny,
        #[serde(rename = "timestamp")]
        _timestamp: serde::de::IgnoredAny,
    }
    let kinds = ["session.", "assistant.", "user.", "tool."];
    crate::recording::lines::<Head<'_>>(opening)
        .any(|head| kinds.iter().any(|kind| head.kind.starts_with(kind)))
}
