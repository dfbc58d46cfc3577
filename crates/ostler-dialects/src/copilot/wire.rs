//! What the Copilot CLI prints, borrowed from the line; what is not read here is passed over.

use serde_json::value::RawValue;

use crate::lenient::{List, Node, Scalar, wire};

wire! {
    /// One line.
    #[serde(rename_all = "camelCase")]
    struct Line {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        data: Node<'a, Data<'a>>,
        // result
        session_id: Scalar<'a>,
        exit_code: Scalar<'a>,
        // span
        attributes: Node<'a, Attributes<'a>>,
    }

    /// What a line is about.
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

    /// What the model is told by the program.
    struct NotificationKind {
        #[serde(rename = "type")]
        word: Scalar<'a>,
    }

    /// A call of a tool, as the model wrote it.
    #[serde(rename_all = "camelCase")]
    struct ToolRequest {
        tool_call_id: Scalar<'a>,
        name: Scalar<'a>,
        arguments: Option<&'a RawValue>,
    }

    /// What a tool gave.
    struct ToolOutput {
        content: Scalar<'a>,
    }

    /// How a command ended.
    #[serde(rename_all = "camelCase")]
    struct ShellExecution {
        exit_code: Scalar<'a>,
    }

    /// Why a tool gave nothing.
    struct ToolError {
        message: Scalar<'a>,
        code: Scalar<'a>,
    }

    /// What telemetry says about a call of the model.
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

/// Returns true if a recording that begins with this text is of Copilot.
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
