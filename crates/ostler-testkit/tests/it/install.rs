//! Installation of real agents, with a fake npm: once, completely or not at all, and failures with
//! a fix.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use ostler_testkit::real;

/// A slow fake `npm` that installs the files of every agent, whichever is requested.
fn installs() -> String {
    let programs = light().flat_map(|agent| agent.programs());
    let made = programs.map(|file| format!("mkdir -p \"$(dirname '{file}')\"; echo > '{file}'\n"));
    format!(
        "echo run >> \"$NPM_LOG\"; sleep 0.2\n{}",
        made.collect::<String>()
    )
}

fn light() -> impl Iterator<Item = real::Pinned> {
    real::all().filter(|agent| !agent.heavy)
}

/// Starts the installer with an `npm` that runs `script`.
fn start(dir: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_install-agents"));
    command
        .arg(dir.join("target"))
        .env("NPM_LOG", dir.join("npm.log"));
    command.env(
        "PATH",
        format!("{}:/usr/bin:/bin", dir.join("bin").display()),
    );
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn stand_in_for_npm(dir: &Path, script: &str) {
    fs::create_dir_all(dir.join("bin")).unwrap();
    // Written by another process: a file this process writes cannot be executed while a sibling
    // test forks.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$2\" && chmod +x \"$2\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", write, "sh", script])
        .arg(dir.join("bin/npm"));
    assert!(command.status().unwrap().success());
}

fn run(dir: &Path) -> Output {
    start(dir).wait_with_output().unwrap()
}

// P34
#[test]
fn ten_first_uses_at_once_do_one_download() {
    let dir = tempfile::tempdir().unwrap();
    stand_in_for_npm(dir.path(), &installs());
    let started: Vec<Child> = (0..10).map(|_| start(dir.path())).collect();
    for child in started {
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let programs = stdout.lines().filter_map(|line| line.rsplit(' ').next());
        assert_eq!(
            programs
                .filter(|program| Path::new(program).is_file())
                .count(),
            light().count(),
            "{stdout}"
        );
        assert!(output.status.success());
    }
    let downloads = fs::read_to_string(dir.path().join("npm.log")).unwrap();
    assert_eq!(downloads.lines().count(), light().count(), "one per agent");
    let left = fs::read_dir(dir.path().join("target/agents"))
        .unwrap()
        .count();
    assert_eq!(
        left,
        light().count() + 1,
        "the installs and the lock, no leftovers"
    );
}

#[test]
fn a_failure_is_one_line_with_the_fix_and_leaves_nothing() {
    for (script, reason) in [
        ("echo 'npm error code ENOTFOUND' >&2; exit 1", "ENOTFOUND"),
        ("mkdir -p node_modules", "npm has no claude for"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        stand_in_for_npm(dir.path(), script);
        let output = run(dir.path());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), stderr.lines().count()),
            (Some(1), 1),
            "{stderr}"
        );
        assert!(stderr.contains(reason), "{stderr}");
        assert_eq!(
            fs::read_dir(dir.path().join("target/agents"))
                .unwrap()
                .count(),
            1
        );
    }
}
