//! The sandbox end to end: results of `check`, commands under the guard, agents in a sandbox.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ostler_testkit::machine::{self, Need};
use ostler_testkit::processes::with_argument;
use serde_json::Value;

use crate::rig::{Finished, Rig, finish};

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns true if every layer is enforced. If CI is set, a missing one fails the test.
fn whole(report: &Value, test: &str) -> bool {
    let gaps: Vec<&Value> = report["layers"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|l| l["enforced"] == false)
        .collect();
    machine::can_run(
        test,
        &Need::of(gaps.is_empty(), || {
            format!("this machine does not enforce {gaps:?}")
        }),
    )
}

// S2-25…S2-30: real escape attempts from inside, under the guard.
#[test]
fn the_default_policy_holds_on_this_machine() {
    let rig = Rig::new();
    let done = finish(
        rig.ostler(&["sandbox", "check", "--json"])
            .env("GITHUB_TOKEN", "a-secret"),
    );
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    if !whole(&report, "the_default_policy_holds_on_this_machine") {
        return;
    }
    let attempts = report["attempts"].as_array().unwrap();
    let bad: Vec<&Value> = attempts
        .iter()
        .filter(|a| a["result"] != "held" && a["result"] != "works")
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(
        (done.code, report["holds"].as_bool()),
        (Some(0), Some(true)),
        "{}",
        done.stderr
    );
    let readme = include_str!("../../../../README.md");
    assert!(
        readme.contains(&format!("runs {} checks", attempts.len())),
        "the README does not say {}",
        attempts.len()
    );
    assert_eq!(
        std::fs::read_dir(rig.dir()).unwrap().count(),
        0,
        "files are left behind"
    );
}

#[test]
fn check_lists_attempts_and_what_a_policy_opens() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path(".ostler")).unwrap();
    rig.file(
        ".ostler/sandbox.toml",
        "[sandbox]\nnetwork = \"all\"\n[[command]]\nname = \"cargo\"\n",
    );
    let done = finish(&mut rig.ostler(&["sandbox", "check", "--dir", "."]));
    let expected = [
        "not granted: commands may use the network",
        "not granted: the command cargo may run",
        "untrusted",
    ];
    for words in ["read a key in ~/.ssh", "seccomp"]
        .into_iter()
        .chain(expected)
    {
        assert!(done.stdout.contains(words), "{words}: {}", done.stdout);
    }
    rig.file(
        ".ostler/sandbox.toml",
        "[[command]]\nname = \"cargo\"\nexamples = { deny = [\"cargo run\"] }\n",
    );
    let done = finish(&mut rig.ostler(&["sandbox", "check", "--dir", "."]));
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr.contains("cargo run") && done.stderr.contains("sandbox.toml"),
        "{}",
        done.stderr
    );
}

#[test]
fn help_explains_the_sandbox() {
    let rig = Rig::new();
    let help = finish(&mut rig.ostler(&["sandbox", "--help"]));
    for words in [
        ".ostler/sandbox.toml",
        "workspace-write",
        "check",
        "Exit codes",
    ] {
        assert!(help.stdout.contains(words), "{words}");
    }
}

/// Has a model run `./attack`, end to end.
fn attack(rig: &Rig, script: &str) -> Finished {
    std::fs::create_dir_all(rig.path("work/.ostler")).unwrap();
    rig.file(
        "work/.ostler/sandbox.toml",
        "[[command]]\nname = \"./attack\"\n",
    );
    let reply = "[[reply]]\nwhen = { prompt = \"go\" }\ncalls = [{ tool = \"run_command\", input = { command = \"./attack\" } }]\n\
                 [[reply]]\nrepeat = true\ntext = \"done\"\n";
    rig.file("script.toml", reply);
    program(&rig.path("work/attack"), script);
    let script = format!("script={}", rig.path("script.toml").display());
    let args = [
        "run",
        "--agent",
        "scripted",
        "--set",
        &script,
        "--dir",
        "work",
        "--trust-project",
        "--output",
        "events",
    ];
    finish(rig.ostler(&args).arg("go"))
}

fn result(done: &Finished) -> String {
    let events = done.events();
    let result = events.iter().find(|event| event["type"] == "tool_result");
    result
        .map(|event| event["output"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

// P5, S2-28: under the guard no process of a command survives, whatever it does to its group,
// session and environment.
#[test]
fn a_command_leaves_no_process_behind() {
    let rig = Rig::new();
    let nap = format!("300.{}", std::process::id());
    let done = attack(
        &rig,
        &format!(
            "#!/bin/sh\nenv -i setsid sleep {nap} &\n(env -i setsid sh -c 'sleep {nap} & wait' &)\nsleep 0.5\necho ok\n"
        ),
    );
    assert!(result(&done).contains("ok"), "{}", done.stdout);
    assert!(with_argument(&nap).is_empty(), "something is left");
}

// A workspace that allows more than the defaults is reported before anything runs.
#[test]
fn policy_that_opens_something_is_reported() {
    let rig = Rig::new();
    let done = attack(&rig, "#!/bin/sh\necho hello\n");
    assert!(
        result(&done).contains("exit code 0\nhello"),
        "{}",
        done.stdout
    );
    let events = done.events();
    let notice = events
        .iter()
        .find(|event| event["code"] == "sandbox_policy")
        .unwrap();
    assert!(
        notice["message"].as_str().unwrap().contains("./attack"),
        "{notice}"
    );
}

// Any agent can run in a sandbox: what it may write is reported, and the system refuses the rest.
#[test]
fn an_agent_in_a_sandbox() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("work")).unwrap();
    let run = |sandbox: &str, script: &str| {
        finish(&mut rig.fake_run(
            script,
            &[
                "--dir",
                "work",
                "--sandbox",
                sandbox,
                "--output",
                "events",
                "hi",
            ],
        ))
    };
    let inside = format!(
        "pid-file {}\nread\ninit\nresult done\nread-until-eof",
        rig.path("work/made").display()
    );
    let outside = format!(
        "pid-file {}\nread\ninit\nresult done\nread-until-eof",
        rig.path("made").display()
    );
    let done = run("workspace-write", &inside);
    assert_eq!(done.cause(), "completed", "{}", done.stdout);
    let events = done.events();
    let notice = events
        .iter()
        .find(|event| event["code"] == "sandbox")
        .unwrap()["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        notice.contains("workspace-write") && notice.contains("/work"),
        "{notice}"
    );
    let need = Need::of(!notice.contains("Not enforced"), || notice.clone());
    if !machine::can_run("an_agent_in_a_sandbox", &need) {
        return;
    }
    assert!(rig.path("work/made").exists());
    std::fs::remove_file(rig.path("work/made")).unwrap();
    assert_ne!(run("workspace-write", &outside).cause(), "completed");
    assert_ne!(run("read-only", &inside).cause(), "completed");
    assert!(!rig.path("made").exists() && !rig.path("work/made").exists());
    assert_eq!(run("off", &outside).cause(), "completed");
}

#[test]
fn agent_without_a_process_cannot_be_sandboxed() {
    let rig = Rig::new();
    let done =
        finish(&mut rig.ostler(&["run", "--agent", "scripted", "--sandbox", "read-only", "hi"]));
    assert_eq!(done.code, Some(2));
    assert!(
        done.stderr.contains("sandbox = \"read-only\""),
        "{}",
        done.stderr
    );
}
