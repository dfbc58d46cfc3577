//! Limits of one execution: memory, time, and nothing that stays behind.

use std::time::Duration;

use ostler_eval::adapter::{AgentAdapter, ExecutionStatus};
use ostler_testkit::processes;

use crate::adapter::{adapter, execute};
use crate::rig::{ANSWER, Rig};

const MB: u64 = 1_000_000;

async fn prepare(rig: &Rig, script: &str) -> AgentAdapter {
    adapter(rig, &rig.agent("true", script)).await
}

// S4-34, S4-40 (NFR-1): what an agent writes is on disk, and not in memory, apart from the output
// of at most 10 MB.
#[tokio::test]
async fn an_agent_that_writes_a_lot_takes_no_memory() {
    let rig = Rig::new();
    let flood = format!("read\ninit\nflood {} 10000\nresult ok\n", 100 * MB);
    let adapter = prepare(&rig, &flood).await;
    let own = std::process::id();
    processes::reset_own_peak();
    let before = processes::rss_kib(own).unwrap();
    let execution = execute(&rig, &adapter).await;
    let peak = (processes::peak_rss_kib(own).unwrap() - before) * 1024;
    assert_eq!(execution.result.status, ExecutionStatus::Success);
    let output = u64::try_from(execution.result.output.len()).unwrap();
    let besides = peak.saturating_sub(output) / MB;
    assert!(besides < 50, "{besides} MB besides the output");
    let bytes: usize = execution.events.iter().map(|it| it.to_json().len()).sum();
    assert!(
        u64::try_from(bytes).unwrap() > 90 * MB,
        "{bytes} bytes of events"
    );
}

// S4-35, S4-36 (NFR-2)
#[tokio::test]
async fn a_hundred_executions_leave_nothing_behind() {
    let rig = Rig::new();
    let adapter = prepare(&rig, ANSWER).await;
    let own = std::process::id();
    let mut after_warm_up = None;
    for round in 0..110 {
        let result = execute(&rig, &adapter).await.result;
        assert_eq!(result.status, ExecutionStatus::Success);
        if round == 9 {
            let files = processes::open_fds(own).unwrap();
            after_warm_up = Some((files, processes::rss_kib(own).unwrap()));
        }
    }
    let (files, memory) = after_warm_up.unwrap();
    assert!(processes::open_fds(own).unwrap() <= files);
    assert_eq!(processes::descendants(own), [0; 0]);
    let grown = processes::rss_kib(own).unwrap().saturating_sub(memory);
    assert!(grown < 2 * 1024, "grown by {grown} KiB");
}

// S4-37 (NFR-2): also if the agent ignores the request to stop.
#[tokio::test]
async fn an_execution_ends_within_five_seconds_of_its_limit() {
    let rig = Rig::new();
    let mut adapter = prepare(&rig, "read\ninit\ntext partial\nhang\n").await;
    adapter.spec.limits.wall = Some(Duration::from_secs(1));
    let result = execute(&rig, &adapter).await.result;
    assert_eq!(result.status, ExecutionStatus::Timeout);
    let late = result.duration_ms.saturating_sub(1_000);
    assert!(
        result.duration_ms >= 1_000 && late < 5_000,
        "{late} ms late"
    );
}
