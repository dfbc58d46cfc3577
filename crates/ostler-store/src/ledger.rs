//! Ledger of the evaluation: runs, their trials, and every attempt at a trial.
//!
//! A trial is claimed, worked on under a lease, and finished. Each claim gets a new fence, and only
//! the attempt with the trial's current fence can be accepted, so several processes can work on
//! one run. Usage is booked as a cumulative value per attempt: repeating a booking changes nothing.

mod change;
mod rows;

use std::path::PathBuf;

use ostler_core::event::Timestamp;
use ostler_core::usage::Usage;

use crate::driver;
use crate::error::StoreError;
use crate::store::Store;

/// A run to create, with its frozen plan.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Unique name of the run.
    pub run: String,
    /// Name of the suite.
    pub suite: String,
    /// The plan, as JSON. It never changes.
    pub plan: String,
    /// Directory of the artifacts.
    pub artifacts: PathBuf,
    /// When the run was created.
    pub at: Timestamp,
    /// Maximum cost of all attempts together, in US dollars.
    pub budget_usd: Option<f64>,
    /// The trials, in the order in which they are claimed.
    pub trials: Vec<TrialName>,
}

/// Which trial of a run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrialName {
    /// Name of the case.
    pub case: String,
    /// Label of the contender.
    pub contender: String,
    /// Repetition, from 1.
    pub repetition: u32,
}

/// A run, with the figures of its trials.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Name of the run.
    pub run: String,
    /// Name of the suite.
    pub suite: String,
    /// The plan, as JSON.
    pub plan: String,
    /// Directory of the artifacts.
    pub artifacts: PathBuf,
    /// When it was created.
    pub created_at: Timestamp,
    /// Maximum cost in US dollars.
    pub budget_usd: Option<f64>,
    /// When it was cancelled, unless it was resumed since.
    pub cancelled_at: Option<Timestamp>,
    /// Number of trials.
    pub trials: u64,
    /// Number of trials with an accepted attempt.
    pub done: u64,
    /// Number of trials that are being worked on.
    pub running: u64,
    /// Cost booked so far; `None` if no attempt reported any.
    pub cost_usd: Option<f64>,
    /// Tokens booked so far.
    pub tokens: Option<u64>,
}

/// A trial and its attempts.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRow {
    /// Which trial.
    pub name: TrialName,
    /// Position in the run, from 0.
    pub position: u64,
    /// State.
    pub state: TrialState,
    /// Earliest time of the next attempt.
    pub not_before: Timestamp,
    /// Result of the accepted attempt, or of the last regrade, as JSON.
    pub result: Option<String>,
    /// All attempts, the oldest first.
    pub attempts: Vec<AttemptRow>,
}

/// An attempt at a trial.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRow {
    /// Number of the attempt, which guards its result.
    pub fence: u64,
    /// Name of the worker.
    pub worker: String,
    /// State.
    pub state: AttemptState,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When its lease ends.
    pub lease_until: Timestamp,
    /// When it was finished.
    pub finished_at: Option<Timestamp>,
    /// Ostler's id of the agent's session.
    pub session: Option<String>,
    /// Usage booked so far.
    pub usage: Option<Usage>,
    /// The result as it was reported, as JSON.
    pub result: Option<String>,
}

/// Declares an enum with its names in the database.
macro_rules! states {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Returns the name.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

states! {
    /// State of a trial.
    TrialState {
        /// It waits to be claimed.
        Pending = "pending",
        /// An attempt is under way.
        Running = "running",
        /// An attempt was accepted.
        Done = "done",
    }
}

states! {
    /// State of an attempt.
    AttemptState {
        /// It is under way.
        Running = "running",
        /// Its result is the trial's.
        Accepted = "accepted",
        /// The infrastructure failed, and the trial is tried again.
        Retried = "retried",
        /// Its worker died, or its lease expired.
        Lost = "lost",
        /// Its result came after it was lost. It is stored, but does not count.
        Late = "late",
        /// The user cancelled it.
        Cancelled = "cancelled",
    }
}

/// Who claims trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Name for people.
    pub name: String,
    /// Its process on this machine. Without one, only the lease decides whether it is alive.
    pub pid: Option<u32>,
}

/// How much of the run's budget an attempt reserves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reservation {
    /// The limit of the trial, in US dollars.
    Limit(f64),
    /// An equal share for this many attempts, at least the highest cost of any attempt so far.
    Share(u32),
}

/// A request for a trial.
#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    /// The run.
    pub run: &'a str,
    /// Who claims.
    pub worker: &'a Worker,
    /// The current time.
    pub now: Timestamp,
    /// When the lease ends without a heartbeat.
    pub lease_until: Timestamp,
}

/// A claimed attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Position of the trial in the run.
    pub position: u64,
    /// Which trial.
    pub name: TrialName,
    /// Fence of the attempt.
    pub fence: u64,
    /// Number of earlier attempts that failed because of the infrastructure.
    pub retries: u32,
    /// Number of earlier attempts that were lost on another machine.
    pub losses: u32,
    /// What the attempt may spend, if the run has a budget.
    pub reserved_usd: Option<f64>,
}

/// An attempt on another machine that has no result yet.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteAttempt {
    /// The attempt.
    pub claim: Claim,
    /// Name of the worker.
    pub worker: String,
    /// Whether it was lost. Its result will be late.
    pub is_lost: bool,
}

/// Result of a claim.
#[derive(Debug, Clone, PartialEq)]
pub enum ClaimResult {
    /// A trial to work on.
    Claimed(Claim),
    /// Nothing can be claimed now. Ask again at this time, or when an attempt ends.
    Wait(Timestamp),
    /// The budget does not cover another attempt, and none is under way.
    BudgetReached,
    /// The run was cancelled.
    Cancelled,
    /// Every trial is done.
    Complete,
}

/// Usage of an attempt so far, and the id of its session.
#[derive(Debug, Clone, Default)]
pub struct Booking {
    /// Cumulative usage; `None` if nothing is known yet.
    pub usage: Option<Usage>,
    /// Ostler's id of the agent's session.
    pub session: Option<String>,
    /// Cost of judging the attempt, in US dollars. It counts for the run, and is not the agent's.
    pub judging_usd: f64,
}

impl Booking {
    /// Returns what the attempt has cost the run so far; `None` if nothing is known.
    fn cost_usd(&self) -> Option<f64> {
        let agent = self.usage.as_ref().and_then(|usage| usage.cost_usd);
        let judging = (self.judging_usd > 0.0).then_some(self.judging_usd);
        agent
            .into_iter()
            .chain(judging)
            .reduce(|sum, part| sum + part)
    }
}

/// What a worker learns from a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatResult {
    /// The lease is extended.
    Extended,
    /// The run was cancelled: the attempt should end.
    Cancelled,
    /// The attempt was lost; its result will be late.
    Lost,
}

/// How an attempt ends.
#[derive(Debug, Clone, Copy)]
pub enum Finish<'a> {
    /// Its result, as JSON, is the trial's.
    Accept(&'a str),
    /// The infrastructure failed. The trial is tried again, not before this time.
    Retry(&'a str, Timestamp),
    /// The user cancelled it. The trial can be claimed again.
    Cancel(&'a str),
}

/// What became of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishResult {
    /// It counts.
    Recorded,
    /// It came after the attempt was lost. It is stored as late.
    Late,
}

/// Fence of an attempt at a trial of a run.
#[derive(Debug, Clone, Copy)]
pub struct AttemptKey<'a> {
    /// The run.
    pub run: &'a str,
    /// Position of the trial.
    pub position: u64,
    /// Fence of the attempt.
    pub fence: u64,
}

/// The ledger in a store.
#[derive(Debug, Clone, Copy)]
pub struct Ledger<'a>(&'a Store);

impl<'a> Ledger<'a> {
    /// Returns the ledger of a store.
    #[must_use]
    pub fn new(store: &'a Store) -> Self {
        Self(store)
    }

    /// Creates a run.
    ///
    /// # Errors
    /// If its name exists, or the database cannot be written.
    pub fn create(&self, new: &NewRun) -> Result<(), StoreError> {
        self.0.change(|db| change::create(db, new))
    }

    /// Claims the next trial of a run. Attempts whose lease has expired, or whose process has
    /// ended, are lost first.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn claim(
        &self,
        request: ClaimRequest<'_>,
        reservation: Reservation,
    ) -> Result<ClaimResult, StoreError> {
        let started = request.worker.pid.and_then(driver::started);
        self.0
            .change(|db| change::claim(db, request, reservation, started))
    }

    /// Books the usage of an attempt so far and extends its lease.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn heartbeat(
        &self,
        key: AttemptKey<'_>,
        lease_until: Timestamp,
        booking: &Booking,
    ) -> Result<HeartbeatResult, StoreError> {
        self.0
            .change(|db| change::heartbeat(db, key, lease_until, booking))
    }

    /// Assigns a remote attempt to a worker, unless another one has it. Returns false if another
    /// one has it, or it is no longer under way.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn assign(
        &self,
        key: AttemptKey<'_>,
        from: &str,
        worker: &str,
    ) -> Result<bool, StoreError> {
        self.0.change(|db| change::assign(db, key, from, worker))
    }

    /// Marks an attempt as lost, so that its trial can be claimed again. Its result will be late.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn lose(
        &self,
        key: AttemptKey<'_>,
        now: Timestamp,
        booking: &Booking,
    ) -> Result<(), StoreError> {
        self.0.change(|db| change::lose(db, key, now, booking))
    }

    /// Returns the attempts of a run on other machines that have no result yet.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn remote_attempts(&self, run: &str) -> Result<Vec<RemoteAttempt>, StoreError> {
        self.0.query(|db| rows::remote_attempts(db, run))
    }

    /// Finishes an attempt, unless it was lost: its result is stored as late then.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn finish(
        &self,
        key: AttemptKey<'_>,
        now: Timestamp,
        booking: &Booking,
        finish: Finish<'_>,
    ) -> Result<FinishResult, StoreError> {
        self.0
            .change(|db| change::finish(db, key, now, booking, finish))
    }

    /// Replaces the result of a done trial by that of another evaluation. Returns false if the
    /// trial is not done.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn regrade(
        &self,
        run: &str,
        position: u64,
        now: Timestamp,
        result: &str,
    ) -> Result<bool, StoreError> {
        self.0
            .change(|db| change::regrade(db, run, position, now, result))
    }

    /// Cancels a run: nothing more is claimed, and running attempts learn it from their heartbeat.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn cancel(&self, run: &str, now: Timestamp) -> Result<(), StoreError> {
        self.0
            .change(|db| change::set_cancelled(db, run, Some(now)))
    }

    /// Makes a cancelled run claimable again.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn reopen(&self, run: &str) -> Result<(), StoreError> {
        self.0.change(|db| change::set_cancelled(db, run, None))
    }

    /// Replaces the budget of a run. What was spent stays booked.
    ///
    /// # Errors
    /// If the database cannot be written.
    pub fn set_budget(&self, run: &str, budget_usd: f64) -> Result<(), StoreError> {
        self.0.change(|db| change::set_budget(db, run, budget_usd))
    }

    /// Returns a run.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn run(&self, run: &str) -> Result<Option<RunRow>, StoreError> {
        let runs = self.0.query(|db| rows::runs(db, Some(run)))?;
        Ok(runs.into_iter().next())
    }

    /// Returns the run with this name, or with an unambiguous prefix of it.
    ///
    /// # Errors
    /// If the prefix is ambiguous, or the database cannot be read.
    pub fn look_up(&self, prefix: &str) -> Result<Option<RunRow>, StoreError> {
        if let Some(run) = self.run(prefix)? {
            return Ok(Some(run));
        }
        let mut matching = self.runs()?;
        matching.retain(|row| row.run.starts_with(prefix));
        if matching.len() > 1 {
            let more = matching.len() > 10;
            let candidates = matching.into_iter().take(10).map(|row| row.run).collect();
            return Err(StoreError::Ambiguous {
                id: prefix.to_owned(),
                candidates,
                more,
            });
        }
        Ok(matching.pop())
    }

    /// Lists all runs, the newest first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn runs(&self) -> Result<Vec<RunRow>, StoreError> {
        self.0.query(|db| rows::runs(db, None))
    }

    /// Returns the trials of a run with their attempts, by position.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn trials(&self, run: &str) -> Result<Vec<TrialRow>, StoreError> {
        self.0.query(|db| rows::trials(db, run, None))
    }

    /// Returns the trial at a position of a run.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn trial(&self, run: &str, position: u64) -> Result<Option<TrialRow>, StoreError> {
        let trials = self.0.query(|db| rows::trials(db, run, Some(position)))?;
        Ok(trials.into_iter().next())
    }
}
