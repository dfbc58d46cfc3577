//! Evaluators in whole trials: thresholds, expectations, ways, scripts and hidden tests.

use std::fs;
use std::sync::Arc;

use ostler::event::Timestamp;
use ostler_eval::case::{EvaluatorSpec, Expected};
use ostler_eval::evaluators::judge::{
    JudgeBackend, JudgeError, JudgeFuture, JudgeReply, JudgeRequest,
};
use ostler_eval::normalized::{self, LogFormat, NormalizedLogs};
use ostler_eval::trial::{Evaluation, Verdict};
use serde_json::{Value, json};

use crate::rig::{ANSWER, Rig, evaluator};

/// Runs a trial whose agent writes `answer.txt`, and returns its evaluations.
async fn judged(rig: &Rig, evaluators: Vec<EvaluatorSpec>) -> Vec<Evaluation> {
    let agent = rig.agent(
        "mkdir -p tests; echo 4 > answer.txt; echo exit 0 > tests/check.sh",
        ANSWER,
    );
    let mut case = rig.case(evaluators);
    let expected = rig.path("expected");
    fs::create_dir_all(expected.join("tests")).unwrap();
    for (name, text) in [
        ("file.txt", "one\n"),
        (".gitignore", "target/\n"),
        ("answer.txt", "4\n"),
        ("tests/check.sh", "exit 0\n"),
    ] {
        fs::write(expected.join(name), text).unwrap();
    }
    case.expected = Some(Expected::Directory(expected));
    let mut services = rig.services(Arc::new(agent));
    services.projections = vec![Arc::new(NormalizedLogs(LogFormat::Contract))];
    rig.trial_with(&services, case).await.result.evaluations
}

fn verdicts(evaluations: &[Evaluation]) -> Vec<Verdict> {
    evaluations.iter().map(|it| it.verdict).collect()
}

#[tokio::test]
async fn thresholds_expectations_and_ways_decide() {
    let rig = Rig::new();
    let evaluations = judged(
        &rig,
        vec![
            evaluator("git-diff", json!({"assertions": {"max_files_changed": 2}})),
            evaluator("git-diff", json!({"assertions": {"max_files_changed": 1}})),
            evaluator("expected-diff", json!({"threshold": 1.0})),
            evaluator("trajectory", json!({"tools_not_used": ["Bash"]})),
            evaluator("trajectory", json!({"tools_used": ["Bash"]})),
        ],
    )
    .await;
    use Verdict::{Failed, Passed};
    assert_eq!(
        verdicts(&evaluations),
        [Passed, Failed, Passed, Passed, Failed],
        "{evaluations:#?}"
    );
    assert_eq!(evaluations[0].metrics["files_changed"], 2);
    assert_eq!(evaluations[0].score, Some(1.0));
    assert_eq!(evaluations[1].score, Some(0.0));
    assert_eq!(evaluations[2].metrics["aggregate_similarity"], 1.0);
}

/// Checks the verdicts of evaluators of one kind on a workspace of an agent that ran `line`.
async fn check(rig: &Rig, line: &str, kind: &str, table: &[(Value, Verdict)]) {
    let specs = table.iter().enumerate().map(|(index, (config, _))| {
        let mut spec = evaluator(kind, config.clone());
        spec.name = format!("{kind}:{index}");
        spec
    });
    let case = rig.case(specs.collect());
    let found = rig.trial(rig.agent(line, ANSWER), case).await.result;
    assert_eq!(found.evaluations.len(), table.len());
    for (evaluation, (config, wanted)) in found.evaluations.iter().zip(table) {
        assert_eq!(evaluation.verdict, *wanted, "{config}: {evaluation:?}");
    }
}

#[tokio::test]
async fn a_command_is_judged_by_exit_code_counts_and_time() {
    use Verdict::{Failed, Passed};
    let rig = Rig::new();
    // The agent left reports of tests that never ran, one of them behind a link.
    let planted = "<testsuite tests='9' failures='0'/>";
    let real = "<testsuite tests='3' failures='1'/>";
    let line =
        format!("mkdir out; echo \"{planted}\" > junit.xml; ln -s ../junit.xml out/junit.xml");
    let writes = format!("echo \"{real}\" > junit.xml");
    let report = "echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; \
                  0 filtered out; finished in 0.00s'";
    let command = |line: &str, more: Value| {
        let mut config = json!({"command": ["sh", "-c", line]});
        let more = more.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(more);
        config
    };
    let table = [
        (command("exit 3", json!({"expect_exit_code": 3})), Passed),
        (command("exit 0", json!({"expect_exit_code": 3})), Failed),
        (command(report, json!({"min_passed": 2})), Passed),
        (command(report, json!({"min_passed": 3})), Failed),
        (command("true", json!({"min_passed": 1})), Failed),
        (
            command("sleep 600", json!({"timeout_seconds": 0.2})),
            Failed,
        ),
        (
            command(&writes, json!({"junit": "junit.xml", "min_passed": 2})),
            Passed,
        ),
        (
            command(&writes, json!({"junit": "junit.xml", "min_passed": 3})),
            Failed,
        ),
        (
            command("true", json!({"junit": "junit.xml", "min_passed": 1})),
            Failed,
        ),
        (
            command("true", json!({"junit": "out/junit.xml", "min_passed": 1})),
            Failed,
        ),
        (
            command("! test -e junit.xml", json!({"junit": "junit.xml"})),
            Passed,
        ),
    ];
    check(&rig, &line, "command", &table).await;
}

#[tokio::test]
async fn files_are_judged_by_existence_content_and_schema() {
    use Verdict::{Failed, Passed};
    let rig = Rig::new();
    let line = "echo '{\"n\": 1}' > good.json; echo '{\"n\": \"x\"}' > bad.json; \
                echo '{' > broken.json; rm file.txt; ln -s /etc/hostname outside";
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let table = [
        (json!({"exists": ["good.json"]}), Passed),
        (json!({"exists": ["good.json", "file.txt"]}), Failed),
        (json!({"exists": ["outside"]}), Failed),
        (json!({"absent": ["file.txt"]}), Passed),
        (json!({"absent": ["outside"]}), Failed),
        (json!({"contains": {"good.json": "\"n\": 1"}}), Passed),
        (json!({"contains": {"good.json": "\"n\": 2"}}), Failed),
        (json!({"contains": {"file.txt": "one"}}), Failed),
        (json!({"matches": {"good.json": "n.*\\d"}}), Passed),
        (json!({"matches": {"bad.json": "n.*\\d"}}), Failed),
        (json!({"json_schema": {"good.json": schema}}), Passed),
        (json!({"json_schema": {"bad.json": schema}}), Failed),
        (json!({"json_schema": {"broken.json": schema}}), Failed),
        (json!({"forbidden": ["tests/**"]}), Passed),
        (json!({"forbidden": ["*.txt"]}), Failed),
    ];
    check(&rig, line, "files", &table).await;
}

// A branch, a patch and a directory say the same, and so does their similarity.
#[tokio::test]
async fn what_is_expected_is_a_branch_a_patch_or_a_directory() {
    let rig = Rig::new();
    let base = rig.git(&["rev-parse", "HEAD"]);
    rig.git(&["checkout", "-q", "-b", "solved"]);
    fs::write(rig.path("repo/file.txt"), "one\ntwo\n").unwrap();
    fs::write(rig.path("repo/new.txt"), "new\n").unwrap();
    rig.commit("the solution");
    let patch = rig.path("solution.patch");
    fs::write(&patch, rig.git(&["diff", &base, "solved"]) + "\n").unwrap();
    let dir = rig.path("solved");
    fs::create_dir(&dir).unwrap();
    for name in ["file.txt", "new.txt", ".gitignore"] {
        fs::copy(rig.path("repo").join(name), dir.join(name)).unwrap();
    }
    rig.git(&["checkout", "-q", "main"]);
    let whole = "printf 'one\\ntwo\\n' > file.txt; echo new > new.txt";
    let half = "printf 'one\\ntwo\\n' > file.txt";
    for expected in [
        Expected::Revision("solved".to_owned()),
        Expected::Patch(patch),
        Expected::Directory(dir),
    ] {
        // Of five lines on both sides, the half solution lacks one.
        for (line, similarity) in [(whole, 1.0), (half, 0.8)] {
            let mut case = rig.case(vec![evaluator("expected-diff", json!({"threshold": 1.0}))]);
            case.expected = Some(expected.clone());
            let result = rig.trial(rig.agent(line, ANSWER), case).await.result;
            let found = &result.evaluations[0];
            let score = found.score.unwrap();
            assert!((score - similarity).abs() < 1e-9, "{expected:?}: {found:?}");
            let passed = found.verdict == Verdict::Passed;
            assert_eq!(passed, line == whole, "{expected:?}: {found:?}");
        }
    }
}

// S4-30 (CR-4.1): its input includes the normalized log.
#[tokio::test]
async fn a_script_judges_over_a_pipe() {
    let rig = Rig::new();
    let program = r#"#!/usr/bin/env python3
import json, os, sys
request = json.load(sys.stdin)
assert request["case"]["prompt"] == "Do it."
assert "answer.txt" in open(request["diff"]).read()
assert not os.path.exists(os.path.join(request["base"], "answer.txt"))
events = [json.loads(line) for line in open(request["events"])]
log = request["log"] and json.load(open(request["log"]))
open(os.path.join(request["artifacts"], "seen.txt"), "w").write("seen")
answer = open(os.path.join(request["workspace"], "answer.txt")).read().strip()
score = 1.0 if answer == request["parameters"]["answer"] else 0.25
name = log and log["agent_info"]["name"]
print(json.dumps({"score": score, "metrics": {"events": len(events), "agent": name}}))
"#;
    rig.program(&rig.path("judge.py"), program);
    let script = |config: Value| evaluator("script", config);
    let evaluations = judged(
        &rig,
        vec![
            script(json!({"command": "./judge.py", "parameters": {"answer": "4"}})),
            script(json!({"command": "./judge.py", "parameters": {"answer": "5"}})),
            script(json!({"command": ["sh", "-c", "echo not json"]})),
            script(json!({"command": ["sh", "-c", "echo why >&2; exit 3"]})),
            script(json!({"command": "no-such-program"})),
            script(json!({"command": ["sleep", "60"], "timeout_seconds": 0.2})),
        ],
    )
    .await;
    use Verdict::{Errored, Failed, Passed};
    assert_eq!(
        verdicts(&evaluations),
        [Passed, Failed, Errored, Errored, Errored, Errored],
        "{evaluations:#?}"
    );
    assert!(evaluations[0].metrics["events"].as_u64().unwrap() > 2);
    assert_eq!(evaluations[0].metrics["agent"], "claude-code");
    assert_eq!(evaluations[1].score, Some(0.25));
    let reason = evaluations[3].reason.as_deref().unwrap();
    assert!(reason.contains("exit code 3: why"), "{reason}");
    assert!(rig.path("artifacts/evaluators/script/seen.txt").exists());
}

// The agent left a test that always passes; the hidden one replaces it.
#[tokio::test]
async fn an_overlay_replaces_the_tests_of_the_agent() {
    let rig = Rig::new();
    fs::create_dir_all(rig.path("hidden/tests")).unwrap();
    fs::write(rig.path("hidden/tests/check.sh"), "grep -q 5 answer.txt\n").unwrap();
    let command = json!({"command": ["sh", "tests/check.sh"]});
    let hidden = json!({"command": ["sh", "tests/check.sh"], "overlay": "hidden"});
    let missing = json!({"command": ["sh", "tests/check.sh"], "overlay": "gone"});
    let specs = [command, hidden, missing].map(|config| evaluator("command", config));
    let evaluations = judged(&rig, specs.to_vec()).await;
    use Verdict::{Errored, Failed, Passed};
    assert_eq!(
        verdicts(&evaluations),
        [Passed, Failed, Errored],
        "{evaluations:#?}"
    );
}

struct Scripted;

impl JudgeBackend for Scripted {
    fn ask<'a>(&'a self, request: &'a JudgeRequest) -> JudgeFuture<'a> {
        Box::pin(async move {
            assert!(request.workspace.join("answer.txt").exists());
            match request.model.as_deref() {
                Some("down") => Err(JudgeError("the judge is down".to_owned())),
                model => {
                    let score = if model == Some("kind") { 0.9 } else { 0.2 };
                    let assertions = json!([{"name": "right", "score": score, "reason": "r"}]);
                    Ok(JudgeReply {
                        text: json!({ "assertions": assertions }).to_string(),
                        structured: None,
                        usage: None,
                    })
                }
            }
        })
    }
}

#[tokio::test]
async fn judges_decide_by_their_scores() {
    let rig = Rig::new();
    let judge = |model: &str| {
        evaluator(
            "judge",
            json!({"model": model, "assertions": {"right": "The answer is 4."}}),
        )
    };
    let agent = rig.agent("echo 4 > answer.txt", ANSWER);
    let case = rig.case(vec![judge("kind"), judge("strict"), judge("down")]);
    let mut services = rig.services(Arc::new(agent));
    services.evaluators = services.evaluators.with_judges(Arc::new(Scripted));
    let evaluations = rig.trial_with(&services, case).await.result.evaluations;
    use Verdict::{Errored, Failed, Passed};
    assert_eq!(
        verdicts(&evaluations),
        [Passed, Failed, Errored],
        "{evaluations:#?}"
    );
    assert_eq!(evaluations[1].score, Some(0.2));
}

// S4-19, S4-20, S4-22, S4-23, S4-24, S4-28 (CR-3.1, CR-3.2, CR-3.4, CR-3.5, CR-3.6, CR-3.10)
#[tokio::test]
async fn every_trial_writes_a_normalized_log() {
    let failing = "read\ninit\ntext partial\nexit 7\n";
    for (script, status) in [(ANSWER, "success"), (failing, "failed")] {
        let rig = Rig::new();
        let agent = rig.agent("true", script);
        let mut case = rig.case(vec![evaluator("files", json!({"exists": ["file.txt"]}))]);
        case.agent.as_mut().unwrap().model = Some("configured".to_owned());
        let mut services = rig.services(Arc::new(agent));
        services.projections = vec![Arc::new(NormalizedLogs(LogFormat::Contract))];
        let result = rig.trial_with(&services, case).await.result;
        let text = fs::read_to_string(rig.path("artifacts/youbencha.log.json")).unwrap();
        let log: Value = serde_json::from_str(&text).unwrap();
        let validator = jsonschema::validator_for(&normalized::schema()).unwrap();
        assert!(validator.is_valid(&log), "{log:#}");
        let agent = json!({
            "name": "claude-code",
            "version": "2.1.325",
            "adapter_version": env!("CARGO_PKG_VERSION"),
        });
        assert_eq!(log["agent_info"], agent);
        // The agent reports its own model, which counts more than the configured one.
        let reported = result.identity.reported_model.unwrap();
        assert_eq!(log["model_info"]["name"], reported);
        assert_eq!(result.identity.model.as_deref(), Some("configured"));
        let execution = &log["execution"];
        let exit_code = if status == "success" { 0 } else { 7 };
        assert_eq!(
            (&execution["status"], &execution["exit_code"]),
            (&json!(status), &json!(exit_code))
        );
        assert_eq!(execution["duration_ms"], result.agent_ms);
        let time = |name: &str| -> Timestamp { execution[name].as_str().unwrap().parse().unwrap() };
        let took = time("completed_at").0 - time("started_at").0;
        assert_eq!(u64::try_from(took).unwrap(), result.agent_ms);
        assert_eq!(log["messages"][0]["role"], "user");
        assert_eq!(log["messages"][0]["content"], "Do it.");
        let errors = log["errors"].as_array().unwrap();
        assert_eq!(errors.is_empty(), status == "success", "{log:#}");
    }
}

// The published schema is the one that logs are checked against.
#[test]
fn the_shipped_schema_is_current() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/youbencha-log.schema.json"
    );
    let text = serde_json::to_string_pretty(&normalized::schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(file, &text).unwrap();
    }
    let shipped = fs::read_to_string(file).unwrap_or_default();
    assert!(
        shipped == text,
        "write it again: UPDATE_SCHEMA=1 cargo nextest run the_shipped_schema"
    );
}
