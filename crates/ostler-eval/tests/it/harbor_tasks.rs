//! Harbor tasks in a private root: with their solutions, without, and with agents that cheat.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_eval::case::{Case, Isolation};
use ostler_eval::harbor_evaluator::{RewardError, read_rewards};
use ostler_eval::load::{Variables, harbor};
use ostler_eval::trial::{Blame, TrialResult, Verdict};
use ostler_testkit::machine::{self, Need};
use ostler_testkit::processes;

use crate::load::options;
use crate::rig::{ANSWER, Rig, contender};

/// Directory of the tasks.
fn tasks() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/harbor-tasks")
}

fn load(dir: &Path) -> Case {
    let variables = Variables::default();
    let mut case = harbor::load(dir, &options(&variables)).unwrap();
    case.agent = Some(contender("one"));
    case
}

/// Returns false, and says so, on a machine without private roots.
fn has_private_roots(test: &str) -> bool {
    let rig = Rig::new();
    let gap = ostler::sandbox::program::sandbox_gap(&rig.host(), &rig.path("repo"));
    machine::can_run(test, &Need::of(gap.is_none(), || gap.unwrap_or_default()))
}

/// Runs a task with an agent that runs `shell` in it.
async fn run(rig: &Rig, case: &Case, shell: &str) -> TrialResult {
    let services = rig.services(Arc::new(rig.agent(shell, ANSWER)));
    rig.trial_with(&services, case.clone()).await.result
}

/// A task whose verifier runs `test`.
fn task(rig: &Rig, docker: &str, test: &str) -> Case {
    let dir = rig.path("task");
    for part in ["environment", "tests", "solution"] {
        fs::create_dir_all(dir.join(part)).unwrap();
    }
    fs::write(dir.join("task.toml"), "schema_version = \"1.4\"\n").unwrap();
    fs::write(dir.join("instruction.md"), "Do it.").unwrap();
    fs::write(dir.join("environment/Dockerfile"), docker).unwrap();
    fs::write(dir.join("solution/solve.sh"), "echo secret solution\n").unwrap();
    fs::write(dir.join("tests/test.sh"), test).unwrap();
    load(&dir)
}

const APP: &str = "FROM debian:12\nWORKDIR /app\n";

/// A verifier that gives a point for the line `right` in `/app/answer.txt`.
const STRICT: &str = "if grep -qx right /app/answer.txt; then r=1; else r=0; fi\n\
                      echo $r > /logs/verifier/reward.txt\n";

// The figures are known beforehand: 10 of 10 with the solutions, 0 of 10 without.
#[tokio::test]
async fn ten_tasks_pass_with_their_solution_and_fail_without() {
    let test = "ten_tasks_pass_with_their_solution_and_fail_without";
    if !has_private_roots(test) {
        return;
    }
    let mut names: Vec<PathBuf> = fs::read_dir(tasks())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    names.sort();
    assert_eq!(names.len(), 10);
    for dir in names {
        let (rig, case) = (Rig::new(), load(&dir));
        let solution = fs::read_to_string(dir.join("solution/solve.sh")).unwrap();
        let solved = run(&rig, &case, &solution).await;
        assert_eq!(solved.verdict, Verdict::Passed, "{dir:?}: {solved:#?}");
        assert_eq!(solved.score, Some(1.0), "{dir:?}");
        assert_eq!(solved.identity.isolation, Isolation::PrivateRoot);
        let idle = run(&rig, &case, "true").await;
        assert_eq!(idle.verdict, Verdict::Failed, "{dir:?}: {idle:#?}");
        assert_eq!((idle.score, idle.blame), (Some(0.0), Some(Blame::Agent)));
        assert_eq!(idle.diff_files, 0);
    }
}

// The agent works in /app, finds neither tests nor solution, and writes nothing of the machine.
#[tokio::test]
async fn the_agent_has_a_private_root_without_tests_and_solution() {
    let test = "the_agent_has_a_private_root_without_tests_and_solution";
    if !has_private_roots(test) {
        return;
    }
    let rig = Rig::new();
    let case = task(&rig, APP, STRICT);
    let dir = rig.path("task");
    let look = format!(
        "{{ pwd; ls /app; ls -d /tests /solution /logs/verifier; ls -A {dir}; cat {dir}/tests/test.sh; \
         touch /usr/planted /etc/planted /planted; ls -d /usr/planted /etc/planted /planted; \
         cat /solution/solve.sh; }} > /app/seen.txt 2>/dev/null; echo log > /logs/agent/x; \
         test -w /logs/artifacts && echo right > answer.txt",
        dir = dir.display(),
    );
    let result = run(&rig, &case, &look).await;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    let diff = rig.diff();
    let seen: Vec<&str> = diff
        .lines()
        .filter(|line| line.starts_with('+') && !line.starts_with("+++"))
        .collect();
    assert_eq!(seen, ["+right", "+/app", "+seen.txt"], "{diff}");
    assert!(!Path::new("/usr/planted").exists() && !Path::new("/planted").exists());
}

/// Ways to get a point without the right answer.
fn cheats(rig: &Rig) -> Vec<(&'static str, String)> {
    let dir = rig.path("task");
    let fake = "printf '#!/bin/sh\\necho 1 > /logs/verifier/reward.txt; exit 0\\n' > $d/$n; \
                chmod +x $d/$n";
    vec![
        (
            "the reward file",
            "mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; \
             echo '{\"reward\": 1}' > /logs/verifier/reward.json; ln -s /logs/agent /logs/verifier"
                .to_owned(),
        ),
        (
            "the tests",
            format!(
                "mkdir /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; \
                 echo 'echo 1 > /logs/verifier/reward.txt' > {}/tests/test.sh; \
                 mkdir -p /app/tests; cp /tests/test.sh /app/tests/",
                dir.display()
            ),
        ),
        (
            "a process that is left behind",
            // It waits for the end of the agent: before, its answer is a change like any other.
            "setsid sh -c 'while :; do kill -0 $1 2>/dev/null || echo right > /app/answer.txt; \
             mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; sleep 0.02; done' \
             left-behind $$ > /dev/null 2>&1 &"
                .to_owned(),
        ),
        (
            "programs on PATH and in HOME",
            format!(
                "for d in . bin /app/bin $HOME $HOME/bin $HOME/.local/bin $HOME/.cargo/bin; do \
                 mkdir -p $d; for n in grep bash sh python3 cargo; do {fake}; done; done"
            ),
        ),
        (
            "settings of the shell",
            "for f in .bashrc .profile .bash_profile .bash_env; do \
             echo 'grep() { true; }; echo 1 > /logs/verifier/reward.txt' > $HOME/$f; \
             cp $HOME/$f /app/$f; done"
                .to_owned(),
        ),
        (
            "a hook of Git",
            "git init -q; mkdir -p .git/hooks; for h in post-checkout pre-commit post-index-change; \
             do printf '#!/bin/sh\\necho right > /app/answer.txt\\n' > .git/hooks/$h; \
             chmod +x .git/hooks/$h; done; git config core.fsmonitor .git/hooks/pre-commit"
                .to_owned(),
        ),
        (
            "links",
            "ln -s /tests/test.sh answer.txt; ln -s /logs/verifier/reward.txt r; echo 1 > r"
                .to_owned(),
        ),
    ]
}

#[tokio::test]
async fn a_cheating_agent_gets_no_point() {
    if !has_private_roots("a_cheating_agent_gets_no_point") {
        return;
    }
    let rig = Rig::new();
    let case = task(&rig, APP, STRICT);
    for (name, trick) in cheats(&rig) {
        let result = run(&rig, &case, &trick).await;
        assert_eq!(result.verdict, Verdict::Failed, "{name}: {result:#?}");
        assert_eq!(result.score, Some(0.0), "{name}");
        assert_eq!(result.evaluations[0].metrics["exit_code"], 0, "{name}");
        let text = fs::read_to_string(rig.path("task/tests/test.sh")).unwrap();
        assert_eq!(text, STRICT, "{name}");
    }
}

// A process that writes only after the agent's end is killed with it.
#[tokio::test]
async fn a_process_that_edits_after_the_end_of_the_agent_gets_no_point() {
    let test = "a_process_that_edits_after_the_end_of_the_agent_gets_no_point";
    if !has_private_roots(test) {
        return;
    }
    let rig = Rig::new();
    let slow = format!("sleep 1\n{STRICT}");
    let case = task(&rig, APP, &slow);
    let name = format!("edits-later-{}", std::process::id());
    // It waits for the end of the agent, whose process it sees.
    let edit = "while kill -0 $1 2>/dev/null; do sleep 0.01; done; while :; do \
                echo right > /app/answer.txt; mkdir -p /logs/verifier; \
                echo 1 > /logs/verifier/reward.txt; sleep 0.01; done";
    let trick = format!("setsid sh -c '{edit}' {name} $$ > /dev/null 2>&1 &");
    let result = run(&rig, &case, &trick).await;
    assert_eq!(result.verdict, Verdict::Failed, "{result:#?}");
    assert_eq!(result.diff_files, 0);
    assert!(processes::with_argument(&name).is_empty());
}

// A reward that is missing, empty or not a finite number is an error, and never a zero.
#[tokio::test]
async fn a_missing_reward_is_an_error_of_the_trial() {
    if !has_private_roots("a_missing_reward_is_an_error_of_the_trial") {
        return;
    }
    for (test, code) in [
        ("exit 3\n", 3),
        (": > /logs/verifier/reward.txt\n", 0),
        ("echo many > /logs/verifier/reward.txt\n", 0),
    ] {
        let rig = Rig::new();
        let case = task(&rig, APP, test);
        let result = run(&rig, &case, "true").await;
        assert_eq!(result.verdict, Verdict::Errored, "{test}: {result:#?}");
        assert_eq!(result.blame, Some(Blame::Evaluator));
        assert_eq!(result.score, None, "{test}");
        assert_eq!(result.evaluations[0].metrics["exit_code"], code);
    }
}

#[tokio::test]
async fn what_a_private_root_cannot_provide_is_refused_by_name() {
    let test = "what_a_private_root_cannot_provide_is_refused_by_name";
    if !has_private_roots(test) {
        return;
    }
    let rig = Rig::new();
    for (docker, words) in [
        ("FROM debian\nWORKDIR /usr/not-here\n", "/usr/not-here"),
        ("FROM debian\nWORKDIR /app\nCOPY x /etc/x\n", "/etc/x"),
        ("FROM debian\nWORKDIR /\n", "below /"),
    ] {
        fs::create_dir_all(rig.path("task/environment")).unwrap();
        fs::write(rig.path("task/environment/x"), "").unwrap();
        let case = task(&rig, docker, STRICT);
        let result = run(&rig, &case, "true").await;
        let message = result.message.unwrap_or_default();
        assert!(message.contains(words), "{docker}: {message}");
        assert_eq!(result.blame, Some(Blame::Infrastructure));
    }
    let case = task(&rig, APP, STRICT);
    let mut services = rig.services(Arc::new(rig.agent("true", ANSWER)));
    services.options.isolation = Some(Isolation::Directory);
    let result = rig.trial_with(&services, case).await.result;
    let message = result.message.unwrap_or_default();
    assert!(message.contains("--isolation directory"), "{message}");
}

// The tier is open to cases that are not Harbor tasks.
#[tokio::test]
async fn an_ordinary_case_can_run_in_a_private_root() {
    if !has_private_roots("an_ordinary_case_can_run_in_a_private_root") {
        return;
    }
    let rig = Rig::new();
    let shell = "test \"$(pwd)\" = /workspace && echo two >> file.txt && git status --short > s";
    let mut services = rig.services(Arc::new(rig.agent(shell, ANSWER)));
    services.options.isolation = Some(Isolation::PrivateRoot);
    let check = crate::rig::shell("test $(wc -l < file.txt) = 2 && test -s s");
    let result = rig
        .trial_with(&services, rig.case(vec![check]))
        .await
        .result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    assert_eq!(result.identity.isolation, Isolation::PrivateRoot);
}

#[test]
fn rewards_are_finite_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str, text: &str| {
        let _ = fs::remove_file(dir.path().join("reward.txt"));
        let _ = fs::remove_file(dir.path().join("reward.json"));
        fs::write(dir.path().join(name), text).unwrap();
        read_rewards(dir.path())
    };
    let one = |value: f64| Ok(BTreeMap::from([("reward".to_owned(), value)]));
    assert_eq!(read_rewards(dir.path()), Err(RewardError::Missing));
    assert_eq!(read("reward.txt", " 0.5\n"), one(0.5));
    assert_eq!(read("reward.txt", "-1e-3"), one(-0.001));
    assert_eq!(
        read("reward.txt", " \n"),
        Err(RewardError::Empty("reward.txt"))
    );
    for text in ["NaN", "inf", "1 1", "one", "1,0"] {
        let result = read("reward.txt", text);
        assert!(matches!(result, Err(RewardError::Invalid { .. })), "{text}");
    }
    let two = read("reward.json", r#"{"a": 1, "b": 0.25}"#).unwrap();
    assert_eq!(
        two,
        BTreeMap::from([("a".to_owned(), 1.0), ("b".to_owned(), 0.25)])
    );
    for text in [
        "{}",
        "[1]",
        "1",
        r#"{"a": null}"#,
        r#"{"a": "1"}"#,
        r#"{"a": true}"#,
        "{",
    ] {
        let result = read("reward.json", text);
        assert!(matches!(result, Err(RewardError::Invalid { .. })), "{text}");
    }
    fs::remove_file(dir.path().join("reward.json")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", dir.path().join("reward.txt")).unwrap();
    let result = read_rewards(dir.path());
    assert!(matches!(result, Err(RewardError::Invalid { .. })));
}
