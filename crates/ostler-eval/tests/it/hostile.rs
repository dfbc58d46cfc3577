//! Agents that cheat: none of it gets a point.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ostler_eval::case::Isolation;
use ostler_eval::trial::Verdict;
use ostler_testkit::machine::{self, Need};
use ostler_testkit::processes;
use serde_json::json;

use crate::rig::{ANSWER, Rig, evaluator, shell};

// Failure catalogue 24, and every other way to confuse Git: the diff is the same.
#[tokio::test]
async fn the_diff_does_not_depend_on_the_agents_repository() {
    let rig = Rig::new();
    let marker = rig.path("marker");
    let mark = format!("touch {}", marker.display());
    let hook = format!("printf '#!/bin/sh\\n{mark}\\n' > $h; chmod +x $h");
    let change = "printf 'one\\ntwo\\n' > file.txt; echo new > new.txt";
    let cases = [
        ("plain", "true".to_owned()),
        ("committed", "git add -A; git commit -qm work".to_owned()),
        ("staged", "git add -A".to_owned()),
        (
            "amended",
            "git add -A; git commit -q --amend -m other".to_owned(),
        ),
        ("deleted .git", "rm -rf .git".to_owned()),
        (
            "replaced .git",
            "rm -rf .git; git init -q; git add -A; git commit -qm all".to_owned(),
        ),
        (
            "a file as .git",
            "rm -rf .git; echo 'gitdir: /nowhere' > .git".to_owned(),
        ),
        ("a link as .git", "rm -rf .git; ln -s / .git".to_owned()),
        (
            "hooks",
            format!(
                "for n in post-checkout post-index-change pre-commit reference-transaction; do \
                 h=.git/hooks/$n; mkdir -p .git/hooks; {hook}; done"
            ),
        ),
        (
            "fsmonitor",
            format!("h=.git/fs; {hook}; git config core.fsmonitor $PWD/.git/fs"),
        ),
        (
            "filters",
            format!(
                "git config filter.f.clean '{mark}; cat'; git config diff.f.textconv '{mark}; cat'; \
                 mkdir -p .git/info; echo '* filter=f diff=f -text' > .git/info/attributes"
            ),
        ),
        (
            "ignored",
            "echo new.txt >> .git/info/exclude; git config core.excludesFile $PWD/x".to_owned(),
        ),
        (
            "assume unchanged",
            "git update-index --assume-unchanged file.txt".to_owned(),
        ),
        (
            "skip worktree",
            "git update-index --skip-worktree file.txt".to_owned(),
        ),
        (
            "replaced commit",
            "git add -A; git commit -qm w; git replace -f HEAD~1 HEAD".to_owned(),
        ),
        (
            "sparse",
            "git sparse-checkout set nothing 2>/dev/null; printf 'one\\ntwo\\n' > file.txt; \
          echo new > new.txt"
                .to_owned(),
        ),
    ];
    for (name, trick) in cases {
        let agent = rig.agent(&format!("{change}\n{trick}"), ANSWER);
        let line = "test $(wc -l < file.txt) = 2 && grep -q new new.txt && test -d .git && \
                    git status --short > /dev/null && ! test -e .git/hooks/pre-commit";
        let result = rig.trial(agent, rig.case(vec![shell(line)])).await.result;
        assert_eq!(
            (result.verdict, result.diff_files),
            (Verdict::Passed, 2),
            "{name}: {result:#?}"
        );
        let diff = rig.diff();
        assert!(
            diff.contains("+two") && diff.contains("+new"),
            "{name}: {diff}"
        );
        assert!(!marker.exists(), "{name}: a command of the agent was run");
    }
}

// What the agent writes into the tree cannot hide a change either.
#[tokio::test]
async fn changes_cannot_be_hidden_by_files_in_the_tree() {
    let rig = Rig::new();
    for (name, trick, files) in [
        ("ignore", "echo '*' > .gitignore; echo n > new.txt", 2),
        (
            "attributes",
            "echo '* -diff -text filter=x ident' > .gitattributes; echo n > new.txt",
            2,
        ),
        (
            "nested repository",
            "mkdir sub; cd sub; git init -q; echo n > new.txt; git add -A; git commit -qm x",
            1,
        ),
        ("binary", "printf '\\000\\001n' > new.txt", 1),
        ("link", "ln -s /etc/passwd new.txt", 1),
        (
            "a directory for a file",
            "rm file.txt; mkdir file.txt; echo n > file.txt/new.txt",
            2,
        ),
        (
            "a link for a directory",
            "mkdir d; echo n > d/new.txt; rm file.txt; ln -s d file.txt",
            2,
        ),
        (
            "odd names",
            "echo n > \"$(printf 'a\\nb\\t\"new.txt')\"; echo n > -f",
            2,
        ),
        (
            "no permission",
            "mkdir p; echo n > p/new.txt; chmod 000 p/new.txt p",
            1,
        ),
        (
            "build output",
            "mkdir -p target; echo n > target/new.txt; echo n > new.txt",
            1,
        ),
    ] {
        let agent = rig.agent(trick, ANSWER);
        let result = rig.trial(agent, rig.case(vec![shell("true")])).await.result;
        assert_eq!(
            (result.verdict, result.diff_files),
            (Verdict::Passed, files),
            "{name}: {result:#?}"
        );
        assert!(!rig.diff().is_empty(), "{name}");
    }
    let agent = rig.agent("cd /; rm -rf \"$OLDPWD\"", ANSWER);
    let result = rig
        .trial(agent, rig.case(vec![shell("! test -e file.txt")]))
        .await
        .result;
    assert_eq!(
        (result.verdict, result.diff_files),
        (Verdict::Passed, 2),
        "{result:#?}"
    );
}

#[tokio::test]
async fn a_tool_that_the_agent_planted_does_not_judge() {
    let rig = Rig::new();
    rig.program(&rig.path("bin/judge-tool"), "#!/bin/sh\nexit 1\n");
    let plant = "for d in . bin \"$HOME/bin\" \"$HOME/.local/bin\" \"$HOME/.cargo/bin\"; do \
                 mkdir -p $d; printf '#!/bin/sh\\nexit 0\\n' > $d/judge-tool; \
                 chmod +x $d/judge-tool; done; echo 'judge-tool() { true; }' > \"$HOME/.profile\"; \
                 cp \"$HOME/.profile\" \"$HOME/.bashrc\"; git config --global alias.x '!true'";
    let agent = rig.agent(plant, ANSWER);
    let case = rig.case(vec![evaluator("command", json!({"command": "judge-tool"}))]);
    let result = rig.trial(agent, case).await.result;
    assert_eq!(result.verdict, Verdict::Failed);
    assert_eq!(result.evaluations[0].metrics["exit_code"], 1);
}

// A process that edits later is gone before anything is captured.
#[tokio::test]
async fn a_process_left_behind_changes_nothing() {
    let rig = Rig::new();
    let name = format!("left-behind-{}", std::process::id());
    let script = rig.path("late.sh");
    rig.program(
        &script,
        "#!/bin/sh\nwhile :; do echo late >> file.txt; sleep 0.02; done\n",
    );
    let start = format!("setsid {} {name} > /dev/null 2>&1 &", script.display());
    let agent = rig.agent(&format!("{start}\nsleep 0.2"), ANSWER);
    let line = "a=$(wc -l < file.txt); sleep 0.3; test $a = $(wc -l < file.txt)";
    let result = rig.trial(agent, rig.case(vec![shell(line)])).await.result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    assert!(processes::with_argument(&name).is_empty());
    assert!(result.diff_files <= 1);
}

#[tokio::test]
async fn hidden_tests_replace_what_the_agent_left_in_their_place() {
    let rig = Rig::new();
    fs::create_dir(rig.path("hidden")).unwrap();
    fs::write(rig.path("hidden/check.sh"), "exit 1\n").unwrap();
    let agent = rig.agent(
        "mkdir real; echo 'exit 0' > real/check.sh; ln -s real tests",
        ANSWER,
    );
    let config = json!({"command": ["sh", "tests/check.sh"], "copies": {"tests": "hidden"}});
    let case = rig.case(vec![evaluator("command", config)]);
    let result = rig.trial(agent, case).await.result;
    assert_eq!(result.verdict, Verdict::Failed, "{result:#?}");
}

// The sandbox hides what would give the solution away, and nothing outside can be written.
#[tokio::test]
async fn a_sandboxed_agent_reads_no_solution_and_writes_nothing_outside() {
    let rig = Rig::new();
    let gap = ostler::sandbox::program::sandbox_gap(&rig.host(), &rig.path("repo"));
    let need = Need::of(gap.is_none(), || gap.unwrap_or_default());
    let test = "a_sandboxed_agent_reads_no_solution_and_writes_nothing_outside";
    if !machine::can_run(test, &need) {
        return;
    }
    fs::write(rig.path("case.yaml"), "the solution").unwrap();
    let (repo, case, home) = (rig.path("repo"), rig.path("case.yaml"), rig.path("home"));
    let look = format!(
        "cat {case} {repo}/file.txt > seen.txt 2>/dev/null; cat {cache}/seeds/*/HEAD >> seen.txt 2>/dev/null; \
         touch {home}/x {repo}/x 2>/dev/null; true",
        case = case.display(),
        repo = repo.display(),
        cache = rig.path("cache").display(),
        home = home.display(),
    );
    let mut services = rig.services(Arc::new(rig.agent(&look, ANSWER)));
    services.options.isolation = Some(Isolation::Sandbox);
    let mut case = rig.case(vec![shell("! test -s seen.txt")]);
    case.limits.timeout = Some(Duration::from_secs(120));
    let result = rig.trial_with(&services, case).await.result;
    assert_eq!(result.verdict, Verdict::Passed, "{}", rig.diff());
    assert_eq!(result.identity.isolation, Isolation::Sandbox);
    assert!(!home.join("x").exists() && !repo.join("x").exists());
}
