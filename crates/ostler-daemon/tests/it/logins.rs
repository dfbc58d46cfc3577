//! Agents that share a login.

use crate::rig::{ECHO, Rig};

/// Refreshes a token that can be used once: two at the same time log each other out.
const REFRESH: &str = r#"
mkdir $DIR/lock || touch $DIR/conflict
sleep 0.2
rmdir $DIR/lock
"#;

// P27
#[tokio::test]
async fn two_sessions_never_refresh_a_login_at_once() {
    let rig = Rig::new().await;
    rig.shell_agent("refreshing", REFRESH, ECHO);
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(rig.create("refreshing").await.id);
    }
    for id in &ids {
        rig.events_until(id, |event| event["type"] == "turn_ended")
            .await;
    }
    assert!(!rig.path("conflict").exists());
}

/// Says nothing until the test allows it, so that its login stays in use.
const HOLD: &str = "while [ ! -e $DIR/go ]; do sleep 0.02; done";

// P27: the same agent with another login need not wait.
#[tokio::test]
async fn sessions_with_different_logins_start_together() {
    let rig = Rig::new().await;
    rig.shell_agent("holding", HOLD, ECHO);
    for dir in ["one", "two"] {
        let config_dir = rig.path(dir).display().to_string();
        let request = ostler_daemon::api::CreateSession {
            labels: crate::rig::labels(&[("config_dir", &config_dir)]),
            ..rig.request("holding")
        };
        rig.client.create(&request).await.unwrap();
    }
    let metrics = rig.tcp("GET /metrics", &[], "").await.0;
    assert!(metrics.contains("ostler_sessions_waiting 0"), "{metrics}");
    std::fs::write(rig.path("go"), "").unwrap();
}

/// Refreshes like [`REFRESH`], and exits: the gate does not care how an agent ends.
const REFRESH_AND_EXIT: &str = "mkdir $DIR/lock || touch $DIR/conflict
sleep 0.2
rmdir $DIR/lock
touch $DIR/ran.$$
exit 1";

// P27: the login counts, not the agent. Claude Code and its ACP adapter have one login.
#[tokio::test]
async fn two_agents_never_refresh_their_common_login_at_once() {
    let rig = Rig::new().await;
    rig.shell_agent("refreshing", REFRESH, ECHO);
    rig.shell_agent("adapter", REFRESH_AND_EXIT, "");
    let mut ids = Vec::new();
    for (agent, program) in [
        ("claude", "refreshing"),
        ("claude-agent-acp", "adapter"),
        ("claude", "refreshing"),
        ("claude-agent-acp", "adapter"),
    ] {
        let request = ostler_daemon::api::CreateSession {
            agent: Some(agent.to_owned()),
            ..rig.request(program)
        };
        ids.push(rig.client.create(&request).await.unwrap().id);
    }
    for id in &ids {
        rig.events_until(id, |event| event["type"] == "turn_ended")
            .await;
    }
    let files = std::fs::read_dir(rig.dir.path()).unwrap().flatten();
    let ran = files.filter(|it| it.file_name().to_string_lossy().starts_with("ran."));
    assert_eq!(ran.count(), 2, "the adapter was started");
    assert!(!rig.path("conflict").exists());
}

// P27: a message that starts an agent again waits like a new session.
#[tokio::test]
async fn agents_that_are_started_again_never_refresh_a_login_at_once() {
    let rig = Rig::new().await;
    let once = "read-user\ninit\ntext hi\nresult hi";
    rig.shell_agent("refreshing", REFRESH, once);
    let mut ids = Vec::new();
    for _ in 0..4 {
        let id = rig.create("refreshing").await.id;
        rig.events_until(&id, |event| event["code"] == "agent_gone")
            .await;
        ids.push(id);
    }
    let message = ostler_daemon::api::SendMessage {
        text: "again".to_owned(),
        when_busy: ostler_daemon::api::WhenBusy::Queue,
    };
    let sent = ids.iter().map(|id| rig.client.send(id, &message));
    for sent in futures_util::future::join_all(sent).await {
        sent.unwrap();
    }
    for id in &ids {
        let is_second =
            |event: &serde_json::Value| event["type"] == "turn_ended" && event["turn"] == 2;
        rig.events_until(id, is_second).await;
    }
    assert!(!rig.path("conflict").exists());
}

// P27: a message that waits for a login while its session is stopped does not keep the login.
#[tokio::test]
async fn a_session_that_is_stopped_while_it_waits_for_its_login_releases_it() {
    let rig = Rig::new().await;
    rig.agent("once", "read-user\ninit\ntext hi\nresult hi");
    rig.shell_agent("holding", HOLD, ECHO);
    rig.agent("echo", ECHO);
    let stopped = rig.create("once").await.id;
    rig.events_until(&stopped, |event| event["code"] == "agent_gone")
        .await;
    rig.create("holding").await;
    let (client, id) = (rig.client.clone(), stopped.clone());
    let sent = tokio::spawn(async move {
        let message = ostler_daemon::api::SendMessage {
            text: "again".to_owned(),
            when_busy: ostler_daemon::api::WhenBusy::Queue,
        };
        client.send(&id, &message).await
    });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await; // until it waits
    rig.client.stop(&stopped).await.unwrap();
    rig.wait_for_end(&stopped).await;
    std::fs::write(rig.path("go"), "").unwrap();
    assert_eq!(crate::rig::cause(sent.await.unwrap()), "session_ended");
    let next = rig.create("echo").await.id;
    rig.events_until(&next, |event| event["type"] == "turn_ended")
        .await;
}
