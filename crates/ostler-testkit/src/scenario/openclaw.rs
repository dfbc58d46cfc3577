//! OpenClaw as a scenario subject.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::subject::{ExpectedHints, Numbers, Quirks, Subject, SubjectSettings, Tools};
use crate::model::Answer;
use crate::real;

/// The real OpenClaw: one document at the end, on its own Node.js.
pub const OPENCLAW: Subject = Subject {
    name: "openclaw",
    version: None,
    program: Some(|| real::OPENCLAW.program()),
    host,
    silent: true,
    prepare_workdir: |_| (),
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
    settings: SubjectSettings {
        always: &[("transport", "exec")],
        trust: &[],
        after_approval: &[],
        streams: false,
        partial: None,
        model: "stand-in/scripted-small",
        one_retry: &[],
        priced: &[],
        long_prompts: (&[], None),
        system: None,
        variables: ("", ""),
        structured: |value| Answer::text(value.to_string()),
        schema: |_| None,
    },
    numbers: Numbers {
        tokens: Numbers::READ_APART,
        // From its configuration (`offline.rs` of the stand-in).
        price: Some([1.0, 1.0, 0.5, 2.0]),
        cost_source: "reported",
        overloaded: 503,
        retried: &[],
        exit_codes: [0, 1],
        // It takes fifteen seconds to start, on a busy machine a minute.
        soon: Duration::from_secs(90),
        // Ten attempts, with pauses that grow to half a minute.
        retries_for: Duration::from_secs(540),
    },
    hints: ExpectedHints {
        auth: "openclaw configure",
        network: "address",
        retry: "",
    },
    // Of a rate limit it reports only the provider's message.
    quirks: Quirks {
        model: |name| Some(format!("stand-in/{name}")),
        reports_status: false,
        ..Quirks::PLAIN
    },
};

/// The same over the ACP of its gateway, which has to run.
pub const OPENCLAW_ACP: Subject = Subject {
    silent: false,
    settings: SubjectSettings {
        always: &[("transport", "acp")],
        streams: true,
        ..OPENCLAW.settings
    },
    quirks: Quirks {
        model: |_| None,
        tool: |_| "execute",
        ..OPENCLAW.quirks
    },
    ..OPENCLAW
};

/// Returns the complete environment that the real program needs: its own Node.js comes first in
/// PATH.
fn host(home: &Path, base_url: &str) -> Vec<(String, String)> {
    let mut pairs = real::offline_env("openclaw", home, base_url);
    for (_, path) in pairs.iter_mut().filter(|(name, _)| name == "PATH") {
        *path = format!("{}:{path}", real::openclaw_node().display());
    }
    pairs
}

fn shell(line: &str) -> Value {
    json!({"command": line})
}
