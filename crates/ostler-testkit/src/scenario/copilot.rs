//! GitHub Copilot CLI as a scenario subject.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};
use crate::model::Answer;
use crate::real;

/// The real Copilot CLI, with the user's own model.
pub const COPILOT: Subject = Subject {
    name: "copilot",
    version: None,
    program: Some(|| real::COPILOT.program()),
    host,
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "bash",
        shell: bash,
        printed: |text| format!("{text}\n<shellId: 0 completed with exit code 0>"),
        forbidden: || ("bash", bash("cat .env; touch made")),
        read: |path| ("view", json!({"path": path})),
        write: |path| ("create", json!({"path": path, "file_text": "written\n"})),
        bound: "ostler-",
        others: ["glob", "view"],
    },
    settings: SubjectSettings {
        always: &[("transport", "jsonl")],
        trust: &[("permission_mode", "allow-tools")],
        after_approval: &[],
        partial: None,
        streams: true,
        model: "scripted-small",
        one_retry: &[],
        priced: &[],
        // It estimates tokens and refuses prompts that it considers too long for the model.
        long_prompts: (&[], Some(("COPILOT_PROVIDER_MAX_PROMPT_TOKENS", "9000000"))),
        system: None,
        variables: ("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL"),
        structured: |value| Answer::text(value.to_string()),
        schema: |_| None,
    },
    numbers: Numbers {
        tokens: Numbers::READ_APART,
        price: None,
        cost_source: "unknown",
        overloaded: 503,
        retried: &[401, 429, 503],
        exit_codes: [0, 1],
        soon: Duration::from_secs(15),
        retries_for: super::PATIENCE.saturating_mul(2),
    },
    hints: ExpectedHints {
        auth: "COPILOT_PROVIDER_API_KEY",
        network: "COPILOT_PROVIDER_BASE_URL",
        retry: "model_call_failed",
    },
    quirks: Quirks::PLAIN,
};

/// Returns the complete environment that the real program needs to use a scripted model.
fn host(home: &Path, base_url: &str) -> Vec<(String, String)> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let pairs = [
        ("HOME", home.display().to_string()),
        ("PATH", path),
        ("COPILOT_OFFLINE", "true".to_owned()),
        ("COPILOT_PROVIDER_BASE_URL", format!("{base_url}/v1")),
        ("COPILOT_PROVIDER_TYPE", "openai".to_owned()),
        // A long one: the program redacts anything that looks like its key, even inside its own
        // JSON.
        (
            "COPILOT_PROVIDER_API_KEY",
            "a-key-of-the-testkit".to_owned(),
        ),
        ("COPILOT_PROVIDER_MAX_OUTPUT_TOKENS", "1000".to_owned()),
        ("COPILOT_MODEL", "scripted-large".to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn bash(line: &str) -> Value {
    json!({"command": line, "description": "for the test"})
}
