//! Recordings are recognized by their beginning.

use std::path::{Path, PathBuf};

use ostler_dialects::recognize;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Returns the name of the recognized agent.
fn recognized(opening: &str) -> Option<&'static str> {
    recognize(opening).map(|dialect| dialect.about().name)
}

#[test]
fn every_recording_is_recognized() {
    let names = ostler_dialects::all()
        .iter()
        .map(|dialect| dialect.about().name);
    for name in names.filter(|name| fixtures().join(name).is_dir()) {
        let mut files = 0;
        for scenario in std::fs::read_dir(fixtures().join(name)).unwrap() {
            let dir = scenario.unwrap().path();
            let file = ["stdout.jsonl", "stdout.json"]
                .map(|file| dir.join(file))
                .into_iter()
                .find(|f| f.exists());
            let Some(file) = file else { continue };
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!(recognized(&text), Some(name), "{}", file.display());
            files += 1;
        }
        assert!(files >= 5, "{name}: {files}");
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
    assert_eq!(recognized(opening), Some("claude"));
}
