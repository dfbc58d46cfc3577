//! The agents that are known to speak ACP: entries of data.

use ostler_core::dialect::transcript::ByMinute;
use ostler_core::dialect::{Inherits, Login, LoginQuery, Runtime, Version};
use ostler_core::permission::ToolKind;

use super::Acp;
use super::entry::{ANY, Entry, Mode};
use super::quirks::{Counts, Failures, Names, PLAIN, Quirks, Wrote};
use super::unattended_modes;
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
    hint: "OpenClaw needs Node.js 24.16 or newer, or 26.1 or newer (https://nodejs.org); with an older one npm installs an empty package.",
};

const fn only(always: &'static [&'static str]) -> Inherits {
    Inherits {
        always,
        when: &[],
        never: &[],
    }
}

/// Gemini CLI. Measured: 0.61.0.
pub static GEMINI: Acp = Acp(&Entry {
    name: "gemini",
    signature: "gemini-cli",
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
    // Else it starts itself a second time, and the first one only waits.
    env: &[("GEMINI_CLI_NO_RELAUNCH", "true")],
    by_minute: Some(ByMinute {
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
        ("run_shell_command", ToolKind::Execute),
        ("read_file", ToolKind::Read),
        ("read_many_files", ToolKind::Read),
        ("list_directory", ToolKind::Read),
        ("glob", ToolKind::Read),
        ("grep_search", ToolKind::Read),
        ("search_file_content", ToolKind::Read),
        ("write_file", ToolKind::Edit),
        ("replace", ToolKind::Edit),
        ("web_fetch", ToolKind::Network),
        ("google_web_search", ToolKind::Network),
        ("write_todos", ToolKind::Read),
    ],
    lost: " Or gemini has cleaned up: a session that was gone on with once is lost when gemini is next started, unless \
           general.sessionRetention.enabled is false in ~/.gemini/settings.json.",
    unreached: " It starts none in a directory that it does not trust: trust it in gemini itself, or set GEMINI_CLI_TRUST_WORKSPACE=true.",
    asks_in: Some("default"),
    skips: unattended_modes::GEMINI,
    fork: false,
    cost: false,
    // It refuses what it takes for more than a million tokens.
    long_prompts: false,
    minimum: Version(0, 61, 0),
    tested: Some(Version(0, 61, 0)),
    runtime: Some(NODE),
    install_hint: "gemini not found in PATH. Install it with `npm install -g @google/gemini-cli`.",
    login_hint: "Run `gemini` once and log in, or set GEMINI_API_KEY to an API key.",
    quirks: Quirks {
        counts: Counts::Quota,
        names: Names::CallId,
        title_is_command: true,
        describes_calls: true,
        replay_trails: true,
        mode_echo: Some("[MODE_UPDATE] "),
        thought_head: "****\n",
        reads_json: true,
        // Its SDK rejects with an object that is no `Error`, and it looks for words only in the latter.
        missing_reads_empty: true,
        ..PLAIN
    },
    ..ANY
});

/// The login state of opencode. Without credentials it still has free models, and providers of the user's own in opencode.json:
/// none stored does not prove that a login is missing.
const OPENCODE_LOGIN: LoginQuery = LoginQuery {
    args: &["auth", "list"],
    env: &[
        ("OPENCODE_DISABLE_AUTOUPDATE", "true"),
        ("OPENCODE_DISABLE_MODELS_FETCH", "true"),
        ("NO_COLOR", "1"),
    ],
    input: "",
    read: |_, stdout| {
        // It counts: "0 credentials", "1 environment variable".
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

/// opencode asks about everything.
const ASK: &str = "{\"*\":\"ask\"}";

/// opencode. Measured: 1.18.33.
pub static OPENCODE: Acp = Acp(&Entry {
    name: "opencode",
    signature: "OpenCode",
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
    // Without it everything is allowed, and nobody is asked.
    ask_never: &[
        "OPENCODE_CLIENT",
        "OPENCODE_PID",
        "OPENCODE_TERMINAL",
        "OPENCODE_PERMISSION",
    ],
    ask_env: &[("OPENCODE_PERMISSION", ASK)],
    modes: &[
        Mode {
            word: "default",
            args: &[],
            env: &[],
        },
        Mode {
            word: "ask",
            args: &[],
            env: &[("OPENCODE_PERMISSION", ASK)],
        },
        Mode {
            word: "allow-all",
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
        ("bash", ToolKind::Execute),
        ("read", ToolKind::Read),
        ("glob", ToolKind::Read),
        ("grep", ToolKind::Read),
        ("list", ToolKind::Read),
        ("write", ToolKind::Edit),
        ("edit", ToolKind::Edit),
        ("apply_patch", ToolKind::Edit),
        ("patch", ToolKind::Edit),
        ("webfetch", ToolKind::Network),
        ("websearch", ToolKind::Network),
        ("todowrite", ToolKind::Read),
        ("todoread", ToolKind::Read),
        ("task", ToolKind::Read),
        ("skill", ToolKind::Read),
    ],
    minimum: Version(1, 18, 0),
    tested: Some(Version(1, 18, 33)),
    login: Some(OPENCODE_LOGIN),
    install_hint: "opencode not found in PATH. Install it with `npm install -g opencode-ai`.",
    login_hint: "Run `opencode auth login`, or set the key of your provider (ANTHROPIC_API_KEY, OPENAI_API_KEY, …).",
    quirks: Quirks {
        counts: Counts::LastRequest,
        inside: false,
        names: Names::Title,
        input_follows: true,
        ..PLAIN
    },
    ..ANY
});

/// Qwen Code. Measured: 0.24.4.
pub static QWEN: Acp = Acp(&Entry {
    name: "qwen",
    signature: "qwen-code",
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
        // Else it starts itself once more, and the other one only waits.
        ("QWEN_CODE_NO_RELAUNCH", "true"),
        // Else its model may not have the caller's tools with the first message.
        ("QWEN_CODE_LEGACY_MCP_BLOCKING", "1"),
    ],
    state: &["~/.qwen/"],
    tools: &[
        ("run_shell_command", ToolKind::Execute),
        ("monitor", ToolKind::Execute),
        ("read_file", ToolKind::Read),
        ("list_directory", ToolKind::Read),
        ("glob", ToolKind::Read),
        ("grep_search", ToolKind::Read),
        ("lsp", ToolKind::Read),
        ("write_file", ToolKind::Edit),
        ("edit", ToolKind::Edit),
        ("notebook_edit", ToolKind::Edit),
        ("web_fetch", ToolKind::Network),
        ("web_search", ToolKind::Network),
        ("todo_write", ToolKind::Read),
        ("tool_search", ToolKind::Read),
        ("skill", ToolKind::Read),
    ],
    // It begins in a mode in which a model decides what is asked.
    asks_in: Some("default"),
    skips: unattended_modes::GEMINI,
    fork: false,
    cost: false,
    minimum: Version(0, 24, 0),
    tested: Some(Version(0, 24, 4)),
    runtime: Some(NODE),
    install_hint: "qwen not found in PATH. Install it with `npm install -g @qwen-code/qwen-code`.",
    login_hint: "Run `qwen` once and log in, or set OPENAI_API_KEY, OPENAI_BASE_URL and OPENAI_MODEL.",
    quirks: Quirks {
        counts: Counts::Chunks,
        names: Names::Notes,
        input_follows: true,
        prints_raw: true,
        allow_ids: &["proceed_once"],
        declined: &["craft/drainMidTurnQueue", "qwen/notify/session/mode-update"],
        ..PLAIN
    },
    ..ANY
});

/// goose. Measured: 1.34.0 (the npm package 0.20.1).
pub static GOOSE: Acp = Acp(&Entry {
    name: "goose",
    signature: "goose-provider",
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
        ("shell", ToolKind::Execute),
        ("write", ToolKind::Edit),
        ("edit", ToolKind::Edit),
        ("tree", ToolKind::Read),
        ("analyze", ToolKind::Read),
        ("load", ToolKind::Read),
        ("load_skill", ToolKind::Read),
        ("todo__todo_write", ToolKind::Read),
        // Not `delegate`: what it starts is another agent.
    ],
    // It begins in a mode in which everything is allowed.
    asks_in: Some("approve"),
    fork: false,
    cost: false,
    minimum: Version(1, 34, 0),
    tested: Some(Version(1, 34, 0)),
    install_hint: "goose not found in PATH. Install it from https://block.github.io/goose/.",
    login_hint: "Run `goose configure`.",
    quirks: Quirks {
        failures: Failures::Text(Wrote {
            head: "Ran into this error: ",
            tail: "Please retry if you think this is a transient or recoverable error.",
            certain: "Ran into this error: ",
        }),
        counts: Counts::LastRequest,
        caches: false,
        names: Names::Notes,
        ends_cancelled: true,
        ..PLAIN
    },
    ..ANY
});

/// Claude Code behind the adapter of editors. Measured: 0.99.1.
pub static CLAUDE_AGENT_ACP: Acp = Acp(&Entry {
    name: "claude-agent-acp",
    signature: "@agentclientprotocol/claude-agent-acp",
    program: "claude-agent-acp",
    inherits: inherits::CLAUDE,
    env: &[
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        // Else a model is asked after each turn what its user might say next.
        ("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false"),
        // How long a tool of the caller's may take is for others to say; this is the longest that a timer can hold.
        ("MCP_TOOL_TIMEOUT", "2147483647"),
    ],
    state: &["$CLAUDE_CONFIG_DIR/", "~/.claude/", "~/.claude.json"],
    models: &["default", "opus", "sonnet", "haiku"],
    tools: &[
        ("Bash", ToolKind::Execute),
        ("PowerShell", ToolKind::Execute),
        ("Monitor", ToolKind::Execute),
        ("Skill", ToolKind::Execute),
        ("Read", ToolKind::Read),
        ("Glob", ToolKind::Read),
        ("Grep", ToolKind::Read),
        ("LSP", ToolKind::Read),
        ("Agent", ToolKind::Read),
        ("ListAgents", ToolKind::Read),
        ("ToolSearch", ToolKind::Read),
        ("ExitPlanMode", ToolKind::Read),
        ("Write", ToolKind::Edit),
        ("Edit", ToolKind::Edit),
        ("NotebookEdit", ToolKind::Edit),
        ("WebFetch", ToolKind::Network),
        ("WebSearch", ToolKind::Network),
    ],
    asks_in: Some("default"),
    minimum: Version(0, 99, 0),
    tested: Some(Version(0, 99, 1)),
    runtime: Some(NODE_22),
    install_hint: "claude-agent-acp not found in PATH. Ostler drives Claude Code without it (--agent claude); else install it with \
                   `npm install -g @agentclientprotocol/claude-agent-acp`.",
    login_hint: "Run `claude auth login`, or set ANTHROPIC_API_KEY to an API key.",
    quirks: Quirks {
        counts: Counts::Turn,
        inside: false,
        input_follows: true,
        describes_calls: true,
        dresses_outputs: true,
        compacts_as: Some("compact"),
        own_ids: true,
        // Else the model would have to search for the tool before it can see it.
        tool_meta: Some(r#"{"anthropic/alwaysLoad":true}"#),
        ..PLAIN
    },
    ..ANY
});

/// The mode in which Codex changes nothing without asking: in the others its sandbox decides, or a model of its own.
const READ_ONLY: &str = "read-only";

/// Codex behind the adapter of editors. Measured: 2.6.0.
pub static CODEX_ACP: Acp = Acp(&Entry {
    name: "codex-acp",
    signature: "@agentclientprotocol/codex-acp",
    program: "codex-acp",
    inherits: inherits::CODEX,
    // Unless it is told otherwise, a model of its own decides on what its sandbox does not allow.
    env: &[("INITIAL_AGENT_MODE", "workspace-write")],
    ask_env: &[("INITIAL_AGENT_MODE", READ_ONLY)],
    ask_never: inherits::CODEX_ASKED,
    state: &["$CODEX_HOME/", "~/.codex/"],
    tools: &[
        ("exec_command", ToolKind::Execute),
        ("write_stdin", ToolKind::Execute),
        ("apply_patch", ToolKind::Edit),
        ("web_search", ToolKind::Network),
        ("view_image", ToolKind::Read),
    ],
    asks_in: Some(READ_ONLY),
    skips: unattended_modes::CODEX,
    cost: false,
    // A message has at most 1,048,576 characters.
    long_prompts: false,
    minimum: Version(2, 6, 0),
    tested: Some(Version(2, 6, 0)),
    runtime: Some(NODE),
    install_hint: "codex-acp not found in PATH. Ostler drives Codex without it (--agent codex); else install it with \
                   `npm install -g @agentclientprotocol/codex-acp`.",
    login_hint: "Run `codex login`, or set OPENAI_API_KEY to an API key.",
    quirks: Quirks {
        counts: Counts::Turn,
        inside: false,
        kind_names: &[("execute", "exec_command"), ("edit", "apply_patch")],
        unnamed_words: true,
        ..PLAIN
    },
    ..ANY
});

/// GitHub Copilot CLI over ACP. Measured: 1.0.102.
pub static COPILOT: Acp = Acp(&Entry {
    name: "copilot",
    signature: "Copilot",
    program: "copilot",
    args: &["--acp"],
    natives: crate::natives::COPILOT,
    inherits: Inherits {
        always: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN", "GH_HOST"],
        when: &[],
        // It would allow everything, and nobody would be asked.
        never: &["COPILOT_ALLOW_ALL"],
    },
    env: &[("COPILOT_AUTO_UPDATE", "false")],
    // The same words as in its other language.
    modes: &[
        Mode {
            word: "default",
            args: &[],
            env: &[],
        },
        Mode {
            word: "allow-tools",
            args: &["--allow-all-tools"],
            env: &[],
        },
        Mode {
            word: "allow-all",
            args: &["--allow-all"],
            env: &[],
        },
    ],
    state: &["$COPILOT_HOME/", "~/.copilot/"],
    model_flag: Some("--model="),
    // Over the protocol it takes servers of the network only, and says nothing about the others.
    server_flag: Some("--additional-mcp-config=@"),
    asks_in: Some("agent"),
    skips: unattended_modes::COPILOT,
    fork: false,
    cost: false,
    minimum: Version(1, 0, 0),
    tested: Some(Version(1, 0, 102)),
    install_hint: "copilot not found in PATH. Install it with `npm install -g @github/copilot`.",
    login_hint: "Run `copilot login`, or set GH_TOKEN to a token with access to Copilot.",
    quirks: Quirks {
        failures: Failures::Text(Wrote {
            head: "Error: ",
            tail: "",
            certain: "Error: Authentication failed with provider",
        }),
        counts: Counts::Session,
        ..PLAIN
    },
    ..ANY
});

/// OpenClaw over ACP, for which its gateway must run. Measured: 2026.9.6.
pub static OPENCLAW: Acp = Acp(&Entry {
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
    // It has never been seen to ask.
    ask: false,
    bridge: Some((
        "ACP bridge failed: ",
        "Start its gateway (`openclaw gateway run`), and check the gateway's address and token in OpenClaw's configuration; \
         or do without one: transport=exec.",
    )),
    state: &["$OPENCLAW_STATE_DIR/", "~/.openclaw/"],
    fork: false,
    cost: false,
    minimum: Version(2026, 9, 0),
    runtime: Some(NEW_NODE),
    install_hint: "openclaw not found in PATH. Install it with `npm install -g openclaw` (Node.js 24.16 or newer).",
    login_hint: "Check the keys in OpenClaw's configuration (`openclaw configure`).",
    quirks: Quirks {
        failures: Failures::Silence,
        resumes_own: true,
        works_in: Some(
            "the workspace of its gateway (agents.defaults.workspace in OpenClaw's configuration)",
        ),
        ..PLAIN
    },
    ..ANY
});

#[cfg(test)]
mod tests {
    use super::*;

    /// As opencode 1.18.33 prints it, colours included.
    #[test]
    fn the_credentials_of_opencode_are_counted() {
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
