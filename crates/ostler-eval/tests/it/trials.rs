//! Whole trials: what is captured, how evaluators judge, and who is to blame.

use std::fs;
use std::panic::panic_any;
use std::sync::Arc;
use std::time::Duration;

use ostler::Cause;
use ostler_eval::case::{CommandSpec, EvaluatorSpec, Isolation, Source};
use ostler_eval::evaluator::{ConfigProblem, EvaluateFuture, Evaluator, Evidence};
use ostler_eval::run_trial::Disposition;
use ostler_eval::trial::{Blame, Verdict};
use serde_json::json;

use crate::rig::{ANSWER, COST, Rig, evaluator, shell};

// S4-17 (CR-2.12)
#[tokio::test]
async fn a_trial_is_run_captured_and_judged() {
    let rig = Rig::new();
    let later = rig.path("repo/later.txt");
    fs::write(&later, "the solution\n").unwrap();
    let base = rig.git(&["rev-parse", "HEAD"]);
    rig.commit("the solution");
    let agent = rig.agent(
        "echo fixed > answer.txt; rm file.txt; mkdir -p target; echo x > target/o",
        ANSWER,
    );
    let mut case = rig.case(vec![
        shell("grep -q fixed answer.txt && ! test -e file.txt && ! test -e target"),
        evaluator(
            "files",
            json!({"exists": ["answer.txt"], "absent": ["file.txt"]}),
        ),
    ]);
    case.source = Source::Repository {
        url: rig.path("repo").to_str().unwrap().to_owned(),
        branch: None,
        commit: Some(base.clone()),
    };
    let attempt = rig.trial(agent, case).await;
    let result = &attempt.result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    assert_eq!(attempt.disposition, Disposition::Accept);
    assert_eq!((result.blame, result.cause), (None, Some(Cause::Completed)));
    assert_eq!((result.score, result.diff_files), (Some(1.0), 2));
    assert_eq!(result.identity.commit, base);
    assert_eq!(result.identity.agent_version.as_deref(), Some("2.1.325"));
    assert!(!result.replayed && result.working_ms.unwrap() <= result.agent_ms);
    assert!(result.metered && (result.usage.cost_usd.unwrap() - COST).abs() < 1e-9);
    let diff = rig.diff();
    assert!(diff.contains("+fixed") && diff.contains("-one"), "{diff}");
    let artifacts = rig.path("artifacts");
    let logs = fs::read_dir(artifacts.join("claude-logs")).unwrap();
    let logs: Vec<_> = logs.map(|entry| entry.unwrap()).collect();
    assert_eq!(logs.len(), 1);
    let name = logs[0].file_name().into_string().unwrap();
    assert!(
        name.starts_with("terminal-output-") && name.ends_with(".log"),
        "{name}"
    );
    assert!(
        fs::read_to_string(logs[0].path())
            .unwrap()
            .contains("all done")
    );
    for name in [
        "events.jsonl",
        "result.json",
        "evaluators/command/output.log",
    ] {
        assert!(artifacts.join(name).metadata().unwrap().len() > 0, "{name}");
    }
    assert_eq!(
        fs::read_dir(rig.path("work")).unwrap().count(),
        0,
        "the workspace is removed"
    );
}

// The agent finds the history of the base commit, but neither later commits nor a remote.
#[tokio::test]
async fn a_workspace_has_the_history_but_not_the_solution() {
    let rig = Rig::new();
    let base = rig.git(&["rev-parse", "HEAD"]);
    fs::write(rig.path("repo/solution.txt"), "the solution\n").unwrap();
    let solution = rig.commit("the solution");
    let look = format!(
        "git log --oneline --all > log.txt; git remote >> log.txt; git status --short >> log.txt; \
         git cat-file -e {solution} && echo found >> log.txt"
    );
    let agent = rig.agent(&look, ANSWER);
    let mut case = rig.case(vec![shell(
        "test $(wc -l < log.txt) = 2 && ! grep found log.txt",
    )]);
    case.source = Source::Repository {
        url: rig.path("repo").to_str().unwrap().to_owned(),
        branch: None,
        commit: Some(base),
    };
    let attempt = rig.trial(agent, case).await;
    // One line of the log, and `log.txt` itself as an untracked file.
    assert_eq!(attempt.result.verdict, Verdict::Passed, "{}", rig.diff());
}

#[tokio::test]
async fn an_agent_has_a_private_home_and_no_secret_of_the_caller() {
    let rig = Rig::new();
    fs::write(rig.path("home/.settings"), "mine").unwrap();
    let agent = rig.agent(
        "env > env.txt; ls -a \"$HOME\" > home.txt; touch \"$HOME/x\"",
        ANSWER,
    );
    let case = rig.case(vec![shell(
        "! grep -q hush env.txt && ! grep -q settings home.txt && grep -q gitconfig home.txt",
    )]);
    let attempt = rig.trial(agent, case).await;
    assert_eq!(attempt.result.verdict, Verdict::Passed, "{}", rig.diff());
    assert!(!rig.path("home/x").exists());
}

// S4-7 (CR-2.2)
#[tokio::test]
async fn a_failing_agent_does_not_stop_the_evaluators() {
    let rig = Rig::new();
    let agent = rig.agent("echo half > answer.txt", "read\ninit\nexit 3\n");
    let case = rig.case(vec![shell("grep -q half answer.txt")]);
    let result = rig.trial(agent, case).await.result;
    assert_eq!(
        (result.verdict, result.cause),
        (Verdict::Passed, Some(Cause::AgentDied))
    );
    let agent = rig.agent("", "read\ninit\nexit 3\n");
    let result = rig
        .trial(agent, rig.case(vec![shell("false")]))
        .await
        .result;
    assert_eq!(
        (result.verdict, result.blame),
        (Verdict::Failed, Some(Blame::Agent))
    );
    let agent = rig.agent("", "read\ninit\nexit 3\n");
    let result = rig.trial(agent, rig.case(Vec::new())).await.result;
    assert_eq!(
        result.verdict,
        Verdict::Failed,
        "without evaluators the agent's ending counts"
    );
}

// S4-8 (CR-2.3)
#[tokio::test]
async fn a_timeout_is_a_limit_and_what_was_done_is_judged() {
    let rig = Rig::new();
    let agent = rig.agent("echo half > answer.txt", "read\ninit\ntext partial\nhang\n");
    let mut case = rig.case(vec![shell("grep -q whole answer.txt")]);
    case.limits.timeout = Some(Duration::from_secs(2));
    let result = rig.trial(agent, case).await.result;
    assert_eq!(
        (result.verdict, result.blame),
        (Verdict::Failed, Some(Blame::Limit))
    );
    assert_eq!(result.cause, Some(Cause::WallLimit));
    assert_eq!(result.diff_files, 1);
}

struct Panics;

impl Evaluator for Panics {
    fn kind(&self) -> &'static str {
        "panics"
    }

    fn check(&self, _: &EvaluatorSpec) -> Vec<ConfigProblem> {
        Vec::new()
    }

    fn evaluate<'a>(&'a self, _: &'a EvaluatorSpec, _: Evidence) -> EvaluateFuture<'a> {
        Box::pin(async { panic_any("a bug") })
    }
}

// Failure catalogue 26: a crash is neither skipped nor passed.
#[tokio::test]
async fn a_crashed_evaluator_is_errored_and_fails_the_trial_if_it_is_required() {
    let rig = Rig::new();
    // Only a required evaluator that errored counts as no point.
    for (required, verdict, score) in [(true, Verdict::Errored, 0.5), (false, Verdict::Passed, 1.0)]
    {
        let agent = rig.agent("", ANSWER);
        let mut services = rig.services(Arc::new(agent));
        services.evaluators.add(Arc::new(Panics));
        let mut crashing = evaluator("panics", json!({}));
        crashing.required = required;
        let case = rig.case(vec![shell("true"), crashing]);
        let result = rig.trial_with(&services, case).await.result;
        assert_eq!(result.evaluations[1].verdict, Verdict::Errored);
        assert_eq!(result.verdict, verdict);
        assert_eq!(result.score, Some(score), "required: {required}");
    }
    let unknown = rig.case(vec![evaluator("no-such", json!({}))]);
    let result = rig.trial(rig.agent("", ANSWER), unknown).await.result;
    assert_eq!(
        (result.verdict, result.blame),
        (Verdict::Errored, Some(Blame::Evaluator))
    );
}

// Failure catalogue 25: evaluators neither race each other nor see each other's files.
#[tokio::test]
async fn every_evaluator_has_a_copy_of_its_own() {
    let rig = Rig::new();
    let agent = rig.agent("echo a > answer.txt", ANSWER);
    let line = "test \"$(cat answer.txt)\" = a && ! test -e other && echo b > answer.txt && \
                touch other && test -z \"$(git stash list)\" && git add -A && git commit -qm mine";
    let mut evaluators: Vec<EvaluatorSpec> = (0..3).map(|_| shell(line)).collect();
    for (index, spec) in evaluators.iter_mut().enumerate() {
        spec.name = format!("e{index}");
    }
    let result = rig.trial(agent, rig.case(evaluators)).await.result;
    assert_eq!(result.verdict, Verdict::Passed, "{:#?}", result.evaluations);
    assert!(!rig.diff().contains("+b"));
}

// Each waits for the other: one after the other, neither would end.
#[tokio::test]
async fn evaluators_run_at_the_same_time() {
    let rig = Rig::new();
    let meet = |own: &str, other: &str| {
        let (own, other) = (rig.path(own), rig.path(other));
        let (own, other) = (own.display(), other.display());
        shell(&format!(
            "touch {own}; until test -e {other}; do sleep 0.02; done"
        ))
    };
    let case = rig.case(vec![meet("one", "two"), meet("two", "one")]);
    let mut services = rig.services(Arc::new(rig.agent("true", ANSWER)));
    services.options.isolation = Some(Isolation::Directory);
    let result = rig.trial_with(&services, case).await.result;
    assert_eq!(result.verdict, Verdict::Passed, "{:#?}", result.evaluations);
}

// S4-2, S4-3 (CR-1.2, CR-1.3)
#[tokio::test]
async fn an_agent_that_is_missing_or_not_logged_in_is_no_failure_of_the_agent() {
    let rig = Rig::new();
    let mut agent = rig.agent("", ANSWER);
    agent.program = rig.path("nothing");
    let attempt = rig.trial(agent, rig.case(Vec::new())).await;
    assert_eq!(attempt.result.blame, Some(Blame::Infrastructure));
    assert_eq!(attempt.result.cause, Some(Cause::Unavailable));
    assert_eq!(
        attempt.disposition,
        Disposition::Accept,
        "a retry would not help"
    );
    let mut agent = rig.agent("", ANSWER);
    // The probe has the host's environment, not the spec's.
    let wrapper = rig.path("logged-out.sh");
    let fake = ostler_testkit::fake::program();
    let text = format!(
        "#!/bin/sh\nFAKE_AGENT_LOGGED_IN=0 exec {} \"$@\"\n",
        fake.display()
    );
    rig.program(&wrapper, &text);
    agent.program = wrapper;
    let result = rig.trial(agent, rig.case(Vec::new())).await.result;
    assert_eq!(
        (result.verdict, result.cause),
        (Verdict::Errored, Some(Cause::Auth))
    );
    assert!(result.message.unwrap().contains("authentication"));
}

#[tokio::test]
async fn setup_is_not_the_agents_change_and_its_failure_not_the_agents() {
    let rig = Rig::new();
    let command = |line: &str| CommandSpec {
        argv: ["sh", "-c", line].map(str::to_owned).to_vec(),
        dir: None,
        env: Default::default(),
        timeout: Duration::from_secs(60),
    };
    let agent = rig.agent(
        "cat generated target/built \"$HOME/tool\" > answer.txt",
        ANSWER,
    );
    let mut case = rig.case(vec![shell(
        "grep -q made answer.txt && cat target/built \"$HOME/tool\"",
    )]);
    let line = "echo made > generated; mkdir target; echo b > target/built; echo t > $HOME/tool";
    case.pre_execution = vec![command(line)];
    case.post_evaluation = vec![command("test -e \"$EVAL_ARTIFACTS/result.json\"")];
    let result = rig.trial(agent, case.clone()).await.result;
    assert_eq!(
        (result.verdict, result.diff_files),
        (Verdict::Passed, 1),
        "{result:#?}"
    );
    assert_eq!(result.warnings, [""; 0]);
    case.pre_execution = vec![command("echo broken >&2; exit 7")];
    let attempt = rig.trial(rig.agent("", ANSWER), case.clone()).await;
    assert_eq!(attempt.result.blame, Some(Blame::Infrastructure));
    assert!(attempt.result.message.unwrap().contains("exit code 7"));
    case.pre_execution = Vec::new();
    case.post_evaluation = vec![command("exit 1")];
    let result = rig
        .trial(
            rig.agent("echo made > answer.txt; mkdir target", ANSWER),
            case,
        )
        .await
        .result;
    assert_eq!(result.warnings.len(), 1);
}

#[tokio::test]
async fn instructions_of_a_contender_replace_those_of_the_repository() {
    let rig = Rig::new();
    let agent = rig.agent("cp AGENTS.md answer.txt", ANSWER);
    let mut case = rig.case(vec![shell("grep -q 'be brief' answer.txt")]);
    let mut contender = case.agent.take().unwrap();
    contender.instructions = Some("be brief".to_owned());
    contender.prompt = Some("Please: {prompt}".to_owned());
    case.agent = Some(contender);
    let result = rig.trial(agent, case).await.result;
    assert_eq!((result.verdict, result.diff_files), (Verdict::Passed, 1));
    let events = fs::read_to_string(rig.path("artifacts/events.jsonl")).unwrap();
    assert!(events.contains("Please: Do it."));
}

#[tokio::test]
async fn a_directory_and_nothing_are_sources_too() {
    let rig = Rig::new();
    let project = rig.path("project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join("a.txt"), "a").unwrap();
    for (source, line) in [
        (Source::Directory(project), "test -e a.txt"),
        (Source::Empty, "! test -e a.txt"),
    ] {
        let mut case = rig.case(vec![
            shell(line),
            evaluator("files", json!({"exists": ["b.txt"]})),
        ]);
        case.source = source;
        let agent = rig.agent("echo b > b.txt; git log -1 --format=%s", ANSWER);
        let result = rig.trial(agent, case).await.result;
        assert_eq!(
            (result.verdict, result.diff_files),
            (Verdict::Passed, 1),
            "{line}"
        );
    }
}

// A commit that the mirror has is not fetched again; a branch always is. A path needs no mirror.
#[tokio::test]
async fn a_mirror_is_updated_only_for_branches_and_missing_commits() {
    let rig = Rig::new();
    let remote = rig.path("remote.git");
    rig.git(&["clone", "-q", "--bare", ".", remote.to_str().unwrap()]);
    let first = rig.git(&["rev-parse", "HEAD"]);
    // An address that only Git's configuration leads to a directory, as to a server.
    let config = format!(
        "[url \"file://{}\"]\n\tinsteadOf = https://git.example.org/x.git\n\
         [protocol \"file\"]\n\tallow = always\n",
        remote.display()
    );
    fs::write(rig.path("home/.gitconfig"), config).unwrap();
    let url = "https://git.example.org/x.git";
    let services = rig.services(Arc::new(rig.agent("", ANSWER)));
    let seed = async |branch: Option<&str>, commit: Option<&str>| {
        let source = Source::Repository {
            url: url.to_owned(),
            branch: branch.map(str::to_owned),
            commit: commit.map(str::to_owned),
        };
        let seed = services.git.seed(&source).await;
        seed.map(|seed| seed.commit().to_owned())
    };
    assert_eq!(seed(None, Some(&first)).await.unwrap(), first);
    fs::write(rig.path("repo/second.txt"), "two\n").unwrap();
    let second = rig.commit("second");
    rig.git(&["push", "-q", remote.to_str().unwrap(), "main"]);
    assert_eq!(
        seed(Some("main"), None).await.unwrap(),
        second,
        "a branch moved"
    );
    fs::write(rig.path("repo/third.txt"), "three\n").unwrap();
    let third = rig.commit("third");
    rig.git(&["push", "-q", remote.to_str().unwrap(), "main"]);
    assert_eq!(
        seed(None, Some(&third)).await.unwrap(),
        third,
        "it was missing"
    );
    // From here on, the server is gone.
    fs::rename(&remote, rig.path("away.git")).unwrap();
    for known in [&first, &second, &third] {
        assert_eq!(seed(None, Some(known)).await.unwrap(), **known);
    }
    let error = seed(Some("main"), None).await.unwrap_err().to_string();
    assert!(error.contains("fetch"), "{error}");
    let local = Source::Repository {
        url: rig.path("repo").to_str().unwrap().to_owned(),
        branch: Some("main".to_owned()),
        commit: None,
    };
    assert_eq!(services.git.seed(&local).await.unwrap().commit(), third);
}

// Two branches may be at the same commit; each workspace is on its own.
#[tokio::test]
async fn a_workspace_is_on_the_branch_of_its_case() {
    let rig = Rig::new();
    rig.git(&["branch", "other"]);
    for branch in ["main", "other"] {
        let agent = rig.agent("git symbolic-ref --short HEAD > answer.txt", ANSWER);
        let line = format!("test \"$(cat answer.txt)\" = {branch}");
        let mut case = rig.case(vec![shell(&line)]);
        case.source = Source::Repository {
            url: rig.path("repo").to_str().unwrap().to_owned(),
            branch: Some(branch.to_owned()),
            commit: None,
        };
        let result = rig.trial(agent, case).await.result;
        assert_eq!(result.verdict, Verdict::Passed, "{branch}: {}", rig.diff());
    }
}

// S4-43: the message says what to do.
#[tokio::test]
async fn a_missing_commit_is_named() {
    let rig = Rig::new();
    let mut case = rig.case(Vec::new());
    case.source = Source::Repository {
        url: rig.path("repo").to_str().unwrap().to_owned(),
        branch: Some("no-such-branch".to_owned()),
        commit: None,
    };
    let attempt = rig.trial(rig.agent("", ANSWER), case).await;
    assert_eq!(attempt.disposition, Disposition::Accept);
    let message = attempt.result.message.unwrap();
    assert!(
        message.contains("no-such-branch") && message.contains("check the case"),
        "{message}"
    );
}

#[tokio::test]
async fn the_isolation_that_was_used_is_recorded() {
    let rig = Rig::new();
    let mut services = rig.services(Arc::new(rig.agent("", ANSWER)));
    services.options.isolation = Some(Isolation::Directory);
    let result = rig.trial_with(&services, rig.case(Vec::new())).await.result;
    assert_eq!(result.identity.isolation, Isolation::Directory);
}
