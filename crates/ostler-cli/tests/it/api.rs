//! Ostler's own agent over a model API, against the scripted model on loopback.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::scenario::{KEY, OPENAI_API, Observed, Signal, Task, TestEnv, signal};
use ostler_testkit::{api_scenarios, shared_scenarios};
use serde_json::{Value, json};

use crate::driver::{Program, check_schema, ostler, output, run_command, start, utf8};
use crate::rig::tokens_shown;

shared_scenarios!(Program(&OPENAI_API));
api_scenarios!(Program(&OPENAI_API));

/// Sets up a model that thinks, writes text, reads a file, and reports its content.
fn hello_model() -> TestEnv {
    let first = Answer::thinking("Hm.")
        .and_text("Let me see.")
        .and_tool("read_file", json!({"path": "answer.txt"}));
    let test_env = TestEnv::new(
        &OPENAI_API,
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(first))
            .rule(Rule::on_tool_result().answer(Answer::text("It is 42.").deltas(3))),
    );
    fs::write(test_env.work().join("answer.txt"), "42\n").unwrap();
    test_env
}

/// Runs `hello_model` with the given output flags; the last argument is the prompt.
fn run_hello(test_env: &TestEnv, form: &[&str]) -> Output {
    let ran = output(
        ostler(test_env)
            .args(["run", "--agent", "openai-api"])
            .args(form)
            .arg("PROMPT"),
    );
    assert_eq!(test_env.processes(), []);
    ran
}

fn parse_events(output: &Output) -> Vec<Value> {
    utf8(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the result of the model's single tool call, in a fresh project without a policy.
fn call_result(tool: &str, input: Value, files: &[(&str, &str)]) -> Value {
    let test_env = TestEnv::new(
        &OPENAI_API,
        Script::new()
            .rule(Rule::on_text("PROMPT").answer(Answer::text("I will.").and_tool(tool, input)))
            .rule(Rule::on_tool_result().answer(Answer::text("Done."))),
    );
    let home = test_env
        .host()
        .iter()
        .find(|(name, _)| name == "HOME")
        .unwrap()
        .1
        .clone();
    fs::remove_dir_all(std::path::Path::new(&home).join(".config/ostler")).unwrap();
    for (name, text) in files {
        fs::write(test_env.work().join(name), text).unwrap();
    }
    let ran = run_hello(&test_env, &["--output", "events"]);
    parse_events(&ran)
        .into_iter()
        .find(|event| event["type"] == "tool_result")
        .unwrap()
}

/// Common build tools need no policy file.
#[test]
fn a_fresh_project_is_built_without_a_policy() {
    let makefile = ("Makefile", "test:\n\t@echo the tests pass\n");
    let result = call_result(
        "run_command",
        json!({"command": "make", "args": ["test"]}),
        &[makefile],
    );
    assert_eq!(result["output"], "exit code 0\nthe tests pass", "{result}");
    let result = call_result(
        "run_command",
        json!({"command": "make", "args": ["test"]}),
        &[],
    );
    assert!(
        result["output"]
            .as_str()
            .unwrap()
            .starts_with("denied_by_policy"),
        "there is no Makefile: {result}"
    );
}

/// In an unattended run, files that other programs act on are not written.
#[test]
fn unattended_run_does_not_write_files_other_programs_act_on() {
    let result = call_result(
        "write_file",
        json!({"path": "AGENTS.md", "content": "x"}),
        &[],
    );
    let output = result["output"].as_str().unwrap();
    assert!(
        result["ok"] == false && output.contains("AGENTS.md") && output.contains("allow"),
        "{result}"
    );
    let result = call_result(
        "write_file",
        json!({"path": "notes.md", "content": "x"}),
        &[],
    );
    assert_eq!(result["ok"], true, "{result}");
}

/// `--output text` prints the answer and nothing else.
#[test]
fn text_is_only_the_answer() {
    let ran = run_hello(&hello_model(), &["--output", "text"]);
    assert_eq!(
        (ran.status.code(), utf8(&ran.stdout), utf8(&ran.stderr)),
        (Some(0), "It is 42.\n", "")
    );
}

/// `--output json` prints one object with everything a program needs.
#[test]
fn json_is_one_object() {
    let test_env = hello_model();
    let ran = run_hello(
        &test_env,
        &["--output", "json", "--set", "price=2.5/1.25/10"],
    );
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((ran.status.code(), utf8(&ran.stderr)), (Some(0), ""));
    let expected = json!({"agent": "openai-api", "text": "It is 42.", "structured": null,
        "turns": 1, "tool_calls": 1, "denied": 0, "errors": [], "exit_code": 0, "signal": null});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&report[key], value, "{key} in {report:#}");
    }
    let usage =
        ["input", "cache_read", "output"].map(|name| report["usage"][name].as_u64().unwrap());
    let [input, _, cached, output] = OPENAI_API.numbers.sum(&test_env.server.served());
    assert_eq!(
        (usage, &report["usage"]["cost_source"]),
        ([input, cached, output], &json!("estimated"))
    );
    let cost = (input as f64 * 2.5 + cached as f64 * 1.25 + output as f64 * 10.0) / 1e6;
    assert!(
        (report["usage"]["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-12,
        "{report:#}"
    );
}

/// `--output human`, piped: the answer on stdout, the rest on stderr, and no escape codes anywhere.
#[test]
fn human_in_a_pipe_is_plain() {
    let test_env = hello_model();
    let ran = run_hello(&test_env, &["--output", "human"]);
    let tokens = tokens_shown(OPENAI_API.numbers.sum(&test_env.server.served()));
    let (out, err) = (utf8(&ran.stdout), utf8(&ran.stderr));
    assert_eq!(
        (ran.status.code(), out),
        (Some(0), "Let me see.\nIt is 42.\n"),
        "{err}"
    );
    assert!(
        !out.contains('\u{1b}') && !err.contains('\u{1b}'),
        "{err:?}"
    );
    for part in ["Hm.", "✓ read_file answer.txt", "✓ completed", &tokens] {
        assert!(err.contains(part), "{part:?} is missing: {err}");
    }
}

/// A failure is explained on stderr with what to do; stdout stays empty.
#[test]
fn a_failure_says_what_to_do() {
    let error = Answer::error(401, "invalid_request_error", "Incorrect API key provided.")
        .code("invalid_api_key");
    let ran = run_hello(
        &TestEnv::new(&OPENAI_API, Script::new().rule(Rule::any().answer(error))),
        &["--output", "text"],
    );
    assert_eq!((ran.status.code(), utf8(&ran.stdout)), (Some(4), ""));
    let err = utf8(&ran.stderr);
    assert!(
        err.starts_with("auth: ") && err.contains("hint: Set OPENAI_API_KEY"),
        "{err}"
    );
}

/// Invalid settings are reported before anything is sent.
#[test]
fn wrong_settings_are_refused() {
    let test_env = hello_model();
    for (setting, part) in [
        ("api_key_env=NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE"),
        ("base_url=localhost:8080", "http://"),
        ("base_url=http://user:secret@localhost/v1", "OPENAI_API_KEY"),
        ("header=no colon", "Name: value"),
        ("price=cheap", "2.5/1.25/10"),
        ("temperature=hot", "0 to 2"),
        ("retries=many", "retries"),
        ("extra_body=[1]", "extra_body"),
        ("json_schema={\"type\":12}", "json_schema"),
        ("permission_mode=plan", "permission_mode"),
    ] {
        let ran = run_hello(&test_env, &["--set", setting]);
        let err = utf8(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{setting}: {err}");
        assert!(err.contains(part), "{setting}: {err}");
    }
    assert!(test_env.server.all_requests().is_empty());
}

/// A raw log of the model's output replays to the same events, answer and tokens.
#[test]
fn raw_log_replays_to_the_same_events() {
    let test_env = hello_model();
    let log = test_env.outside("raw.jsonl");
    let ran = run_hello(
        &test_env,
        &["--output", "events", "--raw-log", log.to_str().unwrap()],
    );
    let live = Observed {
        subject: &OPENAI_API,
        events: parse_events(&ran),
        exit: ran.status.code(),
        served: test_env.server.served(),
    };
    let replayed = output(
        ostler(&test_env)
            .args(["replay", "--agent", "openai-api", "--output", "events"])
            .arg(&log),
    );
    let replayed = Observed {
        subject: &OPENAI_API,
        events: parse_events(&replayed),
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
}

/// The key never appears in any output, log, argument or child environment.
#[test]
fn key_is_never_exposed() {
    let look = OPENAI_API
        .shell("cat /proc/[0-9]*/cmdline | tr '\\0' ' ' > cmdlines; env > environment; echo seen");
    let script = Script::new()
        .rule(Rule::on_text("PROMPT").once().answer(look))
        .rule(Rule::on_tool_result().answer(Answer::error(401, "invalid_request_error", "no")));
    let test_env = TestEnv::new(&OPENAI_API, script);
    let log = test_env.outside("raw.jsonl");
    let header = "header=X-Router-Key: sk-of-the-router";
    for form in ["events", "human", "json"] {
        let ran = run_hello(
            &test_env,
            &[
                "--output",
                form,
                "--raw-log",
                log.to_str().unwrap(),
                "--set",
                header,
            ],
        );
        let raw = fs::read(&log).unwrap();
        for text in [utf8(&ran.stdout), utf8(&ran.stderr), utf8(&raw)] {
            assert!(
                !text.contains(KEY) && !text.contains("sk-of-the-router"),
                "{form}: {text}"
            );
        }
        fs::remove_file(&log).unwrap();
    }
    for name in ["cmdlines", "environment"] {
        let text = fs::read_to_string(test_env.work().join(name)).unwrap_or_default();
        assert!(!text.contains(KEY), "{name}: {text}");
    }
}

/// `doctor` detects whether a key and a server are available, and asks the server for its models.
#[test]
fn doctor_reports_readiness() {
    let doctor = |test_env: &TestEnv| {
        let ran = output(ostler(test_env).args(["doctor", "--json"]));
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        report["agents"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["agent"] == "openai-api")
            .unwrap()
            .clone()
    };
    let test_env = TestEnv::new(&OPENAI_API, Script::new().model("scripted-large"));
    let ready = doctor(&test_env);
    assert_eq!(ready["status"], "ready", "{ready:#}");
    assert!(
        test_env
            .server
            .all_requests()
            .iter()
            .any(|request| request.path == "/v1/models")
    );
    let away = doctor(
        &test_env
            .without_host("OPENAI_API_KEY")
            .without_host("OPENAI_BASE_URL"),
    );
    assert_ne!(away["status"], "ready", "{away:#}");
    assert!(away.to_string().contains("OPENAI_API_KEY"), "{away:#}");
}

/// If no other agent is installed and a key is set, the program uses it by default.
#[test]
fn api_is_the_default_when_a_key_is_set() {
    let ran = output(ostler(&hello_model()).args(["run", "--output", "json", "PROMPT"]));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(
        (&report["agent"], &report["text"]),
        (&json!("openai-api"), &json!("It is 42.")),
        "{report:#}"
    );
}

/// The second Ctrl-C kills, without waiting for an unresponsive command.
#[test]
fn a_second_interrupt_kills() {
    let stubborn =
        OPENAI_API.shell("trap '' INT TERM; echo running > running; while :; do sleep 300; done");
    let test_env = TestEnv::new(
        &OPENAI_API,
        Script::new().rule(Rule::any().answer(stubborn)),
    );
    let mut command = ostler(&test_env);
    command
        .args(["run", "--grace", "60s", "--agent", "openai-api", "PROMPT"])
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let _ = test_env.wait_for_file("running");
    let began = Instant::now();
    signal(child.id(), Signal::INT);
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // The run may end before a second interrupt is needed.
    while !line.contains("Ctrl-C again to kill") {
        line.clear();
        if err.read_line(&mut line).unwrap() == 0 {
            break;
        }
    }
    if child.try_wait().unwrap().is_none() {
        signal(child.id(), Signal::INT);
    }
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "it waited for the grace period: {:?}",
        began.elapsed()
    );
    assert_eq!(test_env.processes(), []);
}

/// After SIGKILL to the program, even a hidden command is gone within three seconds. P5, P67.
#[test]
fn sigkill_leaves_no_process() {
    let hide = "(setsid sleep 300 > /dev/null 2>&1 &)";
    let busy = OPENAI_API.shell(&format!("{hide}; echo running > running; sleep 300"));
    let test_env = TestEnv::new(&OPENAI_API, Script::new().rule(Rule::any().answer(busy)));
    let task = Task::new("PROMPT");
    let mut child = start(&mut run_command(&test_env, &task), &task);
    let _ = test_env.wait_for_file("running");
    assert!(
        test_env.processes().len() >= 3,
        "program, shell and hidden process: {:?}",
        test_env.processes()
    );
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    test_env.wait_until_empty(Duration::from_secs(3));
}

/// If the reader goes away (`ostler run … | head -1`), the run ends without an error.
#[test]
fn closed_reader_ends_the_run() {
    let busy = OPENAI_API.shell("echo running > running; sleep 300");
    let test_env = TestEnv::new(&OPENAI_API, Script::new().rule(Rule::any().answer(busy)));
    let task = Task::new("PROMPT");
    let mut child = start(&mut run_command(&test_env, &task), &task);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    // The agent prints nothing more, so that no write tells that the reader is gone.
    let _ = test_env.wait_for_file("running");
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(test_env.processes(), []);
}
