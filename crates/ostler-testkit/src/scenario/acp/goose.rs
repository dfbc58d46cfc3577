//! goose as a scenario subject.

use std::time::Duration;

use serde_json::json;

use super::{ACP_SETTINGS, HINTS, NUMBERS};
use crate::real;
use crate::scenario::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};

/// The real goose.
pub const GOOSE: Subject = Subject {
    name: "goose",
    // It does not report its version.
    version: None,
    program: Some(|| real::GOOSE.program()),
    host: |home, url| real::offline_env("goose", home, url),
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "shell",
        shell,
        printed: str::to_owned,
        forbidden: || ("shell", shell("cat .env; touch made")),
        read: |path| ("shell", shell(&format!("cat {path}"))),
        write: |path| ("write", json!({"path": path, "content": "written\n"})),
        bound: "ostler__",
        others: ["", ""],
    },
    settings: SubjectSettings {
        trust: &[("permission_mode", "auto")],
        model: "",
        // It counts tokens, and summarizes what it considers too long for the model.
        long_prompts: (&[], Some(("GOOSE_CONTEXT_LIMIT", "9000000"))),
        variables: ("OPENAI_API_KEY", "OPENAI_HOST"),
        ..ACP_SETTINGS
    },
    // It does not report cache tokens.
    numbers: Numbers {
        tokens: |of| {
            [
                of.input + of.cache_creation + of.cache_read,
                0,
                0,
                of.output,
            ]
        },
        retried: &[],
        soon: Duration::from_secs(15),
        ..NUMBERS
    },
    hints: ExpectedHints {
        auth: "goose configure",
        ..HINTS
    },
    quirks: Quirks {
        wraps_prompts: true,
        // The status of a rejected key is reported.
        reports_status: false,
        stops_at_next_output: true,
        lingers: true,
        // Summaries of several tool calls, which cannot be disabled.
        side_requests: &["Summarize this sequence of tool calls"],
        ..Quirks::PLAIN
    },
};

fn shell(line: &str) -> serde_json::Value {
    json!({"command": line})
}
