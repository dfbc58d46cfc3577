//! Agents defined only in `ostler.toml`: a name and an ACP command. A recording of a real agent
//! plays the part.

use std::path::Path;

use ostler_testkit::fake;
use serde_json::json;

use crate::rig::{Rig, finish, kinds};

/// Creates a rig in which the user configured the agent `mine`, which plays this recording.
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

/// The configured program is started and driven over ACP, and its events carry the configured
/// name.
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
    let turn_ended = events
        .iter()
        .find(|event| event["type"] == "turn_ended")
        .unwrap();
    assert_eq!(
        (&turn_ended["text"], &turn_ended["outcome"]["cause"]),
        (&json!("Hello, world."), &json!("completed"))
    );
    // Token counts of an unknown kind of agent are not guessed.
    assert_eq!(
        turn_ended["usage"]["output"],
        json!(null),
        "{:?}",
        kinds(&events)
    );
}

/// The caller can set what the agent's counts refer to.
#[test]
fn token_counting_can_be_configured() {
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
    let turn_ended = events
        .iter()
        .find(|event| event["type"] == "turn_ended")
        .unwrap();
    assert_eq!(turn_ended["usage"]["output"], 25, "{}", done.stderr);
}

/// A missing program is named, with the file to check.
#[test]
fn missing_program_names_the_configuration_file() {
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
