//! Lines printed by Claude Code, as one flat struct of optional, borrowed fields.
//!
//! A flat struct parses twice as fast as a tagged enum, because a line's type can come last (as it
//! does in `result`). Line types share field names; the module that handles a type shows which
//! fields it uses.

use serde_json::value::RawValue;

use crate::lenient::{Content, List, Node, Object, Objects, Rare, Scalar, Table, wire};

wire! {
    /// One line.
    struct ClaudeLine {
        #[serde(rename = "type")]
        kind,
        subtype,
        session_id,
        uuid,
        parent_tool_use_id,
        message: Node<'a, Message<'a>>,
        // assistant, system/api_retry
        error,
        api_error,
        // user
        tool_result_meta: Objects<ResultMeta<'a>>,
        #[serde(rename = "isReplay")]
        is_replay,
        #[serde(rename = "isSynthetic")]
        is_synthetic,
        // system/init
        cwd,
        model,
        tools: List<Scalar<'a>>,
        claude_code_version,
        capabilities: List<Scalar<'a>>,
        // command_lifecycle
        command_uuid,
        state,
        // other system lines
        tool_name,
        tool_use_id,
        attempt,
        max_retries,
        retry_delay_ms,
        error_status,
        content,
        level,
        compact_metadata: Object<Compaction<'a>>,
        // system/task_*
        task_id,
        tasks: Objects<Task<'a>>,
        is_backgrounded,
        description,
        status,
        summary,
        patch: Object<TaskPatch<'a>>,
        // rate_limit_event
        rate_limit_info: Node<'a, RateLimit<'a>>,
        // control_request, control_response
        request_id,
        request: Object<Request<'a>>,
        response: Object<Response<'a>>,
        // result
        is_error,
        result,
        errors: List<Scalar<'a>>,
        stop_reason,
        terminal_reason,
        api_error_status,
        permission_denials: Objects<Denial<'a>>,
        structured_output: Option<&'a RawValue>,
        total_cost_usd,
        usage: Object<Tokens<'a>>,
        #[serde(rename = "modelUsage")]
        model_usage: Table<'a, Node<'a, ModelUsage<'a>>>,
        model_usage_since_last_result: Table<'a, Node<'a, ModelUsage<'a>>>,
    }

    /// A `stream_event`. Most lines are of this type while the model writes, and a small struct
    /// parses faster.
    struct StreamEventLine {
        parent_tool_use_id,
        event: Node<'a, StreamEvent<'a>>,
        api_message_id,
    }

    /// A message from the model, a tool or the user.
    struct Message {
        id,
        model,
        content: Content<'a, Node<'a, Block<'a>>>,
        usage: Node<'a, Tokens<'a>>,
    }

    /// One block of a message.
    struct Block {
        #[serde(rename = "type")]
        kind,
        text,
        thinking,
        id,
        name,
        input: Option<&'a RawValue>,
        tool_use_id,
        content: Option<&'a RawValue>,
        is_error,
    }

    /// A Messages API event, passed through.
    struct StreamEvent {
        #[serde(rename = "type")]
        kind,
        message: Rare<Message<'a>>,
        delta: Node<'a, Delta<'a>>,
        usage: Rare<Tokens<'a>>,
        error: Rare<ApiError<'a>>,
    }

    /// An increment of a block.
    struct Delta {
        #[serde(rename = "type")]
        kind,
        text,
        thinking,
    }

    /// A Messages API error.
    struct ApiError {
        message,
    }

    /// Token counters in the Messages API format.
    struct Tokens {
        input_tokens,
        cache_read_input_tokens,
        cache_creation_input_tokens,
        output_tokens,
        output_tokens_details: Object<OutputDetails<'a>>,
    }

    /// Share of the output that was reasoning.
    struct OutputDetails {
        thinking_tokens,
    }

    /// Token counters per model in Claude Code's format.
    #[serde(rename_all = "camelCase")]
    struct ModelUsage {
        input_tokens,
        cache_read_input_tokens,
        cache_creation_input_tokens,
        output_tokens,
        thinking_tokens,
        #[serde(rename = "costUSD")]
        cost_usd,
    }

    /// Claude Code's metadata about a tool result.
    struct ResultMeta {
        id,
        permission_decision: Object<PermissionDecision<'a>>,
    }

    /// Decision of its permission layer.
    struct PermissionDecision {
        decision,
    }

    /// A tool call denied during the turn.
    struct Denial {
        tool_name,
    }

    /// A background task.
    struct Task {
        task_id,
    }

    /// Change to a background task.
    struct TaskPatch {
        status,
        is_backgrounded,
    }

    /// Compaction of the conversation.
    struct Compaction {
        trigger,
        pre_tokens,
    }

    /// State of a rate limit.
    #[serde(rename_all = "camelCase")]
    struct RateLimit {
        status,
        resets_at,
        rate_limit_type,
    }

    /// A control request from Claude Code.
    struct Request {
        subtype,
        tool_name,
        tool_use_id,
        input: Option<&'a RawValue>,
        // hook_callback
        callback_id,
        // mcp_message
        server_name,
        message: Option<&'a RawValue>,
    }

    /// Hook input: the tool call to decide on.
    struct HookInput {
        tool_name,
        tool_input: Option<&'a RawValue>,
        tool_use_id,
    }

    /// Reply to one of our control requests.
    struct Response {
        subtype,
        request_id,
        error,
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
