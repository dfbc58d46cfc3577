//! One attempt on a worker: attachments, trial, artifacts, result.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use ostler_core::usage::Usage;
use ostler_eval::run_trial::{
    Attempt, Disposition, TrialHooks, TrialOptions, TrialRequest, run_trial, unplaced,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::task::JoinSet;

use super::claims::Lease;
use super::session::{Requests, SessionJob, reason};
use super::{Running, SignedItem, Stop, StopReason, Worker, locked};
use crate::archive;
use crate::item::{Item, TrialWork, Work};
use crate::message::{
    ArtifactReference, Ending, ResultMessage, RunningAttempt, SentDisposition, SessionCall,
};
use crate::nats::ItemMessage;
use crate::spool::{ARTIFACTS, Spool, SpoolEntry};

/// Number of requests to a session that wait. Owners send requests again.
const MAX_CALLS: usize = 256;

/// A claimed attempt.
pub(super) struct Job {
    signed: SignedItem,
    message: Arc<ItemMessage>,
    lease: Lease,
    stop: Stop,
    stopped: watch::Receiver<Option<StopReason>>,
    /// Requests to a session.
    called: mpsc::Receiver<SessionCall>,
    slot: Slot,
}

/// Slot of an attempt under way: its entry in the heartbeats, and what it may cost today.
struct Slot {
    worker: Arc<Worker>,
    item: String,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Slot {
    fn drop(&mut self) {
        locked(&self.worker.running).remove(&self.item);
        locked(&self.worker.journal).release(&self.item);
    }
}

impl Worker {
    /// Registers a claimed attempt, before anything else can happen to this worker.
    pub(super) fn register(
        self: &Arc<Self>,
        signed: SignedItem,
        message: ItemMessage,
        lease: Lease,
        permit: OwnedSemaphorePermit,
    ) -> Job {
        let item = &signed.item;
        let (stop, stopped) = Stop::new();
        let (calls, called) = mpsc::channel(MAX_CALLS);
        let running = Running {
            attempt: RunningAttempt {
                owner: item.owner.clone(),
                run: item.run.clone(),
                attempt: item.attempt.clone(),
                agent: item.needs.agent.clone(),
                since: self.host.now(),
            },
            signer: signed.signer.clone(),
            stop: stop.clone(),
            calls,
        };
        locked(&self.running).insert(item.id.clone(), running);
        if let Some(usd) = item.max_usd() {
            locked(&self.journal).reserve(&item.id, usd);
        }
        Job {
            slot: Slot {
                worker: self.clone(),
                item: item.id.clone(),
                _permit: permit,
            },
            signed,
            message: Arc::new(message),
            lease,
            stop,
            stopped,
            called,
        }
    }

    /// Works on a claimed attempt until it is delivered. The lease is renewed until then.
    pub(super) async fn work(self: Arc<Self>, job: Job) {
        let Job {
            signed,
            message,
            lease,
            stop,
            stopped,
            called,
            slot,
        } = job;
        let item = signed.item.clone();
        let entry = SpoolEntry {
            worker: self.options.name.clone(),
            owner: item.owner.clone(),
            run: item.run.clone(),
            attempt: item.attempt.clone(),
            item: item.id.clone(),
            instance: self.instance.clone(),
        };
        let remembered = locked(&self.journal).remember(&item.id);
        let spools = self.options.state.join("spool");
        let spool = match remembered.and_then(|()| Spool::create(&spools, entry)) {
            Ok(spool) => spool,
            Err(error) => {
                // Nothing can be sent without a spool. The lease ends.
                self.refuse(item.id.clone(), format!("it cannot be spooled: {error}"));
                return;
            }
        };
        // Tasks that end with this one.
        let (mut delivery, mut lease_task) = (JoinSet::new(), JoinSet::new());
        delivery.spawn(self.clone().deliver(spool.clone()));
        let held = self.clone();
        lease_task.spawn(held.hold_lease(signed, message.clone(), lease, stop));
        let jobs = self.options.state.join("jobs");
        let dir = jobs.join(format!("{}.{}", item.run, item.attempt));
        match &item.work {
            Work::Trial(work) => {
                let attempt = self.attempt((&item, work), &spool, &dir, stopped.clone());
                let attempt = attempt.await;
                let reason = *stopped.borrow();
                self.conclude(&spool, &dir, attempt, reason).await;
            }
            Work::Session(work) => {
                let job = SessionJob {
                    item: &item,
                    work,
                    spool: &spool,
                    dir: &dir,
                };
                let requests = Requests::new(stopped, called);
                self.run_session(job, requests).await;
            }
        }
        drop(slot);
        let _ = tokio::fs::remove_dir_all(&dir).await; // a leftover is removed at the next start
        let _ = delivery.join_next().await;
        drop(lease_task);
        message.done().await;
    }

    /// Runs the trial. It never fails: whatever happens is in its result.
    async fn attempt(
        &self,
        (item, work): (&Item, &TrialWork),
        spool: &Arc<Spool>,
        dir: &Path,
        stopped: watch::Receiver<Option<StopReason>>,
    ) -> Attempt {
        let isolation = self.options.policy.isolation(work);
        let mut work = TrialWork::clone(work);
        let artifacts = dir.join("artifacts");
        let (root, mut stop) = (dir.join("root"), stopped.clone());
        let laid_out = tokio::select! {
            laid_out = self.lay_out(&mut work, &root) => Ok(laid_out),
            reason = reason(&mut stop) => Err(reason),
        };
        let request = TrialRequest {
            run: work.run.clone(),
            case: Arc::new(work.case),
            contender: work.contender,
            repetition: work.repetition,
            attempt: item.fence,
            artifacts,
            cap_usd: work.cap_usd,
        };
        let unstarted = |disposition, message: String| Attempt {
            result: unplaced(&request, self.host.now(), message),
            disposition,
        };
        let failed = |message| unstarted(Disposition::Retry(None), message);
        match laid_out {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return failed(error.to_string()),
            Err(reason) => return unstarted(Disposition::Cancel, reason.as_str().to_owned()),
        }
        let options = TrialOptions {
            isolation,
            share_login: work.share_login,
            keep_workspaces: false,
        };
        let services = match self.host.services(spool.clone(), options) {
            Ok(services) => services,
            Err(message) => return failed(message),
        };
        let on_usage = |session: &str, usage: &Usage| {
            spool.add_usage(session, usage);
            if let Some(cost) = usage.cost_usd {
                locked(&self.journal).book(&item.id, cost, self.host.now());
            }
        };
        let (cancel, cancelled) = watch::channel(false);
        let hooks = TrialHooks {
            on_phase: &|_| {},
            on_usage: &on_usage,
            cancelled,
        };
        tokio::select! {
            attempt = run_trial(&request, &services, hooks) => attempt,
            () = forward(stopped, cancel) => std::future::pending().await,
        }
    }

    /// Spools the end of an attempt.
    async fn conclude(
        &self,
        spool: &Arc<Spool>,
        dir: &Path,
        attempt: Attempt,
        stopped: Option<StopReason>,
    ) {
        let is_given_up = attempt.disposition == Disposition::Cancel;
        let disposition = SentDisposition::of(&attempt);
        let (Some(disposition), false) = (
            disposition,
            is_given_up && matches!(stopped, Some(StopReason::Lease | StopReason::Drain)),
        ) else {
            let reason = match stopped {
                Some(StopReason::Drain) => "its worker was stopped",
                _ => "its lease ended",
            };
            return self.give_up(spool, reason);
        };
        let mut result = attempt.result;
        let (own, artifacts) = (spool.clone(), dir.join("artifacts"));
        let packed = archive::blocking(move || pack_artifacts(&own, &artifacts)).await;
        let artifacts = packed.unwrap_or_else(|error| {
            result.warnings.push(format!("no artifacts: {error}"));
            None
        });
        let message = ResultMessage {
            instance: spool.entry.instance.clone(),
            record_bytes: spool.length().unwrap_or(0),
            ending: Ending::Finished {
                result: Box::new(result),
                disposition,
                artifacts,
            },
        };
        if let Err(error) = spool.finish(&message) {
            tracing::warn!(%error, "a result cannot be spooled");
            self.give_up(spool, "its result could not be spooled");
        }
    }
}

/// Passes on that the attempt is stopped. It never ends.
async fn forward(mut stopped: watch::Receiver<Option<StopReason>>, cancel: watch::Sender<bool>) {
    if stopped.wait_for(Option::is_some).await.is_ok() {
        cancel.send_replace(true);
    }
    std::future::pending::<()>().await;
}

/// Packs the artifacts into the spool.
fn pack_artifacts(spool: &Spool, dir: &Path) -> io::Result<Option<ArtifactReference>> {
    if !dir.is_dir() {
        return Ok(None);
    }
    let packed = archive::pack(dir)?;
    fs::copy(packed.file.path(), spool.path(ARTIFACTS))?;
    let entry = &spool.entry;
    Ok(Some(ArtifactReference {
        name: format!("{}.{}.{}", entry.owner, entry.run, entry.attempt),
        sha256: packed.sha256,
        bytes: packed.bytes,
    }))
}
