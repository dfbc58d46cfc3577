//! Codex's own words, as far as they are read: messages of its app-server, and lines of `codex exec --json`.
//!
//! Nearly every item comes in both: in camelCase from the one, in snake_case from the other.

use serde_json::value::RawValue;

use crate::lenient::{List, Node, Scalar, Table, wire};

wire! {
    /// A message of the app-server: a request, an answer or a note.
    struct Message {
        id: Option<&'a RawValue>,
        method: Scalar<'a>,
        params: Node<'a, Params<'a>>,
        result: Node<'a, Answer<'a>>,
        error: Node<'a, Fault<'a>>,
    }

    /// Why a request of ours was not carried out.
    struct Fault {
        code: Scalar<'a>,
        message: Scalar<'a>,
    }

    /// What a request of ours brought.
    #[serde(rename_all = "camelCase")]
    struct Answer {
        user_agent: Scalar<'a>,
        thread: Node<'a, Thread<'a>>,
        model: Scalar<'a>,
        cwd: Scalar<'a>,
        turn: Node<'a, Turn<'a>>,
    }

    /// A thread: what is a session elsewhere.
    struct Thread {
        id: Scalar<'a>,
    }

    /// The parameters of requests and notes, all in one.
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
        // questions
        command: Scalar<'a>,
        cwd: Scalar<'a>,
        reason: Scalar<'a>,
        network_approval_context: Node<'a, Network<'a>>,
        grant_root: Scalar<'a>,
        permissions: Option<&'a RawValue>,
        server_name: Scalar<'a>,
        #[serde(rename = "_meta")]
        meta: Node<'a, Meta<'a>>,
        // item/fileChange/patchUpdated
        changes: Option<&'a RawValue>,
        // item/tool/call
        call_id: Scalar<'a>,
        tool: Scalar<'a>,
        arguments: Option<&'a RawValue>,
        // serverRequest/resolved
        request_id: Option<&'a RawValue>,
    }

    /// What a command wants of the network.
    struct Network {
        host: Scalar<'a>,
    }

    /// What Codex adds to a question that comes in the form of an MCP server's.
    struct Meta {
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

    /// What went wrong in a turn.
    #[serde(rename_all = "camelCase")]
    struct TurnError {
        message: Scalar<'a>,
        codex_error_info: Option<&'a RawValue>,
        additional_details: Scalar<'a>,
    }

    /// The facts of an error.
    #[serde(rename_all = "camelCase")]
    struct ErrorFacts {
        http_status_code: Scalar<'a>,
    }

    /// Tokens of a thread.
    struct TokenUsage {
        total: Node<'a, Counts<'a>>,
        last: Node<'a, Counts<'a>>,
    }

    /// Counters. The input contains what came from the cache and what went there.
    #[serde(rename_all = "camelCase")]
    struct Counts {
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

    /// Something the agent said or did.
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
        content_items: List<Node<'a, Piece<'a>>>,
        success: Scalar<'a>,
        prompt: Scalar<'a>,
        query: Scalar<'a>,
    }

    /// What a tool of an MCP server gave.
    struct McpResult {
        content: List<Node<'a, Piece<'a>>>,
    }

    /// A piece of a tool's result.
    struct Piece {
        text: Scalar<'a>,
    }

    /// A change of one file.
    struct FileChange {
        path: Scalar<'a>,
        kind: Node<'a, ChangeKind<'a>>,
    }

    /// How a file is changed.
    #[serde(rename_all = "camelCase")]
    struct ChangeKind {
        #[serde(alias = "move_path")]
        move_path: Scalar<'a>,
    }

    /// A line of `codex exec --json`.
    struct Line {
        #[serde(rename = "type")]
        kind: Scalar<'a>,
        thread_id: Scalar<'a>,
        item: Node<'a, Item<'a>>,
        usage: Node<'a, Counts<'a>>,
        error: Node<'a, TurnError<'a>>,
        message: Scalar<'a>,
    }
}

/// An error's facts by its word, when the word comes with facts.
pub(super) type ErrorTable<'a> = Table<'a, Node<'a, ErrorFacts<'a>>>;
