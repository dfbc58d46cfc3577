//! One claimed attempt: its heartbeats, its bookings and its end in the ledger.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ostler::{Cause, Usage};
use ostler_store::{
    AttemptKey, Booking, Claim, Finish, FinishResult, HeartbeatResult, Ledger, StoreError,
};
use tokio::sync::watch;

use super::{Adoption, RunEvent, Runner, after, artifacts_dir, lost_attempts};
use crate::adapter::until_true;
use crate::evaluators::judge;
use crate::place::{Adopted, Placement, PlacementRecord};
use crate::run_trial::{Attempt, Disposition, TrialHooks, TrialRequest, unplaced};
use crate::trial::{TrialKey, Verdict};

/// What the end of an attempt means for the run.
pub(super) enum Effect {
    None,
    /// The trial failed.
    Failed,
    /// The run's budget ended the attempt.
    BudgetReached,
}

/// A claimed attempt.
pub(super) struct ClaimedAttempt {
    runner: Arc<Runner>,
    claim: Claim,
    adopted: Option<Adopted>,
    /// Held until the place runs the attempt.
    adoption: Mutex<Option<Arc<Adoption>>>,
    booking: Mutex<Booking>,
    /// Numbers of lost attempts at the trial whose usage is complete.
    complete: OnceLock<Vec<u64>>,
    is_lost: AtomicBool,
    /// Number of lost attempts of this run that are still followed.
    lost: Arc<AtomicUsize>,
}

impl Drop for ClaimedAttempt {
    fn drop(&mut self) {
        if *self.is_lost.get_mut() {
            self.lost.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl PlacementRecord for ClaimedAttempt {
    fn adopted_from(&self) -> Option<&Adopted> {
        self.adopted.as_ref()
    }

    fn assign(&self, worker: &str) -> bool {
        let from = &self.runner.options.worker.name;
        let ledger = Ledger::new(&self.runner.store);
        ledger.assign(self.key(), from, worker).unwrap_or(false)
    }

    fn lose(&self) {
        let ledger = Ledger::new(&self.runner.store);
        let booking = self.booking();
        // If it fails, the lease ends by itself.
        let _ = ledger.lose(self.key(), self.runner.now(), &booking);
        self.count_lost();
        self.runner.observer.on(RunEvent::Lost(self.trial_key()));
    }
}

impl ClaimedAttempt {
    pub(super) fn new(runner: Arc<Runner>, claim: Claim, lost: Arc<AtomicUsize>) -> Self {
        Self {
            runner,
            claim,
            adopted: None,
            adoption: Mutex::default(),
            booking: Mutex::default(),
            complete: OnceLock::new(),
            is_lost: AtomicBool::new(false),
            lost,
        }
    }

    /// Continues an attempt of an earlier process.
    pub(super) fn adopt(mut self, adopted: Adopted, adoption: Arc<Adoption>) -> Self {
        if adopted.is_lost {
            self.count_lost();
        }
        self.adopted = Some(adopted);
        self.adoption = Mutex::new(Some(adoption));
        self
    }

    /// Renews the lease in the ledger, unless the attempt was lost.
    pub(super) fn renew(&self) -> Result<(), StoreError> {
        self.book(&Booking::default()).map(drop)
    }

    fn count_lost(&self) {
        if !self.is_lost.swap(true, Ordering::SeqCst) {
            self.lost.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn booking(&self) -> Booking {
        let booking = self.booking.lock();
        booking.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn trial_key(&self) -> TrialKey {
        let name = self.claim.name.clone();
        TrialKey {
            case: name.case,
            contender: name.contender,
            repetition: name.repetition,
        }
    }

    /// Works on the attempt until it has ended.
    pub(super) async fn work(self, cancelled: watch::Receiver<bool>) -> Result<Effect, StoreError> {
        let Some(request) = self.request() else {
            // The plan was checked, so this is a run that another version created.
            return self.abandon().map(|()| Effect::Failed);
        };
        let runner = &self.runner;
        let key = request.key();
        runner.observer.on(RunEvent::Started {
            key: key.clone(),
            attempt: self.claim.fence,
        });
        let complete = lost_attempts::book(runner, self.key(), &request).await?;
        let _ = self.complete.set(complete);
        if let Some(attempt) = self.given_up(&request) {
            return self.finish(&request, attempt);
        }
        let (stop, stopped) = watch::channel(false);
        let on_phase = |phase| {
            let key = key.clone();
            runner.observer.on(RunEvent::Entered { key, phase });
        };
        let on_usage = |session: &str, usage: &Usage| {
            let so_far = Booking {
                usage: Some(usage.clone()),
                session: Some(session.to_owned()),
                ..Booking::default()
            };
            // Booked at once: this process may be killed before the next heartbeat.
            if !matches!(self.book(&so_far), Ok(HeartbeatResult::Extended)) {
                stop.send_replace(true);
            }
            *self.booking.lock().unwrap_or_else(PoisonError::into_inner) = so_far;
            // The first booking only names the session.
            if usage.total().is_some() || usage.cost_usd.is_some() {
                runner.observer.on(RunEvent::Spent {
                    key: key.clone(),
                    usage: usage.clone(),
                });
            }
        };
        let placement = Placement {
            request: &request,
            services: &runner.services,
            hooks: TrialHooks {
                on_phase: &on_phase,
                on_usage: &on_usage,
                cancelled: stopped,
            },
            record: &self,
        };
        let beats = self.beat(&stop, cancelled);
        let running = runner.place.run(placement);
        drop(
            self.adoption
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        let attempt = tokio::select! {
            attempt = running => attempt,
            // It never ends by itself, unless the ledger fails.
            error = beats => return Err(error),
        };
        self.finish(&request, attempt)
    }

    /// Returns the end of a trial whose machines were lost too often.
    fn given_up(&self, request: &TrialRequest) -> Option<Attempt> {
        let losses = self.claim.losses;
        (losses >= self.runner.options.retry.max_losses && losses > 0).then(|| {
            let message = format!(
                "{losses} attempts were lost with the machines that ran them; it is not tried again"
            );
            Attempt {
                result: unplaced(request, self.runner.now(), message),
                disposition: Disposition::Accept,
            }
        })
    }

    /// Renews the lease, books usage, and passes on that the attempt is cancelled.
    async fn beat(
        &self,
        stop: &watch::Sender<bool>,
        mut cancelled: watch::Receiver<bool>,
    ) -> StoreError {
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.runner.options.heartbeat) => {}
                () = until_true(&mut cancelled), if !*stop.borrow() => {
                    stop.send_replace(true);
                    continue;
                }
            }
            match self.book(&self.booking()) {
                Ok(HeartbeatResult::Extended) => {}
                Ok(HeartbeatResult::Cancelled | HeartbeatResult::Lost) => {
                    stop.send_replace(true);
                }
                Err(error) => return error,
            }
        }
    }

    /// Books usage and renews the lease.
    fn book(&self, booking: &Booking) -> Result<HeartbeatResult, StoreError> {
        let runner = &self.runner;
        let lease = after(runner.now(), runner.options.lease);
        Ledger::new(&runner.store).heartbeat(self.key(), lease, booking)
    }

    fn key(&self) -> AttemptKey<'_> {
        AttemptKey {
            run: &self.runner.run,
            position: self.claim.position,
            fence: self.claim.fence,
        }
    }

    /// Books and records the end of an attempt.
    fn finish(&self, request: &TrialRequest, attempt: Attempt) -> Result<Effect, StoreError> {
        let Attempt {
            mut result,
            disposition,
        } = attempt;
        let runner = &self.runner;
        let ledger = Ledger::new(&runner.store);
        let now = runner.now();
        let mut booking = self.booking();
        booking.judging_usd = judge::total_cost(&result.evaluations);
        if result.session.is_some() {
            booking.session.clone_from(&result.session);
            booking.usage = Some(result.usage.clone()).or(booking.usage);
        }
        let disposition = match disposition {
            Disposition::Retry(resets_at) => {
                let next = runner
                    .options
                    .retry
                    .next(self.claim.retries, now, resets_at);
                next.map_or(Disposition::Accept, |next| Disposition::Retry(Some(next)))
            }
            other => other,
        };
        let own = serde_json::to_string(&result).unwrap_or_default();
        let trial = ledger.trial(&runner.run, self.claim.position)?;
        let attempts = trial.map(|trial| trial.attempts).unwrap_or_default();
        let fence = self.claim.fence;
        let complete = self.complete.get().map_or(&[][..], Vec::as_slice);
        result.unmetered_attempts =
            lost_attempts::unmetered(&runner.store, &attempts, fence, complete)?;
        let earlier = attempts.iter().filter(|attempt| attempt.fence < fence);
        let earlier: Vec<&Usage> = earlier.filter_map(|it| it.usage.as_ref()).collect();
        for usage in &earlier {
            result.usage.add(usage);
        }
        if disposition == Disposition::Accept && !earlier.is_empty() {
            crate::run_trial::rewrite_result(&mut result);
        }
        let text = serde_json::to_string(&result).unwrap_or_default();
        let finish = match disposition {
            Disposition::Accept => Finish::Accept(&text),
            Disposition::Retry(next) => Finish::Retry(&own, next.unwrap_or(now)),
            Disposition::Cancel => Finish::Cancel(&own),
            Disposition::Lost => {
                ledger.lose(self.key(), now, &booking)?;
                if !self.is_lost.load(Ordering::SeqCst) {
                    runner.observer.on(RunEvent::Lost(result.key));
                }
                return Ok(Effect::None);
            }
        };
        let recorded = ledger.finish(self.key(), now, &booking, finish)?;
        runner.place.on_recorded(request);
        let has_failed = matches!(result.verdict, Verdict::Failed | Verdict::Errored);
        let effect = match result.cause {
            Some(Cause::Budget) if disposition == Disposition::Cancel => Effect::BudgetReached,
            _ if disposition == Disposition::Accept && has_failed => Effect::Failed,
            _ => Effect::None,
        };
        let key = result.key.clone();
        let event = match (recorded, disposition) {
            (FinishResult::Late, _) => RunEvent::Late(key),
            (_, Disposition::Accept) => RunEvent::Finished(Box::new(result)),
            (_, Disposition::Retry(next)) => {
                RunEvent::Retried(Box::new(result), next.unwrap_or(now))
            }
            (_, Disposition::Cancel | Disposition::Lost) => RunEvent::Cancelled(key),
        };
        runner.observer.on(event);
        Ok(match recorded {
            FinishResult::Recorded => effect,
            FinishResult::Late => Effect::None,
        })
    }

    /// Returns the request of the trial, or `None` if the case or contender is unknown.
    fn request(&self) -> Option<TrialRequest> {
        let (runner, claim) = (&self.runner, &self.claim);
        let name = &claim.name;
        let mut contenders = runner.contenders.iter();
        let contender = contenders.find(|it| it.label == name.contender);
        Some(TrialRequest {
            run: runner.run.clone(),
            case: runner.cases.get(&name.case)?.clone(),
            contender: contender?.clone(),
            repetition: name.repetition,
            attempt: claim.fence,
            artifacts: artifacts_dir(&runner.artifacts, name, claim.fence),
            cap_usd: claim.reserved_usd,
        })
    }

    /// Returns a trial that cannot be worked on to the ledger, and cancels the run.
    fn abandon(&self) -> Result<(), StoreError> {
        let ledger = Ledger::new(&self.runner.store);
        let now = self.runner.now();
        ledger.finish(self.key(), now, &Booking::default(), Finish::Cancel("null"))?;
        ledger.cancel(&self.runner.run, now)
    }
}
