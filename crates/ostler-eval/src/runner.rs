//! Runner: works on the trials of a run, several at a time, until none are left.
//!
//! The ledger is the truth. A runner claims a trial, renews its lease with every heartbeat, and
//! finishes it; a second process can do the same for the same run. What a killed process was
//! working on is claimed again.

mod attempt;
mod lost_attempts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ostler::Usage;
use ostler::event::Timestamp;
use ostler_store::{
    ClaimRequest, ClaimResult, Ledger, NewRun, RemoteAttempt, Reservation, Store, StoreError,
    TrialName, TrialState, Worker,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Sleep;

use self::attempt::{ClaimedAttempt, Effect};
use crate::adapter::until_true;
use crate::case::{Case, Contender};
use crate::file_names::file_name;
use crate::place::{Place, TrialNeeds};
use crate::plan::Plan;
use crate::run_trial::{Phase, TrialServices};
pub use crate::trial::is_scored;
use crate::trial::{TrialKey, TrialResult};

/// How a runner works.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Number of trials at once.
    pub jobs: u32,
    /// Whether no further trial is started once one has failed.
    pub fail_fast: bool,
    /// When a failure of the infrastructure is retried.
    pub retry: RetryPolicy,
    /// Time between two heartbeats.
    pub heartbeat: Duration,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// How long to wait at the end of a run for results of lost attempts.
    pub late_grace: Duration,
    /// Who works.
    pub worker: Worker,
}

/// When a failure of the infrastructure is retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries of a trial.
    pub max_retries: u32,
    /// Delay before the first retry; it doubles with each further one.
    pub delay: Duration,
    /// Maximum delay.
    pub max_delay: Duration,
    /// Maximum number of attempts of a trial that are lost on other machines. A trial that kills
    /// its machine must not be repeated without end.
    pub max_losses: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_retries: 2,
            delay: Duration::from_secs(10),
            max_delay: Duration::from_secs(300),
            max_losses: 5,
        }
    }
}

impl RetryPolicy {
    /// Returns when a trial is tried again, or `None` if it is not. A time that the provider named
    /// counts if it is later.
    #[must_use]
    pub fn next(
        &self,
        retries: u32,
        now: Timestamp,
        resets_at: Option<Timestamp>,
    ) -> Option<Timestamp> {
        if retries >= self.max_retries {
            return None;
        }
        let delay = self.delay.saturating_mul(2_u32.saturating_pow(retries));
        let own = after(now, delay.min(self.max_delay));
        Some(resets_at.map_or(own, |resets_at| resets_at.max(own)))
    }
}

/// What happens in a run.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// An attempt started.
    Started {
        /// Which trial.
        key: TrialKey,
        /// Number of the attempt.
        attempt: u64,
    },
    /// An attempt entered a phase.
    Entered {
        /// Which trial.
        key: TrialKey,
        /// The phase.
        phase: Phase,
    },
    /// Tokens or cost of an attempt changed.
    Spent {
        /// Which trial.
        key: TrialKey,
        /// Everything so far.
        usage: Usage,
    },
    /// An attempt is the trial's result.
    Finished(Box<TrialResult>),
    /// The infrastructure failed, and the trial is tried again at this time.
    Retried(Box<TrialResult>, Timestamp),
    /// An attempt was cancelled.
    Cancelled(TrialKey),
    /// The machine of an attempt was not heard of any more, and the trial is tried again.
    Lost(TrialKey),
    /// A result came after its attempt was lost, and does not count.
    Late(TrialKey),
    /// No machine can run trials that are left. The message says what is missing.
    Waiting(String),
}

/// Follows a run.
pub trait Observer: Send + Sync {
    /// Called for every event.
    fn on(&self, event: RunEvent);
}

/// Why a runner stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// Every trial is done.
    Complete,
    /// The user interrupted it, or cancelled the run.
    Interrupted,
    /// The budget does not cover another trial.
    BudgetReached,
    /// A trial failed, and the run stops then.
    FailedFast,
}

/// Creates a run in the ledger.
///
/// # Errors
/// If the name exists, or the database cannot be written.
pub fn create_run(
    store: &Store,
    run: &str,
    plan: &Plan,
    artifacts: PathBuf,
    (budget_usd, at): (Option<f64>, Timestamp),
) -> Result<(), StoreError> {
    let trials = plan.trials().into_iter().map(|key| TrialName {
        case: key.case,
        contender: key.contender,
        repetition: key.repetition,
    });
    Ledger::new(store).create(&NewRun {
        run: run.to_owned(),
        suite: plan.suite.clone(),
        plan: serde_json::to_string(plan).unwrap_or_default(),
        artifacts,
        at,
        budget_usd,
        trials: trials.collect(),
    })
}

/// Works on a run.
pub struct Runner {
    /// The store with the ledger.
    pub store: Arc<Store>,
    /// What all trials share.
    pub services: TrialServices,
    /// Name of the run.
    pub run: String,
    /// Directory of the run's artifacts.
    pub artifacts: PathBuf,
    /// The cases, by name.
    pub cases: BTreeMap<String, Arc<Case>>,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// Where attempts run.
    pub place: Arc<dyn Place>,
    /// Options.
    pub options: RunOptions,
    /// Follows the run.
    pub observer: Arc<dyn Observer>,
}

impl Runner {
    /// Works until every trial is done, or something else ends the run. When `cancelled` becomes
    /// true, running attempts are cancelled and booked.
    ///
    /// # Errors
    /// If the ledger cannot be read or written.
    pub async fn run(
        self: Arc<Self>,
        cancelled: watch::Receiver<bool>,
    ) -> Result<RunEnd, StoreError> {
        let mut tasks: JoinSet<Result<Effect, StoreError>> = JoinSet::new();
        let lost = Arc::<AtomicUsize>::default();
        self.adopt(&mut tasks, &lost, &cancelled)?;
        self.place.on_start(self.needs()?);
        let mut capacity = self.place.capacity();
        let mut shortage = self.place.shortage();
        let mut stop: Option<RunEnd> = None;
        let mut grace: Option<Pin<Box<Sleep>>> = None;
        let mut is_grace_over = false;
        let mut cancel = cancelled.clone();
        loop {
            let mut wake = None;
            if *cancelled.borrow() {
                stop = Some(RunEnd::Interrupted);
            }
            let jobs = self.jobs(capacity.as_mut());
            let active = |tasks: &JoinSet<_>| tasks.len() - lost.load(Ordering::SeqCst);
            while stop.is_none() && active(&tasks) < jobs {
                let free = u32::try_from(jobs - active(&tasks)).unwrap_or(1);
                match self.claim(free)? {
                    ClaimResult::Claimed(claim) => {
                        let attempt = ClaimedAttempt::new(self.clone(), claim, lost.clone());
                        tasks.spawn(attempt.work(cancelled.clone()));
                    }
                    ClaimResult::Wait(until) => {
                        wake = Some(until);
                        break;
                    }
                    ClaimResult::BudgetReached => stop = Some(RunEnd::BudgetReached),
                    ClaimResult::Cancelled => stop = Some(RunEnd::Interrupted),
                    ClaimResult::Complete => stop = Some(RunEnd::Complete),
                }
            }
            // Without capacity nothing is claimed, and so nothing says that the run is complete.
            if stop.is_none() && jobs == 0 && active(&tasks) == 0 && self.is_done()? {
                stop = Some(RunEnd::Complete);
            }
            if let (Some(end), 0) = (stop, active(&tasks)) {
                if tasks.is_empty() || is_grace_over || end == RunEnd::Interrupted {
                    return Ok(end);
                }
                // Only lost attempts are left, whose results would be late.
                let late_grace = self.options.late_grace;
                grace.get_or_insert_with(|| Box::pin(tokio::time::sleep(late_grace)));
            }
            let pause = self.pause(wake);
            tokio::select! {
                Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                    // A panic leaves its attempt to the lease.
                    if let Ok(done) = done {
                        match done? {
                            Effect::Failed if self.options.fail_fast => {
                                stop.get_or_insert(RunEnd::FailedFast);
                            }
                            Effect::BudgetReached => {
                                stop.get_or_insert(RunEnd::BudgetReached);
                            }
                            Effect::Failed | Effect::None => {}
                        }
                    }
                }
                () = tokio::time::sleep(pause) => {}
                () = ended(grace.as_mut()), if !is_grace_over => is_grace_over = true,
                () = changed(capacity.as_mut()) => {}
                () = changed(shortage.as_mut()) => self.report(shortage.as_mut()),
                () = until_true(&mut cancel), if stop != Some(RunEnd::Interrupted) => {}
            }
        }
    }

    /// Follows the attempts of earlier processes that run on other machines.
    fn adopt(
        self: &Arc<Self>,
        tasks: &mut JoinSet<Result<Effect, StoreError>>,
        lost: &Arc<AtomicUsize>,
        cancelled: &watch::Receiver<bool>,
    ) -> Result<(), StoreError> {
        if !self.place.is_remote() {
            return Ok(());
        }
        let ledger = Ledger::new(&self.store);
        let adoption = Arc::new(Adoption(self.place.clone()));
        for RemoteAttempt {
            claim,
            worker,
            is_lost,
        } in ledger.remote_attempts(&self.run)?
        {
            let worker = Some(worker).filter(|name| *name != self.options.worker.name);
            let adopted = crate::place::Adopted { worker, is_lost };
            let attempt = ClaimedAttempt::new(self.clone(), claim, lost.clone());
            let attempt = attempt.adopt(adopted, adoption.clone());
            // Its lease may have ended while there was no owner. The first claim must not lose it.
            attempt.renew()?;
            tasks.spawn(attempt.work(cancelled.clone()));
        }
        Ok(())
    }

    /// Returns the needs of the trials that are left.
    fn needs(&self) -> Result<BTreeSet<TrialNeeds>, StoreError> {
        if !self.place.is_remote() {
            return Ok(BTreeSet::new());
        }
        let trials = Ledger::new(&self.store).trials(&self.run)?;
        let left = trials.iter().filter(|it| it.state != TrialState::Done);
        let names: BTreeSet<(&str, &str)> = left
            .map(|it| (it.name.case.as_str(), it.name.contender.as_str()))
            .collect();
        let needs = names.into_iter().filter_map(|(case, contender)| {
            let contender = self.contenders.iter().find(|it| it.label == contender)?;
            let options = &self.services.options;
            Some(TrialNeeds::of(self.cases.get(case)?, contender, options))
        });
        Ok(needs.collect())
    }

    fn is_done(&self) -> Result<bool, StoreError> {
        let trials = Ledger::new(&self.store).trials(&self.run)?;
        Ok(trials.iter().all(|it| it.state == TrialState::Done))
    }

    /// Reports why trials wait, if they do.
    fn report(&self, shortage: Option<&mut watch::Receiver<Option<String>>>) {
        let why = shortage.and_then(|shortage| shortage.borrow_and_update().clone());
        if let Some(why) = why {
            self.observer.on(RunEvent::Waiting(why));
        }
    }

    /// Returns how many attempts may run at once.
    fn jobs(&self, capacity: Option<&mut watch::Receiver<u32>>) -> usize {
        let own = self.options.jobs.max(1);
        let jobs = capacity.map_or(own, |capacity| own.min(*capacity.borrow_and_update()));
        usize::try_from(jobs).unwrap_or(1)
    }

    fn now(&self) -> Timestamp {
        self.services.embedder.now()
    }

    /// Returns how long to wait before claiming again.
    fn pause(&self, wake: Option<Timestamp>) -> Duration {
        let milliseconds = wake.map_or(60_000, |wake| wake.0.saturating_sub(self.now().0));
        Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0).clamp(10, 60_000))
    }

    fn claim(&self, free: u32) -> Result<ClaimResult, StoreError> {
        let now = self.now();
        let request = ClaimRequest {
            run: &self.run,
            worker: &self.options.worker,
            now,
            lease_until: after(now, self.options.lease),
        };
        let limits = self.cases.values().map(|case| case.limits.max_budget_usd);
        let highest = limits.reduce(|a, b| Some(a?.max(b?))).flatten();
        let reservation = highest.map_or(Reservation::Share(free), Reservation::Limit);
        Ledger::new(&self.store).claim(request, reservation)
    }
}

/// Waits until a time is over, if it has begun.
async fn ended(sleep: Option<&mut Pin<Box<Sleep>>>) {
    match sleep {
        Some(sleep) => sleep.await,
        None => std::future::pending().await,
    }
}

/// Tells a place that all attempts of earlier processes have been adopted, once all of them run.
struct Adoption(Arc<dyn Place>);

impl Drop for Adoption {
    fn drop(&mut self) {
        self.0.on_adopted();
    }
}

/// Waits until a value changes.
async fn changed<T>(watched: Option<&mut watch::Receiver<T>>) {
    let changed = match watched {
        Some(watched) => watched.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending::<()>().await;
    }
}

/// Returns the directory of an attempt's artifacts.
#[must_use]
pub fn artifacts_dir(run: &std::path::Path, name: &TrialName, fence: u64) -> PathBuf {
    run.join(file_name(&name.case))
        .join(file_name(&name.contender))
        .join(name.repetition.to_string())
        .join(format!("attempt-{fence}"))
}

fn after(at: Timestamp, duration: Duration) -> Timestamp {
    let milliseconds = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
    Timestamp(at.0.saturating_add(milliseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_back_off_and_end() {
        let policy = RetryPolicy {
            max_retries: 3,
            delay: Duration::from_secs(10),
            max_delay: Duration::from_secs(25),
            max_losses: 5,
        };
        let now = Timestamp(1_000);
        let next = |retries| policy.next(retries, now, None);
        assert_eq!(next(0), Some(Timestamp(11_000)));
        assert_eq!(next(1), Some(Timestamp(21_000)));
        assert_eq!(next(2), Some(Timestamp(26_000)));
        assert_eq!(next(3), None);
        let told = Some(Timestamp(99_000));
        assert_eq!(policy.next(0, now, told), told);
        assert_eq!(
            policy.next(0, now, Some(Timestamp(5))),
            Some(Timestamp(11_000))
        );
    }
}
