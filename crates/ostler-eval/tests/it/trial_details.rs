//! Details of trials: variables of commands, cancelling, names of evaluators, identity.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ostler::Cause;
use ostler_eval::case::{CommandSpec, Expected, Isolation, Source};
use ostler_eval::identity::{case_hash, settings_hash};
use ostler_eval::run_trial::{Disposition, Phase, TrialHooks, regrade, run_trial};
use ostler_eval::trial::{Blame, Verdict};
use ostler_testkit::machine::{self, Need};
use ostler_testkit::processes;
use serde_json::json;
use tokio::sync::watch;

use crate::rig::{ANSWER, Rig, contender, evaluator, shell};

fn command(argv: &[&str]) -> CommandSpec {
    CommandSpec {
        argv: argv.iter().map(|word| (*word).to_owned()).collect(),
        dir: None,
        env: Default::default(),
        timeout: Duration::from_secs(60),
    }
}

// The variables of docs/eval.md are replaced in arguments, and are in the environment.
#[tokio::test]
async fn commands_get_the_variables_of_their_trial() {
    let rig = Rig::new();
    let mut case = rig.case(vec![shell("grep -qx 'case claude' seen")]);
    let look = "test \"$1\" = \"$PWD\" && test \"$REPO_DIR\" = \"$PWD\" && \
                echo \"$2 $AGENT_TYPE\" > \"$WORKSPACE_DIR/seen\" && test \"$3\" = '$${REPO_DIR}'";
    case.pre_execution = vec![command(&[
        "sh",
        "-c",
        look,
        "sh",
        "${WORKSPACE_DIR}",
        "${TEST_CASE_NAME}",
        "$${REPO_DIR}",
    ])];
    let after = "grep -q verdict \"$1\" && test \"$1\" = \"$RESULTS_PATH\" && \
                 test -d \"$ARTIFACTS_DIR\" && test \"$2\" = \"$ARTIFACTS_DIR\"";
    case.post_evaluation = vec![command(&[
        "sh",
        "-c",
        after,
        "sh",
        "${RESULTS_PATH}",
        "${ARTIFACTS_DIR}",
    ])];
    let result = rig.trial(rig.agent("true", ANSWER), case).await.result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    assert_eq!(result.warnings, [""; 0]);
}

// An evaluator that runs for a long time does not delay the end of a cancelled run.
#[tokio::test]
async fn cancelling_ends_evaluators() {
    let rig = Rig::new();
    let started = rig.path("work/started");
    let line = format!("touch {}; sleep 3600; true", started.display());
    let mut judge = shell(&line);
    judge
        .config
        .insert("timeout_seconds".to_owned(), json!(3600));
    let case = rig.case(vec![judge]);
    let mut services = rig.services(Arc::new(rig.agent("true", ANSWER)));
    services.options.isolation = Some(Isolation::Directory);
    let (stop, cancelled) = watch::channel(false);
    let hooks = TrialHooks {
        on_phase: &|_: Phase| {},
        on_usage: &|_, _| {},
        cancelled,
    };
    let cancel = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stop.send_replace(true);
    };
    let request = rig.request(case);
    let (attempt, ()) = tokio::join!(run_trial(&request, &services, hooks), cancel);
    assert_eq!(attempt.disposition, Disposition::Cancel);
    assert_eq!(attempt.result.blame, Some(Blame::Cancelled));
    // It is killed in the background.
    while !processes::with_argument(&line).is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

// Neither an absolute name nor `..` leads out of the artifacts.
#[tokio::test]
async fn the_name_of_an_evaluator_is_not_a_path() {
    let rig = Rig::new();
    let outside = rig.path("outside");
    let names = [
        outside.to_str().unwrap(),
        "../../../outside",
        "..",
        "command:tests",
    ];
    let evaluators = names.map(|name| {
        let mut spec = shell("true");
        spec.name = name.to_owned();
        spec
    });
    let result = rig
        .trial(rig.agent("true", ANSWER), rig.case(evaluators.to_vec()))
        .await
        .result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    assert!(!outside.exists());
    for evaluation in &result.evaluations {
        let log = &evaluation.artifacts[0];
        assert!(log.starts_with("evaluators"), "{}", log.display());
        let real = rig.path("artifacts").join(log).canonicalize().unwrap();
        let root = rig.path("artifacts/evaluators").canonicalize().unwrap();
        assert!(real.starts_with(root), "{}", real.display());
    }
    assert!(rig.path("artifacts/evaluators/command:tests").is_dir());
}

// Without a sandbox, a command that must not use the network is not judged.
#[tokio::test]
async fn a_network_that_cannot_be_removed_is_an_error() {
    let rig = Rig::new();
    let mut services = rig.services(Arc::new(rig.agent("true", ANSWER)));
    services.options.isolation = Some(Isolation::Directory);
    let offline = evaluator("command", json!({"command": "true", "network": false}));
    let result = rig
        .trial_with(&services, rig.case(vec![offline]))
        .await
        .result;
    assert_eq!(result.verdict, Verdict::Errored, "{result:#?}");
    assert!(result.message.unwrap().contains("network: false"));
}

// Git quotes such names in a diff.
#[tokio::test]
async fn a_quoted_name_is_forbidden_too() {
    let rig = Rig::new();
    let files = evaluator("files", json!({"forbidden": ["tests/**", "file.txt"]}));
    for change in [
        "mkdir tests; echo x > 'tests/\u{e4}.txt'",
        "mkdir tests; echo x > 'tests/a\"b\\c'",
        "mkdir tests; printf x > \"tests/a$(printf '\\t')b\"",
        "mkdir other; git mv file.txt 'other/\u{e4}.txt'",
    ] {
        let agent = rig.agent(change, ANSWER);
        let result = rig.trial(agent, rig.case(vec![files.clone()])).await.result;
        assert_eq!(result.verdict, Verdict::Failed, "{change}: {result:#?}");
    }
}

// The agent cannot read the program that judges it.
#[tokio::test]
async fn the_program_of_a_script_evaluator_is_hidden() {
    let test = "the_program_of_a_script_evaluator_is_hidden";
    let rig = Rig::new();
    let gap = ostler::sandbox::program::sandbox_gap(&rig.host(), &rig.path("repo"));
    let need = Need::of(gap.is_none(), || gap.unwrap_or_default());
    if !machine::can_run(test, &need) {
        return;
    }
    fs::create_dir(rig.path("hidden")).unwrap();
    let program = rig.path("hidden/judge.sh");
    rig.program(
        &program,
        "#!/bin/sh\necho '{\"verdict\": \"passed\"}' # the answer\n",
    );
    let look = format!("cat {} > seen.txt 2>/dev/null; true", program.display());
    let judge = evaluator("script", json!({"command": "hidden/judge.sh"}));
    let mut services = rig.services(Arc::new(rig.agent(&look, ANSWER)));
    services.options.isolation = Some(Isolation::Sandbox);
    let result = rig
        .trial_with(&services, rig.case(vec![judge]))
        .await
        .result;
    assert_eq!(result.verdict, Verdict::Passed, "{result:#?}");
    assert!(!rig.diff().contains("the answer"), "{}", rig.diff());
}

// Everything that decides on a result is part of the identity.
#[test]
fn the_identity_covers_the_content_of_files() {
    let rig = Rig::new();
    for dir in ["hidden", "expected"] {
        fs::create_dir(rig.path(dir)).unwrap();
    }
    let files = [
        "hidden/test.txt",
        "one.txt",
        "judge.sh",
        "expected/file.txt",
        "fix.patch",
    ];
    for file in files {
        fs::write(rig.path(file), "1").unwrap();
    }
    let mut case = rig.case(vec![
        evaluator(
            "command",
            json!({"command": "true", "overlay": "hidden", "copies": {"a": "one.txt"}}),
        ),
        evaluator("script", json!({"command": ["./judge.sh"]})),
    ]);
    let mut patched = case.clone();
    case.expected = Some(Expected::Directory(rig.path("expected")));
    patched.expected = Some(Expected::Patch(rig.path("fix.patch")));
    let hashes = || (case_hash(&case), case_hash(&patched));
    let before = hashes();
    assert_eq!(before, hashes());
    for file in files {
        fs::write(rig.path(file), "2").unwrap();
        assert_ne!(before, hashes(), "{file}");
        fs::write(rig.path(file), "1").unwrap();
        assert_eq!(before, hashes(), "{file}");
    }
    let plain = contender("x");
    let mut changed = plain.clone();
    changed.instructions = Some("be brief".to_owned());
    assert_ne!(settings_hash(&plain), settings_hash(&changed));
    let mut changed = plain.clone();
    changed.settings.insert("effort".to_owned(), json!("high"));
    assert_ne!(settings_hash(&plain), settings_hash(&changed));
    // A file of a setting counts by its content, and not by its place.
    let with = |file: &str| {
        let mut contender = plain.clone();
        let path = rig.path(file);
        contender.settings.insert("script".to_owned(), json!(path));
        settings_hash(&contender)
    };
    assert_eq!(with("one.txt"), with("fix.patch"));
    fs::write(rig.path("one.txt"), "2").unwrap();
    assert_ne!(with("one.txt"), with("fix.patch"));
}

// `oracle` makes exactly the expected changes, and `nop` none.
#[tokio::test]
async fn reference_agents_solve_a_case_or_do_nothing() {
    let rig = Rig::new();
    let base = rig.git(&["rev-parse", "HEAD"]);
    rig.git(&["rm", "-q", "file.txt"]);
    fs::write(rig.path("repo/new.txt"), "new\n").unwrap();
    let solution = rig.commit("the solution");
    let line = "grep -q new new.txt && ! test -e file.txt";
    let mut case = rig.case(vec![shell(line)]);
    case.source = Source::Repository {
        url: rig.path("repo").to_str().unwrap().to_owned(),
        branch: None,
        commit: Some(base),
    };
    case.expected = Some(Expected::Revision(solution));
    for (agent, verdict, files) in [("oracle", Verdict::Passed, 2), ("nop", Verdict::Failed, 0)] {
        let mut case = case.clone();
        case.agent.as_mut().unwrap().agent = agent.to_owned();
        let result = rig.trial(rig.agent("", ANSWER), case).await.result;
        assert_eq!(
            (result.verdict, result.diff_files),
            (verdict, files),
            "{agent}: {result:#?}"
        );
        assert_eq!(result.cause, Some(Cause::Completed));
    }
}

// A trial whose agent failed stays failed when it is regraded without evaluators.
#[tokio::test]
async fn a_regrade_remembers_how_the_agent_ended() {
    let rig = Rig::new();
    let services = rig.services(Arc::new(rig.agent("", "read\ninit\nexit 3\n")));
    let case = rig.case(Vec::new());
    let result = rig.trial_with(&services, case.clone()).await.result;
    assert_eq!(
        (result.verdict, result.cause),
        (Verdict::Failed, Some(Cause::AgentDied))
    );
    let request = rig.request(case);
    let regraded = regrade(&request, &services, &result).await.unwrap();
    assert_eq!(
        (regraded.verdict, regraded.message),
        (Verdict::Failed, result.message)
    );
}
