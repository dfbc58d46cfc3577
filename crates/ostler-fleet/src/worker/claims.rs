//! Claims: the worker asks the owner for an attempt, and renews its lease while it works.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{SignedItem, Stop, StopReason, Worker};
use crate::clock;
use crate::message::{ClaimAction, ClaimMessage, ClaimReply, Decision};
use crate::nats::ItemMessage;
use crate::seal::{self, Purpose};
use crate::subject;

/// How long an owner may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// When an item is offered again whose owner does not answer.
const NO_OWNER: Duration = Duration::from_secs(2);
/// Longest time between two renewals.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Worker {
    /// Asks an owner; `None` if it does not answer. Only an answer to exactly this request counts,
    /// signed by the key that signed the item.
    pub(super) async fn ask(&self, signed: &SignedItem, action: ClaimAction) -> Option<Decision> {
        let item = &signed.item;
        let message = ClaimMessage {
            attempt: item.attempt.clone(),
            item: item.id.clone(),
            instance: self.instance.clone(),
            nonce: uuid::Uuid::new_v4().to_string(),
            action,
        };
        let payload = serde_json::to_vec(&message).ok()?;
        let subject = subject::claim(&item.owner, &item.run, &self.options.name);
        let reply = self.connection.request(subject, payload, ANSWER_TIMEOUT);
        let reply = reply.await?;
        let trusted = &self.options.trusted;
        let (author, payload) = seal::open(&reply, Purpose::Grant, trusted).ok()?;
        let reply: ClaimReply = serde_json::from_slice(payload).ok()?;
        let is_ours = *author == *signed.signer
            && reply.nonce == message.nonce
            && reply.attempt == message.attempt;
        is_ours.then_some(reply.decision)
    }

    /// Claims an attempt. Returns its lease, unless the owner refuses.
    pub(super) async fn claim(&self, signed: &SignedItem, message: &ItemMessage) -> Option<Lease> {
        let item = &signed.item;
        let asked = clock::now();
        match self.ask(signed, ClaimAction::Start).await {
            Some(Decision::Granted { lease_ms }) => return Some(Lease::new(asked, lease_ms)),
            Some(Decision::Taken) => {
                let reason = "its owner has given the attempt to a worker already";
                self.refuse(item.id.clone(), reason.to_owned());
                message.done().await;
            }
            Some(Decision::Over | Decision::Noted) => {
                let reason = "its owner says that the attempt is over";
                self.refuse(item.id.clone(), reason.to_owned());
                message.done().await;
            }
            None => message.hand_back(NO_OWNER).await,
        }
        None
    }

    /// Renews the lease until it ends, or the owner refuses. Then the agent is stopped.
    pub(super) async fn hold_lease(
        self: Arc<Self>,
        item: SignedItem,
        message: Arc<ItemMessage>,
        mut lease: Lease,
        stop: Stop,
    ) {
        loop {
            let pause = (lease.length / 4).min(LONGEST_PAUSE);
            tokio::time::sleep_until(lease.until.min(clock::now() + pause)).await;
            message.in_progress().await;
            let asked = clock::now();
            let answer = tokio::time::timeout_at(
                lease.until.max(asked + Duration::from_millis(200)),
                self.ask(&item, ClaimAction::Renew),
            );
            match answer.await.ok().flatten() {
                Some(Decision::Granted { lease_ms }) => lease = Lease::new(asked, lease_ms),
                Some(Decision::Taken | Decision::Over | Decision::Noted) => break,
                None if clock::now() >= lease.until => break,
                None => {}
            }
        }
        stop.stop(StopReason::Lease);
    }
}

/// A lease of an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    length: Duration,
    until: Instant,
}

impl Lease {
    /// A lease counts from the request: when the owner granted it is not known.
    fn new(asked: Instant, lease_ms: u64) -> Self {
        let length = Duration::from_millis(lease_ms);
        Self {
            length,
            until: asked + length,
        }
    }
}
