//! Wire types of Codex: messages of its app-server, and lines of `codex exec --json`.
//!
//! Nearly every item occurs in both: in camelCase in the one, in snake_case in the other.

use serde_json::value::RawValue;

use crate::json_lines::camel_case_wire;
use crate::jsonrpc::Incoming;
use crate::lenient::{List, Node, Object, Objects, Scalar, Table, wire};

/// A message of the app-server: a request, a response or a notification.
pub(super) type Message<'a> = Incoming<'a, Params<'a>, Node<'a, Response<'a>>>;

camel_case_wire! {
    /// Result of a request.
    struct Response {
        user_agent,
        thread: Object<Thread<'a>>,
        model,
        cwd,
        turn: Object<Turn<'a>>,
    }

    /// A thread, Codex's term for a session.
    struct Thread {
        id,
    }

    /// Parameters of all requests and notifications.
    struct Params {
        thread_id,
        item_id,
        delta,
        item: Node<'a, Item<'a>>,
        turn: Object<Turn<'a>>,
        token_usage: Node<'a, TokenUsage<'a>>,
        error: Node<'a, TurnError<'a>>,
        will_retry,
        message,
        summary,
        // model/rerouted
        from_model,
        to_model,
        // mcpServer/startupStatus/updated
        name,
        status,
        // approval requests
        command,
        cwd,
        reason,
        network_approval_context: Node<'a, NetworkContext<'a>>,
        grant_root,
        permissions: Option<&'a RawValue>,
        server_name,
        #[serde(rename = "_meta")]
        meta: Object<ElicitationMeta<'a>>,
        // item/fileChange/patchUpdated
        changes: Option<&'a RawValue>,
        // item/tool/call
        call_id,
        tool,
        arguments: Option<&'a RawValue>,
        // serverRequest/resolved
        request_id: Option<&'a RawValue>,
    }

    /// Network access that a command requests.
    struct NetworkContext {
        host,
    }

    /// A turn.
    struct Turn {
        id,
        status,
        error: Node<'a, TurnError<'a>>,
        items: List<Node<'a, Item<'a>>>,
    }

    /// Error of a turn.
    struct TurnError {
        message,
        codex_error_info: Option<&'a RawValue>,
        additional_details,
    }

    /// Details of an error.
    struct ErrorDetails {
        http_status_code,
    }

    /// Token usage of a thread.
    struct TokenUsage {
        total: Node<'a, TokenCounts<'a>>,
        last: Node<'a, TokenCounts<'a>>,
    }

    /// Token counters. The input includes tokens read from and written to the cache.
    struct TokenCounts {
        #[serde(alias = "input_tokens")]
        input_tokens,
        #[serde(alias = "cached_input_tokens")]
        cached_input_tokens,
        #[serde(alias = "cache_write_input_tokens")]
        cache_write_input_tokens,
        #[serde(alias = "output_tokens")]
        output_tokens,
        #[serde(alias = "reasoning_output_tokens")]
        reasoning_output_tokens,
    }

    /// An item: something the agent said or did.
    struct Item {
        #[serde(rename = "type")]
        kind,
        id,
        status,
        text,
        message,
        // reasoning
        summary: List<Scalar<'a>>,
        content: List<Scalar<'a>>,
        // commands
        command,
        cwd,
        #[serde(alias = "aggregated_output")]
        aggregated_output,
        #[serde(alias = "exit_code")]
        exit_code,
        // files
        changes: Option<&'a RawValue>,
        path,
        // tools
        server,
        tool,
        arguments: Option<&'a RawValue>,
        result: Node<'a, McpResult<'a>>,
        error: Node<'a, TurnError<'a>>,
        #[serde(alias = "content_items")]
        content_items: Objects<ContentItem<'a>>,
        success,
        prompt,
        query,
    }

    /// Result of an MCP server's tool.
    struct McpResult {
        content: Objects<ContentItem<'a>>,
    }

    /// A part of a tool's result.
    struct ContentItem {
        text,
    }

    /// A change of one file.
    struct FileChange {
        path,
        kind: Object<ChangeKind<'a>>,
    }

    /// Kind of a file change.
    struct ChangeKind {
        #[serde(alias = "move_path")]
        move_path,
    }
}

wire! {
    /// Metadata of an approval request in the form of an MCP elicitation.
    struct ElicitationMeta {
        codex_approval_kind,
        tool_params: Option<&'a RawValue>,
    }

    /// A line of `codex exec --json`.
    struct ExecLine {
        #[serde(rename = "type")]
        kind,
        thread_id,
        item: Node<'a, Item<'a>>,
        usage: Node<'a, TokenCounts<'a>>,
        error: Object<TurnError<'a>>,
        message,
    }
}

/// Details of an error by its code, for codes that have details.
pub(super) type ErrorTable<'a> = Table<'a, Object<ErrorDetails<'a>>>;
