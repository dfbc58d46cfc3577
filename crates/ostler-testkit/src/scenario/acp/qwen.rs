//! Qwen Code as a scenario subject.

use std::time::Duration;

use serde_json::json;

use super::{KNOWN, NUMBERS, WORDS};
use crate::real;
use crate::scenario::subject::{Known, Manner, Numbers, Subject, Tools, Words};

/// The real Qwen Code.
pub const QWEN: Subject = Subject {
    name: "qwen",
    version: Some(real::QWEN.version),
    program: Some(|| real::QWEN.program()),
    host: |home, url| real::offline_env("qwen", home, url),
    silent: false,
    furnish: |_| (),
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
    settings: Known {
        trust: &[("permission_mode", "yolo")],
        model: "",
        variables: ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        ..KNOWN
    },
    // It retries a rate-limited model six times with growing pauses; the ten retries after that
    // are disabled.
    numbers: Numbers {
        soon: Duration::from_secs(15),
        retried: &[],
        persists: Duration::from_secs(300),
        ..NUMBERS
    },
    words: Words {
        auth: "OPENAI_API_KEY",
        ..WORDS
    },
    manner: Manner {
        model: |name| Some(format!("$runtime|openai|{name}(openai)")),
        ends_when_denied: true,
        // The model gets it with the command and its exit code.
        wraps_outputs: true,
        ..Manner::PLAIN
    },
};

fn shell(line: &str) -> serde_json::Value {
    json!({"command": line, "is_background": false})
}
