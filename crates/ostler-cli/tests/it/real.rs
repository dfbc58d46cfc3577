//! The real Claude Code, against the scripted model on loopback.

mod acp;
mod agent_loop;
mod conformance;
mod daemon;
mod display;
mod eval;
mod sandbox;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::every_scenario;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::processes::{alive, descendants, wait_until};
use ostler_testkit::real;
use ostler_testkit::scenario::{self, CLAUDE, Observed, PATIENCE, Signal, Task, TestEnv, signal};
use serde_json::{Value, json};

use crate::driver::{Program, check_schema, ostler, output, run_command, start, utf8};
use crate::rig::tokens_shown;

every_scenario!(Program(&CLAUDE));

/// Codex behaviour that its library tests do not cover.
mod codex {
    use ostler_testkit::scenario::CODEX;
    use ostler_testkit::tests_of_scenarios;

    use crate::driver::Program;

    tests_of_scenarios! { Program(&CODEX); endings::server_error }
}

fn hello_model() -> TestEnv {
    let call = json!({"command": "echo $((40 + 2))", "description": "for the test"});
    TestEnv::new(
        &CLAUDE,
        Script::new()
            .rule(
                Rule::on_text("PROMPT").answer(
                    Answer::thinking("Hm.")
                        .and_text("Let me see.")
                        .and_tool("Bash", call),
                ),
            )
            .rule(Rule::on_tool_result().answer(Answer::text("It is {tool_result}.").deltas(3))),
    )
}

/// Runs `hello_model` with the given output flags; the last argument is the prompt.
fn run_hello(test_env: &TestEnv, form: &[&str]) -> Output {
    let mut command = ostler(test_env);
    command
        .args(["run", "--agent", "claude", "--program"])
        .arg(real::claude())
        .args(form)
        .arg("PROMPT");
    let output = output(&mut command);
    assert_eq!(test_env.processes(), []);
    output
}

/// `--output text` prints the answer and nothing else. S0-12.
#[test]
fn text_is_only_the_answer() {
    let ran = run_hello(&hello_model(), &["--output", "text"]);
    assert_eq!(
        (ran.status.code(), utf8(&ran.stdout), utf8(&ran.stderr)),
        (Some(0), "It is 42.\n", "")
    );
}

/// `--output json` prints one object with everything a program needs. S4-6.
#[test]
fn json_is_one_object() {
    let test_env = hello_model();
    let ran = run_hello(&test_env, &["--output", "json"]);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), utf8(&ran.stderr)), (Some(0), ""));
    let expected = json!({"agent": "claude", "agent_version": real::pinned("claude").version(), "text": "It is 42.", "structured": null,
        "turns": 1, "tool_calls": 1, "denied": 0, "errors": [], "exit_code": 0, "signal": null});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&report[key], value, "{key} in {report:#}");
    }
    assert_eq!(report["outcome"]["cause"], "completed");
    let usage = ["input", "cache_write", "cache_read", "output"]
        .map(|name| report["usage"][name].as_u64().unwrap());
    assert_eq!(usage, CLAUDE.numbers.sum(&test_env.server.served()));
    assert!(
        report["duration_ms"].as_u64().unwrap() > 0 && report["native_session"].is_string(),
        "{report:#}"
    );
}

/// `--output human`, piped: the answer on stdout, the rest on stderr, and no escape codes anywhere.
#[test]
fn human_in_a_pipe_is_plain() {
    let test_env = hello_model();
    let ran = run_hello(&test_env, &["--output", "human"]);
    let tokens = tokens_shown(CLAUDE.numbers.sum(&test_env.server.served()));
    let (out, err) = (utf8(&ran.stdout), utf8(&ran.stderr));
    assert_eq!(ran.status.code(), Some(0));
    assert_eq!(out, "Let me see.\nIt is 42.\n");
    assert!(
        !out.contains('\u{1b}') && !err.contains('\u{1b}'),
        "{err:?}"
    );
    for part in [
        "Hm.",
        "✓ Bash echo $((40 + 2))",
        "✓ completed",
        &tokens,
        "ostler run --resume",
    ] {
        assert!(err.contains(part), "{part:?} is missing: {err}");
    }
}

/// A failure is explained on stderr with what to do; stdout stays empty. S1-23, S4-7.
#[test]
fn a_failure_says_what_to_do() {
    let error = Answer::error(401, "authentication_error", "invalid x-api-key");
    let ran = run_hello(
        &TestEnv::new(&CLAUDE, Script::new().rule(Rule::any().answer(error))),
        &["--output", "text"],
    );
    assert_eq!((ran.status.code(), utf8(&ran.stdout)), (Some(4), ""));
    let err = utf8(&ran.stderr);
    let last = err
        .lines()
        .find(|line| !line.starts_with("warning: "))
        .unwrap();
    assert!(
        last.starts_with("auth: ") && err.contains("hint: Run `claude auth login`"),
        "{err}"
    );
}

/// A raw log of the agent's output replays to the same events, answer and tokens.
#[test]
fn raw_log_replays_to_the_same_events() {
    let test_env = hello_model();
    let log = test_env.outside("raw.jsonl");
    let parsed = |output: &Output| -> Vec<Value> {
        utf8(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let ran = run_hello(
        &test_env,
        &["--output", "events", "--raw-log", log.to_str().unwrap()],
    );
    let live = Observed {
        subject: &CLAUDE,
        events: parsed(&ran),
        exit: ran.status.code(),
        served: test_env.server.served(),
    };
    let replayed = output(
        ostler(&test_env)
            .args(["replay", "--output", "events"])
            .arg(&log),
    );
    let replayed = Observed {
        subject: &CLAUDE,
        events: parsed(&replayed),
        exit: replayed.status.code(),
        served: test_env.server.served(),
    };
    for seen in [&live, &replayed] {
        seen.check();
        seen.check_understood();
        check_schema(&seen.events);
        seen.assert_ended("completed", 0);
        seen.assert_usage(1..=2);
        assert_eq!(seen.answer(), "It is 42.");
    }
    assert_eq!(live.story(), replayed.story());
    assert_eq!(
        live.one("turn_ended")["usage"],
        replayed.one("turn_ended")["usage"]
    );
    assert_eq!(live.native(), replayed.native());
}

/// Puts the real agent on PATH under its usual name.
fn on_path(test_env: TestEnv) -> TestEnv {
    let bin = test_env.outside("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(real::claude(), bin.join("claude")).unwrap();
    let usual = test_env
        .host()
        .iter()
        .find(|(name, _)| name == "PATH")
        .unwrap()
        .1
        .clone();
    let path = format!("{}:{usual}", bin.display());
    test_env.with_host("PATH", &path)
}

/// Without `--agent`, the installed agent is found by its name on PATH. S0-9.
#[test]
fn the_agent_on_path_is_the_default() {
    let test_env = on_path(hello_model());
    let ran = output(ostler(&test_env).args(["run", "--output", "json", "PROMPT"]));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&report["agent"], &report["text"]),
        (&json!("claude"), &json!("It is 42."))
    );
    assert_eq!((ran.status.code(), utf8(&ran.stderr)), (Some(0), ""));
}

/// The prompt comes from a file in the directory, from stdin, or from the command line plus stdin.
/// S4-10.
#[test]
fn prompts_from_files_and_pipes() {
    let test_env = TestEnv::new(&CLAUDE, Script::always("Read."));
    std::fs::write(test_env.work().join("task.md"), "--from a `file`\n").unwrap();
    let run = |args: &[&str], piped: &str| {
        let mut command = ostler(&test_env);
        command
            .args(["run", "--agent", "claude", "--output", "text", "--program"])
            .arg(real::claude())
            .args(args);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // A run with a prompt file does not read its stdin, and may have exited already.
        let _ = child.stdin.take().unwrap().write_all(piped.as_bytes());
        assert!(child.wait_with_output().unwrap().status.success());
        test_env.server.requests().pop().unwrap().last_user_text()
    };
    assert_eq!(
        run(&["--prompt-file", "task.md"], "").trim_end(),
        "--from a `file`"
    );
    assert_eq!(
        run(&["--stdin", "Read this:"], "from a pipe").trim_end(),
        "Read this:\n\nfrom a pipe"
    );
    assert_eq!(run(&["-"], "- only a pipe").trim_end(), "- only a pipe");
}

/// `doctor` reports the real agent, its version and its login, and what to do if it is not logged
/// in. S4-1…S4-5.
#[test]
fn doctor_reports_readiness() {
    let doctor = |test_env: &TestEnv| {
        let ran = output(ostler(test_env).args(["doctor", "--json"]));
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let claude = report["agents"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["agent"] == "claude")
            .unwrap()
            .clone();
        (ran.status.code(), claude)
    };
    let ready = on_path(TestEnv::new(&CLAUDE, Script::new()));
    let (code, claude) = doctor(&ready);
    assert_eq!(
        (code, &claude["status"], &claude["version"]),
        (
            Some(0),
            &json!("ready"),
            &json!(real::pinned("claude").version())
        ),
        "{claude:#}"
    );
    assert_eq!(
        claude["path"].as_str().map(Path::new),
        Some(ready.outside("bin/claude").as_path())
    );
    assert!(claude["login"].is_string(), "{claude:#}");
    let (code, claude) = doctor(&ready.without_host("ANTHROPIC_API_KEY"));
    assert_eq!(
        (code, &claude["status"]),
        (Some(3), &json!("not_logged_in")),
        "{claude:#}"
    );
    let words = claude.to_string();
    assert!(
        words.contains("claude auth login")
            && words.contains("authentication")
            && words.contains("API key"),
        "{words}"
    );
}

/// Sets up a model that calls Bash with a command that signals when it runs.
fn busy_model(command: &str) -> TestEnv {
    let input = json!({"command": command, "description": "for the test"});
    TestEnv::new(
        &CLAUDE,
        Script::new().rule(Rule::any().answer(Answer::tool("Bash", input))),
    )
}

/// Ctrl-C after the answer, while only a background task is running, interrupts that task too. P35.
#[test]
fn an_interrupt_ends_background_tasks() {
    let input = json!({"command": "echo running > running; sleep 300", "description": "for the test", "run_in_background": true});
    let test_env = TestEnv::new(
        &CLAUDE,
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(Answer::tool("Bash", input)))
            .rule(Rule::on_tool_result().text("It is under way.")),
    );
    let task = Task::new("PROMPT").trusting();
    let mut child = start(&mut run_command(&test_env, &task), &task);
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(lines.any(|line| line.contains("turn_ended")));
    let _ = test_env.wait_for_file("running");
    signal(child.id(), Signal::INT);
    assert!(lines.any(|line| line.contains("\"type\":\"ended\"")));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(test_env.processes(), []);
}

/// The second Ctrl-C kills, without waiting for an unresponsive agent.
#[test]
fn a_second_interrupt_kills() {
    let test_env = TestEnv::new(
        &CLAUDE,
        Script::new().rule(Rule::any().answer(Answer::hang())),
    );
    let mut command = ostler(&test_env);
    // A grace period of one minute: even on a loaded machine a kill is faster.
    command
        .args(["run", "--grace", "60s", "--agent", "claude", "--program"])
        .arg(real::claude())
        .arg("PROMPT");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    test_env.wait_for_calls(1);
    signal(test_env.agent(), Signal::STOP); // now it cannot respond
    signal(child.id(), Signal::INT);
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Ctrl-C again to kill") {
        line.clear();
        assert_ne!(
            err.read_line(&mut line).unwrap(),
            0,
            "the first Ctrl-C had no effect"
        );
    }
    let second = Instant::now();
    signal(child.id(), Signal::INT);
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(
        second.elapsed() < Duration::from_secs(60),
        "it waited for the grace period: {:?}",
        second.elapsed()
    );
    assert_eq!(test_env.processes(), []);
}

/// After SIGKILL to the program, the agent, its shell, and even a command that hid its session,
/// environment and directory are gone within three seconds. P5, P67.
#[test]
fn sigkill_leaves_no_process() {
    // Only its name shows where the hidden command came from, and the name is not used to find it.
    let hide = "(name=$PWD/hidden; cd /; setsid env -i $(command -v bash) -c \"exec -a $name sleep 300\" > /dev/null 2>&1 &)";
    let test_env = busy_model(&format!("{hide}; echo running > running; sleep 300"));
    let task = Task::new("PROMPT").trusting();
    let mut child = start(&mut run_command(&test_env, &task), &task);
    let _ = test_env.wait_for_file("running");
    let name = test_env.work().join("hidden").display().to_string();
    let hidden = || {
        test_env
            .processes()
            .into_iter()
            .find(|(_, command)| command.starts_with(&name))
    };
    assert!(
        wait_until(PATIENCE, || hidden().is_some()),
        "the hidden command never ran"
    );
    let (pid, _) = hidden().unwrap();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(
        !utf8(&environment).contains("OSTLER"),
        "it dropped the mark"
    );
    assert!(
        test_env.processes().len() >= 4,
        "program, agent, shell and hidden process: {:?}",
        test_env.processes()
    );
    let all = descendants(child.id()); // with the guard and its server
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    test_env.wait_until_empty(Duration::from_secs(3));
    assert!(wait_until(PATIENCE, || !all.iter().any(|pid| alive(*pid))));
}

/// The agent is killed while it runs a command in another session: the command is found and killed.
/// P2, P4.
#[test]
fn commands_of_a_killed_agent_are_killed() {
    let test_env =
        busy_model("setsid sleep 300 > /dev/null 2>&1 & echo running > running; sleep 300");
    let seen = scenario::run_with(
        &Program(&CLAUDE),
        &test_env,
        &Task::new("PROMPT").trusting(),
        &|_| {
            let _ = test_env.wait_for_file("running");
            signal(test_env.agent(), Signal::KILL);
        },
    );
    seen.assert_ended("agent_died", 1);
}

/// If the reader goes away (`ostler run … | head -1`), the agent is stopped without an error.
#[test]
fn closed_reader_ends_the_run() {
    let test_env = busy_model("echo running > running; sleep 300");
    let task = Task::new("PROMPT").trusting();
    let mut child = start(&mut run_command(&test_env, &task), &task);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    // The agent prints nothing more, so that no write tells that the reader is gone.
    let _ = test_env.wait_for_file("running");
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(test_env.processes(), []);
}
