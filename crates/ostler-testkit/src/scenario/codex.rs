//! Codex as a scenario subject: over its app-server, and with `codex exec`.

use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{ExpectedHints, Numbers, Quirks, Setting, Subject, SubjectSettings, Tools};
use crate::model::Answer;
use crate::real;

/// The real Codex, over its app-server.
pub const CODEX: Subject = Subject {
    name: "codex",
    version: Some(real::CODEX.version),
    program: Some(|| real::CODEX.program()),
    host: |home, base_url| real::offline_env("codex", home, base_url),
    silent: false,
    prepare_workdir: |_| (),
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
    settings: SubjectSettings {
        always: &[],
        trust: TRUST,
        // Allowed commands still run in the sandbox, which not every machine supports.
        after_approval: TRUST,
        partial: Some("include_partial"),
        streams: true,
        model: "scripted-small",
        one_retry: &[],
        priced: &[],
        long_prompts: (&[("config", "model_context_window=9000000")], None),
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
        retries_for: super::PATIENCE.saturating_mul(2),
    },
    hints: ExpectedHints {
        auth: "codex login",
        network: "base_url",
        retry: "api_retry",
    },
    // It has its own message for a service failure.
    quirks: Quirks {
        unreported_statuses: &[500],
        ..Quirks::PLAIN
    },
};

/// The real Codex, one process per message.
pub const CODEX_EXEC: Subject = Subject {
    version: None,
    settings: SubjectSettings {
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
