//! More agents that are known to speak ACP: Qwen Code and goose.

use ostler_core::dialect::{Inherits, Version};
use ostler_core::permission::ToolKind;

use super::Acp;
use super::known::{ANY, Entry, NODE};
use super::quirks::{Counts, Failures, Names, PLAIN, Quirks, Wrote};
use super::skips;

/// Qwen Code. Measured: 0.24.4.
pub static QWEN: Acp = Acp(&Entry {
    name: "qwen",
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
    skips: skips::GEMINI,
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
    program: "goose",
    args: &["acp"],
    inherits: Inherits {
        always: &["GOOSE_*", "ANTHROPIC_*", "OPENAI_*", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"],
        when: &[],
        never: &["GOOSE_TERMINAL"],
    },
    state: &["~/.config/goose/", "~/.local/share/goose/", "~/.local/state/goose/"],
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
