//! Failures: killed and paused workers, killed owners. Parts of the fleet are other processes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::event::Timestamp;
use ostler_eval::identity::sha256;
use ostler_eval::runner::RunEnd;
use ostler_fleet::nats::{Announced, ObjectError};
use ostler_fleet::subject::artifacts_bucket;
use ostler_store::{AttemptState, Ledger};
use ostler_testkit::nats::NatsServer;
use ostler_testkit::processes;
use rustix::process::Signal;
use tokio::sync::watch;

use crate::rig::{
    ARGUMENT, DIRECTORY, PATIENCE, Rig, SERVER, check_books, has_server, token, until,
};

/// A lease that a test can wait for, and longer than a busy machine holds a worker up.
pub(crate) const SHORT: Duration = Duration::from_secs(20);
/// Number of trials of a run.
const TRIALS: u32 = 3;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A worker, if the environment says so.
#[tokio::test(flavor = "multi_thread")]
async fn worker_process() {
    let (Some(dir), Some(url), Some(name)) =
        (variable(DIRECTORY), variable(SERVER), variable(ARGUMENT))
    else {
        return;
    };
    let rig = Rig::open(Path::new(&dir));
    let worker = rig.worker(&url, rig.worker_options(&name)).await;
    worker.task.await.unwrap().unwrap();
}

/// The owner of the run, if the environment says so.
#[tokio::test(flavor = "multi_thread")]
async fn owner_process() {
    let (Some(dir), Some(url), Some(run)) =
        (variable(DIRECTORY), variable(SERVER), variable(ARGUMENT))
    else {
        return;
    };
    let rig = Rig::open(Path::new(&dir));
    let place = rig.place(&url, &run, PATIENCE).await;
    let runner = Arc::new(rig.runner(&run, &rig.plain_suite(TRIALS), place));
    let (_stop, cancelled) = watch::channel(false);
    assert_eq!(runner.run(cancelled).await.unwrap(), RunEnd::Complete);
    std::fs::write(rig.path("complete"), "").unwrap();
}

/// Starts a run in this process.
async fn start(
    rig: &Rig,
    server: &NatsServer,
    lease: Duration,
) -> tokio::task::JoinHandle<Result<RunEnd, ostler_store::StoreError>> {
    let place = rig.place(&server.url(), "run", lease).await;
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(TRIALS), place));
    let (stop, cancelled) = watch::channel(false);
    tokio::spawn(async move {
        let end = runner.run(cancelled).await;
        drop(stop);
        end
    })
}

fn states(rig: &Rig, wanted: AttemptState) -> usize {
    let store = rig.store();
    let trials = Ledger::new(&store).trials("run").unwrap();
    let attempts = trials.iter().flat_map(|trial| &trial.attempts);
    attempts.filter(|attempt| attempt.state == wanted).count()
}

/// Number of attempts whose cost is booked.
fn booked(rig: &Rig) -> usize {
    let store = rig.store();
    let trials = Ledger::new(&store).trials("run").unwrap();
    let attempts = trials.iter().flat_map(|trial| &trial.attempts);
    attempts
        .filter(|attempt| {
            attempt
                .usage
                .as_ref()
                .is_some_and(|it| it.cost_usd.is_some())
        })
        .count()
}

#[tokio::test(flavor = "multi_thread")]
async fn trials_of_a_killed_worker_are_tried_again_and_booked_once() {
    if !has_server("trials_of_a_killed_worker_are_tried_again_and_booked_once") {
        return;
    }
    // Before the agent has answered, and after it.
    for gate in ["agent", "evaluator"] {
        let (rig, server) = (Rig::new(), NatsServer::start());
        rig.hold(gate);
        let running = start(&rig, &server, SHORT).await;
        let mut first = rig.process("worker_process", &server, "w1");
        match gate {
            "agent" => until("the agent has started", || rig.lines("started") == 1).await,
            _ => until("its cost is booked", || booked(&rig) == 1).await,
        }
        first.kill();
        let _second = rig.process("worker_process", &server, "w2");
        until("the attempt is lost", || {
            states(&rig, AttemptState::Lost) >= 1
        })
        .await;
        rig.release(gate);
        // The restarted worker hands back what its predecessor had.
        let _restarted = rig.process("worker_process", &server, "w1");
        let end = tokio::time::timeout(PATIENCE, running).await.unwrap();
        assert_eq!(end.unwrap().unwrap(), RunEnd::Complete);
        let trials = check_books(&rig, "run");
        let attempts: usize = trials.iter().map(|trial| trial.attempts.len()).sum();
        assert!(attempts > usize::try_from(TRIALS).unwrap(), "{trials:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_owner_adopts_what_its_workers_run() {
    if !has_server("a_restarted_owner_adopts_what_its_workers_run") {
        return;
    }
    for gate in ["agent", "evaluator"] {
        let (rig, server) = (Rig::new(), NatsServer::start());
        rig.hold(gate);
        let _workers = [
            rig.process("worker_process", &server, "w1"),
            rig.process("worker_process", &server, "w2"),
        ];
        let mut owner = rig.process("owner_process", &server, "run");
        until("two attempts", || rig.lines("started") == 2).await;
        owner.kill();
        rig.release(gate);
        let mut owner = rig.process("owner_process", &server, "run");
        until("the run is complete", || rig.path("complete").exists()).await;
        assert!(owner.0.wait().unwrap().success());
        // No attempt was lost: the second owner took over those of the first.
        let trials = check_books(&rig, "run");
        assert!(trials.iter().all(|it| it.attempts.len() == 1), "{trials:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_worker_that_was_paused_past_its_lease_is_late() {
    if !has_server("the_result_of_a_worker_that_was_paused_past_its_lease_is_late") {
        return;
    }
    let (rig, mut server) = (Rig::new(), NatsServer::start());
    rig.hold("evaluator");
    let running = start(&rig, &server, SHORT).await;
    let paused = rig.process("worker_process", &server, "w1");
    until("its cost is booked", || booked(&rig) == 1).await;
    // It has a result, and cannot deliver it.
    server.kill();
    rig.release("evaluator");
    let spool = std::fs::read_dir(rig.path("workers/w1/spool")).unwrap();
    let result = spool.flatten().next().unwrap().path().join("result.json");
    until("its result is spooled", || result.exists()).await;
    paused.signal(Signal::STOP);
    server.restart();
    let _other = rig.process("worker_process", &server, "w2");
    until("the attempt is lost", || {
        states(&rig, AttemptState::Lost) >= 1
    })
    .await;
    let all = usize::try_from(TRIALS).unwrap();
    until("all trials are done", || {
        states(&rig, AttemptState::Accepted) == all
    })
    .await;
    paused.signal(Signal::CONT);
    let end = tokio::time::timeout(PATIENCE, running).await.unwrap();
    assert_eq!(end.unwrap().unwrap(), RunEnd::Complete);
    check_books(&rig, "run");
    assert!(states(&rig, AttemptState::Late) >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_cut_off_past_its_lease_stops_its_agent() {
    if !has_server("a_worker_that_is_cut_off_past_its_lease_stops_its_agent") {
        return;
    }
    let (rig, mut server) = (Rig::new(), NatsServer::start());
    rig.hold("agent");
    let running = start(&rig, &server, SHORT).await;
    let worker = rig.worker(&server.url(), rig.worker_options("w1")).await;
    until("the agent has started", || rig.lines("started") == 1).await;
    let agent = std::fs::read_to_string(rig.path("agents")).unwrap();
    let agent: u32 = agent.trim().parse().unwrap();
    assert!(processes::alive(agent));
    server.kill();
    // The gate is still closed: only the end of the lease ends the agent.
    until("the agent is stopped", || !processes::alive(agent)).await;
    assert_eq!(rig.lines("spent"), 0);
    rig.release("agent");
    server.restart();
    let end = tokio::time::timeout(PATIENCE, running).await.unwrap();
    assert_eq!(end.unwrap().unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, u64::from(TRIALS) + 1);
    check_books(&rig, "run");
    // The attempt was given up and tried again, and the agent answered once per trial.
    let all = usize::try_from(TRIALS).unwrap();
    assert_eq!(states(&rig, AttemptState::Lost), 1);
    assert_eq!(states(&rig, AttemptState::Accepted), all);
    assert_eq!((rig.lines("started"), rig.lines("spent")), (all + 1, all));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_loses_nothing() {
    if !has_server("a_restarted_server_loses_nothing") {
        return;
    }
    let (rig, mut server) = (Rig::new(), NatsServer::start());
    rig.hold("agent");
    let running = start(&rig, &server, PATIENCE).await;
    let _worker = rig.process("worker_process", &server, "w1");
    until("the agent has started", || rig.lines("started") == 1).await;
    server.kill();
    rig.release("agent");
    // The worker goes on without a connection.
    until("the agent has answered", || rig.lines("spent") == 1).await;
    server.restart();
    let end = tokio::time::timeout(PATIENCE, running).await.unwrap();
    assert_eq!(end.unwrap().unwrap(), RunEnd::Complete);
    let trials = check_books(&rig, "run");
    assert!(trials.iter().all(|it| it.attempts.len() == 1), "{trials:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_artifacts_are_noticed_and_the_trial_is_tried_again() {
    if !has_server("damaged_artifacts_are_noticed_and_the_trial_is_tried_again") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    rig.hold("evaluator");
    let _worker = rig.process("worker_process", &server, "w1");
    let mut owner = rig.process("owner_process", &server, "run");
    until("its cost is booked", || {
        rig.path("state").is_dir() && booked(&rig) == 1
    })
    .await;
    owner.kill();
    rig.release("evaluator");
    // The worker delivers without its owner, and the archive changes on the server.
    let spool = rig.path("workers/w1/spool");
    let is_empty = || std::fs::read_dir(&spool).is_ok_and(|all| all.count() == 0);
    until("the result is delivered", is_empty).await;
    let connection = rig.connect(&server.url(), "mallory").await;
    let store = rig.store();
    let trials = Ledger::new(&store).trials("run").unwrap();
    let name = &trials
        .iter()
        .find(|it| !it.attempts.is_empty())
        .unwrap()
        .name;
    let text = format!("{}\n{}\n{}", name.case, name.contender, name.repetition);
    let object = format!("owner.run.{}-1", &sha256(&text)[..16]);
    let evil = rig.path("evil");
    std::fs::write(&evil, "evil").unwrap();
    let announced = Announced {
        name: &object,
        sha256: &sha256("evil"),
        bytes: 4,
    };
    let put = connection
        .put_object("artifacts_w1", announced, &evil, Timestamp(0))
        .await;
    put.unwrap();
    let mut owner = rig.process("owner_process", &server, "run");
    until("the run is complete", || rig.path("complete").exists()).await;
    assert!(owner.0.wait().unwrap().success());
    let trials = check_books(&rig, "run");
    let retried = trials.iter().flat_map(|it| &it.attempts);
    let retried: Vec<_> = retried
        .filter(|it| it.state == AttemptState::Retried)
        .collect();
    assert_eq!(retried.len(), 1, "{trials:?}");
    let result = retried[0].result.as_deref().unwrap();
    assert!(result.contains("is damaged"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_parts_are_gone_is_not_waited_for_without_end() {
    if !has_server("an_object_whose_parts_are_gone_is_not_waited_for_without_end") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let connection = rig.connect(&server.url(), "w1").await;
    connection.create_artifacts(&token("w1"), 1).await.unwrap();
    let (file, bucket) = (rig.path("object"), artifacts_bucket(&token("w1")));
    std::fs::write(&file, "one\n").unwrap();
    let announced = Announced {
        name: "object",
        sha256: &sha256("one\n"),
        bytes: 4,
    };
    let target = rig.path("target");
    let stored = connection
        .put_object(&bucket, announced, &file, Timestamp(0))
        .await;
    stored.unwrap();
    let got = connection.get_object(&bucket, announced, &target).await;
    assert_eq!(got, Ok(()));
    let client = async_nats::connect(server.url()).await.unwrap();
    let stream = async_nats::jetstream::new(client);
    let stream = stream.get_stream(format!("OBJ_{bucket}")).await.unwrap();
    let parts = stream.purge().filter(format!("$O.{bucket}.C.>"));
    parts.await.unwrap();
    let got = connection.get_object(&bucket, announced, &target);
    let got = tokio::time::timeout(PATIENCE, got).await.unwrap();
    let name = "object".to_owned();
    assert_eq!(got, Err(ObjectError::Stalled { name }));
}
