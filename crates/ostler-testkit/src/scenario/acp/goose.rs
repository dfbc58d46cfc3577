//! goose as a scenario subject.

use std::time::Duration;

use serde_json::json;

use super::{KNOWN, NUMBERS, WORDS};
use crate::real;
use crate::scenario::subject::{Known, Manner, Numbers, Subject, Tools, Words};

/// The real goose.
pub const GOOSE: Subject = Subject {
    name: "goose",
    // It does not report its version.
    version: None,
    program: Some(|| real::GOOSE.program()),
    host: |home, url| real::offline_env("goose", home, url),
    silent: false,
    furnish: |_| (),
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
    settings: Known {
        trust: &[("permission_mode", "auto")],
        model: "",
        // It counts tokens, and summarizes what it considers too long for the model.
        roomy: (&[], Some(("GOOSE_CONTEXT_LIMIT", "9000000"))),
        variables: ("OPENAI_API_KEY", "OPENAI_HOST"),
        ..KNOWN
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
    words: Words {
        auth: "goose configure",
        ..WORDS
    },
    manner: Manner {
        wraps_prompts: true,
        // The status of a rejected key is reported.
        tells_status: false,
        stops_between_words: true,
        lingers: true,
        // Summaries of several tool calls, which cannot be disabled.
        asides: &["Summarize this sequence of tool calls"],
        ..Manner::PLAIN
    },
};

fn shell(line: &str) -> serde_json::Value {
    json!({"command": line})
}
