//! Live sessions on workers: streamed, controlled, stopped, lost, and their branch.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ostler::event::{Decision, Ended, NoticeCode, TurnEnded};
use ostler::outcome::Reason;
use ostler::permission::PermissionAnswer;
use ostler::session::{Interruption, RequestError};
use ostler::spec::{AfterTurn, Attendance};
use ostler::{Agents, Cause, Event, EventKind, Host, Log, Session, Spec};
use ostler_eval::git::Git;
use ostler_fleet::key::MemberKey;
use ostler_fleet::message::{ControlAction, ControlMessage};
use ostler_fleet::nats::Connection;
use ostler_fleet::owner::sessions::{
    FleetSessions, SessionOrder, SessionsOptions, branch_name, bundle_file,
};
use ostler_fleet::seal::{Purpose, seal};
use ostler_fleet::subject::{AttemptSubject, control};
use ostler_fleet::worker::Drain;
use ostler_store::Store;
use ostler_testkit::nats::NatsServer;

use crate::failures::SHORT;
use crate::rig::{PATIENCE, Rig, has_server, now, patiently, token, until};

/// Answers every message.
pub(crate) const ECHO: &str = "loop 1000\nread-user\ninit\ntext hi\nresult hi\nend";

impl Rig {
    pub(crate) async fn sessions(&self, url: &str, lease: Duration) -> Arc<FleetSessions> {
        let connection = self.connect(url, "owner").await;
        self.sessions_on(connection, self.key(), lease).await
    }

    /// Opens the sessions of the owner on a connection of it. It signs with this key.
    pub(crate) async fn sessions_on(
        &self,
        connection: Connection,
        key: MemberKey,
        lease: Duration,
    ) -> Arc<FleetSessions> {
        let path = std::env::var_os("PATH").unwrap();
        let host = Host::new([("PATH".into(), path)]);
        let key = Arc::new(key);
        patiently(|| {
            let options = SessionsOptions {
                name: token("owner"),
                key: key.clone(),
                run: token("sessions"),
                lease,
                replicas: 1,
                git: Git::new(&host, &self.path("owner-cache")).unwrap(),
                bundles: self.path("bundles"),
            };
            FleetSessions::open(connection.clone(), options, now)
        })
        .await
    }

    pub(crate) fn script(&self, text: &str) {
        std::fs::write(self.path("agent.script"), text).unwrap();
    }
}

/// Starts an attended session in the repository.
pub(crate) fn start(
    rig: &Rig,
    fleet: &Arc<FleetSessions>,
    store: &Arc<Store>,
    spec: Spec,
) -> Session {
    start_from(rig, fleet, store, spec, SessionOrder::default())
}

/// Starts an attended session in the repository, or that of the order.
fn start_from(
    rig: &Rig,
    fleet: &Arc<FleetSessions>,
    store: &Arc<Store>,
    spec: Spec,
    order: SessionOrder,
) -> Session {
    let order = SessionOrder {
        agent: "claude".to_owned(),
        ..order
    };
    let agent = fleet.agent(Agents::builtin().get("claude").unwrap(), order);
    let log: Arc<dyn Log> = store.clone();
    let host = Host::default().with_log(log);
    let spec = spec
        .dir(rig.path("repo"))
        .after_turn(AfterTurn::Wait)
        .attendance(Attendance::Attended);
    agent.start(&host, spec).unwrap()
}

/// Reads events until one matches.
pub(crate) async fn read<T>(
    session: &mut Session,
    what: &str,
    find: impl Fn(&Event) -> Option<T>,
) -> T {
    let found = async {
        loop {
            let event = session.next().await;
            assert!(event.is_some(), "the session ended before: {what}");
            if let Some(found) = find(&event.unwrap()) {
                return found;
            }
        }
    };
    let found = tokio::time::timeout(PATIENCE, found).await;
    assert!(found.is_ok(), "not in time: {what}");
    found.unwrap()
}

pub(crate) async fn turn(session: &mut Session) -> TurnEnded {
    read(session, "the end of a turn", |event| match &event.kind {
        EventKind::TurnEnded(turn) => Some((**turn).clone()),
        _ => None,
    })
    .await
}

pub(crate) async fn ended(session: &mut Session) -> Ended {
    read(session, "the end", |event| match &event.kind {
        EventKind::Ended(ended) => Some((**ended).clone()),
        _ => None,
    })
    .await
}

/// Checks that the store has all events of a session without a gap, up to its end.
pub(crate) fn check_stored(store: &Store, session: &str) -> Vec<Event> {
    let events = store.read(session, 1, usize::MAX).unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    let expected: Vec<u64> = (1..=u64::try_from(events.len()).unwrap()).collect();
    assert_eq!(numbers, expected);
    let last = events.last().unwrap();
    assert!(matches!(last.kind, EventKind::Ended(_)), "{last:?}");
    events
}

/// Returns the messages that turns began with.
fn prompts(events: &[Event]) -> Vec<&str> {
    let prompts = events.iter().filter_map(|event| match &event.kind {
        EventKind::TurnStarted(turn) => turn.prompt.as_deref(),
        _ => None,
    });
    prompts.collect()
}

pub(crate) fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git").args(args).current_dir(dir).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_a_worker_is_followed_and_controlled_from_here() {
    if !has_server("a_session_on_a_worker_is_followed_and_controlled_from_here") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script(
        "read-user\ninit\ntext one\nresult one\n\
         read-user\ninit\ncontrol-request q1 Bash {\"command\":\"rm x\"}\nwait-control\n\
         text two\nresult two\n\
         read-user\ninit\nanswer-interrupt\nread-until-eof\n",
    );
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    let id = session.id().to_owned();
    let worker_name = read(&mut session, "the worker", |event| match &event.kind {
        EventKind::Notice(notice) if notice.code == NoticeCode::Worker => {
            Some(notice.message.clone())
        }
        _ => None,
    });
    assert!(worker_name.await.contains("w1"));
    assert_eq!(turn(&mut session).await.text, "one");

    session.send("second").unwrap();
    let asked = read(&mut session, "a permission request", |event| {
        match &event.kind {
            EventKind::Permission(permission) if permission.decision == Decision::Asked => {
                Some(permission.id.clone())
            }
            _ => None,
        }
    })
    .await;
    assert_eq!(session.status().pending.len(), 1);
    session
        .answer(&asked, PermissionAnswer::Allow)
        .await
        .unwrap();
    let again = session.answer(&asked, PermissionAnswer::Allow).await;
    assert!(matches!(again, Err(RequestError::Refused(_))), "{again:?}");
    assert_eq!(turn(&mut session).await.text, "two");

    session.send("third").unwrap();
    read(&mut session, "the third turn", |event| match &event.kind {
        EventKind::TurnStarted(_) => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(session.interrupt().await, Interruption::Acknowledged);
    let interrupted = turn(&mut session).await;
    assert_eq!(interrupted.outcome.cause, Cause::Interrupted);

    session.stop();
    let ended = ended(&mut session).await;
    assert_eq!(
        ended.outcome.cause,
        Cause::Interrupted,
        "that of its last turn"
    );
    assert!(session.next().await.is_none());
    check_stored(&store, &id);

    // The branch can be fetched, and the working tree stays as it is.
    let bundle = bundle_file(&rig.path("bundles"), &id);
    let branch = branch_name(&id);
    let refspec = format!("refs/heads/{branch}:refs/heads/{branch}");
    let repo = rig.path("repo");
    git(&repo, &["fetch", "-q", bundle.to_str().unwrap(), &refspec]);
    let file = git(&repo, &["show", &format!("{branch}:file.txt")]);
    assert_eq!(file, "one\nchanged\n");
    let merged = git(&repo, &["merge-base", "main", &branch]);
    assert_eq!(merged, git(&repo, &["rev-parse", "main"]));
    assert_eq!(git(&repo, &["status", "--porcelain"]), "");
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_worker_waits_and_can_be_stopped() {
    if !has_server("a_session_without_a_worker_waits_and_can_be_stopped") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script(ECHO);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let mut stopped = start(&rig, &fleet, &store, Spec::new("never"));
    stopped.stop();
    assert_eq!(ended(&mut stopped).await.outcome.cause, Cause::Stopped);
    check_stored(&store, stopped.id());

    // Messages wait for the worker too, in their order.
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    session.send("second").unwrap();
    session.send("third").unwrap();
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    for _ in 0..3 {
        turn(&mut session).await;
    }
    session.stop();
    ended(&mut session).await;
    let events = check_stored(&store, session.id());
    assert_eq!(prompts(&events), ["first", "second", "third"]);
    assert_eq!(worker.finish().await, 1, "the stopped session never ran");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_killed_worker_ends_with_a_named_reason() {
    if !has_server("a_session_of_a_killed_worker_ends_with_a_named_reason") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script("read-user\ninit\ntext one\nresult one\nread-user\ninit\nread-until-eof");
    let fleet = rig.sessions(&server.url(), SHORT).await;
    let mut worker = rig.process("worker_process", &server, "w1");
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    turn(&mut session).await;
    session.send("second").unwrap();
    read(&mut session, "the second turn", |event| match &event.kind {
        EventKind::TurnStarted(_) => Some(()),
        _ => None,
    })
    .await;
    worker.kill();
    session.send("third").unwrap();
    let cut = turn(&mut session).await;
    assert_eq!(cut.outcome.cause, Cause::AgentDied);
    let ended = ended(&mut session).await;
    assert_eq!(ended.outcome.cause, Cause::AgentDied);
    assert_eq!(ended.outcome.reason(), Some(&Reason::WorkerLost));
    assert!(ended.outcome.message.contains("w1"), "{ended:?}");
    let events = check_stored(&store, session.id());
    let refused = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Refused(_)));
    assert_eq!(refused.count(), 1, "the message that did not arrive");
}

// A daemon that was killed left the session. The next one closes it, and its worker stops.
#[test]
fn a_worker_stops_a_session_that_its_owner_does_not_know() {
    if !has_server("a_worker_stops_a_session_that_its_owner_does_not_know") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    rig.script(ECHO);
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (workers, first, second) = (runtime(), runtime(), runtime());
    let worker = workers.block_on(rig.worker(&server.url(), rig.worker_options("w1")));
    first.block_on(async {
        let fleet = rig.sessions(&server.url(), SHORT).await;
        let mut session = start(&rig, &fleet, &rig.store(), Spec::new("first"));
        turn(&mut session).await;
        std::mem::forget(session); // a killed process does not ask its worker to stop
    });
    first.shutdown_background();
    second.block_on(async {
        let fleet = rig.sessions(&server.url(), PATIENCE).await;
        fleet.recovered();
        assert_eq!(worker.finish().await, 1);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_start_says_why() {
    if !has_server("a_session_that_cannot_start_says_why") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let mut options = rig.worker_options("w1");
    options.policy.agents = Some(["another".to_owned()].into());
    let worker = rig.worker(&server.url(), options).await;
    until("the worker is known", || !fleet.workers().is_empty()).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    let ended = ended(&mut session).await;
    assert_eq!(ended.outcome.cause, Cause::Unavailable);
    assert!(ended.outcome.message.contains("policy"), "{ended:?}");
    check_stored(&store, session.id());
    assert_eq!(worker.finish().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_survives_a_restart_of_the_server() {
    if !has_server("a_session_survives_a_restart_of_the_server") {
        return;
    }
    let mut server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script(ECHO);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    turn(&mut session).await;
    server.kill();
    session.send("second").unwrap();
    session.send("third").unwrap();
    server.restart();
    for _ in 0..2 {
        turn(&mut session).await;
    }
    session.stop();
    ended(&mut session).await;
    let events = check_stored(&store, session.id());
    assert_eq!(prompts(&events), ["first", "second", "third"]);
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_stopped_returns_the_changes() {
    if !has_server("a_worker_that_is_stopped_returns_the_changes") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script(ECHO);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    turn(&mut session).await;
    worker.drain.send_replace(Drain::HandBack);
    let is_stopping = |event: &Event| match &event.kind {
        EventKind::Notice(notice) => notice.message.contains("being stopped").then_some(()),
        _ => None,
    };
    read(&mut session, "the notice of the worker", is_stopping).await;
    ended(&mut session).await;
    assert!(bundle_file(&rig.path("bundles"), session.id()).is_file());
    assert_eq!(worker.task.await.unwrap().unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_owner_cannot_control_a_session() {
    if !has_server("another_owner_cannot_control_a_session") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script(ECHO);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let other = MemberKey::generate();
    let mut options = rig.worker_options("w1");
    options.trusted.insert(other.public());
    let worker = rig.worker(&server.url(), options).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    turn(&mut session).await;
    let connection = rig.connect(&server.url(), "other").await;
    let attempt = token(session.id());
    let stop = ControlMessage {
        item: format!("owner.sessions.{attempt}"),
        attempt: attempt.clone(),
        action: ControlAction::Stop,
    };
    let stop = serde_json::to_vec(&stop).unwrap();
    for key in [&other, &rig.key()] {
        let sealed = seal(key, Purpose::Control, &stop).unwrap();
        let subject = control(&token("w1"), &attempt);
        connection.publish(subject, sealed).await.unwrap();
        connection.flush().await;
        if key.public() == other.public() {
            session.send("second").unwrap();
            turn(&mut session).await;
        }
    }
    ended(&mut session).await; // the owner's own request counts
    assert_eq!(
        prompts(&check_stored(&store, session.id())),
        ["first", "second"]
    );
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_refused_and_blocks_nothing() {
    if !has_server("a_message_that_is_too_large_is_refused_and_blocks_nothing") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script(ECHO);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    turn(&mut session).await;
    session.send("x".repeat(2 * 1024 * 1024)).unwrap();
    let is_refused = |event: &Event| match &event.kind {
        EventKind::Notice(notice) => notice.message.contains("not delivered").then_some(()),
        _ => None,
    };
    read(&mut session, "the notice", is_refused).await;
    session.send("second").unwrap();
    turn(&mut session).await;
    session.stop();
    ended(&mut session).await;
    let events = check_stored(&store, session.id());
    assert_eq!(prompts(&events), ["first", "second"]);
    let refused = events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Refused(_)));
    assert_eq!(refused.count(), 1);
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_with_a_gap_ends_the_session() {
    if !has_server("a_record_with_a_gap_ends_the_session") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    rig.script(ECHO);
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    let mut session = start(&rig, &fleet, &store, Spec::new("first"));
    turn(&mut session).await;
    let subject = AttemptSubject {
        worker: token("w1"),
        owner: token("owner"),
        run: token("sessions"),
        attempt: token(session.id()),
    };
    let subject = subject.events();
    let connection = rig.connect(&server.url(), "w1").await;
    // The worker may append at the same time.
    loop {
        let mut end = connection.end_of_record(&subject).await.unwrap();
        end.bytes += 1000;
        if connection.append(&subject, end, "x".into()).await.is_ok() {
            break;
        }
    }
    let ended = ended(&mut session).await;
    assert_eq!(ended.outcome.cause, Cause::Protocol);
    assert!(ended.outcome.message.contains("missing"), "{ended:?}");
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_stopped_while_its_worker_prepares_it() {
    if !has_server("a_session_is_stopped_while_its_worker_prepares_it") {
        return;
    }
    let server = NatsServer::start();
    let rig = Rig::new();
    let store = rig.store();
    let fleet = rig.sessions(&server.url(), PATIENCE).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    // A repository whose server never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let order = SessionOrder {
        repository: Some(format!("https://127.0.0.1:{port}/x.git")),
        commit: Some("0".repeat(40)),
        ..SessionOrder::default()
    };
    let mut session = start_from(&rig, &fleet, &store, Spec::new("first"), order);
    let cloning = tokio::time::timeout(PATIENCE, listener.accept()).await;
    let _cloning = cloning.expect("the worker clones").unwrap();
    session.send("second").unwrap();
    session.stop();
    assert_eq!(ended(&mut session).await.outcome.cause, Cause::Stopped);
    check_stored(&store, session.id());
    assert_eq!((worker.finish().await, rig.lines("started")), (1, 0));
}
