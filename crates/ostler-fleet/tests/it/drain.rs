//! Draining: a worker ends when it is asked to, whatever its agents and its server do.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;

use ostler_eval::runner::RunEnd;
use ostler_fleet::worker::Drain;
use ostler_store::{AttemptState, Ledger};
use ostler_testkit::nats::NatsServer;
use tokio::sync::watch;

use crate::rig::{PATIENCE, Rig, check_books, has_server, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_takes_one_job_hands_it_back() {
    if !has_server("a_worker_that_takes_one_job_hands_it_back") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    rig.hold("agent");
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(1), place.clone()));
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(runner.run(cancelled));
    let mut options = rig.worker_options("w1");
    options.max_jobs = Some(1);
    options.capacity = 4;
    let worker = rig.worker(&server.url(), options).await;
    until("the agent has started", || rig.lines("started") == 1).await;
    // It does not offer what it will not take.
    until("the heartbeat says so", || {
        let workers = place.workers();
        workers
            .iter()
            .any(|beat| beat.draining && beat.capacity == 1)
    })
    .await;
    worker.drain.send_replace(Drain::Finish);
    worker.drain.send_replace(Drain::HandBack);
    // The gate is still closed: only the stop ends the agent.
    let jobs = tokio::time::timeout(PATIENCE, worker.task).await;
    assert_eq!(jobs.expect("the worker ends").unwrap().unwrap(), 1);
    rig.release("agent");
    let other = rig.worker(&server.url(), rig.worker_options("w2")).await;
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    assert_eq!(other.finish().await, 1);
    let trials = check_books(&rig, "run");
    let states: Vec<_> = trials[0].attempts.iter().map(|it| it.state).collect();
    assert_eq!(states, [AttemptState::Lost, AttemptState::Accepted]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_ends_although_its_workers_take_nothing_more() {
    if !has_server("a_run_ends_although_its_workers_take_nothing_more") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    rig.hold("agent");
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(1), place.clone()));
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(runner.run(cancelled));
    let mut options = rig.worker_options("w1");
    options.max_jobs = Some(1);
    let worker = rig.worker(&server.url(), options).await;
    until("it takes nothing more", || {
        place.workers().iter().any(|beat| beat.draining)
    })
    .await;
    rig.release("agent");
    let end = tokio::time::timeout(PATIENCE, running).await;
    assert_eq!(
        end.expect("the run ends").unwrap().unwrap(),
        RunEnd::Complete
    );
    assert_eq!(worker.finish().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_server_is_gone_drains_and_delivers_later() {
    if !has_server("a_worker_whose_server_is_gone_drains_and_delivers_later") {
        return;
    }
    let (rig, mut server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    rig.hold("agent");
    let runner = Arc::new(rig.runner("run", &rig.plain_suite(1), place));
    let (_stop, cancelled) = watch::channel(false);
    let running = tokio::spawn(runner.run(cancelled));
    let mut options = rig.worker_options("w1");
    options.delivery_grace = Duration::from_secs(1);
    let worker = rig.worker(&server.url(), options).await;
    until("the agent has started", || rig.lines("started") == 1).await;
    server.kill();
    rig.release("agent");
    until("the agent has answered", || rig.lines("spent") == 1).await;
    worker.drain.send_replace(Drain::Finish);
    let jobs = tokio::time::timeout(PATIENCE, worker.task).await;
    assert_eq!(jobs.expect("the worker ends").unwrap().unwrap(), 1);
    let spool = rig.path("workers/w1/spool");
    assert_eq!(fs::read_dir(spool).unwrap().count(), 1);
    server.restart();
    let lock = File::open(rig.path("workers/w1/lock")).unwrap();
    until("its tasks have ended", || lock.try_lock().is_ok()).await;
    drop(lock);
    let again = rig.worker(&server.url(), rig.worker_options("w1")).await;
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    assert_eq!(again.finish().await, 0);
    let trials = check_books(&rig, "run");
    assert_eq!(trials[0].attempts.len(), 1, "{trials:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_under_way_count_against_the_budget_of_the_day() {
    if !has_server("attempts_under_way_count_against_the_budget_of_the_day") {
        return;
    }
    let (rig, server) = (Rig::new(), NatsServer::start());
    let place = rig.place(&server.url(), "run", PATIENCE).await;
    rig.hold("agent");
    let limited = |name: &str, usd: f64| {
        let mut case = rig.case(name, "true");
        case.limits.max_budget_usd = Some(usd);
        case
    };
    // The first two do not fit together, the first and the third do.
    let cases = vec![limited("a", 0.6), limited("b", 0.6), limited("c", 0.3)];
    let runner = Arc::new(rig.runner("run", &rig.suite(cases, 1), place));
    let (_stop, cancelled) = watch::channel(false);
    let mut options = rig.worker_options("w1");
    options.policy.budget_usd_per_day = Some(1.0);
    options.capacity = 3;
    let worker = rig.worker(&server.url(), options).await;
    let running = tokio::spawn(runner.run(cancelled));
    let assigned = || -> Vec<String> {
        let store = rig.store();
        let trials = Ledger::new(&store).trials("run").unwrap();
        let assigned = trials.into_iter().filter(|trial| {
            let mut attempts = trial.attempts.iter();
            attempts.any(|it| it.worker.starts_with("w1/"))
        });
        assigned.map(|trial| trial.name.case).collect()
    };
    until("the third is under way", || {
        assigned().contains(&"c".to_owned()) && assigned().len() >= 2
    })
    .await;
    let first = assigned();
    assert_eq!(first.len(), 2, "{first:?}");
    rig.release("agent");
    assert_eq!(running.await.unwrap().unwrap(), RunEnd::Complete);
    assert_eq!(worker.finish().await, 3);
    check_books(&rig, "run");
}
