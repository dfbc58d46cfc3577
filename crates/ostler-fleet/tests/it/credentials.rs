//! Credentials: what the generated configuration of the server lets members do, and what not. With
//! a real server, TLS, accounts and keys.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_nats::{Client, ConnectOptions, HeaderMap, Subscriber};
use futures_util::{FutureExt, StreamExt};
use ostler::event::Decision;
use ostler::permission::PermissionAnswer;
use ostler::session::Interruption;
use ostler::{Cause, EventKind, Spec};
use ostler_core::event::Timestamp;
use ostler_eval::runner::RunEnd;
use ostler_fleet::member::Member;
use ostler_fleet::nats::{Announced, Connection, FleetError};
use ostler_fleet::owner::sessions::bundle_file;
use ostler_fleet::permission::API_PREFIX;
use ostler_fleet::setup::{FleetDir, FleetFile, NewFleet};
use ostler_fleet::status::{ServerRefusal, refused_by_server};
use ostler_fleet::subject::{HEARTBEATS, artifacts_bucket};
use ostler_testkit::nats::{NatsServer, free_port};
use tokio::sync::watch;

use crate::rig::{PATIENCE, Rig, RunningWorker, check_books, has_server, now, token, until};
use crate::sessions::{check_stored, ended, read, start, turn};

/// A fleet with the configuration that `ostler fleet init` writes.
struct Secured {
    rig: Rig,
    fleet: FleetDir,
    server: NatsServer,
}

impl Secured {
    async fn start() -> Self {
        let rig = Rig::new();
        let (fleet, server) = loop {
            let new = NewFleet {
                hosts: vec!["localhost".to_owned()],
                port: free_port(),
                listen: "127.0.0.1".to_owned(),
                owners: vec![token("owner"), token("other")],
                workers: vec![token("w1"), token("w2")],
                replicas: 1,
            };
            let dir = rig.path(&format!("fleet-{}", new.port));
            let fleet = FleetDir::create(&dir, &new, now()).unwrap();
            if let Some(server) = NatsServer::start_file(&fleet.server_config(), new.port) {
                break (fleet, server);
            }
        };
        fleet.prepare().await.unwrap();
        Self { rig, fleet, server }
    }

    fn member(&self, name: &str) -> Member {
        Member::read(&self.fleet.member_file(&token(name))).unwrap()
    }

    async fn try_connect(&self, name: &str) -> Result<Connection, FleetError> {
        let member = self.member(name);
        let settings = member.connect_settings(None, Path::new("member")).unwrap();
        Connection::open(&settings).await
    }

    async fn connect(&self, name: &str) -> Connection {
        self.try_connect(name).await.unwrap()
    }

    /// Returns a client with the credentials of a member and without the rules of Ostler.
    async fn raw(&self, file: &Path) -> (Client, jetstream::Context) {
        let member = Member::read(file).unwrap();
        let client = ConnectOptions::new()
            .nkey(member.key.clone())
            .custom_inbox_prefix(format!("_INBOX_{}", member.name))
            .add_root_certificates(member.authority.unwrap())
            .request_timeout(Some(Duration::from_secs(3)))
            .connect(member.url.unwrap())
            .await
            .unwrap();
        let api = member.api.as_deref().unwrap_or("$JS.API");
        (client.clone(), jetstream::with_prefix(client, api))
    }

    async fn raw_member(&self, name: &str) -> (Client, jetstream::Context) {
        self.raw(&self.fleet.member_file(&token(name))).await
    }

    async fn admin(&self) -> (Client, jetstream::Context) {
        self.raw(&self.fleet.admin_file()).await
    }

    async fn worker(&self, name: &str) -> RunningWorker {
        let mut options = self.rig.worker_options(name);
        options.trusted = self.member(name).trust;
        let connection = self.connect(name).await;
        self.rig.worker_on(connection, options)
    }

    /// Runs one trial on the workers.
    async fn run(&self, run: &str) {
        let key = self.member("owner").member_key().unwrap();
        let owner = self.connect("owner").await;
        let place = self.rig.place_on(owner, key, run, PATIENCE).await;
        let runner = Arc::new(self.rig.runner(run, &self.rig.plain_suite(1), place));
        let (_stop, cancelled) = watch::channel(false);
        assert_eq!(runner.run(cancelled).await.unwrap(), RunEnd::Complete);
    }

    /// Returns what the server refused so far.
    fn refused(&self) -> Vec<ServerRefusal> {
        let FleetFile {
            owners, workers, ..
        } = &self.fleet.fleet;
        let members = owners.iter().chain(workers);
        let members = members.map(|(name, key)| (key.clone(), name.clone()));
        refused_by_server(&self.log(), &members.collect())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.fleet.log_file()).unwrap()
    }

    /// Reloads the configuration. The server follows the imports of a new account only with the
    /// second reload (2.15).
    fn reload(&self) {
        for _ in 0..2 {
            let count = || self.log().matches("Reloaded server configuration").count();
            let before = count();
            let pid = i32::try_from(self.server.pid()).unwrap();
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
            let start = std::time::Instant::now();
            while count() == before {
                assert!(start.elapsed() < PATIENCE, "{}", self.log());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trial_runs_with_the_generated_credentials() {
    if !has_server("a_trial_runs_with_the_generated_credentials") {
        return;
    }
    let fleet = Secured::start().await;
    // Large enough that its archive does not fit into one message.
    let noise: Vec<u8> = (0..3_000_000_u32)
        .map(|it| it.wrapping_mul(2_654_435_761).to_le_bytes()[3])
        .collect();
    fs::write(fleet.rig.path("repo/noise.bin"), noise).unwrap();
    for args in [&["add", "-A"][..], &["commit", "-q", "-m", "noise"]] {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=u", "-c", "user.email=u@localhost"])
            .args(args)
            .current_dir(fleet.rig.path("repo"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .status();
        assert!(status.unwrap().success());
    }
    let worker = fleet.worker("w1").await;
    fleet.run("run").await;
    assert_eq!(worker.finish().await, 1);
    let trials = check_books(&fleet.rig, "run");
    assert!(trials[0].attempts[0].worker.starts_with("w1/"));
    let log = fleet.log();
    assert!(!log.contains("Violation"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_stops_an_attempt_through_the_accounts() {
    if !has_server("an_owner_stops_an_attempt_through_the_accounts") {
        return;
    }
    let fleet = Secured::start().await;
    let worker = fleet.worker("w1").await;
    fleet.rig.hold("agent");
    let key = fleet.member("owner").member_key().unwrap();
    let owner = fleet.connect("owner").await;
    let place = fleet.rig.place_on(owner, key, "run", PATIENCE).await;
    let runner = Arc::new(fleet.rig.runner("run", &fleet.rig.plain_suite(1), place));
    let (stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(runner.run(cancelled));
    until("the agent works", || fleet.rig.lines("started") == 1).await;
    stop.send_replace(true);
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Interrupted);
    assert_eq!(worker.finish().await, 1);
    assert_eq!(fleet.rig.lines("spent"), 0, "the agent was stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_runs_with_the_generated_credentials() {
    if !has_server("a_session_runs_with_the_generated_credentials") {
        return;
    }
    let fleet = Secured::start().await;
    let (rig, store) = (&fleet.rig, fleet.rig.store());
    rig.script(
        "read-user\ninit\ntext one\nresult one\n\
         read-user\ninit\ncontrol-request q1 Bash {\"command\":\"rm x\"}\nwait-control\n\
         text two\nresult two\n\
         read-user\ninit\nanswer-interrupt\nread-until-eof\n",
    );
    let key = fleet.member("owner").member_key().unwrap();
    let owner = fleet.connect("owner").await;
    let sessions = rig.sessions_on(owner, key, PATIENCE).await;
    let worker = fleet.worker("w1").await;
    let mut session = start(rig, &sessions, &store, Spec::new("first"));
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
    let answered = session.answer(&asked, PermissionAnswer::Allow).await;
    answered.unwrap();
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
    ended(&mut session).await;
    check_stored(&store, session.id());
    assert!(bundle_file(&rig.path("bundles"), session.id()).is_file());
    assert_eq!(worker.finish().await, 1);
    let log = fleet.log();
    assert!(!log.contains("Violation"), "{log}");
}

/// Subjects that only the owner, or the other worker, may publish on.
const FOREIGN: [&str; 6] = [
    "ostler.work.x",
    "ostler.results.w2.owner.run.a",
    "ostler.events.w2.owner.run.a",
    "ostler.heartbeat.w2",
    "ostler.claim.owner.run.w2",
    "ostler.control.w2.a",
];

/// Requests that only the administrator may send, or that concern the other worker's artifacts.
const FOREIGN_API: [&str; 12] = [
    "STREAM.CREATE.OBJ_artifacts_w1",
    "STREAM.UPDATE.OBJ_artifacts_w1",
    "STREAM.CREATE.EVIL",
    "STREAM.UPDATE.OSTLER_WORK",
    "STREAM.DELETE.OSTLER_WORK",
    "STREAM.PURGE.OSTLER_WORK",
    "STREAM.PURGE.OSTLER_RESULTS",
    "STREAM.INFO.OBJ_artifacts_w2",
    "STREAM.MSG.GET.OBJ_artifacts_w2",
    "DIRECT.GET.OBJ_artifacts_w2",
    "CONSUMER.CREATE.OBJ_artifacts_w2.evil",
    "STREAM.MSG.GET.OSTLER_EVENTS",
];

/// Returns the number of messages in a stream, as the administrator sees it.
async fn messages(admin: &jetstream::Context, stream: &str) -> u64 {
    let stream = admin.get_stream(stream).await.unwrap();
    stream.get_info().await.unwrap().state.messages
}

/// Publishes on the subjects of others, and asks the server to answer there.
async fn publish_as_others(evil: &Client, api: &jetstream::Context, own: &str) {
    // A message of its own that the server could be asked to send elsewhere.
    let chunk = format!("$O.{own}.M.evil");
    let stored = api.publish(chunk.clone(), "{\"forged\":true}".into()).await;
    stored.unwrap().await.unwrap();
    let results = "ostler.results.w1.owner.run.a";
    let stored = api.publish(results, "own".into()).await.unwrap();
    stored.await.unwrap();
    for subject in FOREIGN {
        evil.publish(subject, "evil".into()).await.unwrap();
        // The server answers on the subject that a request names.
        let direct = format!("{API_PREFIX}.DIRECT.GET.OBJ_{own}.{chunk}");
        let last = format!("{API_PREFIX}.DIRECT.GET.OSTLER_RESULTS.{results}");
        let next = format!("{API_PREFIX}.CONSUMER.MSG.NEXT.OSTLER_WORK.class_x");
        let append = "ostler.events.w1.owner.run.a".to_owned();
        let claim = "ostler.claim.owner.run.w1".to_owned();
        for request in [direct, last, next, append, claim] {
            let sent = evil.publish_with_reply(request, subject, "".into()).await;
            sent.unwrap();
        }
    }
}

/// Sends the requests of others. Returns their subjects.
async fn ask_as_others(evil: &Client) -> Vec<String> {
    let asked = FOREIGN_API
        .iter()
        .flat_map(|request| [API_PREFIX, "$JS.API"].map(|prefix| format!("{prefix}.{request}")));
    let payload = serde_json::json!({
        "name": "OBJ_artifacts_w1", "stream_name": "OBJ_artifacts_w2", "seq": 1,
        "subjects": ["$O.artifacts_w1.>"], "sources": [{"name": "OBJ_artifacts_w2"}],
        "republish": {"src": ">", "dest": "ostler.work.x"}, "config": {"name": "evil"},
    });
    let payload = payload.to_string();
    let asked = asked.map(|subject| {
        let answer = evil.request(subject.clone(), payload.clone().into());
        async move { (answer.await.is_ok(), subject) }
    });
    let mut subjects = Vec::new();
    for (is_answered, subject) in futures_util::future::join_all(asked).await {
        assert!(!is_answered, "{subject}");
        subjects.push(subject);
    }
    subjects
}

/// Subjects on which others receive messages.
const OVERHEARD: [&str; 5] = ["_INBOX_w2.>", "_INBOX_owner.>", "ostler.>", "$O.>", ">"];

/// Subscribes to what others receive.
async fn listen_to_others(evil: &Client) -> Vec<Subscriber> {
    let mut stolen = Vec::new();
    for subject in OVERHEARD {
        stolen.push(evil.subscribe(subject).await.unwrap());
    }
    evil.flush().await.unwrap();
    stolen
}

/// Waits until the server has named every request of `w1` that it refused: no answer alone would
/// prove nothing.
async fn wait_for_refusals(fleet: &Secured, asked: &[String]) {
    let is_refused = |action: &str, subject: &str| {
        let refused = fleet.refused();
        let mut refused = refused.iter();
        refused.any(|it| (&it.member[..], it.action, &it.subject[..]) == ("w1", action, subject))
    };
    for subject in FOREIGN
        .iter()
        .copied()
        .chain(asked.iter().map(String::as_str))
    {
        until(subject, || is_refused("publish", subject)).await;
    }
    for subject in OVERHEARD {
        until(subject, || is_refused("subscribe", subject)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_cannot_act_as_others() {
    if !has_server("a_worker_cannot_act_as_others") {
        return;
    }
    let fleet = Secured::start().await;
    let (_, admin) = fleet.admin().await;
    // Artifacts of the other worker, and everything that the owner and the other worker receive.
    let secret = fleet.rig.path("secret");
    fs::write(&secret, "secret of w2").unwrap();
    let sha256 = ostler_eval::identity::sha256("secret of w2");
    let sha256 = sha256.trim_start_matches("sha256:");
    let announced = Announced {
        name: "secret",
        sha256,
        bytes: 12,
    };
    let (own, other) = (
        artifacts_bucket(&token("w1")),
        artifacts_bucket(&token("w2")),
    );
    let honest = fleet.connect("w2").await;
    honest
        .put_object(&other, announced, &secret, Timestamp(0))
        .await
        .unwrap();
    let (owner, _) = fleet.raw_member("owner").await;
    let mut claims = owner.subscribe("ostler.claim.owner.>").await.unwrap();
    let mut beats = owner.subscribe(HEARTBEATS).await.unwrap();
    owner.flush().await.unwrap();
    let (second, _) = fleet.raw_member("w2").await;
    let mut controls = second.subscribe("ostler.control.w2.*").await.unwrap();
    second.flush().await.unwrap();

    let (evil, api) = fleet.raw_member("w1").await;
    publish_as_others(&evil, &api, &own).await;
    let asked = ask_as_others(&evil).await;
    let stolen = listen_to_others(&evil).await;
    wait_for_refusals(&fleet, &asked).await;
    // Heartbeats, answers and artifacts for others, and then one message for w1 itself.
    for _ in 0..5 {
        let beat = vec![b'2'];
        honest
            .publish("ostler.heartbeat.w2".to_owned(), beat)
            .await
            .unwrap();
    }
    let again = Timestamp(now().0 + 60_000);
    honest
        .put_object(&other, announced, &secret, again)
        .await
        .unwrap();
    fleet
        .connect("owner")
        .await
        .create_streams(1)
        .await
        .unwrap();
    honest.flush().await;
    let own_result = api.publish("ostler.results.w1.owner.run.b", "own".into());
    own_result.await.unwrap().await.unwrap();
    for (mut stolen, subject) in stolen.into_iter().zip(OVERHEARD) {
        let seen = stolen.next().now_or_never().flatten();
        assert!(seen.is_none(), "{subject}: {seen:?}");
    }

    // What reached the others: the claims of w1 itself, and the honest heartbeats of w2.
    let mut claimed = BTreeSet::new();
    let last = "ostler.claim.owner.run.w1";
    evil.publish_with_reply(last, "_INBOX_w1.end", "end".into())
        .await
        .unwrap();
    loop {
        let claim = tokio::time::timeout(PATIENCE, claims.next()).await;
        let claim = claim.unwrap().unwrap();
        claimed.insert(claim.subject.to_string());
        if &claim.payload[..] == b"end" {
            break;
        }
    }
    assert_eq!(
        claimed,
        BTreeSet::from(["ostler.claim.owner.run.w1".to_owned()])
    );
    for _ in 0..5 {
        let beat = tokio::time::timeout(PATIENCE, beats.next()).await;
        let beat = beat.unwrap().unwrap();
        assert_eq!(
            (&beat.subject[..], &beat.payload[..]),
            ("ostler.heartbeat.w2", &b"2"[..])
        );
    }
    owner
        .publish("ostler.control.w2.end", "end".into())
        .await
        .unwrap();
    let control = tokio::time::timeout(PATIENCE, controls.next()).await;
    assert_eq!(&control.unwrap().unwrap().payload[..], b"end");
    assert_eq!(messages(&admin, "OSTLER_WORK").await, 0);
    assert_eq!(messages(&admin, "OSTLER_RESULTS").await, 2);
    let events = admin.get_stream("OSTLER_EVENTS").await.unwrap();
    let foreign = events
        .direct_get_last_for_subject("ostler.events.w2.owner.run.a")
        .await;
    assert!(foreign.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_cannot_act_as_a_worker() {
    if !has_server("an_owner_cannot_act_as_a_worker") {
        return;
    }
    let fleet = Secured::start().await;
    let (_, admin) = fleet.admin().await;
    let (evil, api) = fleet.raw_member("owner").await;
    let (other, _) = fleet.raw_member("other").await;
    let mut claims = other.subscribe("ostler.claim.other.>").await.unwrap();
    let mut beats = other.subscribe(HEARTBEATS).await.unwrap();
    other.flush().await.unwrap();
    let chunk = "$O.ostler_workspaces.M.evil";
    let stored = api.publish(chunk, "{\"forged\":true}".into()).await;
    stored.unwrap().await.unwrap();
    let foreign = [
        "ostler.results.w1.other.run.a",
        "ostler.events.w1.other.run.a",
        "ostler.heartbeat.w1",
        "ostler.claim.other.run.w1",
        "$O.artifacts_w1.M.evil",
    ];
    for subject in foreign {
        evil.publish(subject, "evil".into()).await.unwrap();
        let direct = format!("{API_PREFIX}.DIRECT.GET.OBJ_ostler_workspaces.{chunk}");
        for request in [direct, "ostler.work.x".to_owned()] {
            let sent = evil.publish_with_reply(request, subject, "".into()).await;
            sent.unwrap();
        }
    }
    let asked = [
        "STREAM.CREATE.EVIL",
        "STREAM.UPDATE.OSTLER_WORK",
        "STREAM.DELETE.OSTLER_WORK",
        "STREAM.CREATE.OBJ_artifacts_w9",
    ];
    let asked = asked.map(|request| {
        let payload = r#"{"name":"EVIL","republish":{"src":">","dest":"ostler.results.w1.a.b.c"}}"#;
        let answer = evil.request(format!("{API_PREFIX}.{request}"), payload.into());
        async move { (answer.await.is_ok(), request) }
    });
    for (is_answered, request) in futures_util::future::join_all(asked).await {
        assert!(!is_answered, "{request}");
        let subject = format!("{API_PREFIX}.{request}");
        let is_refused = || {
            let refused = fleet.refused();
            let mut refused = refused.iter();
            refused.any(|it| (&it.member[..], &it.subject[..]) == ("owner", &subject[..]))
        };
        until(request, is_refused).await;
    }
    evil.flush().await.unwrap();
    // The first that arrives is that of the worker itself.
    let (honest, _) = fleet.raw_member("w1").await;
    honest
        .publish("ostler.heartbeat.w1", "w1".into())
        .await
        .unwrap();
    let claim = "ostler.claim.other.run.w1";
    let sent = honest.publish_with_headers(claim, HeaderMap::new(), "w1".into());
    sent.await.unwrap();
    for received in [claims.next(), beats.next()] {
        let received = tokio::time::timeout(PATIENCE, received).await;
        assert_eq!(&received.unwrap().unwrap().payload[..], b"w1");
    }
    for stream in ["OSTLER_RESULTS", "OSTLER_EVENTS", "OBJ_artifacts_w1"] {
        assert_eq!(messages(&admin, stream).await, 0, "{stream}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_added_and_removed_while_the_server_runs() {
    if !has_server("a_worker_is_added_and_removed_while_the_server_runs") {
        return;
    }
    let mut fleet = Secured::start().await;
    fleet.fleet.add_worker(&token("w3")).unwrap();
    assert!(fleet.try_connect("w3").await.is_err(), "before the reload");
    fleet.reload();
    fleet.fleet.prepare().await.unwrap();
    let worker = fleet.worker("w3").await;
    fleet.run("run").await;
    assert_eq!(worker.finish().await, 1);
    check_books(&fleet.rig, "run");

    let member = fleet.member("w3");
    let kept = fleet.rig.path("w3.toml");
    member.write(&kept).unwrap();
    fleet.fleet.remove_worker(&token("w3")).unwrap();
    fleet.reload();
    let settings = Member::read(&kept).unwrap();
    let settings = settings.connect_settings(None, &kept).unwrap();
    let refused = Connection::open(&settings).await;
    assert!(matches!(refused, Err(FleetError::Connect { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_attempt_survives_a_reload() {
    if !has_server("a_running_attempt_survives_a_reload") {
        return;
    }
    let mut fleet = Secured::start().await;
    let worker = fleet.worker("w1").await;
    fleet.rig.hold("agent");
    let key = fleet.member("owner").member_key().unwrap();
    let owner = fleet.connect("owner").await;
    let place = fleet.rig.place_on(owner, key, "run", PATIENCE).await;
    let runner = fleet.rig.runner("run", &fleet.rig.plain_suite(2), place);
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(Arc::new(runner).run(cancelled));
    until("the agent works", || fleet.rig.lines("started") == 1).await;
    fleet.fleet.add_worker(&token("w3")).unwrap();
    fleet.reload();
    fleet.rig.release("agent");
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 2);
    check_books(&fleet.rig, "run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_tls_is_refused_by_both_sides() {
    if !has_server("a_connection_without_tls_is_refused_by_both_sides") {
        return;
    }
    let fleet = Secured::start().await;
    // The server refuses a client that does not change to TLS.
    let mut plain = std::net::TcpStream::connect(("127.0.0.1", fleet.server.port())).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain
        .write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n")
        .unwrap();
    let mut said = Vec::new();
    let _ = plain.read_to_end(&mut said); // it may be reset
    let said = String::from_utf8_lossy(&said);
    assert!(!said.contains("PONG"), "{said}");
    // A member refuses a server without TLS, although its address does not ask for it.
    let impostor = NatsServer::start();
    let member = fleet.member("w1");
    let settings = member.connect_settings(Some(&impostor.url()), Path::new("member"));
    let refused = Connection::open(&settings.unwrap()).await;
    assert!(
        matches!(refused, Err(FleetError::Connect { .. })),
        "{refused:?}"
    );
    // And one whose certificate another authority signed.
    let other = Secured::start().await;
    let url = other.fleet.fleet.url.clone();
    let settings = member.connect_settings(Some(&url), Path::new("member"));
    let refused = Connection::open(&settings.unwrap()).await;
    assert!(
        matches!(refused, Err(FleetError::Connect { .. })),
        "{refused:?}"
    );
}
