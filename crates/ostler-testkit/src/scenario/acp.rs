//! Agents that speak ACP as the subjects of scenarios.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{Known, Numbers, Subject, Tools, Words};
use crate::model::Answer;
use crate::real;

/// The real Gemini CLI.
pub const GEMINI: Subject = Subject {
    name: "gemini",
    version: Some(real::GEMINI.version),
    program: Some(|| real::GEMINI.program()),
    host: gemini,
    silent: false,
    furnish: |_| (),
    tools: Tools {
        command: "run_shell_command",
        shell: command,
        printed: |text| format!("{text}\n"),
        forbidden: || ("run_shell_command", command("cat .env; touch made")),
        read: |path| ("read_file", json!({"file_path": path})),
        write: |path| ("write_file", json!({"file_path": path, "content": "written\n"})),
        bound: "mcp_ostler_",
        others: ["read_file", "write_file"],
    },
    settings: Known {
        trust: &[("permission_mode", "yolo")],
        model: "gemini-2.5-pro",
        variables: ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
        ..KNOWN
    },
    numbers: NUMBERS,
    words: Words { auth: "GEMINI_API_KEY", ..WORDS },
};

/// The real opencode.
pub const OPENCODE: Subject = Subject {
    name: "opencode",
    version: Some(real::OPENCODE.version),
    program: Some(|| real::OPENCODE.program()),
    host: opencode,
    silent: false,
    furnish: |_| (),
    tools: Tools {
        command: "bash",
        shell: command,
        printed: |text| format!("{text}\n"),
        forbidden: || ("bash", command("cat .env; touch made")),
        read: |path| ("read", json!({"filePath": path})),
        write: |path| ("write", json!({"filePath": path, "content": "written\n"})),
        bound: "ostler_",
        others: ["edit", "read"],
    },
    settings: Known { model: "mock/scripted-small", ..KNOWN },
    numbers: NUMBERS,
    words: Words { auth: "opencode auth login", ..WORDS },
};

/// The real Copilot CLI, over ACP.
pub const COPILOT_ACP: Subject = Subject {
    name: "copilot",
    version: Some(real::COPILOT.version),
    program: Some(|| real::COPILOT.program()),
    host: copilot,
    silent: false,
    furnish: |_| (),
    tools: Tools {
        command: "bash",
        shell: command,
        printed: |text| format!("{text}\n<shellId: 0 completed with exit code 0>"),
        forbidden: || ("bash", command("cat .env; touch made")),
        read: |path| ("view", json!({"path": path})),
        write: |path| ("create", json!({"path": path, "file_text": "written\n"})),
        bound: "ostler-",
        others: ["edit", "view"],
    },
    settings: Known {
        always: &[("transport", "acp")],
        model: "scripted-small",
        variables: ("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BASE_URL"),
        ..KNOWN
    },
    numbers: NUMBERS,
    words: Words { auth: "copilot login", ..WORDS },
};

const KNOWN: Known = Known {
    always: &[],
    trust: &[],
    asked: &[],
    partial: None,
    streams: true,
    model: "",
    hasty: &[],
    priced: &[],
    roomy: (&[], None),
    system: Some("append_system_prompt"),
    variables: ("", ""),
    structured: |value| Answer::text(value.to_string()),
    schema: |_| None,
};

const NUMBERS: Numbers = Numbers {
    // What was written to a cache is not told apart from the rest of the input.
    tokens: [107, 0, 11, 25],
    cost_source: "unknown",
    overloaded: 503,
    retried: &[429, 503],
    exit_codes: [0, 0],
    soon: Duration::from_secs(8),
};

const WORDS: Words = Words { auth: "", network: "address of the model", retry: "api_retry" };

fn command(line: &str) -> Value {
    json!({"command": line, "description": "for the test"})
}

fn pairs<const N: usize>(home: &Path, more: [(&str, String); N]) -> Vec<(String, String)> {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let always = [("HOME", home.display().to_string()), ("PATH", path)];
    always.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// It wants to be told in a file how it logs in.
fn gemini(home: &Path, base_url: &str) -> Vec<(String, String)> {
    let settings = json!({
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"disableAutoUpdate": true},
    });
    fs::create_dir_all(home.join(".gemini")).expect("make a directory");
    fs::write(home.join(".gemini/settings.json"), settings.to_string()).expect("write settings");
    pairs(
        home,
        [
            ("GEMINI_API_KEY", "a-key-of-the-testkit".to_owned()),
            ("GOOGLE_GEMINI_BASE_URL", base_url.to_owned()),
            ("GEMINI_MODEL", "gemini-2.5-flash".to_owned()),
        ],
    )
}

fn opencode(home: &Path, base_url: &str) -> Vec<(String, String)> {
    let model = json!({"name": "scripted", "limit": {"context": 9_000_000, "output": 4096}, "reasoning": true, "tool_call": true});
    let config = json!({
        "provider": {"mock": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "mock",
            "options": {"baseURL": format!("{base_url}/v1"), "apiKey": "a-key-of-the-testkit"},
            "models": {"scripted-large": model, "scripted-small": model},
        }},
        "model": "mock/scripted-large",
        "small_model": "mock/scripted-small",
        // Else it has a model find a title for every session.
        "agent": {"title": {"disable": true}},
        "share": "disabled",
    });
    pairs(
        home,
        [
            ("OPENCODE_CONFIG_CONTENT", config.to_string()),
            ("OPENCODE_DISABLE_AUTOUPDATE", "true".to_owned()),
            ("OPENCODE_DISABLE_MODELS_FETCH", "true".to_owned()),
            ("OPENCODE_DISABLE_LSP_DOWNLOAD", "true".to_owned()),
        ],
    )
}

fn copilot(home: &Path, base_url: &str) -> Vec<(String, String)> {
    pairs(
        home,
        [
            ("COPILOT_OFFLINE", "true".to_owned()),
            ("COPILOT_PROVIDER_BASE_URL", format!("{base_url}/v1")),
            ("COPILOT_PROVIDER_TYPE", "openai".to_owned()),
            ("COPILOT_PROVIDER_API_KEY", "a-key-of-the-testkit".to_owned()),
            ("COPILOT_MODEL", "scripted-large".to_owned()),
        ],
    )
}
