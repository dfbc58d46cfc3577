//! Tests of the testkit: every verb of the fake agent, the model server over a socket, and real
//! agents against it.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests of the testkit start programs and watch the clock by themselves"
)]

mod chat_server;
mod fake_lines;
mod fake_processes;
mod fake_streams;
mod fake_transcripts;
mod gemini_server;
mod install;
mod model_server;
mod real;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use ostler_testkit::fake;
use serde_json::Value;

const FAKE_AGENT: &str = env!("CARGO_BIN_EXE_fake-agent");

/// Returns a command that plays `verbs`, in which `$DIR` is the directory.
fn agent(dir: &Path, verbs: &str) -> Command {
    let script = fake::script(dir, &verbs.replace("$DIR", &dir.display().to_string()));
    let mut command = Command::new(FAKE_AGENT);
    command
        .env(fake::SCRIPT, script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

/// Plays `verbs` with `input` on stdin, which is then closed.
fn play(verbs: &str, input: &str) -> Output {
    let dir = tempfile::tempdir().unwrap();
    finish(agent(dir.path(), verbs).spawn().unwrap(), input)
}

fn finish(mut child: Child, input: &str) -> Output {
    // A script that reads nothing may exit before the input is written.
    let _gone = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Waits for one line of a running agent.
fn next_line(child: &mut Child) -> String {
    let mut line = Vec::new();
    let stdout = child.stdout.as_mut().unwrap();
    while !line.ends_with(b"\n") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        line.extend_from_slice(&byte);
    }
    String::from_utf8(line).unwrap()
}

fn json_lines(output: &Output) -> Vec<Value> {
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns `type` and `subtype` (or the type of the content block or stream event) of each line.
fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| {
        let detail = [
            "/subtype",
            "/event/type",
            "/message/content/0/type",
            "/request/subtype",
        ]
        .into_iter()
        .find_map(|place| line.pointer(place)?.as_str());
        format!(
            "{}/{}",
            line["type"].as_str().unwrap(),
            detail.unwrap_or_default()
        )
    };
    lines.iter().map(kind).collect()
}
