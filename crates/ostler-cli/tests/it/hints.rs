//! Suggestions in errors: they name what was typed and what to type instead.

use insta::assert_snapshot;

use crate::rig::{Finished, Rig, finish};

fn run_refused(args: &[&str]) -> Finished {
    let done = finish(&mut Rig::new().ostler(args));
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args:?}");
    done
}

#[test]
fn misspelt_verb_gets_a_suggestion() {
    let cases: [(&[&str], &str); 8] = [
        (&["rnu", "hi"], "did you mean `ostler run`?"),
        (&["docto"], "did you mean `ostler doctor`?"),
        (&["agnets"], "did you mean `ostler agents`?"),
        (&["polcy"], "did you mean `ostler policy`"),
        (&["sessions", "lst"], "did you mean `ostler sessions list`?"),
        (
            &["sessions", "shwo"],
            "did you mean `ostler sessions show`?",
        ),
        (&["config", "shwo"], "did you mean `ostler config show`?"),
        (&["fix the bug"], "ostler run \"fix the bug\""),
    ];
    for (args, tip) in cases {
        let stderr = run_refused(args).stderr;
        assert!(stderr.contains(tip), "{args:?}: {stderr}");
    }
    // A far-off guess is worse than no suggestion.
    let stderr = run_refused(&["zzz"]).stderr;
    assert!(!stderr.contains("tip:"), "{stderr}");
}

#[test]
fn common_verb_aliases_work() {
    let rig = Rig::new();
    let version = finish(&mut rig.ostler(&["version"]));
    assert_eq!(
        (version.code, version.stdout),
        (Some(0), format!("ostler {}\n", env!("CARGO_PKG_VERSION")))
    );
    for args in [
        &["sessions", "list", "--json"][..],
        &["sessions", "ls", "--json"],
        &["sessions", "--json"],
    ] {
        let list = finish(&mut rig.ostler(args));
        assert_eq!(
            (list.code, list.stdout.as_str()),
            (Some(0), "{\n  \"sessions\": []\n}\n"),
            "{args:?}"
        );
    }
}

#[test]
fn misspelt_agent_gets_a_suggestion() {
    let all: [&[&str]; 6] = [
        &["run", "--agent", "claud", "hi"],
        &["chat", "--agent", "claud", "hi"],
        &["doctor", "claud"],
        &["doctor", "--conformance", "claud"],
        &["replay", "--agent", "claud", "/dev/null"],
        &["policy", "test", "--agent", "claud", "Bash"],
    ];
    for args in all {
        let stderr = run_refused(args).stderr;
        assert!(
            stderr.contains("claud\"") && stderr.contains("did you mean claude"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let rig = Rig::new();
    let run = |program: &str| {
        let done = finish(&mut rig.ostler(&[
            "run",
            "--agent",
            "claude",
            "--program",
            program,
            "--no-store",
            "hi",
        ]));
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        let text = done.stderr.replace(&rig.dir().display().to_string(), "DIR");
        text.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(run("/nope"), @r"
      /nope does not exist.
      hint: Check the path: --program, or `command` in ostler.toml.
    ");
    assert_snapshot!(run("bin/nope"), @r"
      DIR/bin/nope does not exist.
      hint: Check the path: --program, or `command` in ostler.toml.
    ");
    let named = run("nope");
    assert!(
        named.contains("nope was not found in PATH") && !named.contains("npm install"),
        "{named}"
    );
}

#[test]
fn a_denial_by_the_policy_names_its_flag() {
    let rig = Rig::new();
    let script = "[[reply]]\nwhen = { result_of = \"write_file\" }\ntext = \"Denied.\"\n[[reply]]\ntext = \"I write.\"\n\
                  calls = [{ tool = \"write_file\", input = { path = \"a\", content = \"b\" } }]\n";
    let file = rig.file("script.toml", script);
    let mut command = rig.ostler(&[
        "run",
        "--agent",
        "scripted",
        "--permissions",
        "read-only",
        "--output",
        "events",
    ]);
    let done = finish(
        command
            .arg("--set")
            .arg(format!("script={}", file.display()))
            .arg("hi"),
    );
    assert_eq!(
        (done.code, done.cause().as_str()),
        (Some(7), "denied"),
        "{}",
        done.stderr
    );
    assert!(
        done.outcome()["hint"]
            .as_str()
            .unwrap()
            .contains("--permissions"),
        "{}",
        done.outcome()
    );
}

// Regression: the id was passed to the default agent, which was then blamed.
#[test]
fn an_unknown_session_is_not_the_agents_fault() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("bin")).unwrap();
    let claude =
        "#!/bin/sh\ntouch started\necho 'No conversation found with session ID: x' >&2\nexit 1\n";
    let program = rig.file("bin/claude", claude);
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", rig.path("bin").display());
    let run = |args: &[&str]| finish(rig.ostler(args).env("PATH", &path));
    for verb in ["run", "chat"] {
        let done = run(&[verb, "--resume", "zzzz", "hi"]);
        assert_eq!(
            (done.code, rig.path("started").exists()),
            (Some(2), false),
            "{}",
            done.stderr
        );
        let lines: Vec<&str> = done.stderr.lines().map(str::trim).collect();
        let hint = "hint: run `ostler sessions --all` to list sessions; if only the agent knows the \
                    session, add `--agent NAME`";
        assert_eq!(lines, ["error: no session zzzz", hint], "{verb}");
    }
    // It may be the agent's own id; in that case the agent is named in the error.
    let done = run(&["run", "--agent", "claude", "--resume", "zzzz", "hi"]);
    assert!(
        done.code == Some(2) && rig.path("started").exists(),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr
            .contains("claude did not start: No conversation found"),
        "{}",
        done.stderr
    );
    let id = "00000000-0000-4000-8000-000000000000";
    let done = run(&["run", "--agent", "claude", "--resume", id, "hi"]);
    assert!(
        done.stderr
            .contains(&format!("claude has no session {id} in ")),
        "{}",
        done.stderr
    );
}

// Regression: a file without events was played until the agent's start timeout.
#[test]
fn a_script_without_events_is_refused_by_name() {
    let rig = Rig::new();
    for text in ["", "\n# only a remark\n"] {
        rig.file("empty.jsonl", text);
        let args = [
            "run",
            "--no-store",
            "--agent",
            "mock",
            "--set",
            "script=empty.jsonl",
            "--timeout",
            "10s",
            "hi",
        ];
        let done = finish(&mut rig.ostler(&args));
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        assert_eq!(
            done.stderr.lines().next(),
            Some(r#"error: script = "empty.jsonl": it contains no event"#)
        );
    }
}
