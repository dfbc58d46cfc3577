//! Limits on parallel sessions, and the queue behind them.

use ostler_daemon::api::CreateSession;
use ostler_daemon::{ManagerOptions, ParallelLimits};

use crate::rig::{ECHO, Rig};

pub(crate) fn at_most(total: usize) -> ManagerOptions {
    ManagerOptions {
        parallel: ParallelLimits {
            total,
            per_agent: total,
        },
        ..ManagerOptions::default()
    }
}

#[tokio::test]
async fn a_session_beyond_the_limit_waits_for_its_turn() {
    let rig = Rig::with(at_most(1)).await;
    rig.agent("echo", ECHO);
    let first = rig.create("echo").await;
    let second = rig.create("echo").await;
    let third = rig.create("echo").await;
    rig.events_until(&first.id, |event| event["to"] == "idle")
        .await;
    for waiting in [&second, &third] {
        let session = rig.client.session(&waiting.id).await.unwrap();
        assert_eq!((session.status.as_str(), session.turns), ("CREATED", 0));
    }
    let metrics = rig.tcp("GET /metrics", &[], "").await.0;
    for line in [
        "ostler_sessions{state=\"created\"} 2",
        "ostler_sessions{state=\"idle\"} 1",
        "ostler_sessions{state=\"working\"} 0",
        "ostler_queue_length{agent=\"claude\"} 2",
        "ostler_breaker_open{agent=\"claude\"} 0",
        "ostler_sessions_waiting 2",
    ] {
        assert!(
            metrics.contains(&format!("\n{line}\n")),
            "{line}: {metrics}"
        );
    }
    for name in ["event_lag_seconds", "event_lag_seconds_total"] {
        let prefix = format!("ostler_{name} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&prefix));
        assert!(value.unwrap().parse::<f64>().unwrap() >= 0.0, "{metrics}");
    }
    // One that is stopped while it waits never starts.
    rig.client.stop(&second.id).await.unwrap();
    let stopped = rig.wait_for_end(&second.id).await;
    assert_eq!((stopped.status.as_str(), stopped.turns), ("STOPPED", 0));
    rig.client.stop(&first.id).await.unwrap();
    rig.events_until(&third.id, |event| event["type"] == "turn_ended")
        .await;
}

#[tokio::test]
async fn waiting_sessions_survive_a_restart() {
    let rig = Rig::with(at_most(1)).await;
    rig.agent("echo", ECHO);
    let first = rig.create("echo").await;
    let second = rig.create("echo").await;
    rig.events_until(&first.id, |event| event["type"] == "turn_ended")
        .await;
    // The daemon stops its sessions, but what it accepted and never started is still to be done.
    let dir = rig.stop().await;
    let rig = Rig::in_dir(dir, at_most(1)).await;
    assert_eq!((rig.recovered.closed, rig.recovered.queued), (0, 1));
    rig.events_until(&second.id, |event| event["type"] == "turn_ended")
        .await;
}

fn broken(rig: &Rig) -> CreateSession {
    CreateSession {
        once: true,
        ..rig.request("broken")
    }
}

// P65, S3-33, S3-40: a broken agent is not started over and over, even by a new daemon.
#[tokio::test]
async fn the_breaker_opens_and_outlives_the_daemon() {
    let rig = Rig::new().await;
    rig.agent("broken", "die-by 9");
    for _ in 0..3 {
        let session = rig.client.create(&broken(&rig)).await.unwrap();
        let ended = rig.wait_for_end(&session.id).await;
        assert_eq!(ended.outcome.unwrap().cause.as_str(), "agent_died");
    }
    let dir = rig.stop().await;
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    // The client learns when to try again, and nothing is left behind.
    let body = serde_json::to_string(&broken(&rig)).unwrap();
    let json = "Content-Type: application/json";
    let refused = rig.tcp("POST /v1/sessions", &[json], &body).await;
    assert_eq!(
        (refused.status(), refused.body()["cause"].as_str()),
        (503, Some("unavailable"))
    );
    let metrics = rig.tcp("GET /metrics", &[], "").await.0;
    let open = "ostler_breaker_open{agent=\"claude\"} 1";
    assert!(metrics.contains(open), "{metrics}");
    let seconds: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=30).contains(&seconds), "{seconds}");
    let all = rig.client.sessions("all=true").await.unwrap().sessions;
    assert_eq!(all.len(), 3);
}

// A message that would start the agent again is refused too; a running agent is not affected.
#[tokio::test]
async fn a_message_is_refused_while_the_breaker_is_open() {
    let rig = Rig::new().await;
    let script = "read-user\ninit\ntext hi\nresult hi";
    rig.shell_agent("flaky", "[ ! -e $DIR/broken ] || kill -9 $$", script);
    let session = rig.create("flaky").await;
    rig.events_until(&session.id, |event| event["code"] == "agent_gone")
        .await;
    std::fs::write(rig.path("broken"), "").unwrap();
    for _ in 0..3 {
        let failed = rig.create("flaky").await;
        rig.events_until(&failed.id, |event| event["type"] == "turn_ended")
            .await;
        rig.client.stop(&failed.id).await.unwrap();
        rig.wait_for_end(&failed.id).await;
    }
    let path = format!("POST /v1/sessions/{}/messages", session.id);
    let json = "Content-Type: application/json";
    let refused = rig.tcp(&path, &[json], r#"{"text":"again"}"#).await;
    assert_eq!(refused.status(), 503, "{}", refused.0);
    assert!(refused.header("retry-after").is_some());
}

// A session that is stopped at any moment of its start ends.
#[tokio::test]
async fn a_stop_during_the_start_is_not_lost() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    for _ in 0..20 {
        let client = rig.client.clone();
        let request = rig.request("echo");
        let created = tokio::spawn(async move { client.create(&request).await.unwrap().id });
        // The row exists before the agent is started.
        let id = loop {
            let page = rig.client.sessions("limit=1").await.unwrap();
            match page.sessions.into_iter().next() {
                Some(session) => break session.id,
                None => tokio::task::yield_now().await,
            }
        };
        rig.client.stop(&id).await.unwrap();
        assert_eq!(created.await.unwrap(), id);
        rig.wait_for_end(&id).await;
    }
}
