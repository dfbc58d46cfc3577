//! Claude Code and Codex behind their ACP adapters for editors, as scenario subjects.

use std::time::Duration;

use serde_json::json;

use super::{KNOWN, NUMBERS, WORDS};
use crate::real;
use crate::scenario::claude::CLAUDE;
use crate::scenario::subject::{Known, Manner, Numbers, Subject, Tools, Words};

/// The real Claude Code behind `claude-agent-acp`.
pub const CLAUDE_AGENT_ACP: Subject = Subject {
    name: "claude-agent-acp",
    version: Some(real::CLAUDE_AGENT_ACP.version),
    program: Some(|| real::CLAUDE_AGENT_ACP.program()),
    host: |home, url| real::offline_env("claude-agent-acp", home, url),
    silent: false,
    furnish: |_| (),
    tools: CLAUDE.tools,
    settings: Known {
        trust: &[("permission_mode", "bypassPermissions")],
        model: "haiku",
        // It estimates tokens and refuses prompts that it considers too long for the model, unless
        // configured otherwise.
        roomy: (
            &[],
            Some(("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "9000000")),
        ),
        variables: ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ..KNOWN
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
    words: Words {
        auth: "claude auth login",
        ..WORDS
    },
    // It reports the name of its choice, not the model behind it.
    manner: Manner {
        model: |_| Some("default".to_owned()),
        ..Manner::PLAIN
    },
};

/// The real Codex behind `codex-acp`.
pub const CODEX_ACP: Subject = Subject {
    name: "codex-acp",
    version: Some(real::CODEX_ACP.version),
    program: Some(|| real::CODEX_ACP.program()),
    host: |home, url| real::offline_env("codex-acp", home, url),
    silent: false,
    furnish: |_| (),
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
    settings: Known {
        trust: &[("permission_mode", "agent-full-access")],
        model: "",
        variables: ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ..KNOWN
    },
    numbers: Numbers {
        tokens: Numbers::APART,
        soon: Duration::from_secs(15),
        ..NUMBERS
    },
    words: Words {
        auth: "codex login",
        ..WORDS
    },
    manner: Manner {
        ends_when_denied: true,
        asked: |_, line| escalated(line),
        // It reports only the status of a rejected key.
        tells_status: false,
        wraps_outputs: true,
        ..Manner::PLAIN
    },
};

fn exec(line: &str) -> serde_json::Value {
    json!({"cmd": line})
}

fn escalated(line: &str) -> serde_json::Value {
    json!({"cmd": line, "sandbox_permissions": "require_escalated", "justification": "for the test"})
}
