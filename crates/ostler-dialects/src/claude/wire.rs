//! Lines printed by Claude Code, as one flat struct of optional, borrowed fields.
//!
//! A flat struct parses twice as fast as a tagged enum, because a line's type can come last (as it
//! does in `result`). Line types share field names; the module that handles a type shows which
//! fields it uses.

use serde_json::value::RawValue;

use crate::lenient::{Content, List, Node, Scalar, Table, wire};

wire! {
    /// One line.
    struct ClaudeLine {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        subtype: Scalar<'a>,
        session_id: Scalar<'a>,
        uuid: Scalar<'a>,
        parent_tool_use_id: Scalar<'a>,
        message: Node<'a, Message<'a>>,
        // assistant, system/api_retry
        error: Scalar<'a>,
        api_error: Scalar<'a>,
        // user
        tool_result_meta: List<Node<'a, ResultMeta<'a>>>,
        #[serde(rename = "isReplay")]
        is_replay: Scalar<'a>,
        #[serde(rename = "isSynthetic")]
        is_synthetic: Scalar<'a>,
        // system/init
        cwd: Scalar<'a>,
        model: Scalar<'a>,
        tools: List<Scalar<'a>>,
        claude_code_version: Scalar<'a>,
        capabilities: List<Scalar<'a>>,
        // command_lifecycle
        command_uuid: Scalar<'a>,
        state: Scalar<'a>,
        // other system lines
        tool_name: Scalar<'a>,
        tool_use_id: Scalar<'a>,
        attempt: Scalar<'a>,
        max_retries: Scalar<'a>,
        retry_delay_ms: Scalar<'a>,
        error_status: Scalar<'a>,
        content: Scalar<'a>,
        level: Scalar<'a>,
        compact_metadata: Node<'a, Compaction<'a>>,
        // system/task_*
        task_id: Scalar<'a>,
        tasks: List<Node<'a, Task<'a>>>,
        is_backgrounded: Scalar<'a>,
        description: Scalar<'a>,
        status: Scalar<'a>,
        summary: Scalar<'a>,
        patch: Node<'a, TaskPatch<'a>>,
        // rate_limit_event
        rate_limit_info: Node<'a, RateLimit<'a>>,
        // control_request, control_response
        request_id: Scalar<'a>,
        request: Node<'a, Request<'a>>,
        response: Node<'a, Response<'a>>,
        // result
        is_error: Scalar<'a>,
        result: Scalar<'a>,
        errors: List<Scalar<'a>>,
        stop_reason: Scalar<'a>,
        terminal_reason: Scalar<'a>,
        api_error_status: Scalar<'a>,
        permission_denials: List<Node<'a, Denial<'a>>>,
        structured_output: Option<&'a RawValue>,
        total_cost_usd: Scalar<'a>,
        usage: Node<'a, Tokens<'a>>,
        #[serde(rename = "modelUsage")]
        model_usage: Table<'a, Node<'a, ModelUsage<'a>>>,
        model_usage_since_last_result: Table<'a, Node<'a, ModelUsage<'a>>>,
    }

    /// A `stream_event`. Most lines are of this type while the model writes, and a small struct
    /// parses faster.
    struct StreamEventLine {
        parent_tool_use_id: Scalar<'a>,
        event: Node<'a, StreamEvent<'a>>,
        api_message_id: Scalar<'a>,
    }

    /// A message from the model, a tool or the user.
    struct Message {
        id: Scalar<'a>,
        model: Scalar<'a>,
        content: Content<'a, Node<'a, Block<'a>>>,
        usage: Node<'a, Tokens<'a>>,
    }

    /// One block of a message.
    struct Block {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        text: Scalar<'a>,
        thinking: Scalar<'a>,
        id: Scalar<'a>,
        name: Scalar<'a>,
        input: Option<&'a RawValue>,
        tool_use_id: Scalar<'a>,
        content: Option<&'a RawValue>,
        is_error: Scalar<'a>,
    }

    /// A Messages API event, passed through.
    struct StreamEvent {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        message: Node<'a, Message<'a>>,
        delta: Node<'a, Delta<'a>>,
        usage: Node<'a, Tokens<'a>>,
        error: Node<'a, ApiError<'a>>,
    }

    /// An increment of a block.
    struct Delta {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        text: Scalar<'a>,
        thinking: Scalar<'a>,
    }

    /// A Messages API error.
    struct ApiError {
        message: Scalar<'a>,
    }

    /// Token counters in the Messages API format.
    struct Tokens {
        input_tokens: Scalar<'a>,
        cache_read_input_tokens: Scalar<'a>,
        cache_creation_input_tokens: Scalar<'a>,
        output_tokens: Scalar<'a>,
        output_tokens_details: Node<'a, OutputDetails<'a>>,
    }

    /// Share of the output that was reasoning.
    struct OutputDetails {
        thinking_tokens: Scalar<'a>,
    }

    /// Token counters per model in Claude Code's format.
    #[serde(rename_all = "camelCase")]
    struct ModelUsage {
        input_tokens: Scalar<'a>,
        cache_read_input_tokens: Scalar<'a>,
        cache_creation_input_tokens: Scalar<'a>,
        output_tokens: Scalar<'a>,
        thinking_tokens: Scalar<'a>,
        #[serde(rename = "costUSD")]
        cost_usd: Scalar<'a>,
    }

    /// Claude Code's metadata about a tool result.
    struct ResultMeta {
        id: Scalar<'a>,
        permission_decision: Node<'a, PermissionDecision<'a>>,
    }

    /// Decision of its permission layer.
    struct PermissionDecision {
        decision: Scalar<'a>,
    }

    /// A tool call denied during the turn.
    struct Denial {
        tool_name: Scalar<'a>,
    }

    /// A background task.
    struct Task {
        task_id: Scalar<'a>,
    }

    /// Change to a background task.
    struct TaskPatch {
        status: Scalar<'a>,
        is_backgrounded: Scalar<'a>,
    }

    /// Compaction of the conversation.
    struct Compaction {
        trigger: Scalar<'a>,
        pre_tokens: Scalar<'a>,
    }

    /// State of a rate limit.
    #[serde(rename_all = "camelCase")]
    struct RateLimit {
        status: Scalar<'a>,
        resets_at: Scalar<'a>,
        rate_limit_type: Scalar<'a>,
    }

    /// A control request from Claude Code.
    struct Request {
        subtype: Scalar<'a>,
        tool_name: Scalar<'a>,
        tool_use_id: Scalar<'a>,
        input: Option<&'a RawValue>,
        // hook_callback
        callback_id: Scalar<'a>,
        // mcp_message
        server_name: Scalar<'a>,
        message: Option<&'a RawValue>,
    }

    /// Hook input: the tool call to decide on.
    struct HookInput {
        tool_name: Scalar<'a>,
        tool_input: Option<&'a RawValue>,
        tool_use_id: Scalar<'a>,
    }

    /// Reply to one of our control requests.
    struct Response {
        subtype: Scalar<'a>,
        request_id: Scalar<'a>,
        error: Scalar<'a>,
    }
}

/// Returns true if the text looks like the beginning of a Claude Code recording.
pub(super) fn is_recorded(opening: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        session_id: Option<serde::de::IgnoredAny>,
        response: Option<serde::de::IgnoredAny>,
        request: Option<serde::de::IgnoredAny>,
    }
    crate::recording::lines::<Head<'_>>(opening).any(|head| match head.kind {
        "system" | "assistant" | "user" | "result" | "stream_event" | "rate_limit_event" => {
            head.session_id.is_some()
        }
        "control_response" => head.response.is_some(),
        "control_request" => head.request.is_some(),
        _ => false,
    })
}
