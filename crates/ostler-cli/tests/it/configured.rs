//! An agent that only `ostler.toml` knows: a name and a command that speaks ACP. A recording of a real one plays it.

use std::path::Path;

use ostler_testkit::fake;
use serde_json::json;

use crate::rig::{Rig, finish, kinds};

/// A rig whose user has configured the agent `mine`, which plays this recording.
fn rig(row: &str) -> Rig {
    let rig = Rig::new();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/conformance/opencode")
        .join(row);
    let recording = recording.canonicalize().unwrap();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    let command = json!([fake::program(), "play", recording]);
    rig.file(
        ".config/ostler/ostler.toml",
        &format!("agent = \"mine\"\n[agents.mine]\nacp = {command}\n"),
    );
    rig
}

/// From the file to the answer: the program is started, ACP is spoken with it, and its events have the name of the file.
#[test]
fn a_configured_agent_answers_under_its_own_name() {
    let rig = rig("text.jsonl");
    let done = finish(&mut rig.ostler(&["run", "--output", "events", "PROMPT"]));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let events = done.events();
    let started = events
        .iter()
        .find(|event| event["type"] == "started")
        .unwrap();
    assert_eq!(started["agent"], "mine");
    let over = events
        .iter()
        .find(|event| event["type"] == "turn_ended")
        .unwrap();
    assert_eq!(
        (&over["text"], &over["outcome"]["cause"]),
        (&json!("Hello, world."), &json!("completed"))
    );
    // What an agent of no known kind counts is not guessed.
    assert_eq!(over["usage"]["output"], json!(null), "{:?}", kinds(&events));
}

/// The caller may say what it counts.
#[test]
fn what_a_configured_agent_counts_can_be_said() {
    let rig = rig("text.jsonl");
    let done = finish(&mut rig.ostler(&[
        "run",
        "--output",
        "events",
        "--set",
        "counts=request",
        "PROMPT",
    ]));
    let events = done.events();
    let over = events
        .iter()
        .find(|event| event["type"] == "turn_ended")
        .unwrap();
    assert_eq!(over["usage"]["output"], 25, "{}", done.stderr);
}

/// A program that is not there is named, with the line to check.
#[test]
fn a_configured_agent_without_a_program_says_where_to_look() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        "[agents.mine]\nacp = [\"no-such-agent\", \"--acp\"]\n",
    );
    let done = finish(&mut rig.ostler(&["run", "--agent", "mine", "PROMPT"]));
    assert_ne!(done.code, Some(0));
    assert!(
        done.stderr.contains("no-such-agent") && done.stderr.contains("ostler.toml"),
        "{}",
        done.stderr
    );
}
