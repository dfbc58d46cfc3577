//! Claude Code as a scenario subject.

use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};
use crate::model::Answer;
use crate::real;

/// The real Claude Code.
pub const CLAUDE: Subject = Subject {
    name: "claude",
    version: Some(real::CLAUDE_VERSION),
    program: Some(real::claude),
    host: real::claude_env,
    silent: false,
    prepare_workdir: |_| (),
    tools: Tools {
        command: "Bash",
        shell: bash,
        printed: str::to_owned,
        forbidden: || ("Bash", bash("cat .env; touch made")),
        read: |path| ("Read", json!({"file_path": path})),
        write: |path| ("Write", json!({"file_path": path, "content": "written\n"})),
        bound: "mcp__ostler__",
        others: ["Edit", "Read"],
    },
    settings: SubjectSettings {
        always: &[],
        trust: &[("permission_mode", "bypassPermissions")],
        after_approval: &[],
        partial: Some("include_partial"),
        streams: true,
        model: "haiku",
        one_retry: &[],
        priced: &[],
        // It estimates tokens and refuses prompts that it considers too long for the model, unless
        // configured otherwise.
        long_prompts: (
            &[],
            Some(("CLAUDE_CODE_BLOCKING_LIMIT_OVERRIDE", "9000000")),
        ),
        system: Some("append_system_prompt"),
        variables: ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        structured: |value| Answer::tool("StructuredOutput", value.clone()),
        schema: |request| {
            let tools = request.body["tools"].as_array()?;
            Some(
                tools
                    .iter()
                    .find(|tool| tool["name"] == "StructuredOutput")?["input_schema"]
                    .clone(),
            )
        },
    },
    numbers: Numbers {
        tokens: Numbers::APART,
        // Prices of claude-opus-5-5 from the program's own table.
        price: Some([4.0, 5.0, 0.2, 20.0]),
        cost_source: "reported",
        overloaded: 529,
        retried: &[401, 429, 500, 529],
        exit_codes: [0, 1],
        soon: Duration::from_secs(4),
        retries_for: super::PATIENCE.saturating_mul(2),
    },
    hints: ExpectedHints {
        auth: "claude auth login",
        network: "ANTHROPIC_BASE_URL",
        retry: "api_retry",
    },
    quirks: Quirks::PLAIN,
};

fn bash(line: &str) -> Value {
    json!({"command": line, "description": "for the test"})
}
