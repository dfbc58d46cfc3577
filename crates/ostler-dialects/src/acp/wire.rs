//! ACP messages from agents: every field that matters, borrowed and optional.

use serde_json::value::RawValue;

use crate::lenient::{List, Node, Scalar, wire};

wire! {
    /// One line: a request, a notification or a response.
    struct Message {
        id: Option<&'a RawValue>,
        method: Scalar<'a>,
        params: Node<'a, Params<'a>>,
        result: Option<&'a RawValue>,
        error: Node<'a, RpcError<'a>>,
    }

    /// A JSON-RPC error. Its code is usually negative, but some agents send an HTTP status.
    struct RpcError {
        code: Scalar<'a>,
        message: Scalar<'a>,
        data: Option<&'a RawValue>,
    }

    /// The parameters of all requests and notifications of agents.
    #[serde(rename_all = "camelCase")]
    struct Params {
        session_id: Scalar<'a>,
        // session/update
        update: Node<'a, Update<'a>>,
        // session/request_permission
        tool_call: Node<'a, Update<'a>>,
        options: List<Node<'a, PermissionOption<'a>>>,
        // fs/*
        path: Scalar<'a>,
        line: Scalar<'a>,
        limit: Scalar<'a>,
        content: Scalar<'a>,
    }

    /// A session update, or the tool call of a permission request.
    #[serde(rename_all = "camelCase")]
    struct Update {
        session_update: Scalar<'a>,
        // chunks: one block; tool calls: a list of blocks
        content: Option<&'a RawValue>,
        message_id: Scalar<'a>,
        // tool calls
        tool_call_id: Scalar<'a>,
        title: Scalar<'a>,
        name: Scalar<'a>,
        kind: Scalar<'a>,
        status: Scalar<'a>,
        raw_input: Option<&'a RawValue>,
        raw_output: Option<&'a RawValue>,
        locations: List<Node<'a, Location<'a>>>,
        #[serde(rename = "_meta")]
        meta: Option<&'a RawValue>,
        // plan
        entries: List<Node<'a, PlanEntry<'a>>>,
        // usage_update
        cost: Node<'a, Cost<'a>>,
        // current_mode_update, config_option_update
        current_mode_id: Scalar<'a>,
        config_options: List<Node<'a, ConfigOption<'a>>>,
    }

    /// A file that a tool call affects.
    struct Location {
        path: Scalar<'a>,
    }

    /// An option of a permission request.
    #[serde(rename_all = "camelCase")]
    struct PermissionOption {
        option_id: Scalar<'a>,
        kind: Scalar<'a>,
    }

    /// A step of a plan.
    struct PlanEntry {
        content: Scalar<'a>,
        status: Scalar<'a>,
    }

    /// Cost of the session so far.
    struct Cost {
        amount: Scalar<'a>,
        currency: Scalar<'a>,
    }

    /// A content block.
    struct Block {
        r#type: Scalar<'a>,
        text: Scalar<'a>,
        // nested content of a tool call
        content: Option<&'a RawValue>,
        // diff of a file
        path: Scalar<'a>,
    }

    /// Raw output of a tool, in the agent's own format.
    struct Output {
        output: Scalar<'a>,
        content: Scalar<'a>,
        stdout: Scalar<'a>,
        message: Scalar<'a>,
        text: Scalar<'a>,
        error: Scalar<'a>,
        code: Scalar<'a>,
        contents: List<Node<'a, CommandResult<'a>>>,
        metadata: Node<'a, CommandResult<'a>>,
        // result of an MCP server
        result: Node<'a, McpResult<'a>>,
    }

    /// Result of an MCP server.
    struct McpResult {
        content: List<Node<'a, Block<'a>>>,
    }

    /// A wrapped call to an MCP server's tool.
    struct McpCall {
        server: Scalar<'a>,
        tool: Scalar<'a>,
        arguments: Option<&'a RawValue>,
    }

    /// Exit status and output of a command.
    struct CommandResult {
        #[serde(rename = "exitCode")]
        exit_code: Scalar<'a>,
        exit: Scalar<'a>,
        output: Scalar<'a>,
    }

    /// `_meta` of a text chunk.
    struct ChunkMeta {
        usage: Node<'a, TokenCounts<'a>>,
    }

    /// Data of an error.
    struct Details {
        details: Scalar<'a>,
    }

    /// `_meta` of a tool call.
    struct CallMeta {
        terminal_output: Node<'a, Terminal<'a>>,
        terminal_output_delta: Node<'a, Terminal<'a>>,
        output: Scalar<'a>,
        #[serde(rename = "claudeCode")]
        claude: Node<'a, ToolMeta<'a>>,
        #[serde(rename = "toolName")]
        tool_name: Scalar<'a>,
        is_mcp_tool_call: Scalar<'a>,
        goose: Node<'a, GooseMeta<'a>>,
    }

    /// goose's part of `_meta`.
    #[serde(rename_all = "camelCase")]
    struct GooseMeta {
        tool_call: Node<'a, ToolMeta<'a>>,
    }

    /// `_meta` of session information.
    struct InfoMeta {
        codex: Node<'a, CodexStatus<'a>>,
    }

    /// Codex's status in `_meta`.
    #[serde(rename_all = "camelCase")]
    struct CodexStatus {
        thread_status: Node<'a, ThreadStatus<'a>>,
        error: Node<'a, CodexError<'a>>,
    }

    /// Status of a Codex thread.
    struct ThreadStatus {
        r#type: Scalar<'a>,
    }

    /// An error of Codex, which may be retried.
    #[serde(rename_all = "camelCase")]
    struct CodexError {
        message: Scalar<'a>,
        additional_details: Scalar<'a>,
        will_retry: Scalar<'a>,
        codex_error_info: Option<&'a RawValue>,
    }

    /// HTTP status of a provider's response.
    #[serde(rename_all = "camelCase")]
    struct HttpStatus {
        http_status_code: Scalar<'a>,
    }

    /// Output in the terminal of a tool call.
    struct Terminal {
        data: Scalar<'a>,
    }

    /// The agent's name of the tool.
    #[serde(rename_all = "camelCase")]
    struct ToolMeta {
        tool_name: Scalar<'a>,
    }

    /// The response to `initialize`.
    #[serde(rename_all = "camelCase")]
    struct InitializeResponse {
        protocol_version: Scalar<'a>,
        agent_capabilities: Node<'a, AgentCapabilities<'a>>,
        agent_info: Node<'a, AgentInfo<'a>>,
        auth_methods: List<Node<'a, AuthMethod<'a>>>,
    }

    /// Capabilities of the agent.
    #[serde(rename_all = "camelCase")]
    struct AgentCapabilities {
        load_session: Scalar<'a>,
        mcp_capabilities: Node<'a, McpCapabilities<'a>>,
        session_capabilities: Node<'a, SessionCapabilities<'a>>,
    }

    /// Transports of remote MCP servers that the agent supports.
    struct McpCapabilities {
        http: Scalar<'a>,
        sse: Scalar<'a>,
    }

    /// Supported session operations. An empty object means yes.
    struct SessionCapabilities {
        fork: Option<&'a RawValue>,
        resume: Option<&'a RawValue>,
    }

    /// Identity of the agent.
    struct AgentInfo {
        version: Scalar<'a>,
    }

    /// A login method.
    struct AuthMethod {
        id: Scalar<'a>,
    }

    /// The response to `session/new`, `session/load`, `session/resume` and `session/fork`.
    #[serde(rename_all = "camelCase")]
    struct SessionResponse {
        session_id: Scalar<'a>,
        modes: Node<'a, Modes<'a>>,
        models: Node<'a, Models<'a>>,
        config_options: List<Node<'a, ConfigOption<'a>>>,
    }

    /// The modes of a session.
    #[serde(rename_all = "camelCase")]
    struct Modes {
        available_modes: List<Node<'a, Mode<'a>>>,
        current_mode_id: Scalar<'a>,
    }

    /// An available mode or model.
    struct Mode {
        id: Scalar<'a>,
        name: Scalar<'a>,
    }

    /// The models of a session.
    #[serde(rename_all = "camelCase")]
    struct Models {
        available_models: List<Node<'a, Model<'a>>>,
        current_model_id: Scalar<'a>,
    }

    /// An available mode or model.
    #[serde(rename_all = "camelCase")]
    struct Model {
        model_id: Scalar<'a>,
        name: Scalar<'a>,
    }

    /// A configuration option.
    #[serde(rename_all = "camelCase")]
    struct ConfigOption {
        id: Scalar<'a>,
        category: Scalar<'a>,
        current_value: Scalar<'a>,
        options: List<Node<'a, ConfigValue<'a>>>,
    }

    /// A value of a configuration option.
    struct ConfigValue {
        value: Scalar<'a>,
        name: Scalar<'a>,
    }

    /// The response to `session/prompt`.
    #[serde(rename_all = "camelCase")]
    struct PromptResponse {
        stop_reason: Scalar<'a>,
        usage: Node<'a, TokenCounts<'a>>,
        #[serde(rename = "_meta")]
        meta: Node<'a, PromptMeta<'a>>,
    }

    /// Token counters in ACP's format.
    #[serde(rename_all = "camelCase")]
    struct TokenCounts {
        input_tokens: Scalar<'a>,
        output_tokens: Scalar<'a>,
        total_tokens: Scalar<'a>,
        thought_tokens: Scalar<'a>,
        cached_read_tokens: Scalar<'a>,
        cached_write_tokens: Scalar<'a>,
    }

    /// `_meta` of the response to a prompt.
    struct PromptMeta {
        quota: Node<'a, Quota<'a>>,
    }

    /// Usage of a quota.
    struct Quota {
        token_count: Node<'a, QuotaCounts<'a>>,
        model_usage: List<Node<'a, QuotaModel<'a>>>,
    }

    /// Token counters without caches.
    struct QuotaCounts {
        input_tokens: Scalar<'a>,
        output_tokens: Scalar<'a>,
    }

    /// Quota usage of one model.
    struct QuotaModel {
        model: Scalar<'a>,
        token_count: Node<'a, QuotaCounts<'a>>,
    }
}
