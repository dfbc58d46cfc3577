//! Worker: pulls work items, runs those that it trusts and its policy allows, and delivers what
//! came of them.

mod claims;
mod classes;
mod deliver;
mod job;
mod journal;
mod layout;
mod refuse;
mod session;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_core::event::Timestamp;
use ostler_core::log::Log;
use ostler_eval::run_trial::{TrialOptions, TrialServices};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use self::classes::Classes;
use self::journal::Journal;
use crate::clock;
use crate::item::{Item, Offer};
use crate::message::{
    ControlAction, ControlMessage, Ending, Heartbeat, RefusedItem, ResultMessage, RunningAttempt,
    SessionCall,
};
use crate::nats::{Connection, FleetError, ItemMessage};
use crate::policy::Policy;
use crate::seal::{self, Purpose};
use crate::spool::Spool;
use crate::subject::{Token, controls_of, heartbeat};

/// How often a worker that winds down looks around.
const DRAIN_TICK: Duration = Duration::from_millis(100);
/// Number of refused items in a heartbeat.
const MAX_REFUSED: usize = 20;

/// The program around a worker.
pub trait TrialHost: Send + Sync {
    /// Returns what a trial needs on this machine. Its sessions go to this log.
    ///
    /// # Errors
    /// Says what is missing.
    fn services(&self, log: Arc<dyn Log>, options: TrialOptions) -> Result<TrialServices, String>;

    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// How a worker works.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its name, as the server's permissions know it.
    pub name: Token,
    /// Number of attempts at once.
    pub capacity: u32,
    /// What it has.
    pub offer: Offer,
    /// State of its agents' logins, by agent, to be announced.
    pub logins: BTreeMap<String, String>,
    /// What it agrees to run.
    pub policy: Policy,
    /// Public keys of the owners that it works for.
    pub trusted: BTreeSet<String>,
    /// Directory of its spool and journal, which no other worker uses.
    pub state: PathBuf,
    /// Number of attempts after which it stops.
    pub max_jobs: Option<u64>,
    /// Time between two heartbeats.
    pub heartbeat: Duration,
    /// Number of copies of its artifacts on the servers of a cluster.
    pub replicas: usize,
    /// How long a worker that drains tries to deliver without a connection, or after its attempts
    /// were handed back. What is left is delivered by the next process.
    pub delivery_grace: Duration,
}

/// How far a worker drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Drain {
    /// It takes work.
    No,
    /// It takes no further work, and finishes what it has.
    Finish,
    /// It stops its agents and hands their attempts back.
    HandBack,
}

/// A worker that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Its directory cannot be used.
    #[error("{}: {source}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// Another process is this worker.
    #[error("another process uses {}; give each worker its own name", .0.display())]
    Running(PathBuf),
    /// The server cannot be used.
    #[error(transparent)]
    Fleet(#[from] FleetError),
}

/// Why an attempt is stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopReason {
    /// Its owner says so.
    Owner,
    /// Its lease ended.
    Lease,
    /// The worker ends.
    Drain,
}

/// Stops an attempt. The first reason counts.
#[derive(Debug, Clone)]
struct Stop(watch::Sender<Option<StopReason>>);

impl Stop {
    fn new() -> (Self, watch::Receiver<Option<StopReason>>) {
        let (sender, receiver) = watch::channel(None);
        (Self(sender), receiver)
    }

    fn stop(&self, reason: StopReason) {
        self.0.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(reason);
            is_first
        });
    }
}

/// An item, and the key that signed it. Only this key decides about the attempt.
#[derive(Debug, Clone)]
struct SignedItem {
    item: Arc<Item>,
    signer: Arc<str>,
}

/// An attempt under way.
struct Running {
    attempt: RunningAttempt,
    /// The key that signed its item.
    signer: Arc<str>,
    stop: Stop,
    /// Requests to a session.
    calls: mpsc::Sender<SessionCall>,
}

/// A worker.
pub struct Worker {
    connection: Connection,
    options: WorkerOptions,
    host: Arc<dyn TrialHost>,
    /// This process: a restarted worker is another one.
    instance: String,
    journal: Mutex<Journal>,
    /// By id of the item.
    running: Mutex<BTreeMap<String, Running>>,
    refused: Mutex<VecDeque<RefusedItem>>,
    /// Number of spools: attempts under way, and attempts that are not delivered yet.
    spools: Mutex<usize>,
    /// Number of attempts that it still takes, if that is limited.
    jobs_left: Mutex<Option<u64>>,
    drain: watch::Receiver<Drain>,
    _lock: File,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Worker {
    /// Prepares a worker.
    ///
    /// # Errors
    /// If its directory cannot be used, or another process uses it.
    pub fn new(
        connection: Connection,
        options: WorkerOptions,
        host: Arc<dyn TrialHost>,
        drain: watch::Receiver<Drain>,
    ) -> Result<Arc<Self>, WorkerError> {
        let path = options.state.clone();
        let failed = |source| WorkerError::State {
            path: path.clone(),
            source,
        };
        fs::create_dir_all(&path).map_err(failed)?;
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(WorkerError::Running(path)),
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Of attempts of a process that was killed.
        let _ = fs::remove_dir_all(path.join("jobs"));
        layout::clean_cache(&path, host.now());
        let journal = Journal::open(&path).map_err(failed)?;
        Ok(Arc::new(Self {
            connection,
            jobs_left: Mutex::new(options.max_jobs),
            options,
            host,
            instance: uuid::Uuid::new_v4().to_string(),
            journal: Mutex::new(journal),
            running: Mutex::default(),
            refused: Mutex::default(),
            spools: Mutex::default(),
            drain,
            _lock: lock,
        }))
    }

    /// Works until it has drained. Returns the number of attempts that it ran.
    ///
    /// # Errors
    /// If the server refuses what every worker needs.
    pub async fn run(self: Arc<Self>) -> Result<u64, WorkerError> {
        let name = &self.options.name;
        let replicas = self.options.replicas;
        self.connection.create_artifacts(name, replicas).await?;
        let mut background = JoinSet::new();
        let controls = self.connection.subscribe(controls_of(name)).await?;
        background.spawn(self.clone().obey(controls));
        background.spawn(self.clone().beat());
        let mut tasks = JoinSet::new();
        for spool in Spool::leftovers(&self.options.state.join("spool")) {
            self.give_up(&spool, "its worker was restarted");
            tasks.spawn(self.clone().deliver(spool));
        }
        let jobs = self.take_work(&mut tasks).await;
        self.wind_down(tasks).await;
        self.beat_once().await;
        self.connection.flush().await;
        Ok(jobs)
    }

    /// Waits until everything is delivered. A worker that drains gives up after a while: spools
    /// stay on disk, and its next process delivers them.
    async fn wind_down(&self, mut tasks: JoinSet<()>) {
        let mut waiting_since = clock::now();
        loop {
            tokio::select! {
                done = tasks.join_next() => if done.is_none() { return },
                () = tokio::time::sleep(DRAIN_TICK) => {}
            }
            let drain = *self.drain.borrow();
            if drain == Drain::HandBack {
                self.stop_all(StopReason::Drain);
            }
            let is_in_vain = match drain {
                Drain::No => false,
                Drain::Finish => !self.connection.is_connected(),
                Drain::HandBack => true,
            };
            let now = clock::now();
            if !is_in_vain || !locked(&self.running).is_empty() {
                waiting_since = now;
            }
            if now.duration_since(waiting_since) >= self.options.delivery_grace {
                tracing::warn!("results are not delivered yet; the next process delivers them");
                return;
            }
        }
    }

    /// Returns the number of attempts that ended and are not delivered yet.
    pub fn undelivered(&self) -> usize {
        let spools = *locked(&self.spools);
        spools.saturating_sub(locked(&self.running).len())
    }

    /// Takes work until the worker drains or has had enough.
    async fn take_work(self: &Arc<Self>, tasks: &mut JoinSet<()>) -> u64 {
        let capacity = usize::try_from(self.options.capacity.max(1)).unwrap_or(1);
        let slots = Arc::new(Semaphore::new(capacity));
        let mut drain = self.drain.clone();
        let (mut jobs, mut classes) = (0, Classes::default());
        while *locked(&self.jobs_left) != Some(0) {
            while tasks.try_join_next().is_some() {}
            let permit = tokio::select! {
                biased;
                () = reached(&mut drain, Drain::Finish) => break,
                permit = slots.clone().acquire_owned() => permit,
            };
            // A request for work is not abandoned: the server would count its item as delivered.
            let Ok(permit) = permit else { break };
            if let Some(item) = self.next_item(&mut classes).await
                && let Some(job) = self.accept(item, permit).await
            {
                jobs += 1;
                let left = &mut *locked(&self.jobs_left);
                *left = left.map(|left| left.saturating_sub(1));
                tasks.spawn(job);
            }
            if slots.available_permits() == 0 {
                classes.hand_back(tasks);
            }
        }
        classes.hand_back(tasks);
        jobs
    }

    /// Examines and claims an item. Returns its work, unless it is refused.
    async fn accept(
        self: &Arc<Self>,
        message: ItemMessage,
        permit: OwnedSemaphorePermit,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let item = self.examine(&message).await?;
        let lease = self.claim(&item, &message).await?;
        let job = self.register(item, message, lease, permit);
        Some(self.clone().work(job))
    }

    fn stop_all(&self, reason: StopReason) {
        for running in locked(&self.running).values() {
            running.stop.stop(reason);
        }
    }

    /// Gives an attempt up that has no result.
    fn give_up(&self, spool: &Spool, reason: &str) {
        if spool.result().is_some() {
            return;
        }
        let result = ResultMessage {
            instance: spool.entry.instance.clone(),
            record_bytes: spool.length().unwrap_or(0),
            ending: Ending::Abandoned {
                reason: reason.to_owned(),
            },
        };
        if let Err(error) = spool.finish(&result) {
            tracing::warn!(%error, "an attempt cannot be given up");
        }
    }

    /// Follows requests of owners to running attempts.
    async fn obey(self: Arc<Self>, mut controls: crate::nats::Subscription) {
        while let Some(incoming) = controls.next().await {
            let opened = seal::open(&incoming.payload, Purpose::Control, &self.options.trusted);
            let Ok((author, payload)) = opened else {
                continue;
            };
            let Ok(message) = serde_json::from_slice::<ControlMessage>(payload) else {
                continue;
            };
            let running = locked(&self.running);
            let Some(running) = running.get(&message.item) else {
                continue;
            };
            if *running.signer != *author {
                tracing::warn!(item = message.item, "a request of another owner is ignored");
                continue;
            }
            match message.action {
                ControlAction::Stop => running.stop.stop(StopReason::Owner),
                ControlAction::Session(call) => {
                    // The session has just ended, is a trial, or is busy: its owner asks again.
                    let _ = running.calls.try_send(call);
                }
            }
        }
    }

    async fn beat(self: Arc<Self>) {
        loop {
            self.beat_once().await;
            tokio::time::sleep(self.options.heartbeat).await;
        }
    }

    async fn beat_once(&self) {
        let now = self.host.now();
        let undelivered = u32::try_from(self.undelivered()).unwrap_or(u32::MAX);
        let running: Vec<_> = locked(&self.running)
            .values()
            .map(|running| running.attempt.clone())
            .collect();
        let left = *locked(&self.jobs_left);
        let message = Heartbeat {
            worker: self.options.name.clone(),
            instance: self.instance.clone(),
            ostler: env!("CARGO_PKG_VERSION").to_owned(),
            at: now,
            offer: self.options.offer.clone(),
            logins: self.options.logins.clone(),
            capacity: capacity(self.options.capacity, running.len(), left),
            draining: *self.drain.borrow() != Drain::No || left == Some(0),
            running,
            undelivered,
            spent_today_usd: locked(&self.journal).spent_usd(now),
            refused: locked(&self.refused).iter().cloned().collect(),
        };
        if let Ok(payload) = serde_json::to_vec(&message) {
            // The next one follows soon.
            let _ = self
                .connection
                .publish(heartbeat(&self.options.name), payload)
                .await;
        }
    }
}

/// Returns how many attempts a worker runs at once that takes so many more, if that is limited.
fn capacity(slots: u32, running: usize, left: Option<u64>) -> u32 {
    let Some(left) = left else { return slots };
    let running = u64::try_from(running).unwrap_or(u64::MAX);
    let most = u32::try_from(running.saturating_add(left));
    most.unwrap_or(u32::MAX).min(slots)
}

/// Waits until the worker drains at least this far.
async fn reached(drain: &mut watch::Receiver<Drain>, far: Drain) {
    if drain.wait_for(|drain| *drain >= far).await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_offers_no_more_than_it_still_takes() {
        for (running, left, expected) in [
            (0, None, 4),
            (4, None, 4),
            (0, Some(1), 1),
            (1, Some(0), 1),
            (0, Some(0), 0),
            (2, Some(1), 3),
            (2, Some(9), 4),
            (0, Some(u64::MAX), 4),
        ] {
            assert_eq!(capacity(4, running, left), expected, "{running} {left:?}");
        }
    }
}
