//! The real Gemini CLI against the model server: it understands thoughts, a tool call, streamed
//! text and token counts.

use std::process::{Command, Stdio};

use ostler_testkit::model::{Answer, ModelServer, Rule, Script};
use ostler_testkit::real;
use serde_json::{Value, json};

fn run(server: &ModelServer, prompt: &str) -> Vec<Value> {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".gemini")).unwrap();
    let settings = json!({"security": {"auth": {"selectedType": "gemini-api-key"}}});
    std::fs::write(
        home.path().join(".gemini/settings.json"),
        settings.to_string(),
    )
    .unwrap();
    std::fs::write(home.path().join("found.txt"), "x").unwrap();
    let mut command = Command::new(real::pinned("gemini").program());
    command.args(["-m", "gemini-2.5-pro", "-o", "stream-json", "-p", prompt]);
    command
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", std::env::var("PATH").unwrap());
    command
        .env("GEMINI_API_KEY", "a-key-of-the-testkit")
        .env("GOOGLE_GEMINI_BASE_URL", server.base_url());
    command
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .current_dir(home.path())
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

#[test]
fn gemini_thinks_calls_a_tool_and_answers() {
    let call = Answer::thinking("where is it").and_tool("list_directory", json!({"dir_path": "."}));
    let script = Script::new()
        .rule(Rule::on_tool_result().answer(Answer::text("Saw: {tool_result}").deltas(3)))
        .rule(Rule::on_text("look").with_tools().answer(call));
    let server = ModelServer::start(script);
    let lines = run(&server, "look around");
    assert!(server.unmatched().is_empty(), "{:?}", server.unmatched());
    let text: String = lines
        .iter()
        .filter(|line| line["type"] == "message" && line["role"] == "assistant")
        .filter_map(|line| line["content"].as_str())
        .collect();
    assert!(
        text.starts_with("Saw: Directory listing") && text.contains("found.txt"),
        "{lines:?}"
    );
    let stats = &lines.iter().rfind(|line| line["type"] == "result").unwrap()["stats"];
    let served = server.served();
    assert_eq!(served.len(), 2);
    let cached: u64 = served.iter().map(|of| of.cache_read).sum();
    let input: u64 = served
        .iter()
        .map(|of| of.input + of.cache_creation)
        .sum::<u64>()
        + cached;
    let counts = (
        &stats["tool_calls"],
        &stats["input_tokens"],
        &stats["cached"],
    );
    assert_eq!(counts, (&json!(1), &json!(input), &json!(cached)));
    assert_eq!(
        server.requests()[0].header("x-goog-api-key"),
        Some("a-key-of-the-testkit")
    );
}

#[test]
fn gemini_reports_an_error_of_the_provider() {
    let error = Answer::error(401, "UNAUTHENTICATED", "no such key");
    let server = ModelServer::start(Script::new().rule(Rule::any().answer(error)));
    let lines = run(&server, "anything");
    let result = lines.iter().rfind(|line| line["type"] == "result").unwrap();
    assert!(
        result["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no such key"),
        "{result}"
    );
}
