//! Errors that name what was typed, and what to type instead.

use insta::assert_snapshot;

use crate::rig::{Finished, Rig, finish};

fn refused(args: &[&str]) -> Finished {
    let done = finish(&mut Rig::new().ostler(args));
    assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args:?}");
    done
}

#[test]
fn a_verb_that_is_misspelt_gets_the_one_that_was_meant() {
    let cases: [(&[&str], &str); 8] = [
        (&["rnu", "hi"], "did you mean `ostler run`?"),
        (&["docto"], "did you mean `ostler doctor`?"),
        (&["agnets"], "did you mean `ostler agents`?"),
        (&["polcy"], "did you mean `ostler policy`"),
        (&["sessions", "lst"], "did you mean `ostler sessions list`?"),
        (&["sessions", "shwo"], "did you mean `ostler sessions show`?"),
        (&["config", "shwo"], "did you mean `ostler config show`?"),
        (&["fix the bug"], "ostler run \"fix the bug\""),
    ];
    for (args, tip) in cases {
        let stderr = refused(args).stderr;
        assert!(stderr.contains(tip), "{args:?}: {stderr}");
    }
    // Nothing is better than a guess that is far off.
    let stderr = refused(&["zzz"]).stderr;
    assert!(!stderr.contains("tip:"), "{stderr}");
}

#[test]
fn verbs_that_people_try_work() {
    let rig = Rig::new();
    let version = finish(&mut rig.ostler(&["version"]));
    assert_eq!((version.code, version.stdout), (Some(0), format!("ostler {}\n", env!("CARGO_PKG_VERSION"))));
    for args in [&["sessions", "list", "--json"][..], &["sessions", "ls", "--json"], &["sessions", "--json"]] {
        let list = finish(&mut rig.ostler(args));
        assert_eq!((list.code, list.stdout.as_str()), (Some(0), "{\n  \"sessions\": []\n}\n"), "{args:?}");
    }
}

#[test]
fn an_agent_that_is_misspelt_gets_the_one_that_was_meant() {
    let all: [&[&str]; 6] = [
        &["run", "--agent", "claud", "hi"],
        &["chat", "--agent", "claud", "hi"],
        &["doctor", "claud"],
        &["doctor", "--conformance", "claud"],
        &["replay", "--agent", "claud", "/dev/null"],
        &["policy", "test", "--agent", "claud", "Bash"],
    ];
    for args in all {
        let stderr = refused(args).stderr;
        assert!(stderr.contains("claud\"") && stderr.contains("did you mean claude"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let rig = Rig::new();
    let run = |program: &str| {
        let done = finish(&mut rig.ostler(&["run", "--agent", "claude", "--program", program, "--no-store", "hi"]));
        assert_eq!(done.code, Some(3), "{}", done.stderr);
        let text = done.stderr.replace(&rig.dir().display().to_string(), "DIR");
        text.lines().skip(1).collect::<Vec<_>>().join("\n")
    };
    assert_snapshot!(run("/nope"), @r"
      there is no file /nope.
      hint: Check the path: --program, or `command` in ostler.toml.
    ");
    assert_snapshot!(run("bin/nope"), @r"
      there is no file DIR/bin/nope.
      hint: Check the path: --program, or `command` in ostler.toml.
    ");
    let named = run("nope");
    assert!(named.contains("nope was not found in PATH") && !named.contains("npm install"), "{named}");
}

#[test]
fn a_denial_by_the_policy_names_its_flag() {
    let rig = Rig::new();
    let script = "[[reply]]\nwhen = { result_of = \"write_file\" }\ntext = \"Denied.\"\n[[reply]]\ntext = \"I write.\"\n\
                  calls = [{ tool = \"write_file\", input = { path = \"a\", content = \"b\" } }]\n";
    let file = rig.file("script.toml", script);
    let mut command = rig.ostler(&["run", "--agent", "scripted", "--permissions", "read-only", "--output", "events"]);
    let done = finish(command.arg("--set").arg(format!("script={}", file.display())).arg("hi"));
    assert_eq!((done.code, done.cause().as_str()), (Some(7), "denied"), "{}", done.stderr);
    assert!(done.outcome()["hint"].as_str().unwrap().contains("--permissions"), "{}", done.outcome());
}
