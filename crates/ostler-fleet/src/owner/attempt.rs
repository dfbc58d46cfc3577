//! One attempt at the owner: published, claimed, mirrored, and its result taken over.

mod end;
mod publish;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use ostler_core::event::Timestamp;
use ostler_eval::identity::sha256;
use ostler_eval::place::{Placement, TrialNeeds};
use ostler_eval::run_trial::{Attempt, Disposition, Phase, TrialRequest, unplaced};
use ostler_eval::trial::{Blame, Verdict};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::FleetPlace;
use super::mirror::{Gap, Mirror};
use super::router::{PendingClaim, Signal};
use crate::clock;
use crate::item::Needs;
use crate::message::{ClaimAction, ControlAction, ControlMessage, Decision, ResultMessage};
use crate::nats::Chunk;
use crate::seal::{self, Purpose};
use crate::subject::{AttemptSubject, Token, control};

/// When an item is published again that no worker has taken: the server may have lost it.
const REPUBLISH: Duration = Duration::from_secs(60);
/// How long a cancelled attempt may take to send its result.
const CANCEL_GRACE: Duration = Duration::from_secs(30);
/// Time between two tries.
const RETRY: Duration = Duration::from_millis(500);
/// How long a record may take to come once its result is here. What is missing has expired then, or
/// was never sent.
const RECORD_PATIENCE: Duration = Duration::from_secs(60);
/// How often a record is read again from its beginning because of the same gap.
const MAX_GAPS: u32 = 5;

/// The chunks of a record.
type Chunks = Box<dyn Stream<Item = Chunk> + Send + Unpin>;

/// Who has an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    worker: Token,
    instance: String,
}

impl Holder {
    /// The holder as the ledger knows it.
    fn name(&self) -> String {
        format!("{}/{}", self.worker, self.instance)
    }

    fn parse(name: &str) -> Option<Self> {
        let (worker, instance) = name.split_once('/')?;
        Some(Self {
            worker: worker.parse().ok()?,
            instance: instance.to_owned(),
        })
    }
}

/// Follows one attempt.
pub(super) struct AttemptDriver<'a> {
    place: &'a FleetPlace,
    placement: Placement<'a>,
    attempt: Token,
    item: String,
    signals: mpsc::UnboundedReceiver<Signal>,
    holder: Option<Holder>,
    lease_until: Option<Instant>,
    is_lost: bool,
    /// Position of the published item in the queue.
    published: Option<u64>,
    /// Number of times that the item was published.
    copies: u32,
    /// What a worker must have.
    needs: Needs,
    declined: BTreeMap<Token, String>,
    result: Option<ResultMessage>,
    mirror: Option<Mirror>,
    gaps: Gaps,
    /// Whether the result is taken although its record is not complete.
    gives_up_record: bool,
}

/// Gaps in the record, without progress between them.
#[derive(Debug, Clone, Copy, Default)]
struct Gaps {
    /// Where the record has the gap.
    at: u64,
    count: u32,
}

/// What woke the driver.
enum Wakeup {
    Signal(Signal),
    Chunk(Option<Chunk>),
    LeaseEnded,
    Republish,
    Cancelled,
    CancelTimedOut,
    FollowAgain,
    RecordOverdue,
}

impl<'a> AttemptDriver<'a> {
    pub(super) fn new(place: &'a FleetPlace, placement: Placement<'a>) -> Self {
        let request = placement.request;
        let attempt = attempt_token(request);
        let adopted = placement.record.adopted_from();
        let holder = adopted.and_then(|adopted| Holder::parse(adopted.worker.as_deref()?));
        let is_lost = adopted.is_some_and(|adopted| adopted.is_lost);
        let lease = holder.is_some() && !is_lost;
        let options = &placement.services.options;
        let needs = TrialNeeds::of(&request.case, &request.contender, options);
        let needs = place.needs_of(needs);
        Self {
            item: format!("{}.{}.{attempt}", place.options.name, place.options.run),
            signals: place.router.register(&attempt),
            lease_until: lease.then(|| clock::now() + place.options.lease),
            mirror: None,
            attempt,
            place,
            placement,
            holder,
            is_lost,
            published: None,
            copies: 0,
            needs,
            declined: BTreeMap::new(),
            result: None,
            gaps: Gaps::default(),
            gives_up_record: false,
        }
    }

    /// Follows the attempt to its end.
    pub(super) async fn run(mut self) -> Attempt {
        let attempt = self.follow().await;
        self.place.router.forget(&self.attempt);
        if let (Some(sequence), None) = (self.published, &self.holder) {
            self.place.connection.remove_item(sequence).await;
        }
        attempt
    }

    async fn follow(&mut self) -> Attempt {
        (self.placement.hooks.on_phase)(Phase::Preparing);
        if self.is_lost && self.holder.is_none() {
            return self.lost("no worker has taken it".to_owned());
        }
        if self.holder.is_none()
            && let Err(message) = self.publish().await
        {
            return self.errored(message);
        }
        let mut chunks: Option<Chunks> = None;
        let mut cancelled = self.placement.hooks.cancelled.clone();
        let mut cancel_until: Option<Instant> = None;
        let mut is_stopped = false;
        let mut republish = clock::now() + REPUBLISH;
        let mut follow_at = clock::now();
        let mut progress_at = clock::now();
        loop {
            if let Some(attempt) = self.end().await {
                return attempt;
            }
            let is_following = chunks.is_some() || self.holder.is_none();
            if !is_following && clock::now() >= follow_at {
                chunks = self.follow_record().await;
                follow_at = clock::now() + RETRY;
            }
            let is_waiting = chunks.is_none() && self.holder.is_some();
            let overdue = self.result.as_ref().map(|_| progress_at + RECORD_PATIENCE);
            let wakeup = tokio::select! {
                // A renewal that waits comes before the end of the lease.
                biased;
                _ = cancelled.wait_for(|cancelled| *cancelled), if !is_stopped => {
                    Wakeup::Cancelled
                }
                Some(signal) = self.signals.recv() => Wakeup::Signal(signal),
                () = at(self.lease_until) => Wakeup::LeaseEnded,
                () = at(cancel_until) => Wakeup::CancelTimedOut,
                chunk = next_chunk(&mut chunks) => Wakeup::Chunk(chunk),
                () = tokio::time::sleep_until(follow_at), if is_waiting => Wakeup::FollowAgain,
                () = tokio::time::sleep_until(republish), if self.holder.is_none() => {
                    Wakeup::Republish
                }
                () = at(overdue) => Wakeup::RecordOverdue,
            };
            match wakeup {
                Wakeup::Signal(Signal::Claim(claim)) => {
                    if let Some(attempt) = self.on_claim(*claim).await {
                        return attempt;
                    }
                }
                Wakeup::Signal(Signal::Result(worker, result)) => {
                    let sender = Holder {
                        worker,
                        instance: result.instance.clone(),
                    };
                    if self.holder.as_ref() == Some(&sender) {
                        self.result = Some(*result);
                        progress_at = clock::now();
                    }
                }
                Wakeup::Chunk(Some(chunk)) => {
                    match self.on_chunk(&chunk).await {
                        true => progress_at = clock::now(),
                        false => chunks = None, // from the beginning: known events are skipped
                    }
                }
                Wakeup::Chunk(None) => chunks = None,
                Wakeup::FollowAgain => {}
                Wakeup::RecordOverdue => {
                    progress_at = clock::now();
                    self.gives_up_record = self.place.connection.is_connected();
                }
                Wakeup::LeaseEnded => {
                    self.lease_until = None;
                    self.is_lost = true;
                    self.placement.record.lose();
                }
                Wakeup::Republish => {
                    republish = clock::now() + REPUBLISH;
                    let _ = self.publish().await; // tried again later
                }
                Wakeup::Cancelled => {
                    is_stopped = true;
                    let Some(holder) = self.holder.clone() else {
                        return self.cancelled();
                    };
                    self.stop(&holder).await;
                    cancel_until = (!self.is_lost).then(|| clock::now() + CANCEL_GRACE);
                }
                Wakeup::CancelTimedOut => return self.cancelled(),
            }
        }
    }

    /// Answers a claim. Returns the end of the attempt if every worker declines it.
    async fn on_claim(&mut self, claim: PendingClaim) -> Option<Attempt> {
        let asking = Holder {
            worker: claim.worker.clone(),
            instance: claim.message.instance.clone(),
        };
        let is_known = claim.message.item == self.item;
        let decision = match &claim.message.action {
            _ if !is_known || self.is_lost => Decision::Over,
            ClaimAction::Decline { reason } => {
                self.declined.insert(claim.worker.clone(), reason.clone());
                Decision::Noted
            }
            ClaimAction::Start => self.grant(&asking),
            ClaimAction::Renew => match &self.holder {
                Some(holder) if *holder == asking => self.extend(),
                _ => Decision::Taken,
            },
        };
        self.place.router.answer(claim, decision).await;
        if decision != Decision::Noted || self.holder.is_some() {
            return None;
        }
        let alive = self.place.workers.alive();
        let mut suitable = alive
            .iter()
            .filter(|beat| !beat.draining && self.needs.are_met_by(&beat.offer))
            .peekable();
        // Without a heartbeat, others may be there. The worker is asked again soon.
        let is_hopeless = suitable.peek().is_some()
            && suitable.all(|beat| self.declined.contains_key(&beat.worker));
        is_hopeless.then(|| {
            let reasons = self.declined.iter();
            let reasons: Vec<String> = reasons
                .map(|(worker, reason)| format!("{worker}: {reason}"))
                .collect();
            self.errored(format!("no worker runs it ({})", reasons.join("; ")))
        })
    }

    /// Grants the attempt to a worker, unless another one has it.
    fn grant(&mut self, asking: &Holder) -> Decision {
        let is_free = self.holder.as_ref().is_none_or(|holder| holder == asking);
        // The ledger knows the worker before the worker may begin.
        if !is_free {
            return Decision::Taken;
        }
        if !self.placement.record.assign(&asking.name()) {
            return Decision::Over;
        }
        if self.holder.is_none() {
            (self.placement.hooks.on_phase)(Phase::Working);
        }
        self.holder = Some(asking.clone());
        self.extend()
    }

    fn extend(&mut self) -> Decision {
        let lease = self.place.options.lease;
        self.lease_until = Some(clock::now() + lease);
        Decision::Granted {
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        }
    }

    async fn follow_record(&mut self) -> Option<Chunks> {
        let subject = self.subject()?;
        match self.place.connection.follow_record(&subject.events()).await {
            Ok(chunks) => {
                let instance = &self.holder.as_ref()?.instance;
                self.mirror = Some(Mirror::new(
                    self.place.store.clone(),
                    subject.worker,
                    format!("{}/{instance}", self.item),
                    self.gaps.count >= MAX_GAPS,
                ));
                Some(Box::new(chunks))
            }
            Err(_) => None,
        }
    }

    fn subject(&self) -> Option<AttemptSubject> {
        Some(AttemptSubject {
            worker: self.holder.as_ref()?.worker.clone(),
            owner: self.place.options.name.clone(),
            run: self.place.options.run.clone(),
            attempt: self.attempt.clone(),
        })
    }

    /// Mirrors a chunk. Returns false if it does not follow what was received.
    async fn on_chunk(&mut self, chunk: &Chunk) -> bool {
        let Some(mirror) = &mut self.mirror else {
            return false;
        };
        match mirror.apply(chunk).await {
            Ok(Some(spent)) => {
                (self.placement.hooks.on_usage)(&spent.session, &spent.usage);
                true
            }
            Ok(None) => true,
            Err(Gap) => {
                let at = mirror.received();
                let count = match self.gaps.at == at {
                    true => self.gaps.count + 1,
                    false => 1,
                };
                self.gaps = Gaps { at, count };
                false
            }
        }
    }

    /// Asks the worker to stop the attempt.
    async fn stop(&self, holder: &Holder) {
        let message = ControlMessage {
            attempt: self.attempt.clone(),
            item: self.item.clone(),
            action: ControlAction::Stop,
        };
        let payload = serde_json::to_vec(&message).ok();
        let key = &self.place.options.key;
        let sealed = payload.and_then(|it| seal::seal(key, Purpose::Control, &it).ok());
        if let Some(sealed) = sealed {
            let subject = control(&holder.worker, &self.attempt);
            // Otherwise its next renewal is refused, or its lease ends.
            let _ = self.place.connection.publish(subject, sealed).await;
        }
    }

    fn now(&self) -> Timestamp {
        (self.place.now)()
    }

    fn errored(&self, message: String) -> Attempt {
        Attempt {
            result: unplaced(self.placement.request, self.now(), message),
            disposition: Disposition::Accept,
        }
    }

    fn lost(&self, message: String) -> Attempt {
        Attempt {
            disposition: Disposition::Lost,
            ..self.errored(message)
        }
    }

    fn cancelled(&self) -> Attempt {
        let mut attempt = self.errored("the run was cancelled".to_owned());
        attempt.result.verdict = Verdict::Skipped;
        attempt.result.blame = Some(Blame::Cancelled);
        attempt.disposition = Disposition::Cancel;
        attempt
    }
}

/// Returns the name of an attempt, unique within its run.
pub(super) fn attempt_token(request: &TrialRequest) -> Token {
    let key = request.key();
    let text = format!("{}\n{}\n{}", key.case, key.contender, key.repetition);
    Token::of_hash(&sha256(&text)).numbered(request.attempt)
}

/// Waits for the next chunk, if a record is followed.
async fn next_chunk(chunks: &mut Option<Chunks>) -> Option<Chunk> {
    match chunks {
        Some(chunks) => chunks.next().await,
        None => std::future::pending().await,
    }
}

/// Waits until a time, if there is one.
async fn at(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
