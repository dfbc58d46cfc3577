//! ACP agents as scenario subjects.

mod adapters;
mod goose;
mod qwen;

use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};
use crate::model::Answer;
use crate::real;

pub use adapters::{CLAUDE_AGENT_ACP, CODEX_ACP};
pub use goose::GOOSE;
pub use qwen::QWEN;

/// The real Gemini CLI.
pub const GEMINI: Subject = Subject {
    name: "gemini",
    version: Some(real::GEMINI.version),
    program: Some(|| real::GEMINI.program()),
    host: |home, url| real::offline_env("gemini", home, url),
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "run_shell_command",
        shell: command,
        printed: |text| format!("{text}\n"),
        forbidden: || ("run_shell_command", command("cat .env; touch made")),
        read: |path| ("read_file", json!({"file_path": path})),
        write: |path| {
            (
                "write_file",
                json!({"file_path": path, "content": "written\n"}),
            )
        },
        bound: "mcp_ostler_",
        others: ["", ""],
    },
    settings: SubjectSettings {
        trust: &[("permission_mode", "yolo")],
        model: "gemini-2.5-pro",
        variables: ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        ..ACP_SETTINGS
    },
    // It retries silently, does not report cache tokens, and omits thoughts.
    numbers: Numbers {
        tokens: |of| {
            [
                of.input + of.cache_creation + of.cache_read,
                0,
                0,
                of.output - of.reasoning,
            ]
        },
        retried: &[],
        ..NUMBERS
    },
    hints: ExpectedHints {
        auth: "GEMINI_API_KEY",
        ..HINTS
    },
    quirks: Quirks {
        trims_thoughts: true,
        // It blocks anything that looks like command substitution.
        sum: "expr 40 + 2 | tee made",
        // It reports a failed command like any other.
        fails: |_| ("read_file", json!({"file_path": "missing"}), "not found"),
        wraps_outputs: true,
        reports_outputs: false,
        ..Quirks::PLAIN
    },
};

/// The real opencode.
pub const OPENCODE: Subject = Subject {
    name: "opencode",
    version: Some(real::OPENCODE.version),
    program: Some(|| real::OPENCODE.program()),
    host: |home, url| real::offline_env("opencode", home, url),
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "bash",
        shell: command,
        printed: |text| format!("{text}\n"),
        forbidden: || ("bash", command("cat .env; touch made")),
        read: |path| ("read", json!({"filePath": path})),
        write: |path| ("write", json!({"filePath": path, "content": "written\n"})),
        bound: "ostler_",
        others: ["", ""],
    },
    settings: SubjectSettings {
        trust: &[("permission_mode", "allow-all")],
        model: "stand-in/stand-in-small",
        ..ACP_SETTINGS
    },
    numbers: Numbers {
        retried: &[],
        soon: Duration::from_secs(25),
        ..NUMBERS
    },
    hints: ExpectedHints {
        auth: "opencode auth login",
        ..HINTS
    },
    quirks: Quirks {
        model: |name| Some(format!("stand-in/{name}")),
        provider: |status| {
            if status == 401 {
                "invalid api key"
            } else {
                "the rate limit is reached"
            }
        },
        reports_status: false,
        ..Quirks::PLAIN
    },
};

/// The real Copilot CLI, over ACP.
pub const COPILOT_ACP: Subject = Subject {
    name: "copilot",
    version: Some(real::COPILOT.version),
    program: Some(|| real::COPILOT.program()),
    host: |home, url| real::offline_env("copilot", home, url),
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "bash",
        shell: command,
        printed: |text| format!("{text}\n<shellId: 0 completed with exit code 0>"),
        forbidden: || ("bash", command("cat .env; touch made")),
        read: |path| ("view", json!({"path": path})),
        write: |path| ("create", json!({"path": path, "file_text": "written\n"})),
        bound: "ostler-",
        others: ["", ""],
    },
    settings: SubjectSettings {
        always: &[("transport", "acp")],
        trust: &[("permission_mode", "allow-tools")],
        model: "scripted-small",
        // It estimates tokens and refuses prompts that it considers too long for the model.
        long_prompts: (&[], Some(("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "9000000"))),
        variables: ("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL"),
        ..ACP_SETTINGS
    },
    numbers: Numbers {
        retried: &[401],
        soon: Duration::from_secs(15),
        ..NUMBERS
    },
    hints: ExpectedHints {
        auth: "copilot login",
        ..HINTS
    },
    quirks: Quirks {
        model: |_| None,
        tool: |_| "execute",
        wraps_prompts: true,
        ends_when_denied: true,
        ..Quirks::PLAIN
    },
};

const ACP_SETTINGS: SubjectSettings = SubjectSettings {
    always: &[],
    trust: &[],
    after_approval: &[],
    partial: None,
    streams: true,
    model: "",
    one_retry: &[],
    priced: &[],
    long_prompts: (&[], None),
    system: None,
    variables: ("", ""),
    structured: |value| Answer::text(value.to_string()),
    schema: |_| None,
};

const NUMBERS: Numbers = Numbers {
    tokens: Numbers::READ_APART,
    price: None,
    cost_source: "unknown",
    overloaded: 503,
    retried: &[429, 503],
    exit_codes: [0, 0],
    soon: Duration::from_secs(8),
    retries_for: super::PATIENCE.saturating_mul(2),
};

const HINTS: ExpectedHints = ExpectedHints {
    auth: "",
    network: "address of the model",
    retry: "api_retry",
};

fn command(line: &str) -> Value {
    json!({"command": line, "description": "for the test"})
}
