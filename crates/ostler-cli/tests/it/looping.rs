//! `ostler loop`: models that follow a script, small commands that check their work, and what is left of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ostler_testkit::fake;
use ostler_testkit::model::{Answer, Rule, Script};
use ostler_testkit::pty::Pty;
use ostler_testkit::scenario::{OPENAI_API, Place, Signal, signal};
use serde_json::{Value, json};

use crate::driver::{ostler, output, utf8};
use crate::rig::{Finished, Rig, finish};

/// Says that it is done, and does it when it hears that it is not.
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

/// Writes a file, and says that it did.
const WRITER: &str = r#"
[[reply]]
when = { result_of = "write_file" }
text = "Written."
[[reply]]
text = "I write. "
calls = [{ tool = "write_file", input = { path = "done.txt", content = "done\n" } }]
"#;

/// Asks a person, and goes on with the answer, whichever way it comes.
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

/// `ostler loop` in a rig, with a model that follows this script.
fn looping(rig: &Rig, script: &str, args: &[&str]) -> Command {
    let file = rig.file("script.toml", script);
    let mut command = rig.ostler(&["loop", "--model"]);
    command
        .arg(format!("scripted:{}", file.display()))
        .args(args);
    command
}

fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events
        .iter()
        .filter(|event| event["type"] == kind)
        .collect()
}

/// The codes of the notices that end with this.
fn notices(events: &[Value], end: &str) -> Vec<String> {
    let all = of_kind(events, "notice")
        .into_iter()
        .map(|event| event["code"].as_str().unwrap().to_owned());
    all.filter(|code| code.ends_with(end)).collect()
}

/// The calls that were really made, each with its tool.
fn made(done: &Finished) -> Vec<String> {
    let events = done.events();
    let results = of_kind(&events, "tool_result")
        .into_iter()
        .filter(|result| result["ok"] == true);
    results
        .map(|result| result["name"].as_str().unwrap().to_owned())
        .collect()
}

fn session(done: &Finished) -> String {
    done.events()[0]["session"].as_str().unwrap().to_owned()
}

/// The check fails first; what it says goes to the model, which mends it.
#[test]
fn it_goes_on_until_the_command_succeeds() {
    let rig = Rig::new();
    let done = finish(&mut looping(
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
    assert_eq!(of_kind(&events, "started")[0]["agent"], "loop");
    assert_eq!(
        of_kind(&events, "turn_ended")[0]["text"],
        "Now it is there."
    );
}

/// The same for a person who looks on, and for one who wants the answer only.
#[test]
fn people_see_the_rounds_and_the_check() {
    let rig = Rig::new();
    let done = finish(&mut looping(
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
    let done = finish(&mut looping(
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
fn json_is_one_object_even_for_a_loop_that_cannot_begin() {
    let rig = Rig::new();
    let done = finish(&mut looping(&rig, WRITER, &["--output", "json", "PROMPT"]));
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let expected =
        json!({"agent": "loop", "text": "Written.", "turns": 1, "tool_calls": 1, "errors": []});
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&report[key], value, "{key} in {report:#}");
    }
    let done = finish(&mut looping(
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
        // What it costs is not known: the limit is not said to be kept.
        (["--max-budget-usd", "1"], "budget", None),
    ] {
        let done = finish(&mut looping(
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
    let done = finish(&mut looping(
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
    let done = finish(&mut looping(
        &rig,
        chatty,
        &["--max-budget-usd", "1", "--output", "events", "PROMPT"],
    ));
    assert_eq!(
        made(&done),
        [""; 0],
        "a call that nobody can pay for is not made"
    );
    assert!(
        done.outcome()["message"]
            .as_str()
            .unwrap()
            .contains("not known"),
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
        finish(&mut looping(&rig, chatty, &paid)).cause(),
        "turn_limit"
    );
    // The limits of the files hold for a loop too.
    rig.file("ostler.toml", "[limits]\nmax_turns = 2\n");
    let done = finish(&mut looping(
        &rig,
        chatty,
        &["--trust-project", "--output", "events", "PROMPT"],
    ));
    assert_eq!(
        (&*done.cause(), made(&done).len()),
        ("turn_limit", 1),
        "{}",
        done.stderr
    );
}

/// A check that never passes is a condition too: it ends with the limit, and a check that hangs is ended.
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
    let done = finish(&mut looping(&rig, stubborn, &flags));
    assert_eq!(
        (done.code, notices(&done.events(), "not_verified").len()),
        (Some(6), 2),
        "{}",
        done.stderr
    );
    assert!(done.stdout.contains("took longer than"), "{}", done.stdout);
}

/// Where nobody can be asked, the loop ends; with the approval the call is made, once.
#[test]
fn an_approved_call_is_made_once() {
    let rig = Rig::new();
    let flags = ["--mode", "approve", "--output", "events"];
    let first = finish(&mut looping(
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
    assert!(made(&first).is_empty() && !rig.path("done.txt").exists());
    // The model is the one that it was, and what it had not said yet it says now.
    let resume = |id: &str, text: &str| {
        finish(&mut rig.ostler(&[
            "loop", "--output", "events", "--mode", "approve", "--resume", id, text,
        ]))
    };
    let second = resume(&session(&first), "approve");
    assert_eq!(
        (second.code, made(&second)),
        (Some(0), vec!["write_file".to_owned()]),
        "{}",
        second.stderr
    );
    assert_eq!(
        std::fs::read_to_string(rig.path("done.txt")).unwrap(),
        "done\n"
    );
    // Said again, there is nothing left to approve: the model asks anew.
    let third = resume(&session(&second), "approve");
    assert!(
        made(&third).is_empty() && third.code == Some(8),
        "{}",
        third.stdout
    );
    // And what was answered is not answered again by mistake.
    let fourth = resume(&session(&first), "approve");
    assert_eq!((fourth.code, &*fourth.stdout), (Some(2), ""));
    assert!(
        fourth.stderr.contains(&session(&second)) && fourth.stderr.contains("--fork"),
        "{}",
        fourth.stderr
    );
}

/// People are told what waits, and what to type.
#[test]
fn what_waits_for_approval_is_said_with_the_line_to_type() {
    let rig = Rig::new();
    let done = finish(&mut looping(&rig, WRITER, &["--mode", "approve", "PROMPT"]));
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
    // Whoever says no is asked again, and finds nothing made: the mode goes on too.
    let refused =
        finish(&mut rig.ostler(&["loop", "--continue", "--output", "events", "No, leave it."]));
    assert_eq!(
        (refused.code, made(&refused)),
        (Some(8), vec![]),
        "{}",
        refused.stdout
    );
    assert!(!rig.path("done.txt").exists());
}

#[test]
fn a_plan_changes_nothing() {
    let rig = Rig::new();
    let done = finish(&mut looping(
        &rig,
        WRITER,
        &["--mode", "plan", "--output", "events", "PROMPT"],
    ));
    let events = done.events();
    assert_eq!(
        (done.code, made(&done)),
        (Some(0), vec![]),
        "{}",
        done.stderr
    );
    assert_eq!(of_kind(&events, "tool_result")[0]["denied"], true);
    assert!(!rig.path("done.txt").exists());
}

/// Without a terminal the question is the end, for now.
#[test]
fn a_question_that_nobody_hears_is_answered_later() {
    let rig = Rig::new();
    let done = finish(&mut looping(
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
    let mut words = shlex(line);
    *words.last_mut().unwrap() = "blue".to_owned();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = finish(rig.ostler(&words).args(["--output", "text"]));
    assert_eq!(
        (done.code, &*done.stdout),
        (Some(0), "Blue, then.\n"),
        "{}",
        done.stderr
    );
    // A model that may not ask has no such tool.
    let done = finish(&mut looping(
        &rig,
        WRITER,
        &["--output", "events", "PROMPT"],
    ));
    let events = done.events();
    assert!(
        !of_kind(&events, "started")[0]["tools"]
            .to_string()
            .contains("ask_person")
    );
}

/// The words of a line as a shell reads them; these hold no quotes but around a whole word.
fn shlex(line: &str) -> Vec<String> {
    line.split(' ')
        .map(|word| word.trim_matches(['"', '\'']).to_owned())
        .collect()
}

#[test]
fn on_a_terminal_the_person_is_asked() {
    let rig = Rig::new();
    let mut pty = Pty::start(&looping(&rig, CURIOUS, &["--ask", "PROMPT"]));
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
    // What it said before is read before.
    assert!(
        at("I wonder.") < at("? The model asks") && at("? The model asks") < at("Which colour?"),
        "{seen}"
    );
    assert!(pty.echoes(), "the terminal is left as it was found");
    // Whoever has no answer gives none.
    let mut pty = Pty::start(&looping(&rig, CURIOUS, &["--ask", "PROMPT"]));
    pty.until_seen("answer >", 1);
    pty.keys("\x04");
    assert_eq!(pty.end(), Some(8), "{}", pty.seen());
}

#[test]
fn on_a_terminal_calls_are_approved_one_by_one() {
    let rig = Rig::new();
    let mut pty = Pty::start(&looping(&rig, WRITER, &["--mode", "approve", "PROMPT"]));
    pty.until_seen("wants to run", 1);
    pty.keys("y\r");
    pty.until_seen("Written.", 1);
    assert_eq!(pty.end(), Some(0));
    assert!(rig.path("done.txt").exists());
}

#[test]
fn a_model_that_is_not_known_is_named_with_those_that_are() {
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
fn wrong_usage_is_named_with_what_to_type() {
    let rig = Rig::new();
    for (args, part) in [
        (
            &["--until", "a && b", "PROMPT"][..],
            "--until \"sh -c 'a && b'\"",
        ),
        (&["--until", "echo 'x", "PROMPT"], "a quote is not closed"),
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
        let done = finish(&mut looping(&rig, WRITER, args));
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

/// Without tools, with instructions from a file, in another directory.
#[test]
fn what_the_model_gets_is_chosen() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("there")).unwrap();
    rig.file("role.md", "You are a poet.");
    let place = Place::new(&OPENAI_API, Script::always("Done."));
    let mut command = ostler(&place);
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
    let asked = place.only_call();
    let body = asked.body.to_string();
    assert!(
        body.contains("You are a poet.") && !body.contains("write_file"),
        "{body}"
    );
    assert!(
        utf8(&ran.stdout).contains(rig.path("there").canonicalize().unwrap().to_str().unwrap())
    );
}

/// An agent is asked as the files say: its program, its arguments, its environment, its other name, its model's other name.
#[test]
fn an_agent_is_asked_as_it_is_configured() {
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
            of_kind(&done.events(), "started")[0]["model"],
            "review-cli:fast"
        );
        let told = std::fs::read_to_string(&args).unwrap();
        assert!(
            ["--debug-file", "haiku", "high"]
                .iter()
                .all(|word| told.contains(word)),
            "{told}"
        );
        assert!(
            !told.contains("Bash"),
            "its own tools stay switched off: {told}"
        );
    }
    // Whoever goes on asks the same agent, and not the one that it is like.
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
    let told = std::fs::read_to_string(&args).unwrap();
    assert!(
        ["--debug-file", "haiku"]
            .iter()
            .all(|word| told.contains(word)),
        "{told}"
    );
}

/// What a file adds to a setting with several values stays, but for what would give an agent its own tools back.
#[test]
fn settings_with_several_values_stay() {
    let rig = Rig::new();
    let args = rig.path("args");
    script(
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
    let told =
        std::fs::read_to_string(&args).unwrap_or_else(|error| panic!("{error}: {}", done.stderr));
    assert!(
        told.contains("model_provider=\"mine\"") && told.contains("features.shell_tool=false"),
        "{told}"
    );
    assert!(!told.contains("features.shell_tool=true"), "{told}");
}

/// A server has a name in a file, with its address: that one is asked, by whatever way it is chosen.
#[test]
fn a_server_is_asked_where_its_own_name_says() {
    let place = Place::new(&OPENAI_API, Script::always("Done."));
    let address = place
        .host()
        .iter()
        .find(|(name, _)| name == "OPENAI_BASE_URL")
        .unwrap()
        .1
        .clone();
    let own = place.aside("config");
    std::fs::create_dir_all(&own).unwrap();
    let config = format!(
        "agent = \"local\"\n[agents.local]\nlike = \"openai-api\"\nmodel = \"small\"\nmodels = {{ small = \"qwen3\" }}\n\
         set = {{ base_url = {} }}\n[agents.openai-api.set]\nbase_url = \"http://127.0.0.1:9/v1\"\n",
        json!(address)
    );
    std::fs::write(own.join("ostler.toml"), config).unwrap();
    let ask = |args: &[&str]| {
        let mut command = ostler(&place);
        // Nobody listens there.
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
        of_kind(&events, "started")[0]["model"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(ask(&["PROMPT"]), "local:small");
    assert_eq!(ask(&["--model", "local", "PROMPT"]), "local:small");
    assert_eq!(ask(&["--continue", "NEXT"]), "local:small");
    assert_eq!(ask(&["--model", "local:other", "PROMPT"]), "local:other");
    let models: Vec<Value> = place
        .server
        .requests()
        .iter()
        .map(|call| call.body["model"].clone())
        .collect();
    assert_eq!(models, ["qwen3", "qwen3", "qwen3", "other"]);
}

/// A script has no models: what the environment names is for agents that have some.
#[test]
fn a_model_of_the_environment_is_no_file_of_a_script() {
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
            of_kind(&done.events(), "started")[0]["model"],
            *model,
            "{}",
            done.stderr
        );
    }
}

/// What kept the loop safe is in the line that goes on with it.
#[test]
fn rules_and_limits_are_in_the_line_to_type() {
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
    let done = finish(&mut looping(&rig, WRITER, &flags));
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

/// The model calls a command, or says that it is done, and the check takes long.
fn busy(calls: bool) -> Place {
    let shell = OPENAI_API
        .shell("(setsid sleep 300 > /dev/null 2>&1 &); echo running > running; sleep 300");
    let answer = if calls {
        shell
    } else {
        Answer::text("It is done.")
    };
    Place::new(&OPENAI_API, Script::new().rule(Rule::any().answer(answer)))
}

fn start(place: &Place, args: &[&str]) -> Child {
    let mut command = ostler(place);
    command
        .args(["loop", "--output", "events"])
        .args(args)
        .arg("PROMPT")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn interrupted(place: &Place, mut child: Child) {
    let _ = place.wait_for_file("running");
    assert!(
        place.left().len() >= 3,
        "the program, the command and what it hid: {:?}",
        place.left()
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
    place.wait_until_empty(Duration::from_secs(3));
}

#[test]
fn an_interrupt_in_a_tool_leaves_nothing() {
    let place = busy(true);
    let child = start(&place, &[]);
    interrupted(&place, child);
}

#[test]
fn an_interrupt_in_the_check_leaves_nothing() {
    let place = busy(false);
    let check = place.aside("check");
    script(
        &check,
        "#!/bin/sh\n(setsid sleep 300 > /dev/null 2>&1 &)\necho running > running\nsleep 300\n",
    );
    let child = start(&place, &["--until", check.to_str().unwrap()]);
    interrupted(&place, child);
}

/// The program is killed outright while the check runs: it is gone too.
#[test]
fn killed_outright_in_the_check_it_leaves_nothing() {
    let place = busy(false);
    let check = place.aside("check");
    script(
        &check,
        "#!/bin/sh\n(setsid sleep 300 > /dev/null 2>&1 &)\necho running > running\nsleep 300\n",
    );
    let mut child = start(&place, &["--until", check.to_str().unwrap()]);
    let _ = place.wait_for_file("running");
    assert!(
        place.left().len() >= 3,
        "the program, the check and what it hid: {:?}",
        place.left()
    );
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    place.wait_until_empty(Duration::from_secs(3));
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}
