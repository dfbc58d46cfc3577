//! Looking up models by name.

use std::path::PathBuf;
use std::sync::Arc;

use ostler::Agents;
use ostler::adapter::{ApiModel, Message, ModelAdapter, ModelChoice, ModelOptions, Models};
use ostler::testing::Script;
use ostler_testkit::fake;

use super::{ask, hello};
use crate::rig::{PATH, host};

fn models() -> Models {
    Models::new(
        host(&[("PATH", PATH), ("OPENAI_API_KEY", "sk-test")]),
        Agents::builtin(),
    )
}

fn why(name: &str) -> String {
    models()
        .get(name)
        .err()
        .unwrap_or_else(|| panic!("{name} is known"))
        .to_string()
}

// S0-3
#[test]
fn a_name_is_looked_up_once() {
    let models = models();
    for name in [
        "claude-cli:sonnet",
        "codex-cli",
        "gemini-cli",
        "openai:gpt-5-mini",
        "scripted",
    ] {
        let first = models.get(name).unwrap();
        assert!(
            Arc::ptr_eq(&first, &models.resolve(name).unwrap()),
            "{name}"
        );
        assert_eq!(first.name(), name);
    }
    assert!(!Arc::ptr_eq(
        &models.get("claude-cli").unwrap(),
        &models.get("claude-cli:sonnet").unwrap()
    ));
}

// S0-2, S0-3: an existing model is used unchanged; the compiler checks its type.
#[test]
fn existing_model_is_used_unchanged() {
    let mine: Arc<dyn ModelAdapter> = Arc::new(ApiModel::scripted(
        "mine",
        Script::parse("[[reply]]\ntext = \"hi\"").unwrap(),
    ));
    let choices = [
        ModelChoice::from(mine.clone()),
        ModelChoice::Adapter(mine.clone()),
    ];
    for choice in choices {
        assert!(Arc::ptr_eq(&mine, &models().resolve(choice).unwrap()));
    }
}

// S0-3
#[test]
fn unknown_name_lists_the_known_ones() {
    let why = why("claud-cli:opus");
    for part in [
        "claud-cli:opus",
        "did you mean claude-cli?",
        "codex-cli",
        "gemini-cli",
        "openai",
        "scripted",
    ] {
        assert!(why.contains(part), "{part}: {why}");
    }
    for name in ["", "nonsense", "mock-cli", "openai-api-cli", ":sonnet"] {
        let why = self::why(name);
        assert!(
            why.contains("claude-cli") && !why.contains("mock-cli,"),
            "{why}"
        );
    }
}

#[test]
fn malformed_name_says_what_is_wrong() {
    let cases = [
        ("openai-compatible", "openai-compatible:http"),
        ("openai-compatible:nonsense", "nonsense"),
        ("openai-compatible:ftp://x", "ftp://x"),
        ("scripted:/nowhere/answers.toml", "/nowhere/answers.toml"),
    ];
    for (name, part) in cases {
        assert!(why(name).contains(part), "{name}: {}", why(name));
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("answers.toml");
    std::fs::write(&file, "[[reply]]\nnonsense = 1").unwrap();
    let wrong = why(&format!("scripted:{}", file.display()));
    assert!(
        wrong.contains("answers.toml") && wrong.contains("nonsense"),
        "{wrong}"
    );
}

// S0-3, S0-1, S0-4, S0-9: from name to answer, with a program and with a script.
#[tokio::test]
async fn names_become_models_that_answer() {
    let dir = tempfile::tempdir().unwrap();
    let verbs = "dump-args $DIR/args\nread-user\ninit\ntext hi\nresult hi\nread-until-eof\nexit 0";
    let path = dir.path().to_str().unwrap().to_owned();
    let program: PathBuf =
        fake::install_as(dir.path(), "other-name", &verbs.replace("$DIR", &path));
    let models = models().with_options(move |agent| {
        assert_eq!(agent, "claude");
        ModelOptions {
            program: Some(program.clone()),
            ..ModelOptions::default()
        }
    });
    let model = models.get("claude-cli:sonnet").unwrap();
    assert_eq!(ask(&*model, &hello()).await.unwrap().content, "hi");
    assert!(
        std::fs::read_to_string(dir.path().join("args"))
            .unwrap()
            .contains("--model=sonnet")
    );
    std::fs::write(
        dir.path().join("s.toml"),
        "[[reply]]\ntext = \"from the script\"",
    )
    .unwrap();
    let scripted = models.get(&format!("scripted:{path}/s.toml")).unwrap();
    assert_eq!(
        ask(&*scripted, &[Message::user("hi")])
            .await
            .unwrap()
            .content,
        "from the script"
    );
}
