//! Sessions that are being started when the daemon is asked to stop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler::agent::ProbeFuture;
use ostler::dialect::Dialect;
use ostler::{Agent, Host, Session, Spec, SpecError};
use ostler_daemon::ManagerOptions;
use serde_json::Value;

use crate::rig::{PATIENCE, Rig, cause};

/// An agent that takes its time to start: until a file exists.
pub(crate) struct Gated {
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) gate: PathBuf,
}

impl Agent for Gated {
    fn dialect(&self) -> &'static dyn Dialect {
        self.agent.dialect()
    }

    fn is_found(&self, host: &Host, spec: &Spec) -> bool {
        self.agent.is_found(host, spec)
    }

    fn probe<'a>(&'a self, host: &'a Host, spec: &'a Spec) -> ProbeFuture<'a> {
        self.agent.probe(host, spec)
    }

    fn start(&self, host: &Host, spec: Spec) -> Result<Session, SpecError> {
        std::fs::write(self.gate.with_extension("reached"), "").unwrap();
        let began = std::time::Instant::now();
        // A test that fails does not open it.
        while !self.gate.exists() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.agent.start(host, spec)
    }
}

/// Asks a daemon to stop while it starts a session, and lets it start the session then. Returns the
/// last events of these types.
async fn stop_while_starting(drain: Duration, types: [&str; 2]) -> [Value; 2] {
    let rig = Rig::with(ManagerOptions {
        drain,
        ..ManagerOptions::default()
    })
    .await;
    rig.agent(
        "worker",
        "read\ninit\ntext done\nresult done\nread-until-eof",
    );
    let mut request = rig.request("worker");
    let gate = rig.path("gate");
    request.labels = crate::rig::labels(&[("gate", &gate.display().to_string())]);
    let client = rig.client.clone();
    let created = tokio::spawn(async move { client.create(&request).await });
    rig.file("gate.reached").await;
    rig.signal();
    let refused = async {
        while cause(rig.client.create(&rig.request("worker")).await.map(drop)) != "shutting_down" {}
    };
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    // Long enough for a daemon that does not know of the session to end.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(rig.is_running(), "it waits for the session");
    std::fs::write(gate, "").unwrap();
    let id = created.await.unwrap().unwrap().id;
    let store = rig.store.clone();
    let dir = rig.ended().await;
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    assert_eq!(rig.recovered.closed, 0, "nothing was left open");
    types.map(|kind| serde_json::from_str(&store.last_event(&id, kind).unwrap().unwrap()).unwrap())
}

// S2-32: its turn gets the same time as that of a session that runs.
#[tokio::test]
async fn a_session_that_is_being_started_may_finish_its_turn() {
    let [turn, ended] = stop_while_starting(PATIENCE, ["turn_ended", "ended"]).await;
    assert_eq!(turn["outcome"]["cause"], "completed", "{turn}");
    assert_eq!(turn["text"], "done");
    assert_eq!(ended["outcome"]["cause"], "completed", "{ended}");
}

// After the time for running turns, it is stopped as soon as it runs.
#[tokio::test]
async fn a_session_that_is_started_too_late_is_stopped() {
    let [_, ended] = stop_while_starting(Duration::ZERO, ["ended", "ended"]).await;
    assert_ne!(ended["outcome"]["detail"]["reason"], "daemon_restarted");
}
