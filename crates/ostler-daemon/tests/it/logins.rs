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
