//! Test rig: runs the program in an isolated environment and collects its output.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ostler_testkit::{fake, processes};
use serde_json::Value;
use tempfile::TempDir;

/// Maximum time to wait for anything before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A temporary directory in which the program is started.
pub(crate) struct Rig {
    dir: TempDir,
}

/// A finished run of the program.
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Builds a command for the program with an empty environment, except for a PATH without
    /// agents.
    pub(crate) fn ostler(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.dir())
            .current_dir(self.dir());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Builds `ostler run` with the fake agent playing `script` as Claude.
    pub(crate) fn fake_run(&self, script: &str, args: &[&str]) -> Command {
        let script = fake::script(self.dir(), script);
        let mut command = self.ostler(&["run", "--agent", "claude", "--env"]);
        command.arg(format!("{}={}", fake::SCRIPT, script.display()));
        command.arg("--program").arg(fake::program()).args(args);
        command
    }

    /// Waits for a file that the fake agent writes, and parses a number from it.
    pub(crate) fn number(&self, name: &str) -> u32 {
        let path = self.path(name);
        let read = || {
            std::fs::read_to_string(&path)
                .ok()
                .and_then(|t| t.trim().parse().ok())
        };
        assert!(
            processes::wait_until(PATIENCE, || read().is_some()),
            "{name} was not written"
        );
        read().unwrap()
    }
}

/// Runs a command until it exits.
pub(crate) fn finish(command: &mut Command) -> Finished {
    collect(command.spawn().unwrap())
}

pub(crate) fn collect(child: Child) -> Finished {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Finished {
        code: status.code(),
        stdout: text(stdout),
        stderr: text(stderr),
    }
}

/// Runs a command with the given bytes on its stdin.
pub(crate) fn finish_with(command: &mut Command, stdin: impl AsRef<[u8]>) -> Finished {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_ref())
        .unwrap();
    collect(child)
}

pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = i32::try_from(child.id()).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

impl Finished {
    /// Returns the events on stdout, after checking the guarantees of docs/events.md.
    pub(crate) fn events(&self) -> Vec<Value> {
        let events: Vec<Value> = self
            .stdout
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        check(&events);
        events
    }

    pub(crate) fn outcome(&self) -> Value {
        self.events().last().unwrap()["outcome"].clone()
    }

    pub(crate) fn cause(&self) -> String {
        self.outcome()["cause"].as_str().unwrap().to_owned()
    }
}

/// Checks a session's events: `seq` has no gaps, the schema holds, turns and tool calls are paired,
/// and `ended` comes once, last.
pub(crate) fn check(events: &[Value]) {
    let schema = serde_json::to_value(schema()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let mut open = false;
    let mut calls: Vec<&str> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], at + 1, "{event}");
        if let Some(error) = validator.iter_errors(event).next() {
            panic!("{error}: {event}");
        }
        match event["type"].as_str().unwrap() {
            "turn_started" => assert!(!std::mem::replace(&mut open, true), "nested turn: {event}"),
            "turn_ended" => {
                assert!(
                    std::mem::replace(&mut open, false),
                    "turn_ended without turn_started: {event}"
                );
                assert!(calls.is_empty(), "calls without a result: {calls:?}");
            }
            "tool_call" => calls.push(event["id"].as_str().unwrap()),
            "tool_result" => calls.retain(|id| event["id"] != *id),
            _ => {}
        }
    }
    let ends: Vec<_> = events.iter().filter(|e| e["type"] == "ended").collect();
    assert!(
        ends.len() == 1 && events.last().unwrap()["type"] == "ended",
        "{} `ended` events",
        ends.len()
    );
    assert!(!open, "an unfinished turn");
}

/// Returns the event schema as the program prints it.
pub(crate) fn schema() -> Value {
    let out = Command::new(env!("CARGO_BIN_EXE_ostler"))
        .args(["schema", "events"].map(OsStr::new))
        .output()
        .unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Returns the type of each event.
pub(crate) fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["type"].as_str().unwrap()).collect()
}

/// Formats token counts as the end line shows them: all input (cached or not), and output.
pub(crate) fn tokens_shown([input, cache_write, cache_read, output]: [u64; 4]) -> String {
    let grouped = |count: u64| match count {
        0..1_000 => count.to_string(),
        _ => format!("{},{:03}", count / 1_000, count % 1_000),
    };
    format!(
        "{} tokens in, {} out",
        grouped(input + cache_write + cache_read),
        grouped(output)
    )
}
