//! Processes of the daemon: none is left behind, and adopted ones are reaped.

use std::time::Duration;

use crate::rig::{PATIENCE, Rig};

/// Leaves processes behind that exit at once, in their own sessions.
const ORPHANS: &str = "for n in $(seq 50); do ( setsid true & ) ; done";

// P11
#[tokio::test]
async fn adopted_processes_are_reaped() {
    let rig = Rig::new().await;
    rig.shell_agent(
        "parent",
        ORPHANS,
        "read\ninit\ntext hi\nresult hi\nread-until-eof",
    );
    let session = rig.create("parent").await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    rig.client.stop(&session.id).await.unwrap();
    rig.wait_for_end(&session.id).await;
    let clean = async {
        while zombies() > 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, clean)
        .await
        .expect("no zombies");
}

fn zombies() -> usize {
    let own = std::process::id().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            let mut fields = rest.split(' ');
            fields.next() == Some("Z") && fields.next() == Some(&own)
        })
        .count()
}
