//! Claude Code and Codex behind their ACP adapters for editors, as scenario subjects.

use std::time::Duration;

use serde_json::json;

use super::{ACP_SETTINGS, HINTS, NUMBERS};
use crate::real;
use crate::scenario::claude::CLAUDE;
use crate::scenario::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};

/// The real Claude Code behind `claude-agent-acp`.
pub const CLAUDE_AGENT_ACP: Subject = Subject {
    name: "claude-agent-acp",
    version: Some(real::CLAUDE_AGENT_ACP.version),
    program: Some(|| real::CLAUDE_AGENT_ACP.program()),
    host: |home, url| real::offline_env("claude-agent-acp", home, url),
    silent: false,
    prepare_workdir: |_| (),
    tools: CLAUDE.tools,
    settings: SubjectSettings {
        trust: &[("permission_mode", "bypassPermissions")],
        model: "haiku",
        // It estimates tokens and refuses prompts that it considers too long for the model, unless
        // configured otherwise.
        long_prompts: (
            &[],
            Some(("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "9000000")),
        ),
        variables: ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ..ACP_SETTINGS
    },
    numbers: Numbers {
        tokens: Numbers::APART,
        price: CLAUDE.numbers.price,
        cost_source: "reported",
        overloaded: 529,
        // It retries silently.
        retried: &[],
        soon: Duration::from_secs(15),
        ..NUMBERS
    },
    hints: ExpectedHints {
        auth: "claude auth login",
        ..HINTS
    },
    // It reports the name of its choice, not the model behind it.
    quirks: Quirks {
        model: |_| Some("default".to_owned()),
        ..Quirks::PLAIN
    },
};

/// The real Codex behind `codex-acp`.
pub const CODEX_ACP: Subject = Subject {
    name: "codex-acp",
    version: Some(real::CODEX_ACP.version),
    program: Some(|| real::CODEX_ACP.program()),
    host: |home, url| real::offline_env("codex-acp", home, url),
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "exec_command",
        shell: exec,
        printed: |text| format!("{text}\n"),
        // A command may run in its own sandbox; permission is requested when it wants to leave it.
        forbidden: || ("exec_command", escalated("cat .env; touch made")),
        read: |path| ("exec_command", exec(&format!("cat {path}"))),
        write: |path| ("exec_command", exec(&format!("echo written > {path}"))),
        bound: "mcp__ostler__",
        others: ["", ""],
    },
    settings: SubjectSettings {
        trust: &[("permission_mode", "agent-full-access")],
        model: "",
        variables: ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ..ACP_SETTINGS
    },
    numbers: Numbers {
        tokens: Numbers::APART,
        soon: Duration::from_secs(15),
        ..NUMBERS
    },
    hints: ExpectedHints {
        auth: "codex login",
        ..HINTS
    },
    quirks: Quirks {
        ends_when_denied: true,
        requiring_permission: |_, line| escalated(line),
        // It reports only the status of a rejected key.
        reports_status: false,
        wraps_outputs: true,
        ..Quirks::PLAIN
    },
};

fn exec(line: &str) -> serde_json::Value {
    json!({"cmd": line})
}

fn escalated(line: &str) -> serde_json::Value {
    json!({"cmd": line, "sandbox_permissions": "require_escalated", "justification": "for the test"})
}
