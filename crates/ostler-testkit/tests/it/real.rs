//! The real Claude Code against the model server: Claude understands the server's responses.

mod gemini;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use ostler_testkit::model::{Answer, ModelServer, Rule, Script};
use ostler_testkit::real;
use ostler_testkit::scenario::CLAUDE;
use serde_json::{Value, json};

/// The lines and the exit code of one Claude run.
struct Run {
    lines: Vec<Value>,
    code: Option<i32>,
}

impl Run {
    fn result(&self) -> &Value {
        self.lines
            .iter()
            .rfind(|line| line["type"] == "result")
            .unwrap()
    }
}

fn start(server: &ModelServer, args: &[&str]) -> (std::process::Child, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(real::claude());
    command
        .args(["-p", "--output-format", "stream-json", "--verbose"])
        .args(args);
    command
        .env_clear()
        .envs(CLAUDE.host(home.path(), &server.base_url()));
    command
        .current_dir(home.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"PROMPT").unwrap();
    (child, home)
}

fn run(rules: Script, args: &[&str]) -> (Run, ModelServer) {
    let server = ModelServer::start(rules);
    let (child, _home) = start(&server, args);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (
        Run {
            lines,
            code: output.status.code(),
        },
        server,
    )
}

fn only(answer: Answer) -> Script {
    Script::new().rule(Rule::on_text("PROMPT").answer(answer))
}

#[test]
fn text_and_thinking() {
    let answer = Answer::thinking("Hm.")
        .deltas(2)
        .and_text("Hello.")
        .deltas(3);
    let (run, server) = run(only(answer), &["--include-partial-messages"]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.result()["result"], "Hello.");
    assert_eq!(run.result()["usage"]["output_tokens"], 25);
    let deltas = run
        .lines
        .iter()
        .filter(|l| l["event"]["delta"]["type"] == "thinking_delta");
    assert_eq!(deltas.count(), 2);
    // No side requests: Claude makes only this one.
    assert_eq!(server.all_requests().len(), 1);
}

#[test]
fn a_tool_runs_or_is_denied() {
    let script = || {
        only(Answer::tool(
            "Bash",
            json!({"command": "echo $((40+2)) > out && cat out", "description": "x"}),
        ))
        .rule(Rule::on_tool_result().text("Done: {tool_result}"))
    };
    let (allowed, server) = run(script(), &["--permission-mode", "bypassPermissions"]);
    assert_eq!(allowed.result()["result"], "Done: 42");
    assert_eq!(server.requests()[1].last_tool_results()[0].text, "42");
    let (denied, server) = run(script(), &["--permission-prompts", "none"]);
    assert_eq!(
        denied.result()["permission_denials"][0]["tool_name"],
        "Bash"
    );
    assert!(server.requests()[1].last_tool_results()[0].is_error);
}

#[test]
fn errors_of_the_provider() {
    for (status, kind) in [
        (401, "authentication_error"),
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
    ] {
        let answer = Answer::error(status, kind, "no").header("retry-after", "0");
        let (run, server) = run(only(answer), &[]);
        assert_eq!(
            (run.code, &run.result()["api_error_status"]),
            (Some(1), &json!(status))
        );
        assert_eq!(server.requests().len(), 2, "one try and one retry");
    }
}

#[test]
fn a_cut_stream_is_asked_for_again_and_then_as_a_whole() {
    let (run, server) = run(
        only(Answer::text("never whole").deltas(4).cut_after(2)),
        &[],
    );
    assert_eq!(run.code, Some(1));
    assert_eq!(run.result()["is_error"], true);
    let streams: Vec<bool> = server
        .requests()
        .iter()
        .map(|request| request.wants_stream())
        .collect();
    assert_eq!(streams[..3], [true, true, false]);
}

#[test]
fn a_hang_hangs() {
    for answer in [Answer::hang(), Answer::text("abc").deltas(3).hang_after(1)] {
        let server = ModelServer::start(only(answer));
        let (mut child, _home) = start(&server, &[]);
        assert!(server.wait_for_requests(1, Duration::from_secs(20)));
        std::thread::sleep(Duration::from_secs(1));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
