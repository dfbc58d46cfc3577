//! `ostler eval` after a run: comparing contenders and runs, gates, budgets, and SWE-bench.

use std::process::Command;

use ostler_testkit::fake;
use ostler_testkit::machine::{self, Need};
use ostler_testkit::processes;
use ostler_testkit::pty::Pty;
use serde_json::{Value, json};

use crate::eval::{SCRIPT, eval, example, object, run, suite};
use crate::rig::{PATIENCE, Rig, collect};

/// A script that writes a file and answers.
const WRITES: &str = "[[reply]]\ncalls = [{ tool = \"write_file\", input = { path = \"done.txt\", \
                      content = \"yes\" } }]\n[[reply]]\nrepeat = true\ntext = \"done\"\nusage = { \
                      input = 10, output = 5 }\n";

/// A suite with two contenders: one solves the case, the other does not.
fn two_contenders(rig: &Rig) -> String {
    suite(rig, "done.txt", SCRIPT);
    rig.file("suite/writes.toml", WRITES);
    rig.file(
        "suite/suite.yaml",
        "suite: two\ncases: [cases]\nagents:\n  - agent: scripted\n    label: idle\n    settings: { \
         script: script.toml }\n  - agent: scripted\n    label: busy\n    settings: { script: \
         writes.toml }\n",
    );
    let done = run(rig, &["run", "suite", "--json"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    object(&done)["run"].as_str().unwrap().to_owned()
}

#[test]
fn contenders_of_a_run_are_compared() {
    let rig = Rig::new();
    let name = two_contenders(&rig);
    for args in [
        &["compare", &name, "--json"][..],
        &["compare", &name, "--pair", "idle=busy", "--json"],
        &["compare", &name, &name, "--pair", "idle=busy", "--json"],
    ] {
        let compared = run(&rig, args);
        assert_eq!(compared.code, Some(0), "{args:?}: {}", compared.stderr);
        let compared = object(&compared);
        let pair = &compared["contenders"][0];
        assert_eq!(pair[0], "idle → busy", "{compared:#}");
        assert_eq!(pair[1]["gained"][0]["case"], "readme", "{compared:#}");
    }
    let shown = run(&rig, &["compare", &name]);
    for part in ["idle → busy", "+100.0pp", "busy gained"] {
        assert!(shown.stdout.contains(part), "{}", shown.stdout);
    }
    let report = run(&rig, &["report", &name]);
    assert!(report.stdout.contains("idle → busy"), "{}", report.stdout);
    let report = run(&rig, &["report", &name, "--format", "md"]);
    assert!(
        report.stdout.contains("| idle → busy |"),
        "{}",
        report.stdout
    );
    let report = run(&rig, &["report", &name, "--format", "html"]);
    assert!(report.stdout.contains("idle → busy"), "{}", report.stdout);
    let unknown = run(&rig, &["compare", &name, "--pair", "idle=nobody"]);
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("idle, busy"), "{}", unknown.stderr);
}

#[test]
fn a_gate_compares_only_what_is_comparable() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    let start = |code| {
        let done = run(&rig, &["run", "suite", "--json"]);
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        object(&done)["run"].as_str().unwrap().to_owned()
    };
    let baseline = start(0);
    let same = start(0);
    let gate = |name: &str, more: &[&str]| {
        let args = [&["gate", name, "--against", &baseline][..], more].concat();
        run(&rig, &args)
    };
    let passed = gate(&same, &[]);
    assert_eq!(passed.code, Some(0), "{}", passed.stderr);
    // Another definition of the case is not comparable, unless that is allowed.
    suite(&rig, "missing.txt", SCRIPT);
    let other = start(1);
    let refused = gate(&other, &[]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("case_hash"), "{}", refused.stderr);
    let allowed = ["--allow-difference", "case_hash"];
    let failed = gate(&other, &allowed);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    assert!(failed.stderr.contains("-100.0pp"), "{}", failed.stderr);
    let tolerant = [&allowed[..], &["--max-regression", "100pp"]].concat();
    assert_eq!(gate(&other, &tolerant).code, Some(0));
    let compared = run(&rig, &["compare", &baseline, &other]);
    assert_eq!(compared.code, Some(2), "{}", compared.stdout);
}

/// Configures the fake agent as Claude Code. One answer of it costs $0.0009.
fn install_fake(rig: &Rig) {
    let script = fake::script(rig.dir(), "read\ninit\ntext all done\nresult all done\n");
    let config = format!(
        "[agents.claude]\ncommand = {:?}\n[agents.claude.env]\n{} = {script:?}\n",
        fake::program(),
        fake::SCRIPT,
    );
    std::fs::create_dir_all(rig.path(".config/ostler")).unwrap();
    rig.file(".config/ostler/ostler.toml", &config);
}

// The whole run, and the trial that is under way: phase, time, tokens and cost.
#[test]
fn a_terminal_shows_the_progress_of_a_run() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    install_fake(&rig);
    let (count, gate) = (rig.path("count"), rig.path("gate"));
    // The first trial ends at once, and the second waits for the gate.
    let line = format!(
        "echo x >> {count}; test $(wc -l < {count}) = 1 || until test -e {gate}; do sleep 0.02; done",
        count = count.display(),
        gate = gate.display()
    );
    let case = json!({
        "name": "readme",
        "directory": "../start",
        "prompt": "Say hello.",
        "evaluators": [{"name": "command", "config": {"command": ["sh", "-c", line]}}],
    });
    rig.file("suite/cases/readme.yaml", &case.to_string());
    let args = [
        "run",
        "suite",
        "--agent",
        "claude",
        "--jobs",
        "1",
        "--isolation",
        "directory",
    ];
    let mut terminal = Pty::start(&eval(&rig, &args));
    for part in [
        "1/2 done, 1/1 passed, $0.00, ",
        " left │ readme · claude #2 evaluating ",
        " tokens $0.00",
    ] {
        terminal.until_seen(part, 1);
    }
    std::fs::write(gate, "").unwrap();
    terminal.until_seen("[2/2] passed  readme · claude #2", 1);
    assert_eq!(terminal.end(), Some(0), "{}", terminal.seen());
}

// Exit code 6, and `--resume` with a higher budget. Options that a resumed run cannot honour are
// refused.
#[test]
fn a_budget_ends_a_run_and_a_higher_one_resumes_it() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    install_fake(&rig);
    let args = ["run", "suite", "--agent", "claude", "--jobs", "1"];
    let ended = run(&rig, &[&args[..], &["--budget-usd", "0.001"]].concat());
    assert_eq!(ended.code, Some(6), "{}", ended.stderr);
    let row = object(&run(&rig, &["list", "--json"]));
    let name = row["run"].as_str().unwrap();
    for refused in [["--artifacts", "x"], ["--var", "A=b"], ["--allow-env", "A"]] {
        let again = run(&rig, &[&["run", "--resume", name][..], &refused].concat());
        assert_eq!(again.code, Some(2), "{refused:?}: {}", again.stderr);
    }
    let more = ["run", "--resume", name, "--budget-usd", "100", "--json"];
    let done = run(&rig, &more);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let row = object(&run(&rig, &["list", "--json"]));
    assert_eq!(
        (&row["done"], &row["budget_usd"]),
        (&2.into(), &100.0.into())
    );
}

// As document 004 writes it.
#[test]
fn a_case_file_runs_with_c_and_variables_of_a_file() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    let script = rig.path("suite/script.toml");
    let case = json!({
        "name": "readme",
        "directory": "../start",
        "agent": {"type": "scripted", "config": {"prompt": "${WORDS}", "script": script}},
        "evaluators": [{"name": "files", "config": {"exists": ["README.md"]}}],
    });
    rig.file("suite/cases/readme.yaml", &case.to_string());
    rig.file("vars.env", "# words\nWORDS=\"Say hello.\"\n");
    let args = ["-c", "suite/cases/readme.yaml", "--json"];
    assert_eq!(run(&rig, &args).code, Some(2));
    let done = run(&rig, &[&args[..], &["--var-file", "vars.env"]].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(object(&done)["trials"][0]["verdict"], "passed");
}

#[test]
fn files_that_do_not_exist_are_found_before_a_run() {
    let rig = Rig::new();
    suite(&rig, "README.md", SCRIPT);
    rig.file(
        "suite/cases/readme.yaml",
        "name: readme\ndirectory: ../start\nprompt: Say hello.\nevaluators:\n  - name: command\n    \
         config:\n      command: 'true'\n      overlay: hidden\n      copies: { a: b.txt }\n  \
         - name: script\n    config: { command: ./judge.sh }\n",
    );
    let found = run(&rig, &["validate", "suite", "--json"]);
    assert_eq!(found.code, Some(2), "{}", found.stdout);
    let problems = object(&found);
    let problems = problems["problems"].as_array().unwrap();
    let places: Vec<(&str, u64)> = problems
        .iter()
        .map(|it| (it["key"].as_str().unwrap(), it["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(
        places,
        [
            ("evaluators[0].config.overlay", 8),
            ("evaluators[0].config.copies", 9),
            ("evaluators[1].config.command", 11),
        ]
    );
}

/// The hidden tests of a commit fail at its parent, and pass with its change.
#[test]
fn a_case_from_a_commit_judges_its_solution() {
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
    rig.file("repo/Makefile", "test:\n\tsh tests/check.sh\n");
    rig.file("repo/tests/check.sh", "test -e sum.sh\n");
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "start"]);
    rig.file("repo/sum.sh", "echo 4\n");
    rig.file("repo/tests/check.sh", "test \"$(sh sum.sh)\" = 4\n");
    git(&["commit", "-q", "-a", "-m", "Make the sum four"]);
    let made = run(
        &rig,
        &["new-case", "--from-commit", "HEAD", "--repo", "repo"],
    );
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    rig.file("idle.toml", SCRIPT);
    let solve = WRITES
        .replace("done.txt", "sum.sh")
        .replace("yes", "echo 4");
    rig.file("solve.toml", &solve);
    rig.file(
        "suite.yaml",
        "suite: commit\ncases: [cases]\nagents:\n  - { agent: scripted, label: parent, settings: { \
         script: idle.toml } }\n  - { agent: scripted, label: commit, settings: { script: \
         solve.toml } }\n",
    );
    let done = run(&rig, &["run", "suite.yaml", "--json"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let report = object(&done);
    let verdict = |label: &str| {
        let mut trials = report["trials"].as_array().unwrap().iter();
        trials.find(|it| it["contender"] == label).unwrap()["verdict"].clone()
    };
    assert_eq!(
        (verdict("parent"), verdict("commit")),
        (Value::from("failed"), Value::from("passed")),
        "{report:#}"
    );
}

// The verdict is SWE-bench's own: Ostler only writes the predictions.
#[test]
fn rows_of_swe_bench_become_predictions() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path("mirror/org/proj.git")).unwrap();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=u", "-c", "user.email=u@localhost"]);
        let command = command
            .args(args)
            .current_dir(rig.path("mirror/org/proj.git"));
        let done = command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["commit", "-q", "--allow-empty", "-m", "start"]);
    let commit = git(&["rev-parse", "HEAD"]);
    let mirror = rig.path("mirror");
    let mirror = mirror.display();
    rig.file(
        ".gitconfig",
        &format!(
            "[url \"file://{mirror}/\"]\n\tinsteadOf = https://github.com/\n\
             [protocol \"file\"]\n\tallow = always\n"
        ),
    );
    let row = json!({
        "instance_id": "org__proj-1",
        "repo": "org/proj",
        "base_commit": commit,
        "problem_statement": "It fails.",
    });
    rig.file("rows.jsonl", &format!("{row}\n"));
    rig.file("writes.toml", WRITES);
    rig.file(
        "rows.yaml",
        "suite: rows\ncases: [rows.jsonl]\nagents:\n  - { agent: scripted, label: busy, settings: { \
         script: writes.toml } }\n",
    );
    let done = run(&rig, &["run", "rows.yaml", "--json"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let report = object(&done);
    assert_eq!(report["trials"][0]["verdict"], "skipped", "{report:#}");
    assert_eq!(report["agents"][0]["scored"], 0, "{report:#}");
    let name = report["run"].as_str().unwrap();
    let written = run(&rig, &["report", name, "--format", "predictions"]);
    let prediction = object(&written);
    assert_eq!(prediction["instance_id"], "org__proj-1");
    assert_eq!(prediction["model_name_or_path"], "busy");
    let patch = prediction["model_patch"].as_str().unwrap();
    assert!(patch.contains("+yes"), "{patch}");
    // A skipped trial is no failure, neither of the run nor of a regrade.
    let regraded = run(&rig, &["regrade", name, "--json"]);
    assert_eq!(regraded.code, Some(0), "{}", regraded.stderr);
    assert_eq!(object(&regraded)["trials"][0]["verdict"], "skipped");
    // A run without rows has no predictions.
    let name = two_contenders(&rig);
    let refused = run(&rig, &["report", &name, "--format", "predictions"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
}

/// The tasks of the repository run without an account: all are solved by their own solutions, and
/// none by doing nothing.
#[test]
fn harbor_tasks_run_with_the_reference_agents() {
    let rig = Rig::new();
    let tasks = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/harbor-tasks");
    let args = ["run", tasks, "--agent", "oracle,nop", "--json"];
    let done = run(&rig, &args);
    let report = object(&done);
    let trials = report["trials"].as_array().unwrap();
    let gap = trials.iter().find_map(|trial| {
        let message = trial["message"].as_str()?;
        message
            .contains("private root is not available")
            .then_some(message)
    });
    let need = Need::of(gap.is_none(), || gap.unwrap_or_default().to_owned());
    if !machine::can_run("harbor_tasks_run_with_the_reference_agents", &need) {
        return;
    }
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert_eq!(trials.len(), 20, "{report:#}");
    for trial in trials {
        let verdict = match trial["contender"].as_str() {
            Some("oracle") => "passed",
            _ => "failed",
        };
        assert_eq!(trial["verdict"], verdict, "{trial:#}");
    }
    // A case without a solution says so.
    suite(&rig, "README.md", SCRIPT);
    let args = ["run", "suite", "--agent", "oracle", "--json"];
    let done = run(&rig, &args);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let message = object(&done)["trials"][0]["message"].to_string();
    assert!(message.contains("`expected`"), "{message}");
}

// S4-30: the report and the comparison of the example fit into a terminal.
#[test]
fn the_example_is_compared() {
    let rig = Rig::new();
    let done = run(&rig, &["run", &example()]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stdout.contains("careful → hasty"), "{}", done.stdout);
    assert!(
        done.stdout
            .contains("6 of 6 trials scored, 0 timed out, 0 infrastructure, 0 cancelled"),
        "{}",
        done.stdout
    );
    for line in done.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

// Both claim from one ledger: every trial has one attempt, of one of the two processes.
#[test]
fn two_programs_work_on_one_run() {
    let rig = Rig::new();
    let wait = rig.path("both");
    suite(&rig, "README.md", SCRIPT);
    // No trial can end before both programs have claimed one.
    let case = format!(
        "name: readme\ndirectory: ../start\nprompt: Say hello.\nevaluators:\n  - name: command\n    \
         config: {{ command: [sh, -c, 'until test -e {}; do sleep 0.02; done'] }}\n",
        wait.display()
    );
    rig.file("suite/cases/readme.yaml", &case);
    let args = [
        "run",
        "suite",
        "--repeat",
        "6",
        "--jobs",
        "1",
        "--isolation",
        "directory",
    ];
    let first = eval(&rig, &args).spawn().unwrap();
    let row = || {
        let listed = run(&rig, &["list", "--json"]);
        serde_json::from_str::<Value>(&listed.stdout).unwrap_or_default()
    };
    assert!(processes::wait_until(PATIENCE, || row()["running"] == 1));
    let name = row()["run"].as_str().unwrap().to_owned();
    let resume = ["run", "--resume", &name, "--jobs", "1"];
    let second = eval(&rig, &resume).spawn().unwrap();
    assert!(processes::wait_until(PATIENCE, || row()["running"] == 2));
    std::fs::write(wait, "").unwrap();
    for program in [first, second] {
        let done = collect(program);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let store = ostler_store::Store::open(&rig.path(".local/state/ostler")).unwrap();
    let trials = ostler_store::Ledger::new(&store).trials(&name).unwrap();
    assert_eq!(trials.len(), 6);
    assert!(
        trials.iter().all(|trial| trial.attempts.len() == 1),
        "{trials:?}"
    );
    let attempts = trials.iter().flat_map(|trial| &trial.attempts);
    let workers: std::collections::BTreeSet<&str> =
        attempts.map(|attempt| attempt.worker.as_str()).collect();
    assert_eq!(workers.len(), 2, "{trials:?}");
}
