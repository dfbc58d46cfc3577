//! Identity of a trial: hashes of what it was defined by.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::case::{Case, CommandSpec, Contender, Expected, PrivateRoot, Source};
use crate::tree;

/// Returns the SHA-256 of a text, in hexadecimal digits.
#[must_use]
pub fn sha256(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash of a case's definition: everything that decides on its result, whatever its
/// file is called.
#[must_use]
pub fn case_hash(case: &Case) -> String {
    let source = match &case.source {
        Source::Repository {
            url,
            branch,
            commit,
        } => json!({"url": url, "branch": branch, "commit": commit}),
        Source::Directory(_) => json!("directory"),
        Source::Empty => json!("empty"),
    };
    let expected = case.expected.as_ref().map(|expected| match expected {
        Expected::Revision(revision) => json!({"revision": revision}),
        Expected::Directory(path) => json!({"directory": tree::hash(path)}),
        Expected::Patch(path) => json!({"patch": tree::hash(path)}),
    });
    let files: Value = case
        .evaluator_files()
        .into_iter()
        .map(|file| json!({"name": file.named, "content": tree::hash(&file.path)}))
        .collect();
    let commands = |commands: &[CommandSpec]| -> Value {
        let all = commands.iter().map(|command| {
            json!({
                "argv": command.argv,
                "dir": command.dir,
                "env": command.env,
                "timeout_ms": millis(command.timeout),
            })
        });
        all.collect()
    };
    let evaluators: Value = case
        .evaluators
        .iter()
        .map(|evaluator| {
            json!({
                "name": evaluator.name,
                "kind": evaluator.kind,
                "config": evaluator.config,
                "weight": evaluator.weight,
                "required": evaluator.required,
            })
        })
        .collect();
    let definition = json!({
        "name": case.name,
        "source": source,
        "prompt": case.prompt,
        "expected": expected,
        "evaluators": evaluators,
        "files": files,
        "root": case.mounts.as_ref().map(root),
        "pre_execution": commands(&case.pre_execution),
        "limits": {
            "timeout_ms": case.limits.timeout.map(millis),
            "max_turns": case.limits.max_turns,
            "max_budget_usd": case.limits.max_budget_usd,
            "max_tokens": case.limits.max_tokens,
        },
    });
    sha256(&definition.to_string())
}

/// The image of a Harbor task: what its `task.toml` and its Dockerfile say, and its tests.
fn root(root: &PrivateRoot) -> Value {
    let copies: Value = root
        .copies
        .iter()
        .map(|(source, target)| json!({"target": target, "content": tree::hash(source)}))
        .collect();
    json!({
        "workdir": root.workdir,
        "env": root.env,
        "copies": copies,
        "tests": tree::hash(&root.task_dir.join("tests")),
    })
}

/// Returns the hash of a contender's settings and instructions. A file counts by its content,
/// wherever it is.
#[must_use]
pub fn settings_hash(contender: &Contender) -> String {
    let content = |value: &Value| {
        let path = value.as_str().map(Path::new);
        match path.filter(|path| path.is_absolute() && path.is_file()) {
            Some(path) => json!({"content": tree::hash(path)}),
            None => value.clone(),
        }
    };
    let settings: BTreeMap<&String, Value> = contender
        .settings
        .iter()
        .map(|(key, value)| (key, content(value)))
        .collect();
    let definition = json!({
        "settings": settings,
        "instructions": contender.instructions,
    });
    sha256(&definition.to_string())
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the prompt of a trial: the contender's, with the case's in it, or the case's.
#[must_use]
pub fn prompt(case: &Case, contender: &Contender) -> String {
    match &contender.prompt {
        Some(prompt) => prompt.replace("{prompt}", &case.prompt),
        None => case.prompt.clone(),
    }
}
