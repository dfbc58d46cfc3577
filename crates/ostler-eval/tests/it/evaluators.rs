//! Evaluators in whole trials: thresholds, expectations, ways, scripts and hidden tests.

use std::fs;
use std::sync::Arc;

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
    rig.trial(agent, case).await.result.evaluations
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
open(os.path.join(request["artifacts"], "seen.txt"), "w").write("seen")
answer = open(os.path.join(request["workspace"], "answer.txt")).read().strip()
score = 1.0 if answer == request["parameters"]["answer"] else 0.25
print(json.dumps({"score": score, "metrics": {"events": len(events)}}))
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
        assert_eq!(log["execution"]["status"], status, "{log:#}");
        assert_eq!(log["execution"]["duration_ms"], result.agent_ms);
        assert_eq!(log["agent_info"]["version"], "2.1.325");
        assert!(log["model_info"]["name"].is_string());
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
