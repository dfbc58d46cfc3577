//! The program with the real Claude Code, against the scripted model on loopback.

mod acp;
mod conformance;
mod display;
mod looping;
mod sandbox;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::every_scenario;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::processes::wait_until;
use ostler_testkit::real;
use ostler_testkit::scenario::{self, CLAUDE, PATIENCE, Place, Seen, Signal, Task, signal};
use serde_json::{Value, json};

use crate::driver::{Program, ostler, output, run_command, start, utf8, valid};
use crate::rig::tokens_shown;

every_scenario!(Program(&CLAUDE));

/// Codex, where its library tests leave something out.
mod codex {
    use ostler_testkit::scenario::CODEX;
    use ostler_testkit::tests_of_scenarios;

    use crate::driver::Program;

    tests_of_scenarios! { Program(&CODEX); endings::server_error }
}

fn hello() -> Place {
    let call = json!({"command": "echo $((40 + 2))", "description": "for the test"});
    Place::new(
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

/// A run of `hello` in some form; the last argument is the prompt.
fn shown(place: &Place, form: &[&str]) -> Output {
    let mut command = ostler(place);
    command
        .args(["run", "--agent", "claude", "--program"])
        .arg(real::claude())
        .args(form)
        .arg("PROMPT");
    let output = output(&mut command);
    assert_eq!(place.left(), []);
    output
}

/// `--output text` is the answer and nothing else. S0-12.
#[test]
fn text_is_only_the_answer() {
    let ran = shown(&hello(), &["--output", "text"]);
    assert_eq!(
        (ran.status.code(), utf8(&ran.stdout), utf8(&ran.stderr)),
        (Some(0), "It is 42.\n", "")
    );
}

/// `--output json` is one object with everything that a program wants to know. S4-6.
#[test]
fn json_is_one_object() {
    let place = hello();
    let ran = shown(&place, &["--output", "json"]);
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), utf8(&ran.stderr)), (Some(0), ""));
    let expected = json!({"agent": "claude", "agent_version": real::CLAUDE_VERSION, "text": "It is 42.", "structured": null,
        "turns": 1, "tool_calls": 1, "denied": 0, "errors": [], "exit_code": 0, "signal": null});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&report[key], value, "{key} in {report:#}");
    }
    assert_eq!(report["outcome"]["cause"], "completed");
    let usage = ["input", "cache_write", "cache_read", "output"]
        .map(|name| report["usage"][name].as_u64().unwrap());
    assert_eq!(usage, CLAUDE.numbers.sum(&place.server.served()));
    assert!(
        report["duration_ms"].as_u64().unwrap() > 0 && report["native_session"].is_string(),
        "{report:#}"
    );
}

/// `--output human`, piped: the answer on stdout, the rest on stderr, and no escape codes anywhere.
#[test]
fn human_in_a_pipe_is_plain() {
    let place = hello();
    let ran = shown(&place, &["--output", "human"]);
    let tokens = tokens_shown(CLAUDE.numbers.sum(&place.server.served()));
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

/// A failure in words: why, and what to do, on stderr; nothing on stdout. S1-23, S4-7.
#[test]
fn a_failure_says_what_to_do() {
    let error = Answer::error(401, "authentication_error", "invalid x-api-key");
    let ran = shown(
        &Place::new(&CLAUDE, Script::new().rule(Rule::any().answer(error))),
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

/// What the agent printed, kept and replayed, tells the same story with the same answer and the same tokens.
#[test]
fn a_raw_log_replays_to_the_same_story() {
    let place = hello();
    let log = place.aside("raw.jsonl");
    let parsed = |output: &Output| -> Vec<Value> {
        utf8(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let ran = shown(
        &place,
        &["--output", "events", "--raw-log", log.to_str().unwrap()],
    );
    let lived = Seen {
        subject: &CLAUDE,
        events: parsed(&ran),
        exit: ran.status.code(),
        served: place.server.served(),
    };
    let replayed = output(
        ostler(&place)
            .args(["replay", "--output", "events"])
            .arg(&log),
    );
    let told = Seen {
        subject: &CLAUDE,
        events: parsed(&replayed),
        exit: replayed.status.code(),
        served: place.server.served(),
    };
    for seen in [&lived, &told] {
        seen.check();
        seen.check_understood();
        valid(&seen.events);
        seen.ended_with("completed", 0);
        seen.used(1..=2);
        assert_eq!(seen.answer(), "It is 42.");
    }
    assert_eq!(lived.story(), told.story());
    assert_eq!(
        lived.one("turn_ended")["usage"],
        told.one("turn_ended")["usage"]
    );
    assert_eq!(lived.native(), told.native());
}

/// A directory for PATH with the real agent in it under its usual name.
fn on_path(place: Place) -> Place {
    let bin = place.aside("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(real::claude(), bin.join("claude")).unwrap();
    let usual = place
        .host()
        .iter()
        .find(|(name, _)| name == "PATH")
        .unwrap()
        .1
        .clone();
    let path = format!("{}:{usual}", bin.display());
    place.with_host("PATH", &path)
}

/// Without `--agent`, the one that is installed is used, found by its name on PATH. S0-9.
#[test]
fn the_agent_on_path_is_the_default() {
    let place = on_path(hello());
    let ran = output(ostler(&place).args(["run", "--output", "json", "PROMPT"]));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&report["agent"], &report["text"]),
        (&json!("claude"), &json!("It is 42."))
    );
    assert_eq!((ran.status.code(), utf8(&ran.stderr)), (Some(0), ""));
}

/// The prompt can come from a file in the directory, from stdin, or from both the command line and stdin. S4-10.
#[test]
fn prompts_from_files_and_pipes() {
    let place = Place::new(&CLAUDE, Script::always("Read."));
    std::fs::write(place.work().join("task.md"), "--from a `file`\n").unwrap();
    let run = |args: &[&str], piped: &str| {
        let mut command = ostler(&place);
        command
            .args(["run", "--agent", "claude", "--output", "text", "--program"])
            .arg(real::claude())
            .args(args);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // A run that takes its prompt from a file does not read this, and may be gone.
        let _ = child.stdin.take().unwrap().write_all(piped.as_bytes());
        assert!(child.wait_with_output().unwrap().status.success());
        place.server.requests().pop().unwrap().last_user_text()
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

/// `doctor` finds the real agent, its version and its login, and says what to do when nobody is logged in. S4-1…S4-5.
#[test]
fn doctor_knows_whether_it_is_ready() {
    let doctor = |place: &Place| {
        let ran = output(ostler(place).args(["doctor", "--json"]));
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
    let ready = on_path(Place::new(&CLAUDE, Script::new()));
    let (code, claude) = doctor(&ready);
    assert_eq!(
        (code, &claude["status"], &claude["version"]),
        (Some(0), &json!("ready"), &json!(real::CLAUDE_VERSION)),
        "{claude:#}"
    );
    assert_eq!(
        claude["path"].as_str().map(Path::new),
        Some(ready.aside("bin/claude").as_path())
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

/// The model calls Bash, and the command says when it runs.
fn busy(command: &str) -> Place {
    let input = json!({"command": command, "description": "for the test"});
    Place::new(
        &CLAUDE,
        Script::new().rule(Rule::any().answer(Answer::tool("Bash", input))),
    )
}

/// Ctrl-C when the answer is there and only a task in the background goes on: that is interrupted too. P35.
#[test]
fn an_interrupt_ends_background_tasks() {
    let input = json!({"command": "echo running > running; sleep 300", "description": "for the test", "run_in_background": true});
    let place = Place::new(
        &CLAUDE,
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(Answer::tool("Bash", input)))
            .rule(Rule::on_tool_result().text("It is under way.")),
    );
    let task = Task::new("PROMPT").trusting();
    let mut child = start(&mut run_command(&place, &task), &task);
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert!(lines.any(|line| line.contains("turn_ended")));
    let _ = place.wait_for_file("running");
    signal(child.id(), Signal::INT);
    assert!(lines.any(|line| line.contains("\"type\":\"ended\"")));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.left(), []);
}

/// The second Ctrl-C kills, without waiting for an agent that does not react.
#[test]
fn a_second_interrupt_kills() {
    let place = Place::new(
        &CLAUDE,
        Script::new().rule(Rule::any().answer(Answer::hang())),
    );
    let mut command = ostler(&place);
    // A minute of grace: no loaded machine takes so long for a kill.
    command
        .args(["run", "--grace", "60s", "--agent", "claude", "--program"])
        .arg(real::claude())
        .arg("PROMPT");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    place.wait_for_calls(1);
    signal(place.agent(), Signal::STOP); // now it cannot react
    signal(child.id(), Signal::INT);
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Ctrl-C again kills") {
        line.clear();
        assert_ne!(
            err.read_line(&mut line).unwrap(),
            0,
            "the first Ctrl-C went unheard"
        );
    }
    let second = Instant::now();
    signal(child.id(), Signal::INT);
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(
        second.elapsed() < Duration::from_secs(60),
        "it waited for the grace: {:?}",
        second.elapsed()
    );
    assert_eq!(place.left(), []);
}

/// The program is killed outright: the agent, its shell, and even a command that hid from session, environment and directory
/// are gone three seconds later. P5, P67.
#[test]
fn killed_outright_it_leaves_nothing() {
    // All that shows where the hidden one came from is its name, and that is not what it is found by.
    let hide = "(name=$PWD/hidden; cd /; setsid env -i $(command -v bash) -c \"exec -a $name sleep 300\" > /dev/null 2>&1 &)";
    let place = busy(&format!("{hide}; echo running > running; sleep 300"));
    let task = Task::new("PROMPT").trusting();
    let mut child = start(&mut run_command(&place, &task), &task);
    let _ = place.wait_for_file("running");
    let name = place.work().join("hidden").display().to_string();
    let hidden = || {
        place
            .left()
            .into_iter()
            .find(|(_, command)| command.starts_with(&name))
    };
    assert!(
        wait_until(PATIENCE, || hidden().is_some()),
        "the hidden command never ran"
    );
    let (pid, _) = hidden().unwrap();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!utf8(&environment).contains("OSTLER"), "it lost the mark");
    assert!(
        place.left().len() >= 5,
        "the program, the guard, the agent, its shell, and that: {:?}",
        place.left()
    );
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    place.wait_until_empty(Duration::from_secs(3));
}

/// The agent is killed while it runs a command that left its session: the command is found and ended. P2, P4.
#[test]
fn an_agent_that_is_killed_takes_its_commands_along() {
    let place = busy("setsid sleep 300 > /dev/null 2>&1 & echo running > running; sleep 300");
    let seen = scenario::run_with(
        &Program(&CLAUDE),
        &place,
        &Task::new("PROMPT").trusting(),
        &|_| {
            let _ = place.wait_for_file("running");
            signal(place.agent(), Signal::KILL);
        },
    );
    seen.ended_with("agent_died", 1);
}

/// Nobody reads any more (`ostler run … | head -1`): the agent is ended, and that is no error.
#[test]
fn a_reader_that_leaves_ends_the_run() {
    let place = busy("echo running > running; sleep 300");
    let task = Task::new("PROMPT").trusting();
    let mut child = start(&mut run_command(&place, &task), &task);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(place.left(), []);
}
