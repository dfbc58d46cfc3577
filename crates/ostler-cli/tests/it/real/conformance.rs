//! `ostler doctor --conformance` with the real agents, each as a user would have it on PATH.

use std::process::Command;

use ostler_testkit::real::{self, Pinned};
use serde_json::Value;

use crate::driver::{output, utf8};

/// The report about an agent that is on PATH, in a home that knows nothing of it.
fn report(agent: &Pinned) -> Value {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(agent.program(), bin.join(agent.name)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command.env_clear().env("HOME", home.path()).env("PATH", path);
    let ran = output(command.args(["doctor", "--json", "--conformance", agent.name]));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", utf8(&ran.stderr)));
    assert_eq!(ran.status.code(), Some(0), "{report:#}");
    report
}

fn conforms(agent: &Pinned) {
    let report = report(agent);
    assert_eq!((&report["conforms"], report["version"].as_str()), (&Value::Bool(true), Some(agent.version)));
    assert_eq!(report["tested_version"], agent.version, "the probe names the version that these tests drive");
    assert_eq!(report["drift"], serde_json::json!({}), "messages of the tested version that nobody knows");
    let passed = report["checks"].as_array().unwrap().iter().filter(|check| check["result"] == "passed").count();
    assert!(passed >= 7, "{report:#}");
}

#[test]
fn claude_conforms() {
    conforms(&real::CLAUDE);
}

#[test]
fn codex_conforms() {
    conforms(&real::CODEX);
}

#[test]
fn gemini_conforms() {
    conforms(&real::GEMINI);
}

#[test]
fn opencode_conforms() {
    conforms(&real::OPENCODE);
}

#[test]
fn copilot_conforms() {
    conforms(&real::COPILOT);
}
