//! Lines printed by the Copilot CLI, borrowed from the line. Other fields are ignored.

use serde_json::value::RawValue;

use crate::lenient::{List, Node, Scalar, wire};

wire! {
    /// One line.
    #[serde(rename_all = "camelCase")]
    struct CopilotLine {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        data: Node<'a, Data<'a>>,
        // result
        session_id: Scalar<'a>,
        exit_code: Scalar<'a>,
        // span
        attributes: Node<'a, Attributes<'a>>,
    }

    /// Payload of a line.
    #[serde(rename_all = "camelCase")]
    struct Data {
        model: Scalar<'a>,
        message: Scalar<'a>,
        content: Scalar<'a>,
        delta_content: Scalar<'a>,
        message_id: Scalar<'a>,
        reasoning_id: Scalar<'a>,
        parent_tool_call_id: Scalar<'a>,
        tool_requests: List<Node<'a, ToolRequest<'a>>>,
        // tool.execution_…
        tool_call_id: Scalar<'a>,
        tool_name: Scalar<'a>,
        arguments: Option<&'a RawValue>,
        success: Scalar<'a>,
        result: Node<'a, ToolOutput<'a>>,
        error: Node<'a, ToolError<'a>>,
        // session.error, session.info, model.call_failure
        error_type: Scalar<'a>,
        info_type: Scalar<'a>,
        warning_type: Scalar<'a>,
        status_code: Scalar<'a>,
        outcome: Scalar<'a>,
        shell_execution: Node<'a, ShellExecution<'a>>,
        error_message: Scalar<'a>,
        // system.notification
        kind: Node<'a, NotificationKind<'a>>,
    }

    /// Type of a notification to the model.
    struct NotificationKind {
        #[serde(rename = "type")]
        word: Scalar<'a>,
    }

    /// A tool call as requested by the model.
    #[serde(rename_all = "camelCase")]
    struct ToolRequest {
        tool_call_id: Scalar<'a>,
        name: Scalar<'a>,
        arguments: Option<&'a RawValue>,
    }

    /// Result of a tool.
    struct ToolOutput {
        content: Scalar<'a>,
    }

    /// Exit status of a command.
    #[serde(rename_all = "camelCase")]
    struct ShellExecution {
        exit_code: Scalar<'a>,
    }

    /// Error of a tool.
    struct ToolError {
        message: Scalar<'a>,
        code: Scalar<'a>,
    }

    /// Telemetry attributes of a model call.
    struct Attributes {
        #[serde(rename = "gen_ai.operation.name")]
        operation: Scalar<'a>,
        #[serde(rename = "gen_ai.request.model")]
        asked: Scalar<'a>,
        #[serde(rename = "gen_ai.response.model")]
        answered: Scalar<'a>,
        #[serde(rename = "gen_ai.usage.input_tokens")]
        input: Scalar<'a>,
        #[serde(rename = "gen_ai.usage.cache_read.input_tokens")]
        cache_read: Scalar<'a>,
        #[serde(rename = "gen_ai.usage.cache_creation.input_tokens")]
        cache_write: Scalar<'a>,
        #[serde(rename = "gen_ai.usage.output_tokens")]
        output: Scalar<'a>,
        #[serde(rename = "gen_ai.usage.reasoning.output_tokens")]
        reasoning: Scalar<'a>,
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
