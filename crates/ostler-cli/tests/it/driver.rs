//! Scenario driver: runs a task through the program, with any agent.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use ostler_testkit::scenario::{
    Driver, Observed, Progress, Running, Signal, Subject, Task, TestEnv, signal,
};
use serde_json::Value;

/// The program with the agent under test.
pub(crate) struct Program(pub(crate) &'static Subject);

struct Handle<'a>(u32, &'a Progress);

impl Running for Handle<'_> {
    fn interrupt(&self) {
        signal(self.0, Signal::INT);
    }

    fn stop(&self) {
        signal(self.0, Signal::TERM);
    }

    fn wait_for(&self, kind: &str) {
        self.1.wait_for(kind);
    }
}

impl Driver for Program {
    fn subject(&self) -> &'static Subject {
        self.0
    }

    fn run(
        &self,
        test_env: &TestEnv,
        task: &Task,
        meanwhile: &(dyn Fn(&dyn Running) + Sync),
    ) -> Observed {
        let mut child = start(&mut run_command(test_env, task), task);
        let progress = Progress::default();
        let handle = Handle(child.id(), &progress);
        let events: Vec<Value> = thread::scope(|scope| {
            scope.spawn(|| meanwhile(&handle));
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
            events
                .inspect(|event| progress.record(event["type"].as_str().unwrap()))
                .collect()
        });
        let exit = child.wait().unwrap().code();
        check_schema(&events);
        assert!(exit.is_some(), "the program was killed");
        Observed {
            subject: self.0,
            events,
            exit,
            served: test_env.server.served(),
        }
    }
}

pub(crate) fn ostler(test_env: &TestEnv) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ostler"));
    command
        .env_clear()
        .envs(test_env.host().iter().map(|(name, value)| (name, value)))
        .current_dir(test_env.work());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

/// Settings with a dedicated flag; the others are passed with `--set`.
const FLAGS: &[&str] = &[
    "system_prompt",
    "append_system_prompt",
    "permission_mode",
    "tools",
    "allowed_tools",
    "disallowed_tools",
    "mcp_config",
    "json_schema",
    "resume",
    "session_id",
    "max_turns",
    "max_budget_usd",
];
const SWITCHES: &[&str] = &["strict_mcp", "fork"];

/// Maximum length of a prompt passed as an argument.
const ARGUMENT: usize = 100_000;

fn on_argv(prompt: &str) -> bool {
    prompt.len() < ARGUMENT && !prompt.starts_with('-')
}

pub(crate) fn run_command(test_env: &TestEnv, task: &Task) -> Command {
    command_as(test_env, task, (&test_env.work(), "events"))
}

/// Like `run_command`, but in another directory and with human output.
pub(crate) fn human_command(test_env: &TestEnv, task: &Task, dir: &Path) -> Command {
    command_as(test_env, task, (dir, "human"))
}

fn command_as(test_env: &TestEnv, task: &Task, (dir, form): (&Path, &str)) -> Command {
    let mut command = ostler(test_env);
    command
        .current_dir("/")
        .args(["run", "--agent", test_env.subject.name, "--output", form]);
    if let Some(program) = test_env.program() {
        command.arg("--program").arg(program);
    }
    command.arg("--dir").arg(dir);
    for (name, limit) in [("--timeout", task.wall), ("--idle-timeout", task.idle)] {
        command.args([name, &format!("{}ms", limit.as_millis())]);
    }
    for (key, value) in &task.settings_for(test_env.subject) {
        let flag = format!("--{}", key.replace('_', "-"));
        match (SWITCHES.contains(key), FLAGS.contains(key)) {
            (true, _) => command.arg(flag),
            (_, true) => command.arg(format!("{flag}={value}")),
            _ => command.arg(format!("--set={key}={value}")),
        };
    }
    for (name, value) in &task.env {
        command.arg(format!("--env={name}={value}"));
    }
    if task.tolerate_denials {
        command.arg("--tolerate-denials");
    }
    if on_argv(&task.prompt) {
        command.arg(&task.prompt);
    } else {
        command.stdin(Stdio::piped());
    }
    command
}

pub(crate) fn start(command: &mut Command, task: &Task) -> Child {
    let mut child = command.spawn().unwrap();
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(task.prompt.as_bytes()).unwrap();
    }
    child
}

/// Checks events against the schema that the program prints.
pub(crate) fn check_schema(events: &[Value]) {
    let printed = Command::new(env!("CARGO_BIN_EXE_ostler"))
        .args(["schema", "events"])
        .output()
        .unwrap();
    let schema: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for event in events {
        let faults: Vec<String> = validator
            .iter_errors(event)
            .map(|fault| fault.to_string())
            .collect();
        assert_eq!(faults, [""; 0], "{event:#}");
    }
}

pub(crate) fn output(command: &mut Command) -> Output {
    command.stderr(Stdio::piped()).output().unwrap()
}

pub(crate) fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}
