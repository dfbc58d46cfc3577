//! Sessions that run elsewhere are followed again by the next daemon.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::agent::ProbeFuture;
use ostler::dialect::Dialect;
use ostler::event::Timestamp;
use ostler::session::{Relay, SessionReply, SessionRequest};
use ostler::{Agent, Cause, Host, Outcome, Session, Spec, SpecError};
use ostler_core::log::Log;
use ostler_daemon::api::{Answer, AnswerDecision, SendMessage, WhenBusy};
use ostler_daemon::{ManagerOptions, ParallelLimits};
use ostler_store::{ApprovalDecision, ApprovalState, DecideResult, NewManaged, Store};
use serde_json::{Value, json};

use crate::recovery::{event, managed};
use crate::rig::{ECHO, PATIENCE, Rig, cause};

/// An agent whose sessions run elsewhere, since before this daemon.
pub(crate) struct Elsewhere {
    pub(crate) agent: Arc<dyn Agent>,
    /// Permission requests that were answered.
    pub(crate) answers: Arc<Mutex<Vec<String>>>,
}

impl Agent for Elsewhere {
    fn dialect(&self) -> &'static dyn Dialect {
        self.agent.dialect()
    }

    fn is_found(&self, _: &Host, _: &Spec) -> bool {
        true
    }

    fn probe<'a>(&'a self, host: &'a Host, spec: &'a Spec) -> ProbeFuture<'a> {
        self.agent.probe(host, spec)
    }

    fn start(&self, _: &Host, _: Spec) -> Result<Session, SpecError> {
        Err(SpecError::new("fleet", "", "sessions are only rejoined"))
    }

    fn rejoin(&self, host: &Host, spec: &Spec) -> Option<Result<Session, SpecError>> {
        let (session, relay) = Session::rejoined(host, spec.id.as_deref()?).unwrap();
        tokio::spawn(far_end(
            relay,
            session.id().to_owned(),
            self.answers.clone(),
        ));
        Some(Ok(session))
    }
}

/// Carries out the requests for a session until it is stopped.
async fn far_end(mut relay: Relay, id: String, answers: Arc<Mutex<Vec<String>>>) {
    loop {
        let request = relay.next().await;
        match &request.request {
            SessionRequest::Stop | SessionRequest::Kill => {
                let outcome = Outcome::new(Cause::Stopped, "It was stopped.");
                return relay.end(&outcome, Vec::new()).await.unwrap();
            }
            SessionRequest::Answer { id: asked, .. } => {
                answers.lock().unwrap().push(asked.clone());
                let allowed = permission(asked, "allowed", "person");
                let event = event(relay.last() + 1, 1, &id, allowed).event;
                relay.publish(vec![event]).await.unwrap();
            }
            _ => {}
        }
        request.complete(SessionReply::Done);
    }
}

fn permission(id: &str, decision: &str, by: &str) -> Value {
    json!({"type": "permission", "id": id, "tool": "Bash", "input": {"command": "rm"},
        "decision": decision, "by": by})
}

const FIRST: &str = "00000000-0000-4000-8000-000000000011";
const SECOND: &str = "00000000-0000-4000-8000-000000000012";
const QUEUED: &str = "00000000-0000-4000-8000-000000000013";

/// Leaves two sessions in a fleet in their first turn, with an open permission request each.
async fn leave_behind(dir: &Path) -> Store {
    let work = dir.join("work");
    std::fs::create_dir_all(&work).unwrap();
    let store = Store::open(&dir.join("state")).unwrap();
    for id in [FIRST, SECOND] {
        let request = json!({"dir": work, "model": "echo", "prompt": "go", "fleet": {}});
        let session = NewManaged {
            request: request.to_string(),
            ..managed(id, &work, false)
        };
        store.create_managed(&session).unwrap();
        let started = json!({"type": "turn_started", "origin": "caller", "prompt": "go"});
        let entries = vec![
            event(1, 1, id, started),
            event(2, 1, id, permission("q", "asked", "default")),
        ];
        store.append(Arc::new(entries)).await.unwrap();
    }
    store
}

async fn metric(rig: &Rig, name: &str) -> f64 {
    let metrics = rig.tcp("GET /metrics", &[], "").await.0;
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("no {name}: {metrics}"))
        .parse()
        .unwrap()
}

async fn until_running(rig: &Rig, count: u32) {
    let reached = async {
        while metric(rig, "ostler_sessions_running").await != f64::from(count) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap();
}

fn one_at_a_time() -> ManagerOptions {
    ManagerOptions {
        parallel: ParallelLimits {
            total: 1,
            per_agent: 1,
        },
        ..ManagerOptions::default()
    }
}

// A worker stops a session that its owner does not know, so none may wait.
#[tokio::test]
async fn a_session_that_runs_elsewhere_does_not_wait_for_others() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let store = leave_behind(dir.path()).await;
    let waiting = managed(QUEUED, &dir.path().join("work"), true);
    store.create_managed(&waiting).unwrap();
    drop(store);
    std::fs::write(dir.path().join("fleet"), "").unwrap();
    let rig = Rig::in_dir(dir, one_at_a_time()).await;
    rig.agent("echo", ECHO);
    let recovered = rig.recovered;
    assert_eq!(
        (recovered.rejoined, recovered.queued, recovered.closed),
        (2, 1, 0)
    );
    assert_eq!(metric(&rig, "ostler_sessions_running").await, 2.0);
    assert_eq!(metric(&rig, "ostler_sessions_waiting").await, 1.0);
    let more = SendMessage {
        text: "more".to_owned(),
        when_busy: WhenBusy::Queue,
    };
    for id in [FIRST, SECOND] {
        rig.client.send(id, &more).await.unwrap();
    }
    // They count: the one that waits is started after both have ended.
    rig.client.stop(FIRST).await.unwrap();
    until_running(&rig, 1).await;
    assert_eq!(metric(&rig, "ostler_sessions_waiting").await, 1.0);
    rig.client.stop(SECOND).await.unwrap();
    rig.events_until(QUEUED, |event| event["type"] == "turn_ended")
        .await;
}

// An earlier daemon has counted what is stored.
#[tokio::test]
async fn only_new_events_of_a_rejoined_session_count() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    drop(leave_behind(dir.path()).await);
    std::fs::write(dir.path().join("fleet"), "").unwrap();
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    for id in [FIRST, SECOND] {
        rig.client.stop(id).await.unwrap();
        rig.wait_for_end(id).await;
    }
    until_running(&rig, 0).await;
    // The denied request, the end of the turn, and that of the session.
    assert_eq!(metric(&rig, "ostler_events_total").await, 6.0);
}

// It could not be started again.
#[tokio::test]
async fn a_session_in_a_fleet_survives_a_restart_that_is_refused() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    drop(leave_behind(dir.path()).await);
    std::fs::write(dir.path().join("fleet"), "").unwrap();
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    for action in ["restart", "fork"] {
        let refused = rig.client.control(FIRST, action).await;
        assert_eq!(cause(refused), "refused", "{action}");
    }
    assert_eq!(metric(&rig, "ostler_sessions_running").await, 2.0);
    rig.client.control(FIRST, "resume").await.unwrap(); // it runs
    rig.client.stop(FIRST).await.unwrap();
    rig.wait_for_end(FIRST).await;
    until_running(&rig, 1).await;
    for action in ["restart", "resume", "fork"] {
        let refused = rig.client.control(FIRST, action).await;
        assert_eq!(cause(refused), "refused", "{action}");
    }
}

// The daemon was killed after it had stored an answer, and before its worker got it.
#[tokio::test]
async fn an_answer_that_did_not_arrive_is_asked_for_again() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let store = leave_behind(dir.path()).await;
    let approvals = store.approvals(None).unwrap();
    let id = |session: &str| {
        let mut found = approvals.iter().filter(|it| it.session == session);
        found.next().unwrap().id.clone()
    };
    for (id, state) in [
        (id(FIRST), ApprovalState::Allowed),
        (id(SECOND), ApprovalState::Expired),
    ] {
        let decision = ApprovalDecision {
            state,
            by: "process 1",
            message: Some("yes"),
            at: Timestamp(1),
        };
        let decided = store.decide_approval(&id, decision).unwrap();
        assert!(matches!(decided, DecideResult::Decided(_)));
    }
    drop(store);
    std::fs::write(dir.path().join("fleet"), "").unwrap();
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    let pending = rig.client.pending_approvals().await.unwrap().approvals;
    assert_eq!(pending.len(), 2, "{pending:?}");
    for approval in &pending {
        assert_eq!((&approval.decided_by, &approval.message), (&None, &None));
        let answer = Answer {
            decision: AnswerDecision::Allow,
            message: None,
            always: false,
        };
        let answered = rig.client.answer(&approval.id, &answer).await.unwrap();
        assert_eq!(answered.state, "allowed");
    }
    assert_eq!(*rig.embedder.answers.lock().unwrap(), ["q", "q"]);
}

// A daemon without the fleet closes them, and does not advise what is not possible.
#[tokio::test]
async fn a_session_in_a_fleet_that_is_closed_has_no_hint_to_resume_it() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    drop(leave_behind(dir.path()).await);
    let rig = Rig::in_dir(dir, ManagerOptions::default()).await;
    assert_eq!((rig.recovered.rejoined, rig.recovered.closed), (0, 2));
    let events = rig.all_events(FIRST).await;
    let outcome = &events.last().unwrap()["outcome"];
    assert_eq!(outcome["detail"]["reason"], "daemon_restarted");
    assert!(outcome["hint"].is_null(), "{outcome}");
}
