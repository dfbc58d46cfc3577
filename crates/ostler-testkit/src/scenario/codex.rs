//! Codex as the subject of scenarios: over its app-server, and by `codex exec`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{Known, Manner, Numbers, Subject, Tools, Words};
use crate::model::Answer;
use crate::real;

/// The real Codex, over its app-server.
pub const CODEX: Subject = Subject {
    name: "codex",
    version: Some(real::CODEX.version),
    program: Some(|| real::CODEX.program()),
    host,
    furnish: |_| (),
    tools: Tools {
        command: "exec_command",
        shell,
        printed: str::to_owned,
        // In its own sandbox a command may run; it is asked about when it wants out.
        forbidden: || ("exec_command", escalated("cat .env; touch made")),
        read: |path| ("exec_command", shell(&format!("cat {path}"))),
        write: |path| ("exec_command", shell(&format!("echo written > {path}"))),
        bound: "",
        // It does not tell which tools it has.
        others: ["", ""],
    },
    settings: Known {
        always: &[],
        trust: &[("permission_mode", "danger-full-access")],
        partial: Some("include_partial"),
        model: "scripted-small",
        hasty: HASTY,
        priced: &[],
        roomy: (&[("config", "model_context_window=9000000")], None),
        variables: ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
        structured: |value| Answer::text(value.to_string()),
        schema: |request| request.body.pointer("/text/format/schema").cloned(),
    },
    numbers: Numbers {
        tokens: [100, 7, 11, 25],
        cost_source: "unknown",
        overloaded: 503,
        retried: &[401, 429, 503],
        exit_codes: [0, 0],
        soon: Duration::from_secs(4),
    },
    words: Words { auth: "codex login", network: "base_url", retry: "api_retry" },
    manner: Manner::PLAIN,
};

/// The real Codex, a process for each message.
pub const CODEX_EXEC: Subject = Subject {
    version: None,
    settings: Known {
        always: &[("transport", "exec")],
        trust: &[("permission_mode", "danger-full-access")],
        partial: None,
        ..CODEX.settings
    },
    numbers: Numbers { exit_codes: [0, 1], ..CODEX.numbers },
    ..CODEX
};

/// The default of five retries with growing pauses makes an authentication error take seconds.
const HASTY: &[(&str, &str)] = &[
    ("config", "model_providers.scripted.request_max_retries=1"),
    ("config", "model_providers.scripted.stream_max_retries=1"),
];

fn shell(line: &str) -> Value {
    json!({"cmd": line})
}

fn escalated(line: &str) -> Value {
    json!({"cmd": line, "sandbox_permissions": "require_escalated", "justification": "for the test"})
}

/// A home with a provider in it: Codex takes the address of the model from its settings, not from a variable. The model is one
/// that it knows: about any other it would warn.
fn host(home: &Path, base_url: &str) -> Vec<(String, String)> {
    let codex = home.join(".codex");
    fs::create_dir_all(&codex).expect("make Codex's directory");
    let config = format!(
        "model = \"gpt-5.5\"\nmodel_provider = \"scripted\"\n\n[model_providers.scripted]\nname = \"scripted\"\n\
         base_url = \"{base_url}/v1\"\nenv_key = \"OPENAI_API_KEY\"\nwire_api = \"responses\"\n"
    );
    fs::write(codex.join("config.toml"), config).expect("write Codex's settings");
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let pairs = [
        ("HOME", home.display().to_string()),
        ("PATH", path),
        ("CODEX_HOME", codex.display().to_string()),
        ("OPENAI_API_KEY", "a-key-of-the-testkit".to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}
