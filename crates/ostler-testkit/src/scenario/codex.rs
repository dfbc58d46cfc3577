//! Codex as a scenario subject: over its app-server, and with `codex exec`.

use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{Known, Manner, Numbers, Setting, Subject, Tools, Words};
use crate::model::Answer;
use crate::real;

/// The real Codex, over its app-server.
pub const CODEX: Subject = Subject {
    name: "codex",
    version: Some(real::CODEX.version),
    program: Some(|| real::CODEX.program()),
    host: |home, base_url| real::offline_env("codex", home, base_url),
    silent: false,
    furnish: |_| (),
    tools: Tools {
        command: "exec_command",
        shell,
        printed: |text| format!("{text}\n"),
        // A command may run in its own sandbox; permission is requested when it wants to leave it.
        forbidden: || ("exec_command", escalated("cat .env; touch made")),
        read: |path| ("exec_command", shell(&format!("cat {path}"))),
        write: |path| ("exec_command", shell(&format!("echo written > {path}"))),
        bound: "",
        // It does not report its tools.
        others: ["", ""],
    },
    settings: Known {
        always: &[],
        trust: TRUST,
        // Allowed commands still run in the sandbox, which not every machine supports.
        asked: TRUST,
        partial: Some("include_partial"),
        streams: true,
        model: "scripted-small",
        hasty: &[],
        priced: &[],
        roomy: (&[("config", "model_context_window=9000000")], None),
        system: Some("append_system_prompt"),
        variables: ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        structured: |value| Answer::text(value.to_string()),
        schema: |request| request.body.pointer("/text/format/schema").cloned(),
    },
    numbers: Numbers {
        tokens: Numbers::APART,
        price: None,
        cost_source: "unknown",
        overloaded: 503,
        retried: &[401, 429, 500, 503],
        exit_codes: [0, 0],
        soon: Duration::from_secs(4),
        persists: super::PATIENCE.saturating_mul(2),
    },
    words: Words {
        auth: "codex login",
        network: "base_url",
        retry: "api_retry",
    },
    // It has its own message for a service failure.
    manner: Manner {
        untold: &[500],
        ..Manner::PLAIN
    },
};

/// The real Codex, one process per message.
pub const CODEX_EXEC: Subject = Subject {
    version: None,
    settings: Known {
        // It reports its model only if one was configured.
        always: &[("transport", "exec"), ("model", "gpt-5.5")],
        streams: false,
        system: Some("system_prompt"),
        ..CODEX.settings
    },
    numbers: Numbers {
        exit_codes: [0, 1],
        ..CODEX.numbers
    },
    ..CODEX
};

const TRUST: &[Setting] = &[("permission_mode", "danger-full-access")];

fn shell(line: &str) -> Value {
    json!({"cmd": line})
}

fn escalated(line: &str) -> Value {
    json!({"cmd": line, "sandbox_permissions": "require_escalated", "justification": "for the test"})
}
