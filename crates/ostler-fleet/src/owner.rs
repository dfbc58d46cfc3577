//! Owner: a place for the attempts of a run whose workers are other machines.
//!
//! The owner's ledger decides. An item is published when the runner has claimed its trial, a worker
//! gets the attempt by asking for it, and its result is accepted if the fence still holds.

mod attach;
mod attempt;
mod calls;
mod mirror;
mod record;
mod router;
pub mod sessions;
mod workers;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ostler_core::event::Timestamp;
use ostler_eval::place::{AttemptFuture, Place, Placement, TrialNeeds};
use ostler_eval::run_trial::TrialRequest;
use ostler_store::Store;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::attach::Attacher;
use self::attempt::AttemptDriver;
use self::router::Router;
use self::workers::Workers;
use crate::item::{Needs, WorkKind};
use crate::key::MemberKey;
use crate::message::Heartbeat;
use crate::nats::{Connection, FleetError};
use crate::subject::{self, Token};

/// How an owner uses its fleet.
#[derive(Debug)]
pub struct OwnerOptions {
    /// Its name, as the server's permissions know it.
    pub name: Token,
    /// The key that it signs with.
    pub key: Arc<MemberKey>,
    /// The run, as a token of subjects.
    pub run: Token,
    /// How long a worker may go without renewing its lease.
    pub lease: Duration,
    /// Labels that a worker must have.
    pub labels: BTreeSet<String>,
    /// Number of copies on the servers of a cluster.
    pub replicas: usize,
}

/// A fleet as the place of a run's attempts. Only one process may be the owner of a run at a time.
pub struct FleetPlace {
    connection: Connection,
    options: OwnerOptions,
    store: Arc<Store>,
    router: Arc<Router>,
    workers: Arc<Workers>,
    attacher: Attacher,
    /// Classes of work that this process has created.
    classes: Mutex<BTreeSet<Token>>,
    now: fn() -> Timestamp,
    _tasks: JoinSet<()>,
}

impl FleetPlace {
    /// Creates what is missing on the server, and follows the workers.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn open(
        connection: Connection,
        options: OwnerOptions,
        store: Arc<Store>,
        now: fn() -> Timestamp,
    ) -> Result<Self, FleetError> {
        connection.create_streams(options.replicas).await?;
        let mut tasks = JoinSet::new();
        let workers = Workers::follow(&connection, &mut tasks).await?;
        let router = Router::start(&connection, &options, &mut tasks).await?;
        Ok(Self {
            attacher: Attacher::new(connection.clone(), now),
            connection,
            options,
            store,
            router,
            workers,
            classes: Mutex::default(),
            now,
            _tasks: tasks,
        })
    }

    /// Returns the needs of a trial in this fleet.
    fn needs_of(&self, needs: TrialNeeds) -> Needs {
        Needs {
            kind: WorkKind::Trial,
            agent: needs.agent,
            version: None,
            labels: self.options.labels.clone(),
            isolation: needs.isolation,
        }
    }

    /// Creates the queue of a class, once per process unless it must be renewed.
    async fn create_class(&self, needs: &Needs, renew: bool) -> Result<(), FleetError> {
        let class = needs.class();
        if !renew && self.classes().contains(&class) {
            return Ok(());
        }
        self.connection.create_class(needs).await?;
        self.classes().insert(class);
        Ok(())
    }

    fn classes(&self) -> MutexGuard<'_, BTreeSet<Token>> {
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last heartbeats of the workers that are alive.
    #[must_use]
    pub fn workers(&self) -> Vec<Heartbeat> {
        self.workers.alive()
    }
}

impl Place for FleetPlace {
    fn capacity(&self) -> Option<watch::Receiver<u32>> {
        Some(self.workers.capacity())
    }

    fn shortage(&self) -> Option<watch::Receiver<Option<String>>> {
        Some(self.workers.shortage())
    }

    fn on_start(&self, needs: BTreeSet<TrialNeeds>) {
        let needs = needs.into_iter().map(|needs| self.needs_of(needs));
        self.workers.expect(needs.collect());
    }

    fn on_recorded(&self, request: &TrialRequest) {
        let attempt = attempt::attempt_token(request);
        let (owner, run) = (&self.options.name, &self.options.run);
        let (events, result) = subject::of_all_workers(owner, run, &attempt);
        let connection = self.connection.clone();
        // What is left if this process ends expires.
        tokio::spawn(async move { connection.forget_attempt(&events, &result).await });
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn on_adopted(&self) {
        self.router.adopted();
    }

    fn run<'a>(&'a self, placement: Placement<'a>) -> AttemptFuture<'a> {
        Box::pin(AttemptDriver::new(self, placement).run())
    }
}
