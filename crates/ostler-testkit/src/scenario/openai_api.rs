//! Ostler's own agent for OpenAI-compatible models as a scenario subject.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};
use crate::model::Answer;

/// The agent's API key, for tests that check where it must not appear.
pub const KEY: &str = "sk-a-key-of-the-testkit";

/// Content of the working directory's `.env`, which must never be read.
pub const SECRET: &str = "a-secret-of-the-testkit";

/// The agent that is part of Ostler, over chat completions.
pub const OPENAI_API: Subject = Subject {
    name: "openai-api",
    version: None,
    program: None,
    host,
    silent: false,
    prepare_workdir,
    tools: Tools {
        command: "run_command",
        shell: |line| json!({"command": "sh", "args": ["-c", line]}),
        printed: |text| format!("exit code 0\n{text}"),
        forbidden: || ("read_file", json!({"path": ".env"})),
        read: |path| ("read_file", json!({"path": path})),
        write: |path| ("write_file", json!({"path": path, "content": "written\n"})),
        bound: "",
        others: ["edit_file", "read_file"],
    },
    settings: SubjectSettings {
        always: &[],
        trust: &[],
        after_approval: &[],
        partial: None,
        streams: true,
        model: "scripted-small",
        one_retry: &[("retries", "1")],
        priced: &[("price", "2.5/1.25/10")],
        long_prompts: (&[("context_window", "9000000")], None),
        system: Some("append_system_prompt"),
        variables: ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        structured: |value| Answer::text(value.to_string()),
        schema: |request| {
            request
                .body
                .pointer("/response_format/json_schema/schema")
                .cloned()
        },
    },
    numbers: Numbers {
        tokens: Numbers::READ_APART,
        price: None,
        cost_source: "unknown",
        overloaded: 503,
        retried: &[429, 503],
        exit_codes: [0, 0],
        soon: Duration::from_secs(2),
        retries_for: super::PATIENCE.saturating_mul(2),
    },
    hints: ExpectedHints {
        auth: "OPENAI_API_KEY",
        network: "OPENAI_BASE_URL",
        retry: "retrying",
    },
    quirks: Quirks::PLAIN,
};

fn host(home: &Path, base_url: &str) -> Vec<(String, String)> {
    fs::create_dir_all(home.join(".config/ostler")).expect("create a directory");
    fs::write(home.join(".config/ostler/sandbox.toml"), POLICY).expect("write a policy");
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let pairs = [
        ("HOME", home.display().to_string()),
        ("PATH", path),
        ("OPENAI_BASE_URL", format!("{base_url}/v1")),
        ("OPENAI_API_KEY", KEY.to_owned()),
        ("OPENAI_MODEL", "scripted-large".to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// Writes a secret that the model must not see.
fn prepare_workdir(work: &Path) {
    fs::write(work.join(".env"), format!("PASSWORD={SECRET}\n")).expect("write a secret");
}

/// User policy that allows the shell.
const POLICY: &str = r#"
[[command]]
name = "sh"
"#;
