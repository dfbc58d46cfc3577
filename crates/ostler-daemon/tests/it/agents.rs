//! Processes of the daemon: none is left behind, and adopted ones are reaped.

use std::time::Duration;

use crate::rig::{PATIENCE, Rig};

/// Leaves 500 processes behind that exit at once, in their own sessions, and one that waits until
/// the daemon has adopted it.
const ORPHANS: &str = r#"
for n in $(seq 500); do ( setsid true & ) ; done
( setsid bash -c '
    while read -r _ _ _ parent _ < /proc/$$/stat; [ $parent != $DAEMON ]; do sleep 0.02; done
    touch $DIR/adopted' & )
"#;

// P11
#[tokio::test]
async fn adopted_processes_are_reaped() {
    let rig = Rig::new().await;
    let orphans = ORPHANS
        .replace("$DAEMON", &std::process::id().to_string())
        .replace("$DIR", &rig.dir.path().display().to_string());
    rig.shell_agent(
        "parent",
        &orphans,
        "read\ninit\ntext hi\nresult hi\nread-until-eof",
    );
    let session = rig.create("parent").await;
    rig.file("adopted").await;
    // Those that have exited are reaped at the second look only, seconds after the first.
    until("zombies", || zombies() > 0).await;
    rig.events_until(&session.id, |event| event["type"] == "turn_ended")
        .await;
    rig.client.stop(&session.id).await.unwrap();
    rig.wait_for_end(&session.id).await;
    until("no zombies", || zombies() == 0).await;
}

async fn until(what: &str, is_reached: impl Fn() -> bool) {
    let reached = async {
        while !is_reached() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached)
        .await
        .unwrap_or_else(|_| panic!("{what}"));
}

/// Returns the number of children of this process that have exited.
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
