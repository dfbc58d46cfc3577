//! Profiles of the agents known to speak ACP.

use ostler_core::dialect::transcript::ResumeDelay;
use ostler_core::dialect::{
    Inherits, Login, LoginFile, LoginQuery, ProjectFiles, Runtime, Version,
};
use ostler_core::permission::ToolKind;

use super::profile::{AgentProfile, BASE, LaunchMode};
use super::quirks::{CountScope, DEFAULT_QUIRKS, ErrorText, FailureStyle, NameSource, Quirks};
use super::unattended_modes;
use super::{Acp, handshake};
use crate::inherits;

/// Node 20 or newer.
const NODE: Runtime = Runtime {
    program: "node",
    serves: |version| version >= Version(20, 0, 0),
    hint: "Install Node.js 20 or newer (https://nodejs.org), then try again.",
};

/// Node 22 or newer.
const NODE_22: Runtime = Runtime {
    serves: |version| version >= Version(22, 0, 0),
    hint: "Install Node.js 22 or newer (https://nodejs.org), then try again.",
    ..NODE
};

/// Node 24.16 or newer, 26.1 or newer.
const NEW_NODE: Runtime = Runtime {
    program: "node",
    serves: |version| {
        (version >= Version(24, 16, 0) && version < Version(25, 0, 0))
            || version >= Version(26, 1, 0)
    },
    hint: "OpenClaw requires Node.js 24.16 or newer, or 26.1 or newer (https://nodejs.org); \
           with an older version npm installs an empty package.",
};

/// Settings that an agent can only be refused for, because it cannot be told to ignore them.
const fn not_ignorable(paths: &'static [&'static str]) -> ProjectFiles {
    ProjectFiles {
        paths,
        can_ignore: false,
        setting: None,
    }
}

const fn only(always: &'static [&'static str]) -> Inherits {
    Inherits {
        always,
        when: &[],
        never: &[],
    }
}

/// Gemini CLI. Measured: 0.61.0.
pub static GEMINI: Acp = Acp(&AgentProfile {
    name: "gemini",
    recognizes: |opening| handshake::recognizes("gemini-cli", opening),
    program: "gemini",
    args: &["--acp"],
    inherits: Inherits {
        always: &[
            "GEMINI_*",
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_CLOUD_LOCATION",
        ],
        when: &[("GOOGLE_GENAI_USE_VERTEXAI", &["GOOGLE_*", "VERTEX_*"])],
        never: &["GEMINI_CLI", "GEMINI_CLI_NO_RELAUNCH"],
    },
    // Otherwise it starts itself a second time, and the first process only waits.
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    resume_delay: Some(ResumeDelay {
        roots: &["$GEMINI_CLI_HOME", "~/"],
        folder: ".gemini/tmp",
        file: |id, minute| {
            Some(format!(
                "chats/session-{}-{}.jsonl",
                minute.replace(':', "-"),
                id.get(..8)?
            ))
        },
    }),
    state: &["~/.gemini/"],
    models: &["auto", "gemini-2.5-pro", "gemini-2.5-flash"],
    tools: &[
        (ToolKind::Execute, &["run_shell_command"]),
        (
            ToolKind::Read,
            &[
                "read_file",
                "read_many_files",
                "list_directory",
                "glob",
                "grep_search",
                "search_file_content",
                "write_todos",
            ],
        ),
        (ToolKind::Edit, &["write_file", "replace"]),
        (ToolKind::Network, &["web_fetch", "google_web_search"]),
    ],
    lost_session_hint: " Or gemini has deleted it: a session that was resumed once is deleted the \
        next time gemini starts, unless general.sessionRetention.enabled is false in \
        ~/.gemini/settings.json.",
    unreached_hint: " It starts no servers in a directory that it does not trust: trust the \
        directory in gemini, or set GEMINI_CLI_TRUST_WORKSPACE=true.",
    asks_in: Some("default"),
    auto_approve: unattended_modes::GEMINI,
    fork: false,
    cost: false,
    // It rejects prompts that it estimates at more than a million tokens.
    long_prompts: false,
    project_files: not_ignorable(&[".gemini"]),
    minimum: Version(0, 61, 0),
    tested: Some(Version(0, 61, 0)),
    runtime: Some(NODE),
    install_hint: "gemini not found in PATH. Install it with `npm install -g @google/gemini-cli`.",
    login_hint: "Run `gemini` once and log in, or set GEMINI_API_KEY to an API key.",
    quirks: Quirks {
        counts: CountScope::Quota,
        names: NameSource::CallId,
        title_is_command: true,
        describes_calls: true,
        replay_trails: true,
        mode_echo: Some("[MODE_UPDATE] "),
        thought_prefix: "****\n",
        reads_json: true,
        // Its SDK rejects with an object that is not an `Error`, and it only reads the message of
        // those.
        missing_reads_empty: true,
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

/// Login query of opencode. Without credentials it still has free models and the user's providers
/// in opencode.json, so stored credentials may be absent without a login being needed.
const OPENCODE_LOGIN: LoginQuery = LoginQuery {
    args: &["auth", "list"],
    env: &[
        ("OPENCODE_DISABLE_AUTOUPDATE", "true"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "true"),
        ("NO_COLOR", "1"),
    ],
    input: "",
    read: |_, stdout| {
        // It prints counts: "0 credentials", "1 environment variable".
        let counted = |line: &str, kind: &str| {
            let (count, rest) = line
                .trim_start_matches(|c: char| !c.is_ascii_digit())
                .split_once(' ')?;
            (count.parse::<u32>().is_ok_and(|count| count > 0) && rest.starts_with(kind))
                .then(|| format!("{count} {rest}"))
        };
        let found = stdout.lines().flat_map(|line| {
            [
                counted(line, "credential"),
                counted(line, "environment variable"),
            ]
        });
        let found: Vec<String> = found.flatten().collect();
        if found.is_empty() {
            Login::Unknown
        } else {
            Login::LoggedIn(Some(found.join(", ")))
        }
    },
};

/// Makes opencode ask about everything.
const ASK: &str = "{\"*\":\"ask\"}";

/// opencode. Measured: 1.18.33.
pub static OPENCODE: Acp = Acp(&AgentProfile {
    name: "opencode",
    recognizes: |opening| handshake::recognizes("OpenCode", opening),
    program: "opencode",
    args: &["acp"],
    natives: &[
        "../../opencode-linux-x64/bin/opencode",
        "../../opencode-linux-arm64/bin/opencode",
        "../../opencode-darwin-arm64/bin/opencode",
        "../../opencode-darwin-x64/bin/opencode",
        "../node_modules/opencode-linux-x64/bin/opencode",
        "../node_modules/opencode-linux-arm64/bin/opencode",
        "../node_modules/opencode-darwin-arm64/bin/opencode",
        "../node_modules/opencode-darwin-x64/bin/opencode",
    ],
    inherits: Inherits {
        always: &[
            "OPENCODE_*",
            "ANTHROPIC_*",
            "OPENAI_*",
            "GEMINI_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "OPENROUTER_API_KEY",
            "GROQ_API_KEY",
            "MISTRAL_API_KEY",
            "XAI_API_KEY",
            "DEEPSEEK_API_KEY",
        ],
        when: &[],
        never: &["OPENCODE_CLIENT", "OPENCODE_PID", "OPENCODE_TERMINAL"],
    },
    env: &[("OPENCODE_DISABLE_AUTOUPDATE", "true")],
    // Without it everything is allowed and opencode never asks.
    ask_never: &[
        "OPENCODE_CLIENT",
        "OPENCODE_PID",
        "OPENCODE_TERMINAL",
        "OPENCODE_PERMISSION",
    ],
    ask_env: &[("OPENCODE_PERMISSION", ASK)],
    modes: &[
        LaunchMode {
            name: "default",
            args: &[],
            env: &[],
        },
        LaunchMode {
            name: "ask",
            args: &[],
            env: &[("OPENCODE_PERMISSION", ASK)],
        },
        LaunchMode {
            name: "allow-all",
            args: &[],
            env: &[("OPENCODE_PERMISSION", "{\"*\":\"allow\"}")],
        },
    ],
    state: &[
        "~/.local/share/opencode/",
        "~/.local/state/opencode/",
        "~/.cache/opencode/",
        "~/.config/opencode/",
    ],
    tools: &[
        (ToolKind::Execute, &["bash"]),
        (
            ToolKind::Read,
            &[
                "read",
                "glob",
                "grep",
                "list",
                "todowrite",
                "todoread",
                "task",
                "skill",
            ],
        ),
        (ToolKind::Edit, &["write", "edit", "apply_patch", "patch"]),
        (ToolKind::Network, &["webfetch", "websearch"]),
    ],
    project_files: ProjectFiles {
        paths: &[".opencode", "opencode.json", "opencode.jsonc"],
        can_ignore: true,
        setting: None,
    },
    ignore_env: &[("OPENCODE_DISABLE_PROJECT_CONFIG", "true")],
    ignore_never: &[
        "OPENCODE_CLIENT",
        "OPENCODE_PID",
        "OPENCODE_TERMINAL",
        "OPENCODE_PERMISSION",
        "OPENCODE_DISABLE_PROJECT_CONFIG",
    ],
    minimum: Version(1, 18, 0),
    tested: Some(Version(1, 18, 33)),
    login: Some(OPENCODE_LOGIN),
    install_hint: "opencode not found in PATH. Install it with `npm install -g opencode-ai`.",
    login_files: &[LoginFile {
        variable: Some("XDG_DATA_HOME"),
        below_home: ".local/share",
        name: "opencode/auth.json",
    }],
    login_hint: "Run `opencode auth login`, or set your provider's key \
                 (ANTHROPIC_API_KEY, OPENAI_API_KEY, …).",
    quirks: Quirks {
        counts: CountScope::LastRequest,
        counts_overlap: false,
        names: NameSource::Title,
        input_follows: true,
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

/// Qwen Code. Measured: 0.24.4.
pub static QWEN: Acp = Acp(&AgentProfile {
    name: "qwen",
    recognizes: |opening| handshake::recognizes("qwen-code", opening),
    program: "qwen",
    args: &["--acp"],
    inherits: Inherits {
        always: &["QWEN_*", "DASHSCOPE_*", "OPENAI_*"],
        when: &[],
        never: &[
            "QWEN_CODE",
            "QWEN_CODE_NO_RELAUNCH",
            "QWEN_CODE_LEGACY_MCP_BLOCKING",
            "QWEN_CODE_SESSION_ID",
            "QWEN_CODE_PROMPT_ID",
        ],
    },
    env: &[
        // Otherwise it starts itself again, and the first process only waits.
        ("QWEN_CODE_NO_RELAUNCH", "true"),
        // Otherwise its model may lack the caller's tools in the first turn.
        ("QWEN_CODE_LEGACY_MCP_BLOCKING", "1"),
    ],
    state: &["~/.qwen/"],
    tools: &[
        (ToolKind::Execute, &["run_shell_command", "monitor"]),
        (
            ToolKind::Read,
            &[
                "read_file",
                "list_directory",
                "glob",
                "grep_search",
                "lsp",
                "todo_write",
                "tool_search",
                "skill",
            ],
        ),
        (ToolKind::Edit, &["write_file", "edit", "notebook_edit"]),
        (ToolKind::Network, &["web_fetch", "web_search"]),
    ],
    // It starts in a mode in which a model decides what to ask about.
    asks_in: Some("default"),
    auto_approve: unattended_modes::GEMINI,
    fork: false,
    cost: false,
    project_files: not_ignorable(&[".qwen"]),
    minimum: Version(0, 24, 0),
    tested: Some(Version(0, 24, 4)),
    runtime: Some(NODE),
    install_hint: "qwen not found in PATH. Install it with `npm install -g @qwen-code/qwen-code`.",
    login_hint: "Run `qwen` once and log in, \
                 or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL.",
    quirks: Quirks {
        counts: CountScope::Chunks,
        names: NameSource::Meta,
        input_follows: true,
        raw_output_is_stdout: true,
        allow_ids: &["proceed_once"],
        ignored_methods: &["craft/drainMidTurnQueue", "qwen/notify/session/mode-update"],
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

/// goose. Measured: 1.34.0 (the npm package 0.20.1).
pub static GOOSE: Acp = Acp(&AgentProfile {
    name: "goose",
    recognizes: |opening| handshake::recognizes("goose-provider", opening),
    program: "goose",
    args: &["acp"],
    inherits: Inherits {
        always: &[
            "GOOSE_*",
            "ANTHROPIC_*",
            "OPENAI_*",
            "GOOGLE_API_KEY",
            "OPENROUTER_API_KEY",
        ],
        when: &[],
        never: &["GOOSE_TERMINAL"],
    },
    state: &[
        "~/.config/goose/",
        "~/.local/share/goose/",
        "~/.local/state/goose/",
    ],
    tools: &[
        (ToolKind::Execute, &["shell"]),
        (ToolKind::Edit, &["write", "edit"]),
        (
            ToolKind::Read,
            &["tree", "analyze", "load", "load_skill", "todo__todo_write"],
        ),
        // Not `delegate`: it starts another agent.
    ],
    // It starts in a mode in which everything is allowed.
    asks_in: Some("approve"),
    fork: false,
    cost: false,
    minimum: Version(1, 34, 0),
    tested: Some(Version(1, 34, 0)),
    install_hint: "goose not found in PATH. Install it from https://block.github.io/goose/.",
    login_hint: "Run `goose configure`.",
    quirks: Quirks {
        failures: FailureStyle::Text(ErrorText {
            prefix: "Ran into this error: ",
            suffix: "Please retry if you think this is a transient or recoverable error.",
            certain_prefix: "Ran into this error: ",
        }),
        counts: CountScope::LastRequest,
        reports_caches: false,
        names: NameSource::Meta,
        cancel_ends_successfully: true,
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

/// Claude Code behind the editors' adapter. Measured: 0.99.1.
pub static CLAUDE_AGENT_ACP: Acp = Acp(&AgentProfile {
    name: "claude-agent-acp",
    recognizes: |opening| handshake::recognizes("@agentclientprotocol/claude-agent-acp", opening),
    program: "claude-agent-acp",
    inherits: inherits::CLAUDE,
    env: &[
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // Disables prompt suggestions, which cost a model call after each turn.
        ("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false"),
        // The caller's tools are limited elsewhere; this is the longest time that a timer can hold.
        ("MCP_TOOL_TIMEOUT", "2147483647"),
    ],
    state: &["$CLAUDE_CONFIG_DIR/", "~/.claude/", "~/.claude.json"],
    models: &["default", "opus", "sonnet", "haiku"],
    tools: &[
        (
            ToolKind::Execute,
            &["Bash", "PowerShell", "Monitor", "Skill"],
        ),
        (
            ToolKind::Read,
            &[
                "Read",
                "Glob",
                "Grep",
                "LSP",
                "Agent",
                "ListAgents",
                "ToolSearch",
                "ExitPlanMode",
            ],
        ),
        (ToolKind::Edit, &["Write", "Edit", "NotebookEdit"]),
        (ToolKind::Network, &["WebFetch", "WebSearch"]),
    ],
    asks_in: Some("default"),
    project_files: not_ignorable(&[".claude", ".mcp.json"]),
    minimum: Version(0, 99, 0),
    tested: Some(Version(0, 99, 1)),
    runtime: Some(NODE_22),
    install_hint: "claude-agent-acp not found in PATH. Use --agent claude, which does not need it, \
        or install it with `npm install -g @agentclientprotocol/claude-agent-acp`.",
    login_hint: "Run `claude auth login`, or set ANTHROPIC_API_KEY to an API key.",
    login_files: &[LoginFile {
        variable: Some("CLAUDE_CONFIG_DIR"),
        below_home: ".claude",
        name: ".credentials.json",
    }],
    quirks: Quirks {
        counts: CountScope::Turn,
        counts_overlap: false,
        input_follows: true,
        describes_calls: true,
        formats_outputs: true,
        compacts_as: Some("compact"),
        uuid_marks_own_text: true,
        // Otherwise the model would have to search for the tool before it can see it.
        tool_meta: Some(r#"{"anthropic/alwaysLoad":true}"#),
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

/// The mode in which Codex changes nothing without asking. In the others its sandbox decides, or
/// one of its models.
const READ_ONLY: &str = "read-only";

/// Codex behind the editors' adapter. Measured: 2.6.0.
pub static CODEX_ACP: Acp = Acp(&AgentProfile {
    name: "codex-acp",
    recognizes: |opening| handshake::recognizes("@agentclientprotocol/codex-acp", opening),
    program: "codex-acp",
    inherits: inherits::CODEX,
    // By default, a model decides on whatever the sandbox does not allow.
    env: &[("INITIAL_AGENT_MODE", "workspace-write")],
    ask_env: &[("INITIAL_AGENT_MODE", READ_ONLY)],
    ask_never: inherits::CODEX_NEVER_ATTENDED,
    state: &["$CODEX_HOME/", "~/.codex/"],
    tools: &[
        (ToolKind::Execute, &["exec_command", "write_stdin"]),
        (ToolKind::Edit, &["apply_patch"]),
        (ToolKind::Network, &["web_search"]),
        (ToolKind::Read, &["view_image"]),
    ],
    asks_in: Some(READ_ONLY),
    auto_approve: unattended_modes::CODEX,
    cost: false,
    // A message has at most 1,048,576 characters.
    long_prompts: false,
    project_files: not_ignorable(&[".codex"]),
    minimum: Version(2, 6, 0),
    tested: Some(Version(2, 6, 0)),
    runtime: Some(NODE),
    install_hint: "codex-acp not found in PATH. Use --agent codex, which does not need it, or \
        install it with `npm install -g @agentclientprotocol/codex-acp`.",
    login_hint: "Run `codex login`, or set OPENAI_API_KEY to an API key.",
    login_files: &[LoginFile {
        variable: Some("CODEX_HOME"),
        below_home: ".codex",
        name: "auth.json",
    }],
    quirks: Quirks {
        counts: CountScope::Turn,
        counts_overlap: false,
        kind_names: &[("execute", "exec_command"), ("edit", "apply_patch")],
        missing_id_marks_own_text: true,
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

/// GitHub Copilot CLI over ACP. Measured: 1.0.102.
pub static COPILOT: Acp = Acp(&AgentProfile {
    name: "copilot",
    recognizes: |opening| handshake::recognizes("Copilot", opening),
    program: "copilot",
    args: &["--acp"],
    natives: crate::natives::COPILOT,
    inherits: Inherits {
        always: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"],
        when: &[],
        // It would allow everything without asking.
        never: &["COPILOT_ALLOW_ALL"],
    },
    env: &[("COPILOT_AUTO_UPDATE", "false")],
    // The same names as in its other protocol.
    modes: &[
        LaunchMode {
            name: "default",
            args: &[],
            env: &[],
        },
        LaunchMode {
            name: "allow-tools",
            args: &["--allow-all-tools"],
            env: &[],
        },
        LaunchMode {
            name: "allow-all",
            args: &["--allow-all"],
            env: &[],
        },
    ],
    state: &["$COPILOT_HOME/", "~/.copilot/"],
    model_flag: Some("--model="),
    // Over the protocol it accepts only remote servers, and silently ignores the others.
    server_flag: Some("--additional-mcp-config=@"),
    asks_in: Some("agent"),
    auto_approve: unattended_modes::COPILOT,
    fork: false,
    cost: false,
    // Its hooks run even in a directory that it does not trust.
    project_files: not_ignorable(&[
        ".github/hooks",
        ".github/copilot",
        ".github/extensions",
        ".github/mcp.json",
        ".mcp.json",
        ".vscode/mcp.json",
        ".claude",
    ]),
    minimum: Version(1, 0, 0),
    tested: Some(Version(1, 0, 102)),
    install_hint: "copilot not found in PATH. Install it with `npm install -g @github/copilot`.",
    login_hint: "Run `copilot login`, or set GH_TOKEN to a token with access to Copilot.",
    quirks: Quirks {
        failures: FailureStyle::Text(ErrorText {
            prefix: "Error: ",
            suffix: "",
            certain_prefix: "Error: Authentication failed with provider",
        }),
        counts: CountScope::Session,
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

/// OpenClaw over ACP, which requires its gateway to be running. Measured: 2026.9.6.
pub static OPENCLAW: Acp = Acp(&AgentProfile {
    name: "openclaw",
    program: "openclaw",
    args: &["acp"],
    inherits: only(&[
        "OPENCLAW_*",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "OPENROUTER_API_KEY",
        "GEMINI_API_KEY",
    ]),
    // It has never been observed to ask.
    ask: false,
    gateway_failure: Some((
        "ACP bridge failed: ",
        "Start its gateway (`openclaw gateway run`), and check the gateway's address and token in \
         OpenClaw's configuration. Or set transport=exec, which needs no gateway.",
    )),
    state: &["$OPENCLAW_STATE_DIR/", "~/.openclaw/"],
    fork: false,
    cost: false,
    minimum: Version(2026, 9, 0),
    runtime: Some(NEW_NODE),
    install_hint: "openclaw not found in PATH. Install it with `npm install -g openclaw` \
                   (Node.js 24.16 or newer).",
    login_hint: "Check the keys in OpenClaw's configuration (`openclaw configure`).",
    quirks: Quirks {
        failures: FailureStyle::Silence,
        resumes_same_process_only: true,
        fixed_workspace: Some(
            "the workspace of its gateway (agents.defaults.workspace in OpenClaw's configuration)",
        ),
        ..DEFAULT_QUIRKS
    },
    ..BASE
});

#[cfg(test)]
mod tests {
    use super::*;

    /// As printed by opencode 1.18.33, colors included.
    #[test]
    fn opencode_credentials_are_counted() {
        let stored = "\n┌  Credentials \u{1b}[90m~/.local/share/opencode/auth.json\n│\n";
        let none = format!("{stored}└  0 credentials\n\n");
        let variable = "┌  Environment\n│\n●  OpenAI \u{1b}[90mOPENAI_API_KEY\n│\n└  1 environment variable\n\n";
        let read = |stdout: &str| (OPENCODE_LOGIN.read)(Some(0), stdout);
        assert_eq!(read(&none), Login::Unknown);
        assert_eq!(
            read(&format!("{none}{variable}")),
            Login::LoggedIn(Some("1 environment variable".into()))
        );
        assert_eq!(
            read(&format!("{stored}└  2 credentials\n\n")),
            Login::LoggedIn(Some("2 credentials".into()))
        );
        for other in ["", "error: unknown command", "└  x credentials"] {
            assert_eq!(read(other), Login::Unknown, "{other}");
        }
    }
}
