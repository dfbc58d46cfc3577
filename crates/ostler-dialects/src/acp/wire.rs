//! The messages of ACP as they come from agents: every field that matters, borrowed, none of them required.

use serde_json::value::RawValue;

use crate::lenient::{List, Node, Scalar, wire};

wire! {
    /// One line: a request, a notification or an answer.
    struct Message {
        id: Option<&'a RawValue>,
        method: Scalar<'a>,
        params: Node<'a, Params<'a>>,
        result: Option<&'a RawValue>,
        error: Node<'a, Fault<'a>>,
    }

    /// An error of JSON-RPC. Its code is negative as a rule, and an HTTP status with some.
    struct Fault {
        code: Scalar<'a>,
        message: Scalar<'a>,
        data: Option<&'a RawValue>,
    }

    /// The parameters of whatever an agent can ask or tell.
    #[serde(rename_all = "camelCase")]
    struct Params {
        session_id: Scalar<'a>,
        // session/update
        update: Node<'a, Update<'a>>,
        // session/request_permission
        tool_call: Node<'a, Update<'a>>,
        options: List<Node<'a, Choice<'a>>>,
        // fs/*
        path: Scalar<'a>,
        line: Scalar<'a>,
        limit: Scalar<'a>,
        content: Scalar<'a>,
    }

    /// Something that happened in a session, or the tool call that a question is about.
    #[serde(rename_all = "camelCase")]
    struct Update {
        session_update: Scalar<'a>,
        // chunks: one block; tool calls: a list
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

    /// A file that a tool call is about.
    struct Location {
        path: Scalar<'a>,
    }

    /// One answer that a question can get.
    #[serde(rename_all = "camelCase")]
    struct Choice {
        option_id: Scalar<'a>,
        kind: Scalar<'a>,
    }

    /// One step of a plan.
    struct PlanEntry {
        content: Scalar<'a>,
        status: Scalar<'a>,
    }

    /// What the session has cost so far.
    struct Cost {
        amount: Scalar<'a>,
        currency: Scalar<'a>,
    }

    /// A piece of content.
    struct Block {
        r#type: Scalar<'a>,
        text: Scalar<'a>,
        // what a tool call wraps
        content: Option<&'a RawValue>,
        // a change of a file
        path: Scalar<'a>,
    }

    /// What a tool gave, in the words of its agent.
    struct Output {
        output: Scalar<'a>,
        content: Scalar<'a>,
        stdout: Scalar<'a>,
        message: Scalar<'a>,
        text: Scalar<'a>,
        error: Scalar<'a>,
        code: Scalar<'a>,
        contents: List<Node<'a, Printed<'a>>>,
        metadata: Node<'a, Printed<'a>>,
        // what an MCP server answered
        result: Node<'a, Answered<'a>>,
    }

    /// The answer of an MCP server.
    struct Answered {
        content: List<Node<'a, Block<'a>>>,
    }

    /// A call of a tool of an MCP server, where the call is wrapped.
    struct McpCall {
        server: Scalar<'a>,
        tool: Scalar<'a>,
        arguments: Option<&'a RawValue>,
    }

    /// How a command ended.
    struct Printed {
        #[serde(rename = "exitCode")]
        exit_code: Scalar<'a>,
        exit: Scalar<'a>,
        output: Scalar<'a>,
    }

    /// What agents add to pieces of text.
    struct ChunkMeta {
        usage: Node<'a, Counts<'a>>,
    }

    /// What agents add to an error.
    struct Details {
        details: Scalar<'a>,
    }

    /// What agents add to tool calls.
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

    /// The notes of goose.
    #[serde(rename_all = "camelCase")]
    struct GooseMeta {
        tool_call: Node<'a, ToolMeta<'a>>,
    }

    /// What an agent adds to what it says about a session.
    struct InfoMeta {
        codex: Node<'a, Condition<'a>>,
    }

    /// How an agent is.
    #[serde(rename_all = "camelCase")]
    struct Condition {
        thread_status: Node<'a, Health<'a>>,
        error: Node<'a, Trouble<'a>>,
    }

    /// In one word.
    struct Health {
        r#type: Scalar<'a>,
    }

    /// What went wrong and is tried again.
    #[serde(rename_all = "camelCase")]
    struct Trouble {
        message: Scalar<'a>,
        additional_details: Scalar<'a>,
        will_retry: Scalar<'a>,
        codex_error_info: Option<&'a RawValue>,
    }

    /// The status of an answer that a service gave.
    #[serde(rename_all = "camelCase")]
    struct Status {
        http_status_code: Scalar<'a>,
    }

    /// What was printed in the terminal of a tool call.
    struct Terminal {
        data: Scalar<'a>,
    }

    /// The tool, by its own name.
    #[serde(rename_all = "camelCase")]
    struct ToolMeta {
        tool_name: Scalar<'a>,
    }

    /// The answer to `initialize`.
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: Scalar<'a>,
        agent_capabilities: Node<'a, Able<'a>>,
        agent_info: Node<'a, Info<'a>>,
        auth_methods: List<Node<'a, AuthMethod<'a>>>,
    }

    /// What the agent can do.
    #[serde(rename_all = "camelCase")]
    struct Able {
        load_session: Scalar<'a>,
        mcp_capabilities: Node<'a, McpAble<'a>>,
        session_capabilities: Node<'a, SessionAble<'a>>,
    }

    /// How the agent reaches MCP servers besides starting them.
    struct McpAble {
        http: Scalar<'a>,
        sse: Scalar<'a>,
    }

    /// What can be done with sessions. An empty object says yes.
    struct SessionAble {
        fork: Option<&'a RawValue>,
        resume: Option<&'a RawValue>,
    }

    /// Who the agent is.
    struct Info {
        version: Scalar<'a>,
    }

    /// A way to log in.
    struct AuthMethod {
        id: Scalar<'a>,
    }

    /// The answer to `session/new`, `session/load`, `session/resume` and `session/fork`.
    #[serde(rename_all = "camelCase")]
    struct Opened {
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

    /// One of them.
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

    /// One of them.
    #[serde(rename_all = "camelCase")]
    struct Model {
        model_id: Scalar<'a>,
        name: Scalar<'a>,
    }

    /// Something else that can be chosen.
    #[serde(rename_all = "camelCase")]
    struct ConfigOption {
        id: Scalar<'a>,
        category: Scalar<'a>,
        current_value: Scalar<'a>,
        options: List<Node<'a, ConfigValue<'a>>>,
    }

    /// One value of it.
    struct ConfigValue {
        value: Scalar<'a>,
        name: Scalar<'a>,
    }

    /// The answer to `session/prompt`.
    #[serde(rename_all = "camelCase")]
    struct Prompted {
        stop_reason: Scalar<'a>,
        usage: Node<'a, Counts<'a>>,
        #[serde(rename = "_meta")]
        meta: Node<'a, PromptMeta<'a>>,
    }

    /// Counters as ACP writes them.
    #[serde(rename_all = "camelCase")]
    struct Counts {
        input_tokens: Scalar<'a>,
        output_tokens: Scalar<'a>,
        total_tokens: Scalar<'a>,
        thought_tokens: Scalar<'a>,
        cached_read_tokens: Scalar<'a>,
        cached_write_tokens: Scalar<'a>,
    }

    /// What agents add to the end of a turn.
    struct PromptMeta {
        quota: Node<'a, Quota<'a>>,
    }

    /// What was used of a quota.
    struct Quota {
        token_count: Node<'a, QuotaCounts<'a>>,
        model_usage: List<Node<'a, QuotaModel<'a>>>,
    }

    /// Counters without any word about caches.
    struct QuotaCounts {
        input_tokens: Scalar<'a>,
        output_tokens: Scalar<'a>,
    }

    /// The same for one model.
    struct QuotaModel {
        model: Scalar<'a>,
        token_count: Node<'a, QuotaCounts<'a>>,
    }
}
