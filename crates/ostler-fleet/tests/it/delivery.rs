//! Delivery: records and results arrive whole, whatever else is on their subjects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ostler_eval::identity::sha256;
use ostler_eval::runner::{RunEnd, Runner};
use ostler_eval::trial::TrialResult;
use ostler_fleet::message::{ClaimAction, ClaimMessage, Ending, ResultMessage};
use ostler_fleet::nats::{AppendError, Appended};
use ostler_fleet::owner::FleetPlace;
use ostler_fleet::subject::AttemptSubject;
use ostler_store::{AttemptState, Ledger};
use ostler_testkit::nats::{NatsCluster, NatsServer};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::rig::{Collected, PATIENCE, Rig, check_books, has_server, patiently, token, until};

/// Subject of the first attempt of the only trial, on a worker.
fn subject_on(worker: &str) -> AttemptSubject {
    let attempt = format!("{}-1", &sha256("case\none\n1")[..16]);
    AttemptSubject {
        worker: token(worker),
        owner: token("owner"),
        run: token("run"),
        attempt: token(&attempt),
    }
}

/// Starts a run of one trial.
fn start(rig: &Rig, place: Arc<FleetPlace>) -> JoinHandle<RunEnd> {
    let runner: Arc<Runner> = Arc::new(rig.runner("run", &rig.plain_suite(1), place));
    tokio::spawn(async move {
        let (_stop, cancelled) = watch::channel(false);
        runner.run(cancelled).await.unwrap()
    })
}

fn only_result(rig: &Rig) -> TrialResult {
    let store = rig.store();
    let trial = Ledger::new(&store).trial("run", 0).unwrap().unwrap();
    let states: Vec<_> = trial.attempts.iter().map(|it| it.state).collect();
    assert_eq!(states, [AttemptState::Accepted], "{trial:?}");
    serde_json::from_str(&trial.result.unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_does_not_confirm_a_chunk_that_it_does_not_store() {
    if !has_server("a_cluster_does_not_confirm_a_chunk_that_it_does_not_store") {
        return;
    }
    let (rig, cluster) = (Rig::new(), NatsCluster::start());
    let connection = rig.connect(&cluster.url(), "w1").await;
    patiently(|| connection.create_streams(3)).await;
    let subject = subject_on("w1").events();
    let start = Appended::default();
    let first = connection.append(&subject, start, "one".into()).await;
    let first = first.unwrap();
    assert_eq!(first.bytes, 3);
    // The record has grown when the worker repeats an append that was not confirmed.
    let longer = connection.append(&subject, start, "one two".into()).await;
    assert_eq!(longer, Err(AppendError::Stale));
    let second = connection.append(&subject, first, " two".into()).await;
    assert_eq!(second.unwrap().bytes, 7);
    let result = subject_on("w1").result();
    connection
        .store_result(&result, 0, b"a".to_vec())
        .await
        .unwrap();
    let again = connection.store_result(&result, 0, b"b".to_vec()).await;
    assert_eq!(again, Err(AppendError::Stale));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_another_process_does_not_replace_ours() {
    if !has_server("a_result_of_another_process_does_not_replace_ours") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    rig.hold("agent");
    let running = start(&rig, place);
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    until("the agent has started", || rig.lines("started") == 1).await;
    let foreign = ResultMessage {
        instance: "another".to_owned(),
        record_bytes: 0,
        ending: Ending::Abandoned {
            reason: "mallory".to_owned(),
        },
    };
    let connection = rig.connect(&server.url(), "mallory").await;
    let payload = serde_json::to_vec(&foreign).unwrap();
    let subject = subject_on("w1").result();
    connection.store_result(&subject, 0, payload).await.unwrap();
    rig.release("agent");
    let end = tokio::time::timeout(PATIENCE, running).await;
    assert_eq!(end.expect("the result arrives").unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 1);
    check_books(&rig, "run");
    only_result(&rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_renewed_until_the_result_is_delivered() {
    if !has_server("the_lease_is_renewed_until_the_result_is_delivered") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    // Longer than a busy machine holds a worker up.
    let lease = Duration::from_secs(20);
    let place = rig.place(&server.url(), "run", lease).await;
    rig.hold("evaluator");
    let running = start(&rig, place);
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    until("the agent has answered", || rig.lines("spent") == 1).await;
    // Without its bucket, the worker cannot store its artifacts.
    let client = async_nats::connect(server.url()).await.unwrap();
    let streams = async_nats::jetstream::new(client);
    streams.delete_stream("OBJ_artifacts_w1").await.unwrap();
    rig.release("evaluator");
    let spool = rig.path("workers/w1/spool");
    let dir = std::fs::read_dir(spool).unwrap().next().unwrap().unwrap();
    let result = dir.path().join("result.json");
    until("the result is spooled", || result.exists()).await;
    let connection = rig.connect(&server.url(), "watcher").await;
    let claims = ostler_fleet::subject::claims_to(&token("owner"), &token("run"));
    let mut claims = connection.subscribe(claims).await.unwrap();
    let renewals = Arc::new(AtomicU32::new(0));
    let counted = renewals.clone();
    tokio::spawn(async move {
        while let Some(claim) = claims.next().await {
            let claim: ClaimMessage = serde_json::from_slice(&claim.payload).unwrap();
            if claim.action == ClaimAction::Renew {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    // A lease is renewed four times. After five renewals it would have ended.
    until("the lease is renewed", || {
        renewals.load(Ordering::SeqCst) >= 5
    })
    .await;
    connection.create_artifacts(&token("w1"), 1).await.unwrap();
    let end = tokio::time::timeout(PATIENCE, running).await;
    assert_eq!(end.expect("the result arrives").unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 1);
    check_books(&rig, "run");
    only_result(&rig);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gap_that_stays_in_a_record_does_not_hold_its_result() {
    if !has_server("a_gap_that_stays_in_a_record_does_not_hold_its_result") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    rig.hold("agent");
    let running = start(&rig, place);
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    until("the agent has started", || rig.lines("started") == 1).await;
    let connection = rig.connect(&server.url(), "mallory").await;
    let subject = subject_on("w1").events();
    loop {
        let mut end = connection.end_of_record(&subject).await.unwrap();
        end.bytes += 1_000_000;
        match connection.append(&subject, end, "x\n".into()).await {
            Ok(_) => break,
            Err(AppendError::Stale) => {} // the worker was faster
            Err(error) => panic!("{error}"),
        }
    }
    rig.release("agent");
    let end = tokio::time::timeout(PATIENCE, running).await;
    assert_eq!(end.expect("the result arrives").unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 1);
    let warnings = only_result(&rig).warnings;
    assert!(
        warnings.iter().any(|it| it.contains("has a gap")),
        "{warnings:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_no_worker_can_run_says_what_is_missing() {
    if !has_server("a_run_that_no_worker_can_run_says_what_is_missing") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    let mut options = rig.worker_options("w1");
    options.offer.agents = BTreeMap::from([("codex".to_owned(), None)]);
    let unsuitable = rig.worker(&server.url(), options).await;
    let collected = Arc::new(Collected::default());
    let mut runner = rig.runner("run", &rig.plain_suite(1), place);
    runner.observer = collected.clone();
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(Arc::new(runner).run(cancelled));
    let lacks = |text: &str| text.contains("w1 has no agent `claude`");
    until("what is missing is reported", || {
        collected.waiting().iter().any(|why| lacks(why))
    })
    .await;
    // Nothing is fed to a worker that cannot run it.
    let store = rig.store();
    let trial = Ledger::new(&store).trial("run", 0).unwrap().unwrap();
    assert!(trial.attempts.is_empty(), "{trial:?}");
    let worker = rig.worker(&server.url(), rig.worker_options("w2")).await;
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    assert_eq!((unsuitable.finish().await, worker.finish().await), (0, 1));
}
