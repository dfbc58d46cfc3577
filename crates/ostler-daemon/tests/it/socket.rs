//! The socket of the daemon, which any process of the same user can remove or replace.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use crate::rig::{ECHO, PATIENCE, Rig};

async fn wait_until_served(rig: &Rig) {
    let served = async {
        while !rig.client.is_running().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, served)
        .await
        .expect("the daemon listens again");
}

#[tokio::test]
async fn a_socket_that_was_replaced_is_bound_again() {
    let rig = Rig::new().await;
    rig.agent("echo", ECHO);
    let path = rig.path("run/daemon.sock");
    std::fs::remove_file(&path).unwrap();
    let impostor = UnixListener::bind(&path).unwrap();
    drop(impostor); // its file stays
    wait_until_served(&rig).await;
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // Even with its directory gone.
    std::fs::remove_dir_all(rig.path("run")).unwrap();
    wait_until_served(&rig).await;
    let mode = rig.path("run").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    rig.create("echo").await;
}
