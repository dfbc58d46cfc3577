//! The contract of source document 004: availability and execution of one agent.

use std::fs;
use std::time::Duration;

use ostler::event::Timestamp;
use ostler_eval::adapter::{
    AdapterFault, AgentAdapter, ErrorCode, Execution, ExecutionContext, ExecutionStatus,
};
use ostler_eval::embedder::{AgentRequest, Embedder};
use tokio::sync::watch;

use crate::rig::{ANSWER, FakeAgent, Rig, contender, now};

pub(crate) async fn adapter(rig: &Rig, agent: &FakeAgent) -> AgentAdapter {
    let request = AgentRequest {
        contender: contender("one"),
        prompt: "Do it.".to_owned(),
        dir: rig.path("repo"),
        limits: Default::default(),
    };
    let prepared = agent.prepare(&request).await.unwrap();
    AgentAdapter {
        agent: prepared.agent,
        host: prepared.host,
        spec: prepared.spec.dir(rig.path("repo")),
    }
}

pub(crate) async fn execute(rig: &Rig, adapter: &AgentAdapter) -> Execution {
    let (_stop, cancelled) = watch::channel(false);
    let context = ExecutionContext {
        artifacts: &rig.path("artifacts"),
        now: &now,
        on_usage: &|_, _| {},
        cancelled,
    };
    adapter.execute(&context).await
}

// S4-1, S4-2, S4-3, S4-4 (CR-1.1, CR-1.2, CR-1.3, CR-1.4)
#[tokio::test]
async fn availability_is_true_false_or_an_authentication_error() {
    let rig = Rig::new();
    let agent = rig.agent("", ANSWER);
    let mut ready = adapter(&rig, &agent).await;
    let availability = ready.check_availability().await.unwrap();
    assert!(availability.available);
    assert_eq!(availability.version.as_deref(), Some("2.1.325"));
    ready.spec = ready.spec.program(rig.path("nothing"));
    let missing = ready.check_availability().await.unwrap();
    assert!(!missing.available && missing.reason.is_some());
    let wrapper = rig.path("logged-out.sh");
    let fake = ostler_testkit::fake::program();
    let text = format!(
        "#!/bin/sh\nFAKE_AGENT_LOGGED_IN=0 exec {} \"$@\"\n",
        fake.display()
    );
    rig.program(&wrapper, &text);
    ready.spec = ready.spec.program(wrapper);
    let error = ready.check_availability().await.unwrap_err();
    assert!(error.to_string().contains("authentication"), "{error}");
}

// S4-6, S4-13, S4-15, S4-17 (CR-2.1, CR-2.8, CR-2.10, CR-2.12)
#[tokio::test]
async fn a_success_has_output_times_and_a_log() {
    let rig = Rig::new();
    let agent = rig.agent(
        "pwd > where.txt",
        &format!("read\ninit\ntext {}\nresult ok\n", "x".repeat(1024)),
    );
    let execution = execute(&rig, &adapter(&rig, &agent).await).await;
    let result = execution.result;
    assert_eq!(
        (result.status, result.exit_code),
        (ExecutionStatus::Success, 0)
    );
    assert!(result.output.contains(&"x".repeat(1024)) && result.errors.is_empty());
    assert!(result.started_at <= result.completed_at);
    let json = serde_json::to_value(&result).unwrap();
    let started: Timestamp = json["started_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(started, result.started_at);
    let log = execution.terminal_log.unwrap();
    assert!(log.starts_with(rig.path("artifacts/claude-logs")));
    assert_eq!(fs::read_to_string(log).unwrap(), result.output);
    let place = fs::read_to_string(rig.path("repo/where.txt")).unwrap();
    assert_eq!(
        place.trim(),
        rig.path("repo").canonicalize().unwrap().to_str().unwrap()
    );
}

// S4-7, S4-45 (CR-2.2)
#[tokio::test]
async fn a_failure_resolves_with_the_exit_code_and_errors() {
    let rig = Rig::new();
    for (script, code) in [
        ("read\ninit\nstderr it broke\nexit 3\n", 3),
        ("read\ninit\ndie-by 9\n", 137),
    ] {
        let agent = rig.agent("", script);
        let result = execute(&rig, &adapter(&rig, &agent).await).await.result;
        assert_eq!(
            (result.status, result.exit_code),
            (ExecutionStatus::Failed, code),
            "{script}"
        );
        assert_eq!(result.errors.len(), 1);
        assert_eq!(
            result.errors[0].message.contains("it broke"),
            code == 3,
            "{result:?}"
        );
    }
}

// S4-8 (CR-2.3)
#[tokio::test]
async fn a_timeout_resolves_with_minus_one_and_the_partial_output() {
    let rig = Rig::new();
    let agent = rig.agent("", "read\ninit\ntext partial\nhang\n");
    let mut adapter = adapter(&rig, &agent).await;
    adapter.spec.limits.wall = Some(Duration::from_secs(2));
    let result = execute(&rig, &adapter).await.result;
    assert_eq!(
        (result.status, result.exit_code),
        (ExecutionStatus::Timeout, -1)
    );
    assert!(result.output.contains("partial"));
    assert!(
        result.errors[0].message.contains("timeout after 2000 ms"),
        "{:?}",
        result.errors
    );
}

// S4-14, S4-40 (CR-2.9)
#[tokio::test]
async fn output_over_ten_megabytes_is_cut_and_marked() {
    let rig = Rig::new();
    let agent = rig.agent("", "read\ninit\nflood 15000000 100000\nresult ok\n");
    let execution = execute(&rig, &adapter(&rig, &agent).await).await;
    let output = &execution.result.output;
    assert!(output.contains("[OUTPUT TRUNCATED: the first 10485760 of"));
    assert!(output.len() < 10 * 1024 * 1024 + 200);
    let codes = serde_json::to_value(&execution.result.errors).unwrap();
    assert_eq!(codes[0]["code"], "output_truncated", "{codes}");
}

// S4-47
#[tokio::test]
async fn artifacts_that_cannot_be_written_do_not_break_the_run() {
    let rig = Rig::new();
    fs::write(rig.path("artifacts"), "a file").unwrap();
    let agent = rig.agent("", ANSWER);
    let execution = execute(&rig, &adapter(&rig, &agent).await).await;
    assert_eq!(execution.result.status, ExecutionStatus::Success);
    let fault = ErrorCode::Adapter(AdapterFault::Artifacts);
    assert_eq!(execution.result.errors[0].code, fault);
    assert!(execution.result.output.contains("all done"));
}
