//! Environment variables passed to programs that are launched in more than one way: directly, and
//! by an adapter.

use ostler_core::dialect::Inherits;

/// Variables that Claude Code reads: credentials and limits of its tools.
const CLAUDE_VARIABLES: &[&str] = &[
    "ANTHROPIC_*",
    "CLAUDE_*",
    "API_TIMEOUT_MS",
    "BASH_DEFAULT_TIMEOUT_MS",
    "BASH_MAX_TIMEOUT_MS",
    "BASH_MAX_OUTPUT_LENGTH",
    "MAX_THINKING_TOKENS",
    "MAX_MCP_OUTPUT_TOKENS",
    "MAX_STRUCTURED_OUTPUT_RETRIES",
    "MCP_TIMEOUT",
    "MCP_TOOL_TIMEOUT",
    "SLASH_COMMAND_TOOL_CHAR_BUDGET",
    "DISABLE_AUTOUPDATER",
    "DISABLE_AUTO_COMPACT",
    "DISABLE_COMPACT",
    "DISABLE_COST_WARNINGS",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_INTERLEAVED_THINKING",
    "DISABLE_PROMPT_CACHING*",
    "DISABLE_TELEMETRY",
    "ENABLE_TOOL_SEARCH",
    "IS_SANDBOX",
    "USE_BUILTIN_RIPGREP",
];

/// Variables that mark an enclosing Claude Code. With them the child would take itself for part of
/// that session, or connect to it.
const CLAUDE_MARKS: &[&str] = &[
    "CLAUDECODE",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_SESSION_ATTENDED",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_AGENT",
    "CLAUDE_CODE_BRIDGE_SESSION_ID",
    "CLAUDE_CODE_REMOTE",
    "CLAUDE_CODE_REMOTE_SESSION_ID",
    "CLAUDE_CODE_CONTAINER_ID",
    "CLAUDE_CODE_TASK_LIST_ID",
    "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_EFFORT",
    "CLAUDE_PID",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_ENV_FILE",
    // Set by an enclosing `--bare`, which disables all hooks; `bare` is a setting.
    "CLAUDE_CODE_SIMPLE",
];

/// Environment of Claude Code. A cloud provider's keys are passed only if that provider serves the
/// model.
pub(crate) const CLAUDE: Inherits = Inherits {
    always: CLAUDE_VARIABLES,
    when: &[
        ("CLAUDE_CODE_USE_BEDROCK", &["AWS_*"]),
        (
            "CLAUDE_CODE_USE_VERTEX",
            &["GOOGLE_*", "GCLOUD_PROJECT", "VERTEX_*", "CLOUD_ML_REGION"],
        ),
        ("CLAUDE_CODE_USE_FOUNDRY", &["AZURE_*"]),
    ],
    never: CLAUDE_MARKS,
};

/// Environment of Codex, without the marks of an enclosing Codex.
pub(crate) const CODEX: Inherits = Inherits {
    always: &["CODEX_*", "OPENAI_*"],
    when: &[],
    never: CODEX_MARKS.0,
};

/// Variables withheld from Codex behind its adapter in attended sessions: the marks, and the
/// settings that the adapter would read.
#[cfg(feature = "acp")]
pub(crate) const CODEX_NEVER_ATTENDED: &[&str] = CODEX_MARKS.1;

/// Marks of an enclosing Codex, without and with the variable that holds settings.
const CODEX_MARKS: (&[&str], &[&str]) = {
    const ALL: &[&str] = &[
        "CODEX_CI",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_THREAD_ID",
        "CODEX_TOOL_CALL_ID",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_EXEC_SERVER_URL",
        "CODEX_MANAGED_PACKAGE_ROOT",
        "CODEX_NETWORK_PROXY_ATTRIBUTION",
        "CODEX_CONFIG",
    ];
    (ALL.split_at(ALL.len() - 1).0, ALL)
};
