//! ACP messages from agents: every field that matters, borrowed and optional.

use serde_json::value::RawValue;

use crate::json_lines::camel_case_wire;
use crate::jsonrpc::Incoming;
use crate::lenient::{Node, Object, Objects, wire};

/// One line: a request, a notification or a response.
pub(super) type Message<'a> = Incoming<'a, Params<'a>, Option<&'a RawValue>>;

camel_case_wire! {
    /// The parameters of all requests and notifications of agents.
    struct Params {
        session_id,
        // session/update
        update: Node<'a, Update<'a>>,
        // session/request_permission
        tool_call: Object<Update<'a>>,
        options: Objects<PermissionOption<'a>>,
        // fs/*
        path,
        line,
        limit,
        content,
    }

    /// A session update, or the tool call of a permission request.
    struct Update {
        session_update,
        // chunks: one block; tool calls: a list of blocks
        content: Option<&'a RawValue>,
        message_id,
        // tool calls
        tool_call_id,
        title,
        name,
        kind,
        status,
        raw_input: Option<&'a RawValue>,
        raw_output: Option<&'a RawValue>,
        locations: Objects<Location<'a>>,
        #[serde(rename = "_meta")]
        meta: Option<&'a RawValue>,
        // plan
        entries: Objects<PlanEntry<'a>>,
        // usage_update
        cost: Object<Cost<'a>>,
        // current_mode_update, config_option_update
        current_mode_id,
        config_options: Objects<ConfigOption<'a>>,
    }

    /// A file that a tool call affects.
    struct Location {
        path,
    }

    /// An option of a permission request.
    struct PermissionOption {
        option_id,
        kind,
    }

    /// A step of a plan.
    struct PlanEntry {
        content,
        status,
    }

    /// Cost of the session so far.
    struct Cost {
        amount,
        currency,
    }

    /// A content block.
    struct Block {
        r#type,
        text,
        // nested content of a tool call
        content: Option<&'a RawValue>,
        // diff of a file
        path,
    }

    /// Raw output of a tool, in the agent's own format.
    struct Output {
        output,
        content,
        stdout,
        message,
        text,
        error,
        code,
        contents: Objects<CommandResult<'a>>,
        metadata: Object<CommandResult<'a>>,
        // result of an MCP server
        result: Node<'a, McpResult<'a>>,
    }

    /// Result of an MCP server.
    struct McpResult {
        content: Objects<Block<'a>>,
    }

    /// A wrapped call to an MCP server's tool.
    struct McpCall {
        server,
        tool,
        arguments: Option<&'a RawValue>,
    }

    /// Exit status and output of a command.
    struct CommandResult {
        exit_code,
        exit,
        output,
    }

    /// `_meta` of a text chunk.
    struct ChunkMeta {
        usage: Node<'a, TokenCounts<'a>>,
    }

    /// Data of an error.
    struct Details {
        details,
    }

    /// goose's part of `_meta`.
    struct GooseMeta {
        tool_call: Object<ToolMeta<'a>>,
    }

    /// `_meta` of session information.
    struct InfoMeta {
        codex: Object<CodexStatus<'a>>,
    }

    /// Codex's status in `_meta`.
    struct CodexStatus {
        thread_status: Object<ThreadStatus<'a>>,
        error: Object<CodexError<'a>>,
    }

    /// Status of a Codex thread.
    struct ThreadStatus {
        r#type,
    }

    /// An error of Codex, which may be retried.
    struct CodexError {
        message,
        additional_details,
        will_retry,
        codex_error_info: Option<&'a RawValue>,
    }

    /// HTTP status of a provider's response.
    struct HttpStatus {
        http_status_code,
    }

    /// Output in the terminal of a tool call.
    struct Terminal {
        data,
    }

    /// The agent's name of the tool.
    struct ToolMeta {
        tool_name,
    }

    /// The response to `initialize`.
    struct InitializeResponse {
        protocol_version,
        agent_capabilities: Object<AgentCapabilities<'a>>,
        agent_info: Node<'a, AgentInfo<'a>>,
        auth_methods: Objects<AuthMethod<'a>>,
    }

    /// Capabilities of the agent.
    struct AgentCapabilities {
        load_session,
        mcp_capabilities: Object<McpCapabilities<'a>>,
        session_capabilities: Object<SessionCapabilities<'a>>,
    }

    /// Transports of remote MCP servers that the agent supports.
    struct McpCapabilities {
        http,
        sse,
    }

    /// Supported session operations. An empty object means yes.
    struct SessionCapabilities {
        fork: Option<&'a RawValue>,
        resume: Option<&'a RawValue>,
    }

    /// Identity of the agent.
    struct AgentInfo {
        name,
        version,
    }

    /// A login method.
    struct AuthMethod {
        id,
    }

    /// The response to `session/new`, `session/load`, `session/resume` and `session/fork`.
    struct SessionResponse {
        session_id,
        modes: Node<'a, Modes<'a>>,
        models: Node<'a, Models<'a>>,
        config_options: Objects<ConfigOption<'a>>,
    }

    /// The modes of a session.
    struct Modes {
        available_modes: Objects<Mode<'a>>,
        current_mode_id,
    }

    /// An available mode or model.
    struct Mode {
        id,
        name,
    }

    /// The models of a session.
    struct Models {
        available_models: Objects<Model<'a>>,
        current_model_id,
    }

    /// An available mode or model.
    struct Model {
        model_id,
        name,
    }

    /// A configuration option.
    struct ConfigOption {
        id,
        category,
        current_value,
        options: Objects<ConfigValue<'a>>,
    }

    /// A value of a configuration option.
    struct ConfigValue {
        value,
        name,
    }

    /// The response to `session/prompt`.
    struct PromptResponse {
        stop_reason,
        usage: Object<TokenCounts<'a>>,
        #[serde(rename = "_meta")]
        meta: Object<PromptMeta<'a>>,
    }

    /// Token counters in ACP's format.
    struct TokenCounts {
        input_tokens,
        output_tokens,
        total_tokens,
        thought_tokens,
        cached_read_tokens,
        cached_write_tokens,
    }

    /// `_meta` of the response to a prompt.
    struct PromptMeta {
        quota: Object<Quota<'a>>,
    }
}

wire! {
    /// `_meta` of a tool call.
    struct CallMeta {
        terminal_output: Object<Terminal<'a>>,
        terminal_output_delta: Object<Terminal<'a>>,
        output,
        #[serde(rename = "claudeCode")]
        claude: Object<ToolMeta<'a>>,
        #[serde(rename = "toolName")]
        tool_name,
        is_mcp_tool_call,
        goose: Object<GooseMeta<'a>>,
    }

    /// Usage of a quota.
    struct Quota {
        token_count: Object<QuotaCounts<'a>>,
        model_usage: Objects<QuotaModel<'a>>,
    }

    /// Token counters without caches.
    struct QuotaCounts {
        input_tokens,
        output_tokens,
    }

    /// Quota usage of one model.
    struct QuotaModel {
        model,
        token_count: Object<QuotaCounts<'a>>,
    }
}
