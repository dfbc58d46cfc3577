//! Webhooks: signed requests to the user's servers when a session needs attention.
//!
//! Deliveries are derived from the stored events, and exist in the store until they were made: a
//! receiver that is down, or a daemon that is killed, loses none. A delivery may be made twice; its
//! id is the same then.

mod address;
mod request;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ostler_core::event::Timestamp;
use ostler_store::{Delivery, DeliveryResult};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use self::request::Sender;
use crate::manager::Manager;
use crate::notify::Occasion;
use crate::problem::Problem;
use crate::token::Secret;

/// Time until the second attempt. It triples with every further one.
const FIRST_RETRY: Duration = Duration::from_secs(10);

/// Maximum time between two attempts.
const MAX_RETRY: Duration = Duration::from_secs(12 * 60 * 60);

/// Maximum number of attempts, in about a day.
const MAX_ATTEMPTS: u32 = 10;

/// Maximum number of requests to one webhook at the same time.
const PARALLEL: usize = 8;

/// Maximum size of a body. The event of a larger one is left out.
const MAX_BODY: usize = 1024 * 1024;

/// How long to wait after an error of the store.
const STORE_DELAY: Duration = Duration::from_secs(5);

/// How long the last deliveries may take when the daemon stops. The next one makes the rest.
const DRAIN: Duration = Duration::from_secs(5);

/// A webhook.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Its name.
    pub name: String,
    /// Where to send requests.
    pub url: String,
    /// The secret that signs them.
    pub secret: Secret,
    /// When to send them.
    pub occasions: Vec<Occasion>,
    /// Whether the address may be on a private network or on this machine.
    pub allow_private: bool,
    /// Time until the second attempt. It triples with every further one.
    pub first_retry: Duration,
}

impl Webhook {
    /// Creates a webhook for all occasions, with a public address.
    pub fn new(name: impl Into<String>, url: impl Into<String>, secret: Secret) -> Self {
        Self {
            name: name.into(),
            url: url.into(),
            secret,
            occasions: Occasion::ALL.to_vec(),
            allow_private: false,
            first_retry: FIRST_RETRY,
        }
    }
}

/// The error for a webhook that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("webhook {name}: {why}")]
pub struct WebhookError {
    /// The webhook.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// All webhooks of a daemon.
pub(crate) struct Webhooks(Vec<Arc<Target>>);

struct Target {
    webhook: Webhook,
    sender: Sender,
}

impl Webhooks {
    pub(crate) fn new(webhooks: Vec<Webhook>) -> Result<Self, WebhookError> {
        let targets = webhooks.into_iter().map(|webhook| {
            let sender = Sender::new(&webhook)?;
            Ok(Arc::new(Target { webhook, sender }))
        });
        targets.collect::<Result<_, _>>().map(Self)
    }

    /// Starts to deliver.
    pub(crate) async fn start(&self, manager: &Arc<Manager>) -> Result<Deliveries, Problem> {
        let names: Vec<String> = self.0.iter().map(|it| it.webhook.name.clone()).collect();
        manager
            .with_store(move |store| {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                store.set_webhooks(&names)
            })
            .await?;
        let tasks = self.0.iter().map(|target| {
            let (target, manager) = (target.clone(), manager.clone());
            tokio::spawn(async move { target.run(&manager).await })
        });
        Ok(Deliveries {
            tasks: tasks.collect(),
            targets: self.0.clone(),
        })
    }
}

/// Deliveries that are being made.
pub(crate) struct Deliveries {
    tasks: Vec<JoinHandle<()>>,
    targets: Vec<Arc<Target>>,
}

impl Deliveries {
    /// Makes what is due now, briefly, and stops.
    pub(crate) async fn stop(self, manager: &Manager) {
        for task in &self.tasks {
            task.abort();
        }
        let last =
            join_all(self.targets.iter().map(|target| async {
                while let Ok(Next::Now) = target.deliver(manager).await {}
            }));
        let _ = tokio::time::timeout(DRAIN, last).await;
    }
}

/// When to look for deliveries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Now,
    In(Duration),
    /// When another event is stored.
    Later,
}

impl Target {
    async fn run(&self, manager: &Manager) {
        let mut stored = manager.feed.subscribe_all();
        loop {
            stored.mark_unchanged(); // what is stored from here on ends the wait below
            let next = match self.deliver(manager).await {
                Ok(next) => next,
                Err(problem) => {
                    tracing::warn!(webhook = self.webhook.name, %problem, "deliveries delayed");
                    Next::In(STORE_DELAY)
                }
            };
            match next {
                Next::Now => {}
                Next::In(time) => drop(tokio::time::timeout(time, stored.changed()).await),
                Next::Later => {
                    if stored.changed().await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Makes the deliveries that are due.
    async fn deliver(&self, manager: &Manager) -> Result<Next, Problem> {
        let (name, now) = (self.webhook.name.clone(), manager.embedder.now());
        let occasions = self.webhook.occasions.clone();
        let (due, next) = manager
            .with_store(move |store| {
                let is_wanted = |kind: &str, json: &str| {
                    occasion(kind, json).is_some_and(|it| occasions.contains(&it))
                };
                while store.add_deliveries(&name, now, is_wanted)? {}
                store.due_deliveries(&name, now, PARALLEL)
            })
            .await?;
        if due.is_empty() {
            let left = |at: Timestamp| u64::try_from(at.0 - now.0).unwrap_or(0).max(1);
            return Ok(next.map_or(Next::Later, |at| Next::In(Duration::from_millis(left(at)))));
        }
        let attempts = due.iter().map(|delivery| self.attempt(manager, delivery));
        for result in join_all(attempts).await {
            result?;
        }
        Ok(Next::Now)
    }

    async fn attempt(&self, manager: &Manager, delivery: &Delivery) -> Result<(), Problem> {
        let result = match self.body(manager, delivery).await? {
            Some(body) => {
                let now = manager.embedder.now();
                let sent = self.sender.send(&delivery.id, now, body).await;
                manager.metrics.on_delivery(sent.is_ok());
                let webhook = self.webhook.name.as_str();
                match (sent, self.next_attempt(delivery)) {
                    (Ok(()), _) => DeliveryResult::Done,
                    (Err(error), None) => {
                        tracing::warn!(webhook, id = delivery.id, %error, "delivery given up");
                        DeliveryResult::Done
                    }
                    (Err(error), Some(delay)) => {
                        tracing::info!(webhook, id = delivery.id, %error, "delivery failed");
                        let delay = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
                        let now = manager.embedder.now();
                        DeliveryResult::Retry(Timestamp(now.0.saturating_add(delay)))
                    }
                }
            }
            None => DeliveryResult::Done,
        };
        let id = delivery.id.clone();
        manager
            .with_store(move |store| store.end_delivery(&id, result))
            .await
    }

    /// Returns the time until the next attempt; `None` if there were enough.
    fn next_attempt(&self, delivery: &Delivery) -> Option<Duration> {
        if delivery.attempts + 1 >= MAX_ATTEMPTS {
            return None;
        }
        let factor = 3_u32.saturating_pow(delivery.attempts);
        Some(
            self.webhook
                .first_retry
                .saturating_mul(factor)
                .min(MAX_RETRY),
        )
    }

    /// Returns the body of a delivery; `None` if there is nothing to report any more, because the
    /// request was answered or the session deleted.
    async fn body(
        &self,
        manager: &Manager,
        delivery: &Delivery,
    ) -> Result<Option<Vec<u8>>, Problem> {
        let event: Value = serde_json::from_str(&delivery.event).unwrap_or_default();
        let kind = event["type"].as_str().unwrap_or_default();
        let Some(occasion) = occasion(kind, &delivery.event) else {
            return Ok(None);
        };
        let session = delivery.session.clone();
        let request = event["id"].as_str().unwrap_or_default().to_owned();
        let (row, is_open) = manager
            .with_store(move |store| {
                let is_open = occasion != Occasion::NeedsApproval
                    || store.pending_approval(&session, &request)?.is_some();
                Ok((store.session(&session)?, is_open))
            })
            .await?;
        let Some(row) = row.filter(|_| is_open) else {
            return Ok(None);
        };
        let session = serde_json::to_value(crate::api::SessionView::from(row)).unwrap_or_default();
        Ok(Some(encoded(&delivery.id, occasion, &session, event)))
    }
}

/// Returns the body. The event is shortened if it is too large.
fn encoded(id: &str, occasion: Occasion, session: &Value, mut event: Value) -> Vec<u8> {
    let encode = |event: &Value| {
        let occasion = occasion.as_str();
        let body =
            json!({"delivery": id, "occasion": occasion, "session": session, "event": event});
        body.to_string().into_bytes()
    };
    let whole = encode(&event);
    if whole.len() <= MAX_BODY {
        return whole;
    }
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|name, _| {
            matches!(
                name.as_str(),
                "seq" | "at" | "session" | "turn" | "type" | "id" | "tool"
            )
        });
        fields.insert("truncated".to_owned(), true.into());
    }
    encode(&event)
}

/// Returns why an event matters, if it does.
fn occasion(kind: &str, json: &str) -> Option<Occasion> {
    match kind {
        "turn_ended" => Some(Occasion::TurnEnded),
        "ended" => Some(Occasion::SessionEnded),
        "permission" => {
            let event: Value = serde_json::from_str(json).ok()?;
            (event["decision"] == "asked").then_some(Occasion::NeedsApproval)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer_and_end_after_about_a_day() {
        let webhook = Webhook::new(
            "w",
            "https://example.org/",
            Secret::from_text("0123456789abcdef"),
        );
        let target = Target {
            sender: Sender::new(&webhook).unwrap(),
            webhook,
        };
        let mut delivery = Delivery {
            id: String::new(),
            session: String::new(),
            event: String::new(),
            attempts: 0,
        };
        let mut delays = Vec::new();
        while let Some(delay) = target.next_attempt(&delivery) {
            delays.push(delay.as_secs());
            delivery.attempts += 1;
        }
        assert_eq!(delays, [10, 30, 90, 270, 810, 2430, 7290, 21_870, 43_200]);
    }

    #[test]
    fn a_large_event_is_left_out() {
        let event = json!({"seq": 7, "type": "turn_ended", "text": "x".repeat(MAX_BODY)});
        let body = encoded("id", Occasion::TurnEnded, &json!({"id": "s"}), event);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            body["event"],
            json!({"seq": 7, "type": "turn_ended", "truncated": true})
        );
        assert_eq!(
            (&body["delivery"], &body["occasion"]),
            (&json!("id"), &json!("turn_ended"))
        );
    }
}
