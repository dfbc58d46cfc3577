//! One session at the owner: published, claimed, relayed in both directions, and ended.

mod end;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use ostler::event::{Event, EventKind, Level, Notice, NoticeCode};
use ostler::session::{Relay, RelayError, RelayedRequest, SessionRequest};
use ostler::{Cause, Outcome, Spec};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::prepare::PreparedItem;
use super::{FleetSessions, SessionOrder};
use crate::clock;
use crate::message::{
    ClaimAction, ControlAction, ControlMessage, Decision, Record, ResultMessage, SessionCall,
};
use crate::nats::Chunk;
use crate::owner::calls::Calls;
use crate::owner::record::{RecordError, RecordLines};
use crate::owner::router::{PendingClaim, Signal};
use crate::seal::{self, Purpose};
use crate::subject::{AttemptSubject, Token, control};

/// When an item is published again that no worker has taken: the server may have lost it.
const REPUBLISH: Duration = Duration::from_secs(150);
/// Time between two tries.
const RETRY: Duration = Duration::from_millis(500);
/// How often a record is read again from its beginning because of the same gap.
const MAX_GAPS: u32 = 5;
/// When a request is sent again whose reply is missing.
const RESEND: Duration = Duration::from_secs(1);
/// How long a request to stop may wait for those before it.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Part of the server's limit that is left to numbers which grow.
const MARGIN: usize = 1024;
/// How long a worker may take to kill a session.
const KILL_GRACE: Duration = Duration::from_secs(20);
/// How long the rest of a record may take once the result is there.
const REST_OF_RECORD: Duration = Duration::from_secs(10 * 60);

/// The chunks of a record.
type Chunks = Box<dyn Stream<Item = Chunk> + Send + Unpin>;

/// Who runs the session.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Holder {
    worker: Token,
    instance: String,
}

/// How the session ends here.
enum End {
    /// With the last event of its worker.
    Finished(Box<Event>),
    /// Without one.
    Lost(Box<Outcome>),
}

/// Gaps in the record, without progress between them.
#[derive(Debug, Clone, Copy, Default)]
struct Gaps {
    /// Where the record has the gap.
    at: u64,
    count: u32,
}

impl Gaps {
    /// Counts a gap. Returns true if the record was read often enough.
    fn add(&mut self, at: u64) -> bool {
        let count = match self.at == at {
            true => self.count + 1,
            false => 1,
        };
        *self = Self { at, count };
        count >= MAX_GAPS
    }
}

/// What woke the driver.
enum Wakeup {
    Signal(Signal),
    Chunk(Option<Chunk>),
    Request(RelayedRequest),
    LeaseEnded,
    Republish,
    Resend,
    CallExpired,
    StopOverdue,
    KillTimedOut,
}

/// Follows one session.
pub(super) struct SessionDriver {
    fleet: Arc<FleetSessions>,
    relay: Relay,
    attempt: Token,
    signals: mpsc::UnboundedReceiver<Signal>,
    calls: Calls,
    /// Whether an earlier process followed the session.
    is_rejoining: bool,
    holder: Option<Holder>,
    lease_until: Option<Instant>,
    stop_until: Option<Instant>,
    kill_until: Option<Instant>,
    /// Position of the published item in the queue.
    published: Option<u64>,
    /// Number of times that the item was published.
    copies: u32,
    declined: BTreeMap<Token, String>,
    lines: RecordLines,
    gaps: Gaps,
    /// The last event, until the changes are here too.
    held: Option<Box<Event>>,
    result: Option<ResultMessage>,
    /// Whether a caller has stopped the session.
    is_stopping: bool,
    /// Whether everything of the worker is here.
    is_delivered: bool,
    /// What went wrong at the end.
    warnings: Vec<String>,
}

impl SessionDriver {
    pub(super) fn new(fleet: Arc<FleetSessions>, relay: Relay, attempt: Token) -> Self {
        Self {
            signals: fleet.router.register(&attempt),
            fleet,
            relay,
            attempt,
            calls: Calls::new(),
            is_rejoining: false,
            holder: None,
            lease_until: None,
            stop_until: None,
            kill_until: None,
            published: None,
            copies: 0,
            declined: BTreeMap::new(),
            lines: RecordLines::default(),
            gaps: Gaps::default(),
            held: None,
            result: None,
            is_stopping: false,
            is_delivered: false,
            warnings: Vec::new(),
        }
    }

    /// Follows the session to its end.
    pub(super) async fn run(mut self, order: SessionOrder, spec: Spec) {
        let end = match self.prepare(order, &spec).await {
            Ok(item) => self.follow(Some(item)).await,
            Err(end) => end,
        };
        self.conclude(end).await;
    }

    /// Follows a session that an earlier process published. Its worker renews its lease, or has
    /// stored its result.
    pub(super) async fn run_again(mut self) {
        self.is_rejoining = true;
        self.lease_until = Some(clock::now() + self.fleet.options.lease);
        let end = self.follow(None).await;
        self.conclude(end).await;
    }

    async fn conclude(mut self, end: End) {
        self.fleet.router.forget(&self.attempt);
        if let (Some(sequence), None) = (self.published, &self.holder) {
            self.fleet.connection.remove_item(sequence).await;
        }
        let warnings = self.warnings.iter().map(|warning| {
            let notice = Notice::new(Level::Warning, NoticeCode::Worker, warning);
            EventKind::from(notice)
        });
        let mut before: Vec<EventKind> = warnings.collect();
        before.extend(self.calls.refusals());
        let ended = match end {
            End::Finished(event) => self.relay.finish(*event, before).await,
            End::Lost(outcome) => self.relay.end(&outcome, before).await,
        };
        if let Err(error) = ended {
            tracing::warn!(session = %self.attempt, %error, "the end of a session is not stored");
            return;
        }
        if let (true, Some(subject)) = (self.is_delivered, self.subject()) {
            let connection = &self.fleet.connection;
            connection
                .forget_attempt(&subject.events(), &subject.result())
                .await;
        }
    }

    /// Returns the subjects of the session, once a worker has it.
    fn subject(&self) -> Option<AttemptSubject> {
        Some(AttemptSubject {
            worker: self.holder.as_ref()?.worker.clone(),
            owner: self.fleet.options.name.clone(),
            run: self.fleet.options.run.clone(),
            attempt: self.attempt.clone(),
        })
    }

    /// Prepares the item of the session, unless it is stopped before.
    async fn prepare(&mut self, order: SessionOrder, spec: &Spec) -> Result<PreparedItem, End> {
        let fleet = self.fleet.clone();
        let attempt = self.attempt.clone();
        let preparing = fleet.prepare(order, spec, &attempt);
        let prepared = tokio::select! {
            prepared = preparing => prepared,
            () = self.until_stopped() => return Err(stopped()),
        };
        prepared.map_err(|error| lost(Outcome::new(Cause::Unavailable, error.to_string())))
    }

    async fn follow(&mut self, item: Option<PreparedItem>) -> End {
        let mut chunks: Option<Chunks> = None;
        let mut republish = clock::now();
        let mut resend = clock::now() + RESEND;
        loop {
            if let Some(end) = self.end().await {
                return end;
            }
            if chunks.is_none() && self.holder.is_some() {
                chunks = self.follow_record().await;
            }
            let wakeup = tokio::select! {
                biased; // a renewal that has arrived counts before the end of its lease
                Some(signal) = self.signals.recv() => Wakeup::Signal(signal),
                request = self.relay.next() => Wakeup::Request(request),
                chunk = next_chunk(&mut chunks) => Wakeup::Chunk(chunk),
                () = at(self.lease_until) => Wakeup::LeaseEnded,
                () = tokio::time::sleep_until(republish),
                    if self.holder.is_none() && item.is_some() => Wakeup::Republish,
                () = tokio::time::sleep_until(resend),
                    if self.holder.is_some() && !self.calls.is_empty() => Wakeup::Resend,
                () = at(self.calls.deadline()) => Wakeup::CallExpired,
                () = at(self.stop_until) => Wakeup::StopOverdue,
                () = at(self.kill_until) => Wakeup::KillTimedOut,
            };
            match wakeup {
                Wakeup::Signal(Signal::Claim(claim)) => {
                    if let Some(end) = self.on_claim(*claim, item.as_ref()).await {
                        return end;
                    }
                }
                Wakeup::Signal(Signal::Result(worker, result)) => self.on_result(worker, *result),
                Wakeup::Chunk(Some(chunk)) => match self.on_chunk(&chunk).await {
                    Ok(()) => {}
                    Err(RecordError::Gap) => {
                        if self.gaps.add(self.lines.received()) {
                            self.stop_worker().await;
                            let why = "A part of the session's record is missing on the server.";
                            return lost(Outcome::new(Cause::Protocol, why));
                        }
                        chunks = None; // from the beginning: known events are skipped
                        self.lines = RecordLines::default();
                        tokio::time::sleep(RETRY).await;
                    }
                    Err(error @ RecordError::Unreadable) => {
                        self.stop_worker().await;
                        return lost(Outcome::new(Cause::Protocol, error.to_string()));
                    }
                },
                Wakeup::Chunk(None) => {
                    chunks = None;
                    self.lines = RecordLines::default();
                    tokio::time::sleep(RETRY).await;
                }
                Wakeup::Request(request) => {
                    if let Some(end) = self.on_request(request).await {
                        return end;
                    }
                }
                Wakeup::LeaseEnded => return self.worker_lost(),
                Wakeup::Republish => {
                    let Some(item) = &item else { continue };
                    if item.not_after <= (self.fleet.now)() {
                        let why = "No worker has taken the session within a day.";
                        return lost(Outcome::new(Cause::Unavailable, why));
                    }
                    republish = self.publish(item).await;
                }
                Wakeup::Resend => {
                    resend = clock::now() + RESEND;
                    for call in self.calls.all((self.fleet.now)()) {
                        self.send(call).await;
                    }
                }
                Wakeup::CallExpired => self.calls.expire(),
                Wakeup::StopOverdue => {
                    // It waits for requests before it. The worker stops without them.
                    self.stop_until = self.calls.is_stopping().then(|| clock::now() + STOP_GRACE);
                    if self.stop_until.is_some() {
                        self.stop_worker().await;
                    }
                }
                Wakeup::KillTimedOut => {
                    self.stop_worker().await;
                    return stopped();
                }
            }
        }
    }

    /// Queues requests until one stops the session.
    async fn until_stopped(&mut self) {
        loop {
            let request = self.relay.next().await;
            match request.request {
                SessionRequest::Stop | SessionRequest::Kill => return,
                _ => self.queue(request),
            }
        }
    }

    /// Publishes the item, and removes the copy that was published before. Returns when to do it
    /// again.
    async fn publish(&mut self, item: &PreparedItem) -> Instant {
        let connection = &self.fleet.connection;
        if let Some(earlier) = self.published.take() {
            connection.remove_item(earlier).await;
        }
        let class = item.needs.class();
        // The server recognizes a message that is published twice, but not a later copy.
        let id = format!("{}/{}", item.id, self.copies);
        let published = match connection.create_class(&item.needs).await {
            Ok(()) => {
                connection
                    .publish_item(&class, &id, item.sealed.clone())
                    .await
            }
            Err(error) => Err(error),
        };
        match published {
            Ok(sequence) => {
                self.published = Some(sequence);
                self.copies += 1;
                clock::now() + REPUBLISH
            }
            // The server may be away for a while.
            Err(error) => {
                tracing::warn!(%error, "a session was not published");
                clock::now() + RETRY
            }
        }
    }

    /// Answers a claim. Returns the end of the session if every worker declines it.
    async fn on_claim(&mut self, claim: PendingClaim, item: Option<&PreparedItem>) -> Option<End> {
        let asking = Holder {
            worker: claim.worker.clone(),
            instance: claim.message.instance.clone(),
        };
        let is_free = self.holder.as_ref().is_none_or(|holder| *holder == asking);
        let decision = match &claim.message.action {
            _ if claim.message.item != self.fleet.item_id(&self.attempt) => Decision::Over,
            ClaimAction::Decline { reason } => {
                self.declined.insert(claim.worker.clone(), reason.clone());
                Decision::Noted
            }
            ClaimAction::Start if is_free => {
                self.holder = Some(asking);
                self.extend()
            }
            // An earlier process of this owner has granted it.
            ClaimAction::Renew if is_free && self.is_rejoining => {
                self.holder = Some(asking);
                self.extend()
            }
            ClaimAction::Renew if self.holder.as_ref() == Some(&asking) => self.extend(),
            ClaimAction::Start | ClaimAction::Renew => Decision::Taken,
        };
        self.fleet.router.answer(claim, decision).await;
        if decision != Decision::Noted || self.holder.is_some() {
            return None;
        }
        let needs = &item?.needs;
        let alive = self.fleet.workers.alive();
        let mut able = alive
            .iter()
            .filter(|beat| !beat.draining && needs.are_met_by(&beat.offer))
            .peekable();
        let is_hopeless =
            able.peek().is_some() && able.all(|beat| self.declined.contains_key(&beat.worker));
        is_hopeless.then(|| {
            let reasons = self.declined.iter();
            let reasons: Vec<String> = reasons
                .map(|(worker, reason)| format!("{worker}: {reason}"))
                .collect();
            let why = format!("No worker runs the session ({}).", reasons.join("; "));
            lost(Outcome::new(Cause::Unavailable, why))
        })
    }

    fn extend(&mut self) -> Decision {
        let lease = self.fleet.options.lease;
        self.lease_until = Some(clock::now() + lease);
        Decision::Granted {
            lease_ms: u64::try_from(lease.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn on_result(&mut self, worker: Token, result: ResultMessage) {
        let sender = Holder {
            worker,
            instance: result.instance.clone(),
        };
        if self.holder.is_none() && self.is_rejoining {
            self.holder = Some(sender.clone());
        }
        if self.holder.as_ref() == Some(&sender) {
            self.result = Some(result);
            // The server has everything; the worker renews no more.
            let patience = self.fleet.options.lease.max(REST_OF_RECORD);
            self.lease_until = Some(clock::now() + patience);
        }
    }

    async fn follow_record(&mut self) -> Option<Chunks> {
        let subject = self.subject()?;
        let followed = self.fleet.connection.follow_record(&subject.events()).await;
        match followed {
            Ok(chunks) => Some(Box::new(chunks)),
            Err(_) => {
                tokio::time::sleep(RETRY).await;
                None
            }
        }
    }

    /// Publishes the events of a chunk, and passes replies on.
    async fn on_chunk(&mut self, chunk: &Chunk) -> Result<(), RecordError> {
        let mut events = Vec::new();
        for record in self.lines.push(chunk)? {
            match record {
                Record::Event(text) => {
                    let event = Event::from_json(text.get());
                    let event = event.map_err(|_| RecordError::Unreadable)?;
                    match event.kind {
                        EventKind::Ended(_) => self.held = Some(Box::new(event)),
                        _ => events.push(event),
                    }
                }
                Record::Reply {
                    caller,
                    number,
                    reply,
                } => {
                    self.relay_events(std::mem::take(&mut events)).await?;
                    self.calls.on_reply(&caller, number, reply);
                }
                // The events have the usage too, and the daemon has opened the session.
                Record::Usage { .. } | Record::Opened(_) => {}
            }
        }
        self.relay_events(events).await
    }

    async fn relay_events(&mut self, events: Vec<Event>) -> Result<(), RecordError> {
        match self.relay.publish(events).await {
            Ok(()) => Ok(()),
            Err(RelayError::Log(error)) => {
                let why = format!("The session is not being stored: {error}");
                self.warnings.push(why);
                Ok(())
            }
            Err(RelayError::Gap { .. } | RelayError::OtherSession) => Err(RecordError::Unreadable),
        }
    }

    async fn on_request(&mut self, request: RelayedRequest) -> Option<End> {
        let ends = matches!(request.request, SessionRequest::Stop | SessionRequest::Kill);
        if ends && self.holder.is_none() {
            return Some(stopped());
        }
        self.is_stopping |= ends;
        match request.request {
            SessionRequest::Stop => {
                self.stop_until.get_or_insert(clock::now() + STOP_GRACE);
            }
            SessionRequest::Kill => {
                self.kill_until.get_or_insert(clock::now() + KILL_GRACE);
            }
            _ => {}
        }
        self.queue(request);
        if self.holder.is_some()
            && let Some(call) = self.calls.newest((self.fleet.now)())
        {
            self.send(call).await;
        }
        None
    }

    /// Queues a request. One that is too large for the server is refused: those after it would
    /// wait for it without end.
    fn queue(&mut self, request: RelayedRequest) {
        self.calls.push(request);
        let call = self.calls.newest((self.fleet.now)());
        let sealed = call.and_then(|call| self.seal(ControlAction::Session(call)));
        let most = self.fleet.connection.max_payload().saturating_sub(MARGIN);
        if sealed.is_none_or(|sealed| sealed.len() > most) {
            self.calls.refuse_newest(most);
        }
    }

    async fn send(&self, call: SessionCall) {
        self.control(ControlAction::Session(call)).await;
    }

    /// Tells the worker that the session is over.
    async fn stop_worker(&self) {
        self.control(ControlAction::Stop).await;
    }

    async fn control(&self, action: ControlAction) {
        let (Some(holder), Some(sealed)) = (&self.holder, self.seal(action)) else {
            return;
        };
        let subject = control(&holder.worker, &self.attempt);
        // It is sent again, or the next renewal is refused.
        let _ = self.fleet.connection.publish(subject, sealed).await;
    }

    /// Signs a control message.
    fn seal(&self, action: ControlAction) -> Option<Vec<u8>> {
        let message = ControlMessage {
            attempt: self.attempt.clone(),
            item: self.fleet.item_id(&self.attempt),
            action,
        };
        let payload = serde_json::to_vec(&message).ok();
        let key = &self.fleet.options.key;
        payload.and_then(|it| seal::seal(key, Purpose::Control, &it).ok())
    }
}

fn lost(outcome: Outcome) -> End {
    End::Lost(Box::new(outcome))
}

fn stopped() -> End {
    lost(Outcome::new(Cause::Stopped, "The session was stopped."))
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
