//! Wire types of Codex: messages of its app-server, and lines of `codex exec --json`.
//!
//! Nearly every item occurs in both: in camelCase in the one, in snake_case in the other.

use serde_json::value::RawValue;

use crate::lenient::{List, Node, Scalar, Table, wire};

wire! {
    /// A message of the app-server: a request, a response or a notification.
    struct Message {
        id: Option<&'a RawValue>,
        method: Scalar<'a>,
        params: Node<'a, Params<'a>>,
        result: Node<'a, Response<'a>>,
        error: Node<'a, RpcError<'a>>,
    }

    /// Error of a failed request.
    struct RpcError {
        code: Scalar<'a>,
        message: Scalar<'a>,
    }

    /// Result of a request.
    #[serde(rename_all = "camelCase")]
    struct Response {
        user_agent: Scalar<'a>,
        thread: Node<'a, Thread<'a>>,
        model: Scalar<'a>,
        cwd: Scalar<'a>,
        turn: Node<'a, Turn<'a>>,
    }

    /// A thread, Codex's term for a session.
    struct Thread {
        id: Scalar<'a>,
    }

    /// Parameters of all requests and notifications.
    #[serde(rename_all = "camelCase")]
    struct Params {
        thread_id: Scalar<'a>,
        item_id: Scalar<'a>,
        delta: Scalar<'a>,
        item: Node<'a, Item<'a>>,
        turn: Node<'a, Turn<'a>>,
        token_usage: Node<'a, TokenUsage<'a>>,
        error: Node<'a, TurnError<'a>>,
        will_retry: Scalar<'a>,
        message: Scalar<'a>,
        summary: Scalar<'a>,
        // model/rerouted
        from_model: Scalar<'a>,
        to_model: Scalar<'a>,
        // mcpServer/startupStatus/updated
        name: Scalar<'a>,
        status: Scalar<'a>,
        // approval requests
        command: Scalar<'a>,
        cwd: Scalar<'a>,
        reason: Scalar<'a>,
        network_approval_context: Node<'a, NetworkContext<'a>>,
        grant_root: Scalar<'a>,
        permissions: Option<&'a RawValue>,
        server_name: Scalar<'a>,
        #[serde(rename = "_meta")]
        meta: Node<'a, ElicitationMeta<'a>>,
        // item/fileChange/patchUpdated
        changes: Option<&'a RawValue>,
        // item/tool/call
        call_id: Scalar<'a>,
        tool: Scalar<'a>,
        arguments: Option<&'a RawValue>,
        // serverRequest/resolved
        request_id: Option<&'a RawValue>,
    }

    /// Network access that a command requests.
    struct NetworkContext {
        host: Scalar<'a>,
    }

    /// Metadata of an approval request in the form of an MCP elicitation.
    struct ElicitationMeta {
        codex_approval_kind: Scalar<'a>,
        tool_params: Option<&'a RawValue>,
    }

    /// A turn.
    struct Turn {
        id: Scalar<'a>,
        status: Scalar<'a>,
        error: Node<'a, TurnError<'a>>,
        items: List<Node<'a, Item<'a>>>,
    }

    /// Error of a turn.
    #[serde(rename_all = "camelCase")]
    struct TurnError {
        message: Scalar<'a>,
        codex_error_info: Option<&'a RawValue>,
        additional_details: Scalar<'a>,
    }

    /// Details of an error.
    #[serde(rename_all = "camelCase")]
    struct ErrorDetails {
        http_status_code: Scalar<'a>,
    }

    /// Token usage of a thread.
    struct TokenUsage {
        total: Node<'a, TokenCounts<'a>>,
        last: Node<'a, TokenCounts<'a>>,
    }

    /// Token counters. The input includes tokens read from and written to the cache.
    #[serde(rename_all = "camelCase")]
    struct TokenCounts {
        #[serde(alias = "input_tokens")]
        input_tokens: Scalar<'a>,
        #[serde(alias = "cached_input_tokens")]
        cached_input_tokens: Scalar<'a>,
        #[serde(alias = "cache_write_input_tokens")]
        cache_write_input_tokens: Scalar<'a>,
        #[serde(alias = "output_tokens")]
        output_tokens: Scalar<'a>,
        #[serde(alias = "reasoning_output_tokens")]
        reasoning_output_tokens: Scalar<'a>,
    }

    /// An item: something the agent said or did.
    #[serde(rename_all = "camelCase")]
    struct Item {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        id: Scalar<'a>,
        status: Scalar<'a>,
        text: Scalar<'a>,
        message: Scalar<'a>,
        // reasoning
        summary: List<Scalar<'a>>,
        content: List<Scalar<'a>>,
        // commands
        command: Scalar<'a>,
        cwd: Scalar<'a>,
        #[serde(alias = "aggregated_output")]
        aggregated_output: Scalar<'a>,
        #[serde(alias = "exit_code")]
        exit_code: Scalar<'a>,
        // files
        changes: Option<&'a RawValue>,
        path: Scalar<'a>,
        // tools
        server: Scalar<'a>,
        tool: Scalar<'a>,
        arguments: Option<&'a RawValue>,
        result: Node<'a, McpResult<'a>>,
        error: Node<'a, TurnError<'a>>,
        #[serde(alias = "content_items")]
        content_items: List<Node<'a, ContentItem<'a>>>,
        success: Scalar<'a>,
        prompt: Scalar<'a>,
        query: Scalar<'a>,
    }

    /// Result of an MCP server's tool.
    struct McpResult {
        content: List<Node<'a, ContentItem<'a>>>,
    }

    /// A part of a tool's result.
    struct ContentItem {
        text: Scalar<'a>,
    }

    /// A change of one file.
    struct FileChange {
        path: Scalar<'a>,
        kind: Node<'a, ChangeKind<'a>>,
    }

    /// Kind of a file change.
    #[serde(rename_all = "camelCase")]
    struct ChangeKind {
        #[serde(alias = "move_path")]
        move_path: Scalar<'a>,
    }

    /// A line of `codex exec --json`.
    struct ExecLine {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        thread_id: Scalar<'a>,
        item: Node<'a, Item<'a>>,
        usage: Node<'a, TokenCounts<'a>>,
        error: Node<'a, TurnError<'a>>,
        message: Scalar<'a>,
    }
}

/// Details of an error by its code, for codes that have details.
pub(super) type ErrorTable<'a> = Table<'a, Node<'a, ErrorDetails<'a>>>;
