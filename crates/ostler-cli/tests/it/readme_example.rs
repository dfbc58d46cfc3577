//! The README's example: a small project is read, fixed and tested, with nothing but Rust
//! installed.

use std::path::{Path, PathBuf};

use crate::rig::{Finished, Rig, finish};

fn example_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/adder")
}

/// Copies the example, which itself stays broken.
fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap() {
            kind if kind.is_dir() && entry.file_name() == "target" => {}
            kind if kind.is_dir() => copy_dir(&from, &to),
            _ => drop(std::fs::copy(from, to).unwrap()),
        }
    }
}

#[test]
fn the_failing_test_is_fixed_and_a_second_run_finds_nothing_to_do() {
    let rig = Rig::new();
    copy_dir(&example_dir(), &rig.path("adder"));
    let here = rust_env();
    let run = || {
        let args = [
            "run",
            "Fix the failing test",
            "--agent",
            "scripted",
            "--dir",
            "adder",
            "--trust-project",
        ];
        finish(
            rig.ostler(&args)
                .args(["--output", "events"])
                .envs(here.clone()),
        )
    };
    let first = run();
    assert_eq!(first.code, Some(0), "{}", first.stdout);
    let fixed = std::fs::read_to_string(rig.path("adder/src/lib.rs")).unwrap();
    let broken = std::fs::read_to_string(example_dir().join("src/lib.rs")).unwrap();
    assert_eq!(
        fixed,
        broken.replace("    a - b\n", "    a + b\n"),
        "only one line changes"
    );
    let results: Vec<_> = first
        .events()
        .into_iter()
        .filter(|event| event["type"] == "tool_result")
        .collect();
    let outputs: Vec<_> = results
        .iter()
        .map(|r| (r["name"].as_str().unwrap(), r["ok"].as_bool().unwrap()))
        .collect();
    assert_eq!(
        outputs,
        [
            ("list_files", true),
            ("run_command", false),
            ("read_file", true),
            ("edit_file", true),
            ("run_command", true)
        ]
    );
    let output = results[4]["output"].as_str().unwrap();
    assert!(
        output.contains("2 passed"),
        "the tests did not run: {output}"
    );
    let second = run();
    assert_eq!(second.code, Some(0), "{}", second.stdout);
    assert_eq!(
        std::fs::read_to_string(rig.path("adder/src/lib.rs")).unwrap(),
        fixed
    );
    let answer = |run: &Finished| {
        let events = run.events();
        let turn = events
            .iter()
            .find(|event| event["type"] == "turn_ended")
            .unwrap();
        turn["text"].as_str().unwrap().to_owned()
    };
    assert!(
        answer(&first).contains("now it adds them"),
        "{}",
        answer(&first)
    );
    assert!(
        answer(&second).contains("nothing to fix"),
        "{}",
        answer(&second)
    );
    assert!(!answer(&second).contains("now adds"), "{}", answer(&second));
}

// Issue 15, point 8: the demo never reports success for unfinished work.
#[test]
fn the_demo_fails_and_says_why_where_cargo_is_unusable() {
    const BROKEN: &str =
        "#!/bin/sh\necho 'error: rustup could not choose a version of cargo to run' >&2\nexit 1\n";
    let rig = Rig::new();
    copy_dir(&example_dir(), &rig.path("adder"));
    let bin = rig.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let run = || {
        let args = [
            "run",
            "Fix the failing test",
            "--agent",
            "scripted",
            "--dir",
            "adder",
            "--trust-project",
        ];
        finish(rig.ostler(&args).env("PATH", &bin))
    };
    let check = |run: &Finished, why: &str| {
        assert_eq!(run.code, Some(3), "{}\n{}", run.stdout, run.stderr);
        assert!(!run.stderr.contains("completed"), "{}", run.stderr);
        assert!(
            run.stderr.contains("✗ unavailable") && run.stderr.contains("hint: "),
            "{}",
            run.stderr
        );
        let message = run
            .stderr
            .lines()
            .find(|line| line.contains("The demo did not finish"));
        assert!(
            message.is_some_and(|message| message.contains(why)),
            "{}",
            run.stderr
        );
    };
    check(&run(), "cargo is allowed but not installed");
    let cargo = rig.file("bin/cargo", BROKEN);
    std::fs::set_permissions(&cargo, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    check(&run(), "rustup could not choose a version");
}

/// Returns the variables that locate Rust on this machine, the only ones that the run sees.
fn rust_env() -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let wanted = ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"];
    std::env::vars_os()
        .filter(|(name, _)| wanted.iter().any(|wanted| name == wanted))
        .collect()
}

// Issue 14, "Commands a model may run": the README's loop in a fresh project without any Ostler
// file.
#[test]
fn a_loop_until_the_tests_pass_needs_no_policy_file() {
    let rig = Rig::new();
    copy_dir(&example_dir(), &rig.path("adder"));
    let script = std::fs::read_to_string(rig.path("adder/.ostler/script.toml")).unwrap();
    let script = rig.file("script.toml", &script);
    std::fs::remove_dir_all(rig.path("adder/.ostler")).unwrap();
    let model = format!("scripted:{}", script.display());
    let args = [
        "loop",
        "make the tests pass",
        "--model",
        &model,
        "--until",
        "cargo test",
        "--dir",
        "adder",
        "--output",
        "events",
    ];
    let done = finish(rig.ostler(&args).envs(rust_env()));
    assert_eq!(done.code, Some(0), "{}", done.stdout);
    let results: Vec<_> = done
        .events()
        .into_iter()
        .filter(|event| event["name"] == "run_command")
        .collect();
    let last = results
        .iter()
        .rev()
        .find(|event| event["type"] == "tool_result")
        .unwrap();
    assert!(
        last["ok"] == true && last["output"].as_str().unwrap().contains("2 passed"),
        "{last}"
    );
}

/// Returns the tool result of one command that the model runs with these flags.
fn result_of(rig: &Rig, command: &str, args: &str, flags: &[&str]) -> String {
    let call = format!(
        "calls = [{{ tool = \"run_command\", input = {{ command = \"{command}\", args = {args} }} }}]"
    );
    let script = rig.file(
        "one.toml",
        &format!(
            "[[reply]]\nwhen = {{ result_of = \"run_command\" }}\ntext = \"done\"\n[[reply]]\ntext = \"go\"\n{call}\n"
        ),
    );
    let setting = format!("script={}", script.display());
    let fixed = [
        "run", "x", "--agent", "scripted", "--dir", "adder", "--output", "events", "--set",
        &setting,
    ];
    let done = finish(rig.ostler(&[&fixed, flags].concat()).envs(rust_env()));
    let result = done
        .events()
        .into_iter()
        .find(|event| event["type"] == "tool_result");
    result.map_or(done.stdout, |result| {
        result["output"].as_str().unwrap().to_owned()
    })
}

// Issue 14, "Commands a model may run".
#[test]
fn flags_say_which_commands_a_model_may_run() {
    let rig = Rig::new();
    copy_dir(&example_dir(), &rig.path("adder"));
    std::fs::remove_dir_all(rig.path("adder/.ostler")).unwrap();
    let version = "[\"--version\"]";
    let refused = result_of(&rig, "cargo", version, &["--commands", "strict"]);
    assert!(
        refused.starts_with("denied_by_policy") && refused.contains("--allow-command"),
        "{refused}"
    );
    let allowed = result_of(
        &rig,
        "cargo",
        version,
        &["--commands", "strict", "--allow-command", "cargo --version"],
    );
    assert!(allowed.contains("exit code 0\ncargo 1."), "{allowed}");
    let other = result_of(
        &rig,
        "cargo",
        "[\"build\"]",
        &["--commands", "strict", "--allow-command", "cargo --version"],
    );
    assert!(
        other.starts_with("denied_by_policy") && other.contains("\"cargo --version\""),
        "{other}"
    );
    let shell = result_of(&rig, "sh", "[\"-c\", \"echo one | wc -l\"]", &[]);
    assert!(
        shell.starts_with("denied_by_policy"),
        "only the preset `any` has a shell: {shell}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn any_command_runs_only_in_the_whole_sandbox() {
    let rig = Rig::new();
    copy_dir(&example_dir(), &rig.path("adder"));
    std::fs::remove_dir_all(rig.path("adder/.ostler")).unwrap();
    let result = result_of(
        &rig,
        "sh",
        "[\"-c\", \"echo one | wc -l\"]",
        &["--commands", "any"],
    );
    let checked = finish(
        rig.ostler(&["sandbox", "check", "--dir", "adder", "--json"])
            .envs(rust_env()),
    );
    let report: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    let is_whole = report["layers"]
        .as_array()
        .unwrap()
        .iter()
        .all(|layer| layer["enforced"] == true);
    match is_whole {
        true => assert!(result.contains("exit code 0\n1"), "{result}"),
        false => assert!(result.contains("needs the whole sandbox"), "{result}"),
    }
}
