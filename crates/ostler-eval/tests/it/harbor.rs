//! Harbor task directories as cases, and what is refused by name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_eval::load::harbor::{is_plain_image, read_dockerfile};
use ostler_eval::load::tree::Problem;

use crate::load::{files, load_in};

const TASK: &str = r#"
schema_version = "1.3"
artifacts = ["/app/out.txt"]
[task]
name = "demo/Hello"
description = "Says hello"
[metadata]
anything = { goes = [1, 2] }
[agent]
timeout_sec = 120.5
[verifier]
timeout_sec = 30
env = { LEVEL = "${LEVEL:-2}" }
[environment]
build_timeout_sec = 600.0
cpus = 1
memory_mb = 2048
env = { A = "1" }
"#;

const DOCKERFILE: &str = r#"# comment
FROM docker.io/library/python:3.12-slim AS base
WORKDIR /srv
ENV BASE=/srv/app NAME="a b"
ENV OLD form of it
WORKDIR $BASE
COPY data ./data
COPY main.py notes.txt ./
COPY ["main.py", "/usr/local/bin/run"]
"#;

fn task(files_: &[(&str, &str)]) -> tempfile::TempDir {
    let mut all = vec![
        ("instruction.md", "Write hello."),
        ("tests/test.sh", "exit 0"),
        ("environment/data/x", "1"),
        ("environment/main.py", "print()"),
        ("environment/notes.txt", "n"),
    ];
    all.extend_from_slice(files_);
    files(&all)
}

fn problems(files_: &[(&str, &str)]) -> Vec<Problem> {
    load_in(task(files_).path(), "").unwrap_err()
}

#[test]
fn a_task_becomes_a_case() {
    let dir = task(&[("task.toml", TASK), ("environment/Dockerfile", DOCKERFILE)]);
    let case = load_in(dir.path(), "").unwrap().cases.remove(0);
    assert_eq!(case.name, "demo/hello");
    assert_eq!(case.prompt, "Write hello.");
    assert_eq!(case.limits.timeout, Some(Duration::from_millis(120_500)));
    let root = case.mounts.unwrap();
    assert_eq!(root.task_dir, dir.path());
    assert_eq!(root.workdir, PathBuf::from("/srv/app"));
    assert_eq!(root.env["A"], "1");
    assert_eq!(root.env["NAME"], "a b");
    assert_eq!(root.env["OLD"], "form of it");
    let context = dir.path().join("environment");
    let copies = [
        ("data", "/srv/app/data"),
        ("main.py", "/srv/app/main.py"),
        ("notes.txt", "/srv/app/notes.txt"),
        ("main.py", "/usr/local/bin/run"),
    ];
    let copies = copies.map(|(from, to)| (context.join(from), PathBuf::from(to)));
    assert_eq!(root.copies, copies);
    let verifier = &case.evaluators[0];
    assert_eq!(verifier.kind, "harbor");
    assert_eq!(verifier.config["timeout_sec"], 30.0);
    assert_eq!(verifier.config["env"]["LEVEL"], "2");
    assert_eq!(verifier.config["artifacts"][0], "/app/out.txt");
}

#[test]
fn every_schema_from_1_0_to_1_4() {
    for version in ["1.0", "1.1", "1.2", "1.3", "1.4"] {
        for key in ["version", "schema_version"] {
            let text = format!("{key} = \"{version}\"\n");
            let dir = task(&[("task.toml", &text)]);
            let case = load_in(dir.path(), "").unwrap().cases.remove(0);
            assert_eq!(case.mounts.unwrap().workdir, PathBuf::from("/app"));
            assert_eq!(case.evaluators[0].config["timeout_sec"], 600);
        }
    }
    let found = problems(&[("task.toml", "schema_version = \"2.0\"\n")]);
    assert!(found[0].message.contains("1.0 to 1.4"), "{found:?}");
}

#[test]
fn what_needs_an_image_is_refused_by_name() {
    for (line, name, part) in [
        ("RUN apt-get install -y jq", "RUN", "apt-get install -y jq"),
        ("ADD https://example.org/x /x", "ADD", "needs an image"),
        ("USER app", "USER", "needs an image"),
        ("FROM debian", "FROM", "several stages"),
        ("COPY --from=base /x /x", "COPY", "--from=base"),
        ("COPY *.py /x", "COPY", "patterns"),
        ("COPY ../secret /x", "COPY", "leaves the directory"),
        ("COPY none /x", "COPY", "does not exist"),
        ("ENV PATH=/x:$PATH", "ENV", "PATH is not set"),
    ] {
        let text = format!("FROM ubuntu:24.04\n\n{line}\n");
        let found = problems(&[
            ("task.toml", "version = \"1.0\"\n"),
            ("environment/Dockerfile", &text),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].file.ends_with("environment/Dockerfile"));
        assert_eq!(
            (found[0].at.unwrap().line, found[0].key.as_str()),
            (3, name)
        );
        assert!(found[0].message.contains(part), "{found:?}");
    }
    let faults = read_dockerfile(
        "FROM mine/app:1 \\\n  AS x\nRUN a \\\n b\nCMD x",
        Path::new("."),
    );
    let faults: Vec<(usize, String)> = faults
        .unwrap_err()
        .into_iter()
        .map(|it| (it.line, it.name))
        .collect();
    assert_eq!(
        faults,
        [(1, "FROM".into()), (3, "RUN".into()), (5, "CMD".into())]
    );
}

#[test]
fn what_needs_another_machine_is_refused_by_name() {
    for (text, key) in [
        ("[environment]\ngpus = 1\n", "environment.gpus"),
        ("[environment]\nos = \"windows\"\n", "environment.os"),
        (
            "[environment]\nnetwork_mode = \"no-network\"\n",
            "environment.network_mode",
        ),
        (
            "[environment]\nallow_internet = false\n",
            "environment.allow_internet",
        ),
        ("[environment]\ndocker_image = \"org/x:1\"\n", "environment"),
        (
            "[[environment.mcp_servers]]\nname = \"x\"\n",
            "environment.mcp_servers",
        ),
        (
            "[environment.healthcheck]\ncommand = \"x\"\n",
            "environment.healthcheck",
        ),
        (
            "[verifier.environment]\ndocker_image = \"x\"\n",
            "verifier.environment",
        ),
        ("[agent]\nuser = \"app\"\n", "agent.user"),
        ("[[steps]]\nname = \"one\"\n", "steps"),
        ("[environment]\ngpu = 1\n", "environment.gpu"),
    ] {
        let found = problems(&[("task.toml", text)]);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert_eq!(found[0].key, key);
    }
    let found = problems(&[("task.toml", ""), ("environment/docker-compose.yaml", "x")]);
    assert!(found[0].message.contains("docker-compose.yaml"));
}

#[test]
fn a_task_has_an_instruction_and_a_verifier() {
    let dir = files(&[("task.toml", "")]);
    let found = load_in(dir.path(), "").unwrap_err();
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_directory_of_tasks() {
    let dir = files(&[
        ("a/task.toml", ""),
        ("a/instruction.md", "x"),
        ("a/tests/test.sh", "x"),
        ("b/task.toml", ""),
        ("b/instruction.md", "x"),
        ("b/tests/test.sh", "x"),
    ]);
    let suite = load_in(dir.path(), "").unwrap();
    let names: Vec<&str> = suite.cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn plain_images() {
    for name in [
        "ubuntu",
        "ubuntu:24.04",
        "docker.io/library/debian:12",
        "python@sha256:ab",
    ] {
        assert!(is_plain_image(name), "{name}");
    }
    for name in ["ghcr.io/org/ubuntu", "me/python", "postgres:16", "ubuntu-x"] {
        assert!(!is_plain_image(name), "{name}");
    }
}
