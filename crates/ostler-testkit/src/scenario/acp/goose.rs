//! goose as the subject of scenarios.

use std::time::Duration;

use serde_json::json;

use super::{KNOWN, NUMBERS, WORDS};
use crate::real;
use crate::scenario::subject::{Known, Manner, Numbers, Subject, Tools, Words};

/// The real goose.
pub const GOOSE: Subject = Subject {
    name: "goose",
    version: Some("1.34.0"),
    program: Some(|| real::GOOSE.program()),
    host: |home, url| real::offline_env("goose", home, url),
    silent: false,
    furnish: |_| (),
    tools: Tools {
        command: "shell",
        shell,
        printed: |text| format!("{text}\n"),
        forbidden: || ("shell", shell("cat .env; touch made")),
        read: |path| ("shell", shell(&format!("cat {path}"))),
        write: |path| ("write", json!({"path": path, "content": "written\n"})),
        bound: "ostler__",
        others: ["", ""],
    },
    settings: Known {
        trust: &[("permission_mode", "auto")],
        model: "",
        variables: ("OPENAI_API_KEY", "OPENAI_HOST"),
        ..KNOWN
    },
    numbers: Numbers { soon: Duration::from_secs(15), ..NUMBERS },
    words: Words { auth: "goose configure", ..WORDS },
    manner: Manner { lingers: true, ..Manner::PLAIN },
};

fn shell(line: &str) -> serde_json::Value {
    json!({"command": line})
}
