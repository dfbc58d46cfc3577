//! Recordings are recognized by their beginning.

use std::path::{Path, PathBuf};

use ostler_dialects::recognize;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Returns the name of the recognized dialect, and whether its transport supports several turns.
fn recognized(opening: &str) -> Option<(&'static str, bool)> {
    recognize(opening).map(|dialect| (dialect.name(), dialect.capabilities().many_turns))
}

/// Returns the agent's output from a recording of both directions.
fn printed(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let printed = lines.filter_map(|line| match (&line["out"], &line["out_text"]) {
        (serde_json::Value::Null, serde_json::Value::String(text)) => Some(text.clone()),
        (serde_json::Value::Null, _) => None,
        (out, _) => Some(out.to_string()),
    });
    printed.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_recording_is_recognized() {
    for name in ["claude", "codex", "copilot", "openai-api", "openclaw"] {
        let mut files = 0;
        for scenario in std::fs::read_dir(fixtures().join(name)).unwrap() {
            let dir = scenario.unwrap().path();
            let file = ["stdout.jsonl", "stdout.json"]
                .map(|file| dir.join(file))
                .into_iter()
                .find(|f| f.exists());
            let Some(file) = file else { continue };
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!(
                recognized(&text).map(|found| found.0),
                Some(name),
                "{}",
                file.display()
            );
            files += 1;
        }
        assert!(files >= 5, "{name}: {files}");
    }
}

#[test]
fn every_transport_is_recognized() {
    let cases = [
        ("claude", "claude", true),
        ("claude_agent_acp", "claude-agent-acp", true),
        ("codex", "codex", true),
        ("codex_acp", "codex-acp", true),
        ("codex_exec", "codex", false),
        ("copilot", "copilot", false),
        ("copilot_acp", "copilot", true),
        ("gemini", "gemini", true),
        ("goose", "goose", true),
        ("openclaw", "openclaw", false),
        ("opencode", "opencode", true),
        ("qwen", "qwen", true),
    ];
    for (dir, name, many_turns) in cases {
        let file = fixtures().join("conformance").join(dir).join("text.jsonl");
        assert_eq!(
            recognized(&printed(&file)),
            Some((name, many_turns)),
            "{dir}"
        );
    }
}

#[test]
fn anything_else_is_not_recognized() {
    for text in [
        "",
        "hello",
        "{}",
        "{\"type\":\"module\"}",
        "[1]",
        "{\"ostler\":1}",
        "{\"jsonrpc\":\"2.0\",\"id\":1}",
    ] {
        assert!(recognize(text).is_none(), "{text}");
    }
    for file in ["../../Cargo.toml", "Cargo.toml", "src/lib.rs"] {
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        assert!(recognize(&text).is_none(), "{file}");
    }
}

#[test]
fn truncated_last_line_is_ignored() {
    let text = std::fs::read_to_string(fixtures().join("claude/hello/stdout.jsonl")).unwrap();
    let opening = &text[..text.floor_char_boundary(text.len() - 10)];
    assert_eq!(recognized(opening).map(|found| found.0), Some("claude"));
}
