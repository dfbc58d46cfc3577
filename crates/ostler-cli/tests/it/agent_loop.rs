//! `ostler loop`: scripted models, short commands that check their work, and the resulting output
//! and sessions.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler_testkit::fake;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::pty::Pty;
use ostler_testkit::scenario::{OPENAI_API, Signal, TestEnv, signal};
use serde_json::{Value, json};

use crate::driver::{ostler, output, utf8};
use crate::rig::{Finished, Rig, finish};

/// Claims to be done, and does the work when the check fails.
const HASTY: &str = r#"
[[reply]]
when = { prompt = "not done yet" }
text = "I see. "
calls = [{ tool = "write_file", input = { path = "done.txt", content = "done\n" } }]
[[reply]]
when = { result_of = "write_file" }
text = "Now it is there."
[[reply]]
text = "It is done."
"#;

/// Writes a file and reports it.
const WRITER: &str = r#"
[[reply]]
when = { result_of = "write_file" }
text = "Written."
[[reply]]
text = "I write. "
calls = [{ tool = "write_file", input = { path = "done.txt", content = "done\n" } }]
"#;

/// Asks the user a question and continues with the answer, however it arrives.
const CURIOUS: &str = r#"
[[reply]]
when = { result = "blue" }
text = "Blue it is."
[[reply]]
when = { prompt = "blue" }
text = "Blue, then."
[[reply]]
text = "I wonder. "
calls = [{ tool = "ask_person", input = { question = "Which colour?" } }]
"#;

/// Builds `ostler loop` in a rig, with a model that follows this script.
fn loop_command(rig: &Rig, script: &str, args: &[&str]) -> Command {
    let file = rig.file("script.toml", script);
    let mut command = rig.ostler(&["loop", "--model"]);
    command
        .arg(format!("scripted:{}", file.display()))
        .args(args);
    command
}

fn events_of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

/// Returns the codes of the notices with this suffix.
fn notices(events: &[Value], end: &str) -> Vec<String> {
    let all = events_of_kind(events, "notice")
        .into_iter()
        .map(|event| event["code"].as_str().unwrap().to_owned());
    all.filter(|code| code.ends_with(end)).collect()
}

/// Returns the tools of the calls that were actually made.
fn calls_made(done: &Finished) -> Vec<String> {
    let events = done.events();
    let results = events_of_kind(&events, "tool_result")
        .into_iter()
        .filter(|result| result["ok"] == true);
    results
        .map(|result| result["name"].as_str().unwrap().to_owned())
        .collect()
}

fn session(done: &Finished) -> String {
    done.events()[0]["session"].as_str().unwrap().to_owned()
}

/// The check fails first; its output goes to the model, which fixes the problem.
#[test]
fn loop_runs_until_the_check_succeeds() {
    let rig = Rig::new();
    let done = finish(&mut loop_command(
        &rig,
        HASTY,
        &["--until", "cat done.txt", "--output", "events", "PROMPT"],
    ));
    let events = done.events();
    assert_eq!(
        (done.code, done.cause().as_str()),
        (Some(0), "completed"),
        "{}",
        done.stderr
    );
    assert_eq!(notices(&events, "verified"), ["not_verified", "verified"]);
    assert_eq!(notices(&events, "iteration").len(), 3);
    assert_eq!(
        std::fs::read_to_string(rig.path("done.txt")).unwrap(),
        "done\n"
    );
    assert_eq!(events_of_kind(&events, "started")[0]["agent"], "loop");
    assert_eq!(
        events_of_kind(&events, "turn_ended")[0]["text"],
        "Now it is there."
    );
}

/// The same in the human output and in the text output.
#[test]
fn human_output_shows_rounds_and_check() {
    let rig = Rig::new();
    let done = finish(&mut loop_command(
        &rig,
        HASTY,
        &["--until", "cat done.txt", "PROMPT"],
    ));
    assert_eq!(
        (done.code, &*done.stdout),
        (Some(0), "It is done.\nI see. \nNow it is there.\n"),
        "{}",
        done.stderr
    );
    for part in [
        "✗ The result failed verification: `cat done.txt` failed with exit code 1.",
        "  │ ",
        "No such file",
        "✓ write_file done.txt",
        "✓ The result passed verification.",
        "✓ completed",
        "3 iterations",
        "resume with: ostler loop --model scripted:",
        "--until 'cat done.txt' --resume ",
    ] {
        assert!(
            done.stderr.contains(part),
            "{part:?} is missing: {}",
            done.stderr
        );
    }
    std::fs::remove_file(rig.path("done.txt")).unwrap();
    let done = finish(&mut loop_command(
        &rig,
        HASTY,
        &["--until", "cat done.txt", "--output", "text", "PROMPT"],
    ));
    assert_eq!(
        (done.code, &*done.stdout),
        (Some(0), "Now it is there.\n"),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr
            .lines()
            .all(|line| line.starts_with("warning: ")),
        "{}",
        done.stderr
    );
}

#[test]
fn json_is_one_object_even_if_the_loop_cannot_start() {
    let rig = Rig::new();
    let done = finish(&mut loop_command(
        &rig,
        WRITER,
        &["--output", "json", "PROMPT"],
    ));
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let expected =
        json!({"agent": "loop", "text": "Written.", "turns": 1, "tool_calls": 1, "errors": []});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&report[key], value, "{key} in {report:#}");
    }
    let done = finish(&mut loop_command(
        &rig,
        WRITER,
        &["--output", "json", "--max-errors", "none", "PROMPT"],
    ));
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (done.code, &report["outcome"]["cause"]),
        (Some(2), &json!("bad_request")),
        "{report:#}"
    );
}

#[test]
fn conditions_stop_it_with_exit_code_6() {
    let rig = Rig::new();
    let chatty = "[[reply]]\nrepeat = true\ntext = \"Again.\"\ncalls = [{ tool = \"list_files\" }]\nusage = { input = 10, output = 5 }";
    for (flags, cause, native) in [
        (["--max-iterations", "2"], "turn_limit", None),
        (["--max-tool-calls", "2"], "turn_limit", Some("tool_calls")),
        (["--max-input-tokens", "25"], "budget", Some("input_tokens")),
        (
            ["--max-output-tokens", "12"],
            "budget",
            Some("output_tokens"),
        ),
        // The cost is unknown, so the limit is not claimed to be enforced.
        (["--max-budget-usd", "1"], "budget", None),
    ] {
        let done = finish(&mut loop_command(
            &rig,
            chatty,
            &[&flags[..], &["--output", "events", "PROMPT"]].concat(),
        ));
        assert_eq!(
            (done.code, &*done.cause()),
            (Some(6), cause),
            "{flags:?}: {}",
            done.stderr
        );
        if let Some(native) = native {
            assert_eq!(done.outcome()["detail"]["native"], native, "{flags:?}");
        }
        let hint = done.outcome()["hint"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(
            hint.contains(&format!("({}", flags[0])),
            "{flags:?}: {hint}"
        );
    }
    let failing = "[[reply]]\nrepeat = true\ntext = \"Again.\"\ncalls = [{ tool = \"read_file\", input = { path = \"none\" } }]";
    let done = finish(&mut loop_command(
        &rig,
        failing,
        &["--max-errors", "2", "--output", "events", "PROMPT"],
    ));
    assert!(
        done.outcome()["hint"]
            .as_str()
            .unwrap()
            .contains("(--max-errors)"),
        "{}",
        done.outcome()
    );
    let done = finish(&mut loop_command(
        &rig,
        chatty,
        &["--max-budget-usd", "1", "--output", "events", "PROMPT"],
    ));
    assert_eq!(
        calls_made(&done),
        [""; 0],
        "a call that would exceed the budget is not made"
    );
    assert!(
        done.outcome()["message"]
            .as_str()
            .unwrap()
            .contains("is unknown"),
        "{}",
        done.outcome()
    );
    let paid = [
        "--max-budget-usd",
        "1",
        "--set",
        "price=1/1/1",
        "--max-iterations",
        "2",
        "--output",
        "events",
        "PROMPT",
    ];
    assert_eq!(
        finish(&mut loop_command(&rig, chatty, &paid)).cause(),
        "turn_limit"
    );
    // The limits in the configuration files apply to a loop too.
    rig.file("ostler.toml", "[limits]\nmax_turns = 2\n");
    let done = finish(&mut loop_command(
        &rig,
        chatty,
        &["--trust-project", "--output", "events", "PROMPT"],
    ));
    assert_eq!(
        (&*done.cause(), calls_made(&done).len()),
        ("turn_limit", 1),
        "{}",
        done.stderr
    );
}

/// A check that never passes ends the loop at its limit, and a hanging check is killed.
#[test]
fn a_check_that_never_passes_ends_with_the_limit() {
    let rig = Rig::new();
    let stubborn = "[[reply]]\nrepeat = true\ntext = \"It is done.\"";
    let flags = [
        "--until",
        "sleep 300",
        "--until-timeout",
        "200ms",
        "--max-iterations",
        "2",
        "--output",
        "events",
        "PROMPT",
    ];
    let done = finish(&mut loop_command(&rig, stubborn, &flags));
    assert_eq!(
        (done.code, notices(&done.events(), "not_verified").len()),
        (Some(6), 2),
        "{}",
        done.stderr
    );
    assert!(done.stdout.contains("took longer than"), "{}", done.stdout);
}

/// An unattended loop ends at a call that needs approval; once approved, the call is made exactly
/// once.
#[test]
fn an_approved_call_is_made_once() {
    let rig = Rig::new();
    let flags = ["--mode", "approve", "--output", "events"];
    let first = finish(&mut loop_command(
        &rig,
        WRITER,
        &[&flags[..], &["PROMPT"]].concat(),
    ));
    assert_eq!(
        (first.code, &*first.cause()),
        (Some(8), "needs_input"),
        "{}",
        first.stderr
    );
    assert!(calls_made(&first).is_empty() && !rig.path("done.txt").exists());
    // The model is the same, and it now sends the rest of its reply.
    let resume = |id: &str, text: &str| {
        finish(&mut rig.ostler(&[
            "loop", "--output", "events", "--mode", "approve", "--resume", id, text,
        ]))
    };
    let second = resume(&session(&first), "approve");
    assert_eq!(
        (second.code, calls_made(&second)),
        (Some(0), vec!["write_file".to_owned()]),
        "{}",
        second.stderr
    );
    assert_eq!(
        std::fs::read_to_string(rig.path("done.txt")).unwrap(),
        "done\n"
    );
    // A second time, there is nothing left to approve: the model asks anew.
    let third = resume(&session(&second), "approve");
    assert!(
        calls_made(&third).is_empty() && third.code == Some(8),
        "{}",
        third.stdout
    );
    // An answered question is not answered again by mistake.
    let fourth = resume(&session(&first), "approve");
    assert_eq!((fourth.code, &*fourth.stdout), (Some(2), ""));
    assert!(
        fourth.stderr.contains(&session(&second)) && fourth.stderr.contains("--fork"),
        "{}",
        fourth.stderr
    );
}

/// The human output shows the pending call and the command to type.
#[test]
fn pending_approval_is_shown_with_the_command_to_type() {
    let rig = Rig::new();
    let done = finish(&mut loop_command(
        &rig,
        WRITER,
        &["--mode", "approve", "PROMPT"],
    ));
    assert_eq!(done.code, Some(8));
    for part in [
        "? write_file done.txt",
        "waits for approval",
        "--mode approve --resume ",
        " \"approve\"",
    ] {
        assert!(
            done.stderr.contains(part),
            "{part:?} is missing: {}",
            done.stderr
        );
    }
    // After a denial the model asks again and no call has been made; the mode is carried over too.
    let refused =
        finish(&mut rig.ostler(&["loop", "--continue", "--output", "events", "No, leave it."]));
    assert_eq!(
        (refused.code, calls_made(&refused)),
        (Some(8), vec![]),
        "{}",
        refused.stdout
    );
    assert!(!rig.path("done.txt").exists());
}

#[test]
fn a_plan_changes_nothing() {
    let rig = Rig::new();
    let done = finish(&mut loop_command(
        &rig,
        WRITER,
        &["--mode", "plan", "--output", "events", "PROMPT"],
    ));
    let events = done.events();
    assert_eq!(
        (done.code, calls_made(&done)),
        (Some(0), vec![]),
        "{}",
        done.stderr
    );
    assert_eq!(events_of_kind(&events, "tool_result")[0]["denied"], true);
    assert!(!rig.path("done.txt").exists());
}

/// Without a terminal the loop ends at a question, to be resumed with an answer.
#[test]
fn unattended_question_is_answered_on_resume() {
    let rig = Rig::new();
    let done = finish(&mut loop_command(
        &rig,
        CURIOUS,
        &["--ask", "--output", "text", "PROMPT"],
    ));
    assert_eq!(done.code, Some(8), "{}", done.stderr);
    let line = done
        .stderr
        .lines()
        .find_map(|line| line.trim().strip_prefix("resume with: ostler "))
        .unwrap();
    assert!(
        done.stderr.contains("\nneeds_input: Which colour?\n") && line.ends_with("\"…\""),
        "{}",
        done.stderr
    );
    let mut words = shell_words(line);
    *words.last_mut().unwrap() = "blue".to_owned();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = finish(rig.ostler(&words).args(["--output", "text"]));
    assert_eq!(
        (done.code, &*done.stdout),
        (Some(0), "Blue, then.\n"),
        "{}",
        done.stderr
    );
    // A model that may not ask does not get the tool.
    let done = finish(&mut loop_command(
        &rig,
        WRITER,
        &["--output", "events", "PROMPT"],
    ));
    let events = done.events();
    assert!(
        !events_of_kind(&events, "started")[0]["tools"]
            .to_string()
            .contains("ask_person")
    );
}

/// Splits a line into shell words; quotes occur only around whole words here.
fn shell_words(line: &str) -> Vec<String> {
    line.split(' ')
        .map(|word| word.trim_matches(['"', '\'']).to_owned())
        .collect()
}

#[test]
fn question_is_asked_on_a_terminal() {
    let rig = Rig::new();
    let mut pty = Pty::start(&loop_command(&rig, CURIOUS, &["--ask", "PROMPT"]));
    pty.until_seen("answer >", 1);
    pty.keys("\r");
    pty.until_seen("answer >", 2);
    pty.keys("blue\r");
    pty.until_seen("Blue it is.", 1);
    assert_eq!(pty.end(), Some(0));
    let seen = pty.seen();
    let at = |part: &str| {
        seen.find(part)
            .unwrap_or_else(|| panic!("{part:?} is missing: {seen}"))
    };
    // Earlier text is printed before the question.
    assert!(
        at("I wonder.") < at("? The model asks") && at("? The model asks") < at("Which colour?"),
        "{seen}"
    );
    assert!(pty.echoes(), "the terminal is left as it was found");
    // An empty answer is no answer.
    let mut pty = Pty::start(&loop_command(&rig, CURIOUS, &["--ask", "PROMPT"]));
    pty.until_seen("answer >", 1);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(8), "{}", pty.seen());
}

#[test]
fn on_a_terminal_calls_are_approved_one_by_one() {
    let rig = Rig::new();
    let mut pty = Pty::start(&loop_command(
        &rig,
        WRITER,
        &["--mode", "approve", "PROMPT"],
    ));
    pty.until_seen("wants to run", 1);
    pty.keys("y\r");
    pty.until_seen("Written.", 1);
    assert_eq!(pty.end(), Some(0));
    assert!(rig.path("done.txt").exists());
}

#[test]
fn unknown_model_is_named_with_the_known_ones() {
    let rig = Rig::new();
    let listed = [
        "claude-cli",
        "codex-cli",
        "openai:MODEL",
        "openai-compatible:URL#MODEL",
        "scripted[:FILE]",
    ];
    for args in [
        &["loop", "--model", "nonsense", "PROMPT"][..],
        &["loop", "PROMPT"],
    ] {
        let done = finish(&mut rig.ostler(args));
        assert_eq!((done.code, &*done.stdout), (Some(2), ""));
        assert!(
            listed.iter().all(|name| done.stderr.contains(name)),
            "{}",
            done.stderr
        );
    }
    let done = finish(&mut rig.ostler(&["loop", "--model", "scripted:nowhere.toml", "PROMPT"]));
    assert!(
        done.code == Some(2) && done.stderr.contains("nowhere.toml"),
        "{}",
        done.stderr
    );
}

#[test]
fn usage_errors_say_what_to_type() {
    let rig = Rig::new();
    for (args, part) in [
        (
            &["--until", "a && b", "PROMPT"][..],
            "--until \"sh -c 'a && b'\"",
        ),
        (&["--until", "echo 'x", "PROMPT"], "unclosed quote"),
        (
            &["--until", "no-such-program --now", "PROMPT"],
            "no-such-program",
        ),
        (&["--until-timeout", "1s", "PROMPT"], "--until"),
        (
            &["--instructions", "@nowhere", "PROMPT"],
            "file not found: nowhere",
        ),
        (&["--mode", "careful", "PROMPT"], "approve"),
        (&[], "ostler loop \"…\""),
    ] {
        let done = finish(&mut loop_command(&rig, WRITER, args));
        assert_eq!(
            (done.code, &*done.stdout),
            (Some(2), ""),
            "{args:?}: {}",
            done.stderr
        );
        assert!(done.stderr.contains(part), "{args:?}: {}", done.stderr);
    }
    let done = finish(&mut rig.ostler(&["run", "--agent", "loop", "PROMPT"]));
    assert!(
        done.code == Some(2) && done.stderr.contains("ostler loop"),
        "{}",
        done.stderr
    );
    let help = finish(&mut rig.ostler(&["loop", "--help"])).stdout;
    assert_eq!(
        help.matches("\n  ostler loop").count(),
        3,
        "three examples: {help}"
    );
}

/// No tools, instructions from a file, and another directory.
#[test]
fn tools_instructions_and_directory_can_be_chosen() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("there")).unwrap();
    rig.file("role.md", "You are a poet.");
    let test_env = TestEnv::new(&OPENAI_API, Script::always("Done."));
    let mut command = ostler(&test_env);
    command.args([
        "loop",
        "--tools",
        "none",
        "--output",
        "events",
        "--instructions",
    ]);
    command
        .arg(format!("@{}", rig.path("role.md").display()))
        .arg("--dir")
        .arg(rig.path("there"))
        .arg("PROMPT");
    let ran = output(&mut command);
    assert_eq!(ran.status.code(), Some(0), "{}", utf8(&ran.stderr));
    let request = test_env.only_call();
    let body = request.body.to_string();
    assert!(
        body.contains("You are a poet.") && !body.contains("write_file"),
        "{body}"
    );
    assert!(
        utf8(&ran.stdout).contains(rig.path("there").canonicalize().unwrap().to_str().unwrap())
    );
}

/// An agent is run as configured: program, arguments, environment, alias, and model alias.
#[test]
fn agent_runs_as_configured() {
    let rig = Rig::new();
    let args = rig.path("args");
    let script = format!(
        "dump-args {}\nread-user\ninit\ntext Done.\nresult Done.\nread-until-eof",
        args.display()
    );
    let script = fake::script(rig.dir(), &script);
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    let config = format!(
        "agent = \"review\"\n[agents.review]\nlike = \"claude\"\nmodel = \"fast\"\ncommand = {}\nargs = [\"--debug-file\", \"x\"]\n\
         env = {{ {} = {} }}\n[agents.review.models]\nfast = \"haiku\"\n[agents.review.set]\neffort = \"high\"\nallowed_tools = [\"Bash\"]\n",
        json!(fake::program()),
        fake::SCRIPT,
        json!(script)
    );
    rig.file(".config/ostler/ostler.toml", &config);
    for model in [
        &[][..],
        &["--model", "review-cli"],
        &["--model", "review-cli:fast"],
    ] {
        let done = finish(
            rig.ostler(&["loop", "--tools", "none", "--output", "events", "PROMPT"])
                .args(model),
        );
        assert_eq!(
            done.code,
            Some(0),
            "{model:?}: {}{}",
            done.stderr,
            done.stdout
        );
        assert_eq!(
            events_of_kind(&done.events(), "started")[0]["model"],
            "review-cli:fast"
        );
        let args_passed = std::fs::read_to_string(&args).unwrap();
        assert!(
            ["--debug-file", "haiku", "high"]
                .iter()
                .all(|word| args_passed.contains(word)),
            "{args_passed}"
        );
        assert!(
            !args_passed.contains("Bash"),
            "its own tools stay disabled: {args_passed}"
        );
    }
    // A resumed loop uses the same configured agent, not the one that it is based on.
    std::fs::remove_file(&args).unwrap();
    rig.file(
        ".config/ostler/ostler.toml",
        &format!("{config}[agents.claude]\ncommand = \"/bin/false\"\n"),
    );
    let done = finish(&mut rig.ostler(&[
        "loop",
        "--tools",
        "none",
        "--output",
        "events",
        "--continue",
        "NEXT",
    ]));
    assert_eq!(done.code, Some(0), "{}{}", done.stderr, done.stdout);
    let args_passed = std::fs::read_to_string(&args).unwrap();
    assert!(
        ["--debug-file", "haiku"]
            .iter()
            .all(|word| args_passed.contains(word)),
        "{args_passed}"
    );
}

/// Additions to a setting with several values are applied, except those that would re-enable an
/// agent's own tools.
#[test]
fn configured_list_settings_are_passed_on() {
    let rig = Rig::new();
    let args = rig.path("args");
    write_script(
        &rig.path("codex"),
        &format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" >> '{}'\nexit 1\n",
            args.display()
        ),
    );
    let config = format!(
        "[agents.codex]\ncommand = {}\nset = {{ config = ['model_provider=\"mine\"', 'features.shell_tool=true'] }}\n",
        json!(rig.path("codex"))
    );
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(".config/ostler/ostler.toml", &config);
    let done =
        finish(&mut rig.ostler(&["loop", "--model", "codex-cli", "--tools", "none", "PROMPT"]));
    let args_passed =
        std::fs::read_to_string(&args).unwrap_or_else(|error| panic!("{error}: {}", done.stderr));
    assert!(
        args_passed.contains("model_provider=\"mine\"")
            && args_passed.contains("features.shell_tool=false"),
        "{args_passed}"
    );
    assert!(
        !args_passed.contains("features.shell_tool=true"),
        "{args_passed}"
    );
}

/// A server configured with a name and an address is contacted at that address, however it is
/// selected.
#[test]
fn configured_server_is_contacted_at_its_address() {
    let test_env = TestEnv::new(&OPENAI_API, Script::always("Done."));
    let address = test_env
        .host()
        .iter()
        .find(|(name, _)| name == "OPENAI_BASE_URL")
        .unwrap()
        .1
        .clone();
    let own = test_env.outside("config");
    std::fs::create_dir_all(&own).unwrap();
    let config = format!(
        "agent = \"local\"\n[agents.local]\nlike = \"openai-api\"\nmodel = \"small\"\nmodels = {{ small = \"qwen3\" }}\n\
         set = {{ base_url = {} }}\n[agents.openai-api.set]\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        json!(address)
    );
    std::fs::write(own.join("ostler.toml"), config).unwrap();
    let ask = |args: &[&str]| {
        let mut command = ostler(&test_env);
        // No server listens there.
        command
            .env("OSTLER_CONFIG_DIR", &own)
            .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
        let ran = output(
            command
                .args(["loop", "--tools", "none", "--output", "events"])
                .args(args),
        );
        assert_eq!(
            ran.status.code(),
            Some(0),
            "{args:?}: {}{}",
            utf8(&ran.stderr),
            utf8(&ran.stdout)
        );
        let events: Vec<Value> = utf8(&ran.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        events_of_kind(&events, "started")[0]["model"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(ask(&["PROMPT"]), "local:small");
    assert_eq!(ask(&["--model", "local", "PROMPT"]), "local:small");
    assert_eq!(ask(&["--continue", "NEXT"]), "local:small");
    assert_eq!(ask(&["--model", "local:other", "PROMPT"]), "local:other");
    let models: Vec<Value> = test_env
        .server
        .requests()
        .iter()
        .map(|call| call.body["model"].clone())
        .collect();
    assert_eq!(models, ["qwen3", "qwen3", "qwen3", "other"]);
}

/// A script has no models: a model from the environment applies only to agents that have some.
#[test]
fn model_from_the_environment_is_not_a_script_file() {
    let rig = Rig::new();
    let script = rig.file("played.toml", HASTY);
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    let config = format!(
        "[agents.demo]\nlike = \"scripted\"\nset = {{ script = {} }}\n",
        json!(script)
    );
    rig.file(".config/ostler/ostler.toml", &config);
    for (agent, model) in [
        ("scripted", "scripted".to_owned()),
        ("demo", format!("scripted:{}", script.display())),
    ] {
        let mut command = rig.ostler(&["loop", "--tools", "none", "--output", "events", "PROMPT"]);
        let done = finish(
            command
                .env("OSTLER_AGENT", agent)
                .env("OSTLER_MODEL", "opus"),
        );
        assert!(!done.stdout.is_empty(), "{}", done.stderr);
        assert_eq!(
            events_of_kind(&done.events(), "started")[0]["model"],
            *model,
            "{}",
            done.stderr
        );
    }
}

/// Rules and limits of the loop are part of the command that resumes it.
#[test]
fn resume_command_has_rules_and_limits() {
    let rig = Rig::new();
    let flags = [
        "--mode",
        "approve",
        "--permissions",
        "workspace",
        "--max-iterations",
        "7",
        "--timeout",
        "90s",
        "PROMPT",
    ];
    let done = finish(&mut loop_command(&rig, WRITER, &flags));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let line = done
        .stderr
        .lines()
        .find(|line| line.contains("resume with: "))
        .unwrap();
    for part in [
        "--permissions workspace",
        "--max-iterations 7",
        "--timeout 90s",
        "--mode approve",
    ] {
        assert!(line.contains(part), "{part:?} is missing: {line}");
    }
}

/// Sets up a model that calls a command, or claims to be done while the check runs for long.
fn busy_model(calls: bool) -> TestEnv {
    let shell = OPENAI_API
        .shell("(setsid sleep 300 > /dev/null 2>&1 &); echo running > running; sleep 300");
    let answer = if calls {
        shell
    } else {
        Answer::text("It is done.")
    };
    TestEnv::new(&OPENAI_API, Script::new().rule(Rule::any().answer(answer)))
}

fn start(test_env: &TestEnv, args: &[&str]) -> Child {
    let mut command = ostler(test_env);
    command
        .args(["loop", "--output", "events"])
        .args(args)
        .arg("PROMPT")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn check_interrupt(test_env: &TestEnv, mut child: Child) {
    let _ = test_env.wait_for_file("running");
    assert!(
        test_env.processes().len() >= 3,
        "program, command and hidden process: {:?}",
        test_env.processes()
    );
    signal(child.id(), Signal::INT);
    let lines: Vec<String> = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{lines:#?}");
    let last: Value = serde_json::from_str(lines.last().unwrap()).unwrap();
    assert_eq!(
        (&last["type"], &last["outcome"]["cause"]),
        (&json!("ended"), &json!("interrupted"))
    );
    test_env.wait_until_empty(Duration::from_secs(3));
}

#[test]
fn interrupt_during_a_tool_leaves_no_process() {
    let test_env = busy_model(true);
    let child = start(&test_env, &[]);
    check_interrupt(&test_env, child);
}

#[test]
fn interrupt_during_the_check_leaves_no_process() {
    let test_env = busy_model(false);
    let check = test_env.outside("check");
    write_script(
        &check,
        "#!/bin/sh\n(setsid sleep 300 > /dev/null 2>&1 &)\necho running > running\nsleep 300\n",
    );
    let child = start(&test_env, &["--until", check.to_str().unwrap()]);
    check_interrupt(&test_env, child);
}

/// If the program is killed with SIGKILL during the check, the check is killed too.
#[test]
fn sigkill_during_the_check_leaves_no_process() {
    let test_env = busy_model(false);
    let check = test_env.outside("check");
    write_script(
        &check,
        "#!/bin/sh\n(setsid sleep 300 > /dev/null 2>&1 &)\necho running > running\nsleep 300\n",
    );
    let mut child = start(&test_env, &["--until", check.to_str().unwrap()]);
    let _ = test_env.wait_for_file("running");
    assert!(
        test_env.processes().len() >= 3,
        "program, check and hidden process: {:?}",
        test_env.processes()
    );
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    test_env.wait_until_empty(Duration::from_secs(3));
}

fn write_script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}
