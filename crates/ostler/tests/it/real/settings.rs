//! Every agent setting that no other test passes to the real program: its effect, as the model and
//! the files show it.

mod acp;
mod claude;
mod codex;
mod copilot;
mod pi;

use std::fs;
use std::path::{Path, PathBuf};

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{self, Observed, Subject, Task, TestEnv};
use serde_json::{Value, json};

use crate::driver::Library;

/// The test or scenario in which the real program gets each setting of an agent.
const TRIED: &[(&str, &[(&str, &str)])] = &[
    (
        "claude",
        &[
            ("model", "model"),
            ("fallback_model", "fallback_model"),
            ("effort", "effort_and_betas"),
            ("system_prompt", "system_prompts"),
            ("append_system_prompt", "system_prompts"),
            ("tools", "tools_limit_what_exists"),
            ("allowed_tools", "allowed_tools_allow_nothing_else"),
            ("disallowed_tools", "disallowed_tools_are_gone"),
            ("permission_mode", "add_dir"),
            (
                "permission_prompt",
                "unattended_permission_request_is_denied",
            ),
            ("workspace_tools", "file_tools_and_nothing_else"),
            ("add_dir", "add_dir"),
            ("mcp_config", "an_mcp_server_and_no_other"),
            ("strict_mcp", "an_mcp_server_and_no_other"),
            ("json_schema", "structured_output"),
            ("max_turns", "max_turns"),
            ("max_budget_usd", "budget"),
            ("agents", "agents_and_their_words"),
            ("agent", "agent"),
            ("session_id", "session_id_in_use"),
            ("resume", "resume_remembers"),
            ("fork", "fork_is_another_session"),
            ("no_session_persistence", "no_session_persistence"),
            ("settings", "settings"),
            ("setting_sources", "setting_sources"),
            ("betas", "effort_and_betas"),
            ("bare", "bare"),
            ("forward_subagent_text", "agents_and_their_words"),
            ("include_partial", "partial_messages"),
        ],
    ),
    (
        "codex",
        &[
            ("model", "another_model"),
            ("effort", "effort"),
            ("system_prompt", "system_prompts"),
            ("append_system_prompt", "system_prompts"),
            ("permission_mode", "permission_mode"),
            ("approval_policy", "approval_policy"),
            ("add_dir", "add_dir"),
            ("mcp_config", "mcp_config"),
            ("json_schema", "structured_output"),
            ("resume", "resumed"),
            ("fork", "copied"),
            ("ephemeral", "ephemeral"),
            ("config", "config"),
            ("include_partial", "partial_messages"),
            ("transport", "exec_resumes_its_session"),
        ],
    ),
    (
        "copilot",
        &[
            ("transport", "text"),
            ("model", "model"),
            ("effort", "effort"),
            ("agent", "agent"),
            ("tools", "tools_limit_what_exists"),
            ("allowed_tools", "allowed_tools"),
            ("disallowed_tools", "disallowed_tools_are_gone"),
            ("permission_mode", "tool_allowed"),
            ("add_dir", "add_dir"),
            ("mcp_config", "mcp_config"),
            ("session_id", "session_id"),
            ("resume", "resumed"),
            ("no_custom_instructions", "no_custom_instructions"),
            ("no_builtin_mcps", "no_builtin_mcps_and_max_ai_credits"),
            ("max_ai_credits", "no_builtin_mcps_and_max_ai_credits"),
        ],
    ),
    (
        "gemini",
        &[
            ("model", "model"),
            ("permission_mode", "tool_allowed"),
            ("resume", "resumed"),
            ("fork", "copied"),
            ("mcp_config", "mcp_config"),
            ("transport", "model"),
            ("fs", "fs"),
            ("auth_method", "auth_method"),
            // These two configure how Ostler reads an agent that it does not know; no agent gets
            // them.
            ("counts", "token_counting_can_be_configured"),
            ("chunks", "cumulative_chunks_are_reported_as_differences"),
        ],
    ),
    (
        "openclaw",
        &[
            ("transport", "through_its_gateway"),
            ("model", "settings"),
            ("fallback", "settings"),
            ("thinking", "settings"),
            ("timeout", "settings"),
            ("config", "settings"),
            ("isolated", "isolated"),
            ("state_dir", "settings"),
        ],
    ),
    (
        "pi",
        &[
            ("model", "model"),
            ("thinking", "thinking_level"),
            ("system_prompt", "system_prompts"),
            ("append_system_prompt", "system_prompts"),
            ("tools", "tools_limit_what_exists"),
            ("resume", "resumed"),
            ("fork", "copied"),
            ("no_session", "no_session"),
            ("no_extensions", "project_resources"),
            ("no_skills", "project_resources"),
            ("no_prompt_templates", "project_resources"),
            ("no_context_files", "project_resources"),
        ],
    ),
];

/// Returns the source of all tests and scenarios.
fn sources() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut dirs = [
        "ostler/tests",
        "ostler-cli/tests",
        "ostler-dialects/tests",
        "ostler-testkit/src",
    ]
    .map(|dir| crates.join(dir))
    .to_vec();
    let mut all = String::new();
    while let Some(dir) = dirs.pop() {
        for path in fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                all += &fs::read_to_string(path).unwrap();
            }
        }
    }
    all
}

/// A setting that is only in a snapshot may not work at all.
#[test]
fn every_setting_is_given_to_the_real_program() {
    let sources = sources();
    for (agent, tried) in TRIED {
        let keys: Vec<&str> = ostler::Agents::builtin()
            .get(agent)
            .unwrap()
            .about()
            .settings
            .iter()
            .map(|setting| setting.key)
            .collect();
        let listed: Vec<&str> = tried.iter().map(|(key, _)| *key).collect();
        assert_eq!(listed, keys, "the settings of {agent}, in their order");
        for (key, test) in *tried {
            assert!(
                sources.contains(&format!("fn {test}(")),
                "{agent}, {key}: there is no test {test}"
            );
        }
    }
}

fn run(subject: &'static Subject, place: &TestEnv, task: &Task) -> Observed {
    scenario::run(&Library(subject), place, task)
}

/// A place where the model says one thing, whatever the prompt.
fn talking(subject: &'static Subject) -> TestEnv {
    TestEnv::new(subject, Script::always("Aye."))
}

/// A place where the model calls one tool, then repeats its result.
fn calling(subject: &'static Subject, call: Answer) -> TestEnv {
    let script = Script::new().rule(Rule::on_tool_result().text("{tool_result}"));
    TestEnv::new(subject, script.rule(Rule::any().with_tools().answer(call)))
}

/// Returns the only model call of a run with these settings.
fn call_with(subject: &'static Subject, task: &Task) -> ostler_testkit::model::Request {
    let place = talking(subject);
    run(subject, &place, task).assert_ended("completed", 0);
    place.only_call()
}

/// Creates a directory next to the workspace, with a file in it.
fn sibling_dir(place: &TestEnv, name: &str) -> PathBuf {
    let dir = place.outside(name);
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("note.txt"), "forty-two\n").unwrap();
    dir
}

/// Returns the configuration of an MCP server that adds numbers.
fn adder() -> String {
    let server = json!({"command": "sh", "args": ["-c", scenario::tools::ADDER]});
    json!({"mcpServers": {"adder": server}}).to_string()
}

/// Returns true if a file below a directory has a name with this ending.
fn has_file(dir: &Path, end: &str) -> bool {
    let Ok(entries) = fs::read_dir(dir) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            has_file(&path, end)
        } else {
            path.to_string_lossy().ends_with(end)
        }
    })
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}
