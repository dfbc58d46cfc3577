//! `ostler eval`: runs, exit codes, the JSON contract, resuming and regrading.

use std::process::Command;

use ostler_testkit::processes;
use serde_json::Value;

use crate::rig::{Finished, PATIENCE, Rig, finish, signal};

pub(crate) const SCRIPT: &str =
    "[[reply]]\nrepeat = true\ntext = \"done\"\nusage = { input = 10, output = 5 }\n";

/// A suite with one case that passes if `exists` exists in the workspace.
pub(crate) fn suite(rig: &Rig, exists: &str, script: &str) {
    for dir in ["suite/start", "suite/cases"] {
        std::fs::create_dir_all(rig.path(dir)).unwrap();
    }
    rig.file("suite/start/README.md", "hello\n");
    rig.file("suite/script.toml", script);
    rig.file(
        "suite/suite.yaml",
        "suite: small\ncases: [cases]\nrepetitions: 2\nagents:\n  - agent: scripted\n    \
         label: one\n    settings: { script: script.toml }\n",
    );
    let case = format!(
        "name: readme\ndirectory: ../start\nprompt: Say hello.\nevaluators:\n  - name: files\n    \
         config: {{ exists: [{exists}] }}\n"
    );
    rig.file("suite/cases/readme.yaml", &case);
}

pub(crate) fn eval(rig: &Rig, args: &[&str]) -> Command {
    let mut command = rig.ostler(&["eval"]);
    command.args(args).env("TMPDIR", rig.dir());
    command
}

pub(crate) fn run(rig: &Rig, args: &[&str]) -> Finished {
    finish(&mut eval(rig, args))
}

pub(crate) fn object(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{}", finished.stderr))
}

#[test]
fn a_run_prints_the_contract_and_exits_with_its_verdict() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    let passed = run(&rig, &["run", "suite", "--json"]);
    assert_eq!(passed.code, Some(0), "{}", passed.stderr);
    let report = object(&passed);
    assert_eq!(report["suite"], "small");
    let agent = &report["agents"][0];
    assert_eq!((&agent["scored"], &agent["passed"]), (&2.into(), &2.into()));
    assert_eq!(agent["pass_at_1"]["value"], 1.0);
    let trial = &report["trials"][0];
    assert_eq!(
        (&trial["case"], &trial["verdict"]),
        (&"readme".into(), &"passed".into())
    );
    assert_eq!(trial["evaluators"][0]["verdict"], "passed");
    assert_eq!(trial["attempts"], 1);
    let name = report["run"].as_str().unwrap();
    assert!(
        rig.path(".ostler/eval")
            .join(name)
            .join("readme/one/1/attempt-1/result.json")
            .exists()
    );

    let again = run(&rig, &["run", "--resume", &name[..15], "--json"]);
    assert_eq!(
        (again.code, object(&again)["run"].as_str()),
        (Some(0), Some(name))
    );
    // Options that decide on the plan are refused: trials of one run are alike.
    for option in [&["--isolation", "directory"][..], &["--share-login"]] {
        let mixed = run(&rig, &[&["run", "--resume", name][..], option].concat());
        assert_eq!(mixed.code, Some(2), "{option:?}: {}", mixed.stderr);
        assert!(mixed.stderr.contains(option[0]), "{}", mixed.stderr);
    }
    let junit = run(&rig, &["report", name, "--format", "junit"]);
    assert!(junit.stdout.contains("<testsuites"), "{}", junit.stdout);
    let list = run(&rig, &["list", "--json"]);
    assert_eq!(object(&list)["done"], 2);
    assert_eq!(
        run(&rig, &["gate", name, "--require", "pass@1 >= 0.9"]).code,
        Some(0)
    );

    // The case changes: it can be regraded, but the run cannot be continued.
    suite(&rig, "missing.txt", SCRIPT);
    let refused = run(&rig, &["run", "--resume", name]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("has changed"), "{}", refused.stderr);
    let regraded = run(&rig, &["regrade", name, "--json"]);
    assert_eq!(regraded.code, Some(1), "{}", regraded.stderr);
    assert_eq!(object(&regraded)["trials"][0]["verdict"], "failed");
    assert_eq!(
        run(&rig, &["gate", name, "--require", "pass@1 >= 0.9"]).code,
        Some(1)
    );
}

#[test]
fn a_failed_trial_and_a_fault_in_a_file_have_their_exit_codes() {
    let rig = Rig::new();
    suite(&rig, "missing.txt", SCRIPT);
    let failed = run(&rig, &["run", "suite", "--fail-fast", "--jobs", "1"]);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    assert!(failed.stderr.contains("[1/2] failed"), "{}", failed.stderr);
    let required = run(&rig, &["run", "suite", "--require", "pass@1 >= 0"]);
    assert_eq!(
        required.code,
        Some(0),
        "the gate decides: {}",
        required.stderr
    );
    // As document 004 writes it: a case file with `-c`.
    let case = run(
        &rig,
        &["-c", "suite/cases/readme.yaml", "--agent", "no-such-agent"],
    );
    assert_eq!(case.code, Some(2), "{}", case.stderr);
    assert!(case.stderr.contains("no-such-agent"), "{}", case.stderr);
    rig.file("suite/cases/readme.yaml", "name: readme\nprompts: typo\n");
    let fault = run(&rig, &["run", "suite"]);
    assert_eq!(fault.code, Some(2));
    assert!(fault.stderr.contains("readme.yaml:2"), "{}", fault.stderr);
    assert_eq!(run(&rig, &["run"]).code, Some(2));
}

#[test]
fn an_interrupted_run_is_resumed() {
    let rig = Rig::new();
    suite(
        &rig,
        "README.md",
        "[[reply]]\nrepeat = true\ntext = \"slow\"\nhang = true\n",
    );
    let child = eval(&rig, &["run", "suite", "--jobs", "1"])
        .spawn()
        .unwrap();
    let has_started = || {
        let listed = run(&rig, &["list", "--json"]);
        serde_json::from_str::<Value>(&listed.stdout).is_ok_and(|run| run["running"] == 1)
    };
    assert!(processes::wait_until(PATIENCE, has_started));
    signal(&child, rustix::process::Signal::INT);
    let stopped = crate::rig::collect(child);
    assert_eq!(stopped.code, Some(130), "{}", stopped.stderr);
    let row = object(&run(&rig, &["list", "--json"]));
    assert_eq!((&row["done"], &row["running"]), (&0.into(), &0.into()));
    rig.file("suite/script.toml", SCRIPT);
    let resumed = run(
        &rig,
        &["run", "--resume", row["run"].as_str().unwrap(), "--json"],
    );
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    let report = object(&resumed);
    assert!(
        report["trials"]
            .as_array()
            .unwrap()
            .iter()
            .any(|trial| trial["attempts"] == 2)
    );
}

/// The example that the README shows.
pub(crate) fn example() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/eval").to_owned()
}

// S4-30, S4-31 (CR-4.1, CR-4.2): one command, two contenders, logs of the same structure.
#[test]
fn the_example_gives_the_figures_that_it_promises() {
    let rig = Rig::new();
    let finished = run(&rig, &["run", &example(), "--json"]);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let report = object(&finished);
    let figures: Vec<_> = report["agents"].as_array().unwrap().iter().collect();
    let figure = |index: usize, key: &str| figures[index][key].clone();
    assert_eq!(
        (figure(0, "label"), figure(1, "label")),
        ("careful".into(), "hasty".into()),
        "{report:#}"
    );
    assert_eq!(
        (figure(0, "scored"), figure(0, "passed")),
        (6.into(), 6.into()),
        "{report:#}"
    );
    assert_eq!(figure(0, "replayed"), true, "{report:#}");
    assert_eq!(
        (figure(1, "scored"), figure(1, "passed")),
        (6.into(), 2.into()),
        "{report:#}"
    );
    let name = report["run"].as_str().unwrap();
    let log = |agent: &str| -> Value {
        let trial = format!(".ostler/eval/{name}/license/{agent}/1/attempt-1/youbencha.log.json");
        serde_json::from_str(&std::fs::read_to_string(rig.path(&trial)).unwrap()).unwrap()
    };
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let (one, other) = (log("careful"), log("hasty"));
    assert_eq!(keys(&one), keys(&other));
    for part in [
        "agent_info",
        "model_info",
        "execution",
        "usage",
        "environment",
    ] {
        assert_eq!(keys(&one[part]), keys(&other[part]), "{part}");
    }
    assert_eq!(one["tool_calls"][0]["name"], "write_file", "{one:#}");

    let html = run(
        &rig,
        &["report", name, "--format", "html", "--out", "report.html"],
    );
    assert_eq!(html.code, Some(0), "{}", html.stderr);
    let html = std::fs::read_to_string(rig.path("report.html")).unwrap();
    assert!(
        html.contains("Writing two files."),
        "the conversation is shown"
    );
    assert!(html.contains("LICENSE") && !html.contains("<script"));
    let refused = run(&rig, &["report", name, "--format", "atif"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    for format in ["atif", "harbor"] {
        let done = run(&rig, &["report", name, "--format", format, "--out", format]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let atif = std::fs::read_to_string(rig.path("atif/typo/careful/2.json")).unwrap();
    assert!(
        atif.contains("ATIF-v1.7") && atif.contains("edit_file"),
        "{atif}"
    );
    assert!(rig.path("harbor/result.json").exists());
    // A trajectory and events are normalized to the same conversation.
    let normalized = |file: &str| {
        let done = run(&rig, &["normalize", file, "--agent", "scripted"]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        object(&done)
    };
    let events = format!(".ostler/eval/{name}/typo/careful/2/attempt-1/events.jsonl");
    let (from_events, from_atif) = (normalized(&events), normalized("atif/typo/careful/2.json"));
    assert_eq!(from_events["tool_calls"][0]["name"], "read_file");
    assert_eq!(
        from_events["usage"]["input_tokens"],
        from_atif["usage"]["input_tokens"]
    );
}

// S4-21, S4-25, S4-26, S4-27 (CR-3.3, CR-3.7, CR-3.8, CR-3.9)
#[test]
fn a_transcript_is_normalized() {
    let rig = Rig::new();
    rig.file(
        "transcript.txt",
        "Claude Code v2.1.0\nModel: claude-x\nUser: hi\nAssistant: \u{1b}[31mhello\u{1b}[0m\n\
         [TOOL: Bash] ls\nInput tokens: 10\nOutput tokens: 5\n",
    );
    let args = ["normalize", "transcript.txt", "--agent", "claude-code"];
    let done = run(&rig, &args);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let log = object(&done);
    assert_eq!(log["messages"][1]["content"], "hello");
    assert_eq!(log["tool_calls"][0]["name"], "Bash");
    assert_eq!(log["usage"]["total_tokens"], 15);
    assert_eq!(log["model_info"]["provider"], "anthropic");
    let published = run(
        &rig,
        &[&args[..], &["--log-format", "youbencha-1.0"]].concat(),
    );
    assert_eq!(object(&published)["agent"]["name"], "claude-code");
    let schema = finish(&mut rig.ostler(&["schema", "youbencha-log"]));
    let validator = jsonschema::validator_for(&object(&schema)).unwrap();
    assert!(validator.is_valid(&log), "{log:#}");
}

#[test]
fn judges_are_agents_or_models() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    let answer = |score: f64| {
        let text = format!(
            "{{\"assertions\":[{{\"name\":\"right\",\"score\":{score},\"reason\":\"seen\"}}]}}"
        );
        format!(
            "[[reply]]\nrepeat = true\ntext = {}\nusage = {{ input = 7, output = 2 }}\n",
            Value::from(text)
        )
    };
    rig.file("suite/kind.toml", &answer(0.9));
    rig.file("suite/strict.toml", &answer(0.1));
    // A judge that does not answer in the required form is errored.
    rig.file(
        "suite/writer.toml",
        "[[reply]]\ncalls = [{ tool = \"write_file\", input = { path = \"README.md\", content = \
         \"changed\" } }]\n[[reply]]\nrepeat = true\ntext = \"written\"\n",
    );
    let model = format!("scripted:{}", rig.path("suite/strict.toml").display());
    rig.file(
        "suite/cases/readme.yaml",
        &format!(
            "name: readme\ndirectory: ../start\nprompt: Say hello.\nevaluators:\n  \
             - name: agentic-judge\n    config: {{ type: scripted, settings: {{ script: \
             ../kind.toml }}, assertions: {{ right: It is right. }} }}\n  \
             - name: judge:model\n    required: false\n    config: {{ model: '{model}', samples: 2, \
             assertions: {{ right: It is right. }} }}\n  \
             - name: judge:writer\n    required: false\n    config: {{ agent: scripted, settings: \
             {{ script: ../writer.toml }}, assertions: {{ right: It is right. }} }}\n"
        ),
    );
    let finished = run(&rig, &["run", "suite", "--repeat", "1", "--json"]);
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let report = object(&finished);
    let evaluators = &report["trials"][0]["evaluators"];
    let verdict = |index: usize| evaluators[index]["verdict"].as_str().unwrap().to_owned();
    assert_eq!(verdict(0), "passed", "{evaluators:#}");
    assert_eq!(
        evaluators[0]["metrics"]["judge_tokens"], 9,
        "{evaluators:#}"
    );
    assert_eq!(verdict(1), "failed", "{evaluators:#}");
    assert_eq!(
        evaluators[1]["metrics"]["judge_tokens"], 18,
        "{evaluators:#}"
    );
    assert_eq!(verdict(2), "errored", "{evaluators:#}");
}

#[test]
fn evaluator_configurations_are_checked_with_line_and_key() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    rig.file(
        "suite/cases/readme.yaml",
        "name: readme\ndirectory: ../start\nprompt: Say hello.\nevaluators:\n  - name: judge\n    \
         config:\n      model: scripted\n      threshold: 7\n      assertions: { a: b }\n",
    );
    let found = run(&rig, &["validate", "suite", "--json"]);
    assert_eq!(found.code, Some(2));
    let problem = &object(&found)["problems"][0];
    assert_eq!(
        problem["key"], "evaluators[0].config.threshold",
        "{problem}"
    );
    assert_eq!(problem["line"], 8, "{problem}");
}

#[test]
fn a_commit_and_a_session_become_cases() {
    let rig = Rig::new();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=u", "-c", "user.email=u@localhost"]);
        let done = command.args(args).current_dir(rig.path("repo"));
        let done = done.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    std::fs::create_dir_all(rig.path("repo/tests")).unwrap();
    rig.file("repo/sum.sh", "echo 3\n");
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "start"]);
    rig.file("repo/sum.sh", "echo 4\n");
    rig.file("repo/tests/check.sh", "test \"$(sh sum.sh)\" = 4\n");
    rig.file("repo/Makefile", "test:\n\tsh tests/check.sh\n");
    git(&["add", "-A"]);
    git(&[
        "commit",
        "-q",
        "-m",
        "Make the sum four\n\nSigned-off-by: u",
    ]);
    let made = run(
        &rig,
        &["new-case", "--from-commit", "HEAD", "--repo", "repo"],
    );
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let case = made
        .stdout
        .lines()
        .find(|line| line.ends_with("case.yaml"))
        .unwrap();
    let text = std::fs::read_to_string(case).unwrap();
    assert!(
        text.contains("Make the sum four") && !text.contains("Signed-off"),
        "{text}"
    );
    assert!(
        made.stdout.contains("hidden/tests/check.sh"),
        "{}",
        made.stdout
    );
    let checked = run(&rig, &["validate", "cases"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let again = run(
        &rig,
        &["new-case", "--from-commit", "HEAD", "--repo", "repo"],
    );
    assert_eq!(again.code, Some(2), "nothing is overwritten");

    rig.file("script.toml", SCRIPT);
    let session = finish(&mut rig.ostler(&[
        "run",
        "--json",
        "--agent",
        "scripted",
        "--set",
        "script=script.toml",
        "-C",
        "repo",
        "Count to four.",
    ]));
    assert_eq!(session.code, Some(0), "{}", session.stderr);
    let id = object(&session)["session"].as_str().unwrap().to_owned();
    let promoted = run(&rig, &["promote", &id, "--out", "promoted"]);
    assert_eq!(promoted.code, Some(0), "{}", promoted.stderr);
    let text = std::fs::read_to_string(promoted.stdout.trim()).unwrap();
    assert!(
        text.contains("Count to four.") && text.contains("commit:"),
        "{text}"
    );
    let checked = run(&rig, &["validate", "promoted"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}
