//! The log: what it shows, where it goes, and what it never contains.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::pty::Pty;
use ostler_testkit::scenario::{KEY, OPENAI_API, TestEnv};
use serde_json::json;

use crate::driver;
use crate::rig::{Rig, finish};

/// A turn of the fake agent with a tool call.
const TURN: &str = "pid-file agent\nread-user\ninit\n\
    tool-use t1 Bash {\"command\":\"tool-input\"}\ntool-result t1 tool-output\n\
    text the-answer\nresult the-answer";

/// Returns the lines of the log that contain all of these texts.
fn lines<'a>(log: &'a str, texts: &[&str]) -> Vec<&'a str> {
    let has_all = |line: &&str| texts.iter().all(|text| line.contains(text));
    log.lines().filter(has_all).collect()
}

#[test]
fn log_shows_process_and_turn_on_stderr() {
    let rig = Rig::new();
    let args = ["--log", "debug", "--output", "events", "hello"];
    let done = finish(&mut rig.fake_run(TURN, &args));
    let events = done.events(); // every line on stdout is an event
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let session = &events[0]["session"].as_str().unwrap()[..8];
    let session = format!(" session={session} agent=claude");
    let pid = format!(" pid={}", rig.number("agent"));
    for (message, fields) in [
        ("INFO  session: session started", vec![]),
        (
            "DEBUG process: process spawned",
            vec![&*pid, " program=", " args="],
        ),
        (
            "INFO  session: turn started origin=caller",
            vec![&*pid, " turn=1"],
        ),
        ("DEBUG session: tool called tool=Bash", vec![" turn=1"]),
        ("DEBUG session: tool finished tool=Bash", vec![" ok=true"]),
        (
            "INFO  session: turn ended cause=completed ms=",
            vec![&*pid, " turn=1"],
        ),
        ("DEBUG process: process exited", vec![&*pid, " code=0"]),
        (
            "INFO  session: session ended cause=completed exit_code=0",
            vec![],
        ),
    ] {
        let found = lines(&done.stderr, &[&fields[..], &[message, &session]].concat());
        assert_eq!(found.len(), 1, "{message} {fields:?} in:\n{}", done.stderr);
    }
    let phases = lines(&done.stderr, &["state changed", " phase=", &session]);
    assert!(phases.len() > 2, "{}", done.stderr);
    assert!(
        !done.stderr.contains('\u{1b}'),
        "no colours without a terminal"
    );
}

/// Neither prompts, answers, tool inputs and outputs nor variables are in the log, except at the
/// level `trace`.
#[test]
fn log_contains_no_secret_and_no_prompt() {
    const SECRETS: [&str; 7] = [
        "the-prompt",
        "the-system-prompt",
        "variable-value",
        "sk-ant-key",
        "tool-input",
        "tool-output",
        "the-answer",
    ];
    let run = |level: &str| {
        let rig = Rig::new();
        let args = [
            "--log-file",
            "ostler.log",
            "--env",
            "TOKEN=variable-value",
            "--append-system-prompt",
            "the-system-prompt",
            "--set",
            r#"settings={"apiKeyHelper":"sk-ant-key"}"#,
            "the-prompt",
        ];
        let done = finish(
            rig.fake_run(TURN, &args)
                .env("ANTHROPIC_API_KEY", "sk-ant-key")
                .env("OSTLER_LOG", level),
        );
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(!done.stderr.contains("session started"), "{}", done.stderr);
        fs::read_to_string(rig.path("ostler.log")).unwrap()
    };
    let log = run("debug");
    assert_eq!(
        lines(&log, &["turn ended cause=completed"]).len(),
        1,
        "{log}"
    );
    let shown: Vec<_> = SECRETS.iter().filter(|it| log.contains(**it)).collect();
    assert!(shown.is_empty(), "{shown:?} in:\n{log}");
    let log = run("trace");
    for line in [
        &["sent to agent", "the-prompt"],
        &["line from agent", "the-answer"],
    ] {
        assert!(!lines(&log, line).is_empty(), "{line:?} in:\n{log}");
    }
    for never in ["variable-value", "sk-ant-key"] {
        assert!(!log.contains(never), "{never} in:\n{log}");
    }
}

/// A retried model call is logged with its status and delay, but without the key.
#[test]
fn retry_of_a_model_call_is_logged() {
    let overloaded = format!("overloaded, said {KEY}");
    let call = Answer::text("I will.").and_tool("read_file", json!({"path": "tool-input"}));
    let test_env = TestEnv::new(
        &OPENAI_API,
        Script::new()
            .rule(Rule::on_call(1).answer(Answer::error(503, "overloaded_error", overloaded)))
            .rule(Rule::on_tool_result().answer(Answer::text("the-answer")))
            .rule(Rule::on_text("the-prompt").answer(call)),
    );
    let ran = driver::output(
        driver::ostler(&test_env)
            .args(["run", "--agent", "openai-api", "--log-file", "ostler.log"])
            .arg("the-prompt"),
    );
    assert_eq!(ran.status.code(), Some(0));
    let log = fs::read_to_string(test_env.work().join("ostler.log")).unwrap();
    let retry = [
        "WARN  api: model call failed, retrying",
        " status=503",
        " delay_ms=",
        " session=",
    ];
    assert_eq!(lines(&log, &retry).len(), 1, "{log}");
    assert!(
        !lines(&log, &["tool called tool=read_file"]).is_empty(),
        "{log}"
    );
    for secret in [KEY, "the-prompt", "tool-input", "the-answer", "overloaded,"] {
        assert!(!log.contains(secret), "{secret} in:\n{log}");
    }
}

/// A permission decision is logged with its tool and rule, but without the tool's input.
#[test]
fn permission_is_logged_with_its_rule() {
    let rig = Rig::new();
    let policy = "[[rule]]\ntool = \"Bash\"\ndo = \"deny\"\n";
    rig.file("policy.toml", policy);
    let script = "read-user\ninit\ntool-use t1 Bash {\"command\":\"tool-input\"}\n\
                  control-request p1 Bash {\"command\":\"tool-input\"}\nwait-control\n\
                  result the-answer";
    let args = [
        "--log-file",
        "ostler.log",
        "--policy",
        "policy.toml",
        "the-prompt",
    ];
    let done = finish(&mut rig.fake_run(script, &args));
    let log = fs::read_to_string(rig.path("ostler.log")).unwrap();
    let decided = [
        "INFO  session: permission tool=Bash",
        " decision=denied by=rule rule=",
        "policy.toml",
    ];
    assert_eq!(lines(&log, &decided).len(), 1, "{log}\n{}", done.stderr);
    assert!(!log.contains("tool-input"), "{log}");
}

#[test]
fn unknown_level_is_a_usage_error() {
    let rig = Rig::new();
    let levels = "off, error, warn, info, debug or trace";
    let flag = finish(&mut rig.ostler(&["--log", "loud", "version"]));
    let variable = finish(rig.ostler(&["version"]).env("OSTLER_LOG", "loud"));
    for (done, name) in [(flag, "--log"), (variable, "OSTLER_LOG")] {
        assert_eq!((done.code, &*done.stdout), (Some(2), ""), "{name}");
        for text in [name, "loud", levels] {
            assert!(done.stderr.contains(text), "{text} in: {}", done.stderr);
        }
    }
}

fn mode(file: &Path) -> u32 {
    fs::metadata(file).unwrap().permissions().mode() & 0o777
}

/// The file is for its owner only, even if it existed before, and grows with each run.
#[test]
fn log_file_is_private_and_appended() {
    let rig = Rig::new();
    let file = rig.path("ostler.log");
    let run = |flags: &[&str]| {
        let done = finish(&mut rig.ostler(&[flags, &["sessions", "list"]].concat()));
        assert_eq!(
            (done.code, &*done.stderr),
            (Some(0), "No sessions found.\n")
        );
        assert_eq!(mode(&file), 0o600);
        fs::read_to_string(&file).unwrap().lines().count()
    };
    let before = run(&["--log-file", "ostler.log"]);
    assert!(before > 0);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(run(&["--log-file", "ostler.log", "--log", "trace"]) > before);
}

/// A link that a project contains does not choose the file.
#[test]
fn log_file_is_not_a_link() {
    let rig = Rig::new();
    let target = rig.file("profile", "");
    std::os::unix::fs::symlink(&target, rig.path("ostler.log")).unwrap();
    for file in ["ostler.log", "no/such/directory", "."] {
        let done = finish(rig.ostler(&["sessions"]).env("OSTLER_LOG_FILE", file));
        assert_eq!(done.code, Some(2), "{file}");
        let message = format!("cannot open the log {file}: ");
        assert!(done.stderr.contains(&message), "{}", done.stderr);
    }
    assert_eq!(fs::read_to_string(target).unwrap(), "");
}

/// The flags are accepted before and after the verb, and take precedence over the variables.
#[test]
fn log_flags_apply_to_every_verb() {
    let rig = Rig::new();
    for args in [
        &["--log", "debug", "sessions"][..],
        &["sessions", "--log", "debug"],
        &["sessions", "list", "--log=ostler_store=debug"],
    ] {
        let done = finish(rig.ostler(args).env("OSTLER_LOG", "off"));
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let opened = lines(&done.stderr, &["DEBUG store: store opened"]);
        assert_eq!(opened.len(), 1, "{}", done.stderr);
    }
    let done = finish(rig.ostler(&["sessions"]).env("OSTLER_LOG", ""));
    assert_eq!(done.stderr, "No sessions found.\n");
}

/// Lines of the log do not continue a line of the answer, and no status line interferes.
#[test]
fn log_lines_on_a_terminal_stand_alone() {
    let rig = Rig::new();
    let script = "read-user\ninit\ndelta the-answer\nsleep 300\nresult the-answer";
    let run = |term: &str| {
        let ostler = rig.fake_run(script, &["--log", "info", "hello"]);
        // `Pty` sets `TERM`, so another program has to change it.
        let mut command = Command::new("/usr/bin/env");
        command
            .arg(format!("TERM={term}"))
            .arg(ostler.get_program())
            .args(ostler.get_args())
            .envs(
                ostler
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("CLICOLOR_FORCE", "1")
            .current_dir(rig.dir());
        let text = String::from_utf8(Pty::start(&command).written()).unwrap();
        text.replace("\r\n", "\n")
    };
    // A dumb terminal shows the answer as it arrives, so its line is still open.
    let text = run("dumb");
    let ended: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("turn ended"))
        .collect();
    assert_eq!(ended.len(), 1, "{text:?}");
    assert!(!ended[0].contains("the-answer"), "{text:?}");
    assert!(ended[0].contains("\u{1b}[32mINFO"), "{text:?}");
    let text = run("xterm");
    assert!(!text.contains('\r'), "a status line in {text:?}");
}

#[test]
fn chat_does_not_share_its_terminal_with_the_log() {
    let rig = Rig::new();
    let mut pty = Pty::start(&rig.ostler(&["chat", "--agent", "scripted", "--log", "debug"]));
    let text = String::from_utf8(pty.written()).unwrap();
    assert!(text.contains("add `--log-file FILE`"), "{text:?}");
}
