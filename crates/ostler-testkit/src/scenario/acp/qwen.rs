//! Qwen Code as a scenario subject.

use std::time::Duration;

use serde_json::json;

use super::{ACP_SETTINGS, HINTS, NUMBERS};
use crate::real;
use crate::scenario::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};

/// The real Qwen Code.
pub const QWEN: Subject = Subject {
    name: "qwen",
    version: Some(real::QWEN.version),
    program: Some(|| real::QWEN.program()),
    host: |home, url| real::offline_env("qwen", home, url),
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "run_shell_command",
        shell,
        printed: str::to_owned,
        forbidden: || ("run_shell_command", shell("cat .env; touch made")),
        read: |path| ("read_file", json!({"file_path": path})),
        write: |path| {
            (
                "write_file",
                json!({"file_path": path, "content": "written\n"}),
            )
        },
        bound: "mcp__ostler__",
        others: ["", ""],
    },
    settings: SubjectSettings {
        trust: &[("permission_mode", "yolo")],
        model: "",
        variables: ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ..ACP_SETTINGS
    },
    // It retries a rate-limited model six times with growing pauses; the ten retries after that
    // are disabled.
    numbers: Numbers {
        soon: Duration::from_secs(15),
        retried: &[],
        retries_for: Duration::from_secs(300),
        ..NUMBERS
    },
    hints: ExpectedHints {
        auth: "OPENAI_API_KEY",
        ..HINTS
    },
    quirks: Quirks {
        model: |name| Some(format!("$runtime|openai|{name}(openai)")),
        ends_when_denied: true,
        // The model gets it with the command and its exit code.
        wraps_outputs: true,
        ..Quirks::PLAIN
    },
};

fn shell(line: &str) -> serde_json::Value {
    json!({"command": line, "is_background": false})
}
