//! Examination of items: signature, replay, policy. Refused items are named in heartbeats.

use std::sync::Arc;
use std::time::Duration;

use super::{MAX_REFUSED, SignedItem, Worker, locked};
use crate::item::{Item, MAX_ITEM_BYTES};
use crate::message::{ClaimAction, RefusedItem};
use crate::nats::ItemMessage;
use crate::policy::PolicyError;
use crate::seal::{self, Purpose, SealError};

/// When an item that this worker does not run is offered again.
const ELSEWHERE: Duration = Duration::from_secs(3);

impl Worker {
    /// Returns the item of a message if this worker may run it.
    pub(super) async fn examine(&self, message: &ItemMessage) -> Option<SignedItem> {
        let position = format!("#{}", message.sequence);
        let sealed = message.payload();
        if sealed.len() > MAX_ITEM_BYTES {
            self.refuse(position, "it is too large".to_owned());
            message.done().await;
            return None;
        }
        let (signer, payload) = match seal::open(sealed, Purpose::Item, &self.options.trusted) {
            Ok(opened) => opened,
            Err(error) => {
                self.refuse(position, error.to_string());
                match error {
                    // Another worker may trust this owner.
                    SealError::Untrusted(_) => message.hand_back(ELSEWHERE).await,
                    SealError::Unsigned | SealError::WrongSignature(_) => message.done().await,
                }
                return None;
            }
        };
        let Ok(item) = serde_json::from_slice::<Item>(payload) else {
            self.refuse(position, "it cannot be read".to_owned());
            message.hand_back(ELSEWHERE).await; // a newer worker may read it
            return None;
        };
        if locked(&self.running).contains_key(&item.id) {
            message.done().await; // it was delivered again, because a sign of progress was late
            return None;
        }
        if locked(&self.journal).has_run(&item.id) {
            self.refuse(item.id, "it is a replay: it has been run here".to_owned());
            message.done().await;
            return None;
        }
        let signed = SignedItem {
            item: Arc::new(item),
            signer: signer.into(),
        };
        self.check_policy(signed, message).await
    }

    async fn check_policy(&self, signed: SignedItem, message: &ItemMessage) -> Option<SignedItem> {
        let item = &signed.item;
        let now = self.host.now();
        let committed = locked(&self.journal).committed_usd(now);
        let policy = &self.options.policy;
        let Err(error) = policy.check(item, &self.options.offer, committed, now) else {
            return Some(signed);
        };
        let is_reserved = matches!(error, PolicyError::Budget { .. }) && {
            let spent = locked(&self.journal).spent_usd(now);
            policy.check(item, &self.options.offer, spent, now).is_ok()
        };
        if is_reserved {
            // Attempts under way may leave enough.
            message.hand_back(ELSEWHERE).await;
            return None;
        }
        let reason = error.to_string();
        self.refuse(item.id.clone(), reason.clone());
        if matches!(error, PolicyError::Expired(_)) {
            message.done().await;
            return None;
        }
        let _ = self.ask(&signed, ClaimAction::Decline { reason }).await; // the owner may be away
        message.hand_back(ELSEWHERE).await;
        None
    }

    /// Names an item in the heartbeats.
    pub(super) fn refuse(&self, item: String, reason: String) {
        tracing::warn!(item, reason, "item refused");
        let mut refused = locked(&self.refused);
        // An item that comes back is named once.
        refused.retain(|other| other.item != item);
        if refused.len() >= MAX_REFUSED {
            refused.pop_front();
        }
        refused.push_back(RefusedItem {
            item,
            reason,
            at: self.host.now(),
        });
    }
}
