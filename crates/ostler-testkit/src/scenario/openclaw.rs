//! OpenClaw as the subject of scenarios.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{Known, Manner, Numbers, Subject, Tools, Words};
use crate::model::Answer;
use crate::real;

/// The real OpenClaw: one document at its end, on a Node of its own.
pub const OPENCLAW: Subject = Subject {
    name: "openclaw",
    version: None,
    program: Some(|| real::OPENCLAW.program()),
    host,
    silent: true,
    furnish: |_| (),
    tools: Tools {
        command: "exec",
        shell,
        printed: str::to_owned,
        forbidden: || ("exec", shell("cat .env; touch made")),
        read: |path| ("read", json!({"path": path})),
        write: |path| ("write", json!({"path": path, "content": "written\n"})),
        bound: "",
        others: ["read", "write"],
    },
    settings: Known {
        always: &[("transport", "exec")],
        trust: &[],
        asked: &[],
        streams: false,
        partial: None,
        model: "stand-in/scripted-small",
        hasty: &[],
        priced: &[],
        roomy: (&[], None),
        system: None,
        variables: ("", ""),
        structured: |value| Answer::text(value.to_string()),
        schema: |_| None,
    },
    numbers: Numbers {
        // What was written to a cache is not told apart from the rest of the input.
        tokens: [107, 0, 11, 25],
        cost_source: "reported",
        overloaded: 503,
        retried: &[],
        exit_codes: [0, 1],
        // A start takes fifteen seconds, on a busy machine a minute.
        soon: Duration::from_secs(90),
    },
    words: Words { auth: "openclaw configure", network: "address", retry: "" },
    manner: Manner { model: |name| Some(format!("stand-in/{name}")), ..Manner::PLAIN },
};

/// The environment, and nothing else, that the real program needs: its own Node is the first.
fn host(home: &Path, base_url: &str) -> Vec<(String, String)> {
    let mut pairs = real::offline_env("openclaw", home, base_url);
    for (_, path) in pairs.iter_mut().filter(|(name, _)| name == "PATH") {
        *path = format!("{}:{path}", node().display());
    }
    pairs
}

/// Where npm put the Node that it needs.
fn node() -> PathBuf {
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let target = real::target_dir().expect("find the build's target directory");
    real::OPENCLAW.home(&target).join(format!("node_modules/node-linux-{machine}/bin"))
}

fn shell(line: &str) -> Value {
    json!({"command": line})
}
