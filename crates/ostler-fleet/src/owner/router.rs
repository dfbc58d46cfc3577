//! Router: claims and results of workers, to the attempts of this process.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::OwnerOptions;
use crate::key::MemberKey;
use crate::message::{ClaimMessage, ClaimReply, Decision, ResultMessage};
use crate::nats::{Connection, FleetError, StoredResult, Subscription};
use crate::seal::{self, Purpose};
use crate::subject::{AttemptSubject, Token, claims_to, inbox_prefix, last_token, results_to};

/// Time between two tries to follow the results again.
const RETRY: Duration = Duration::from_millis(500);

/// A message for an attempt.
#[derive(Debug)]
pub(super) enum Signal {
    /// A worker asks.
    Claim(Box<PendingClaim>),
    /// A worker has stored a result.
    Result(Token, Box<ResultMessage>),
}

/// A claim that is to be answered.
#[derive(Debug)]
pub(super) struct PendingClaim {
    pub(super) worker: Token,
    pub(super) message: ClaimMessage,
    reply: String,
}

#[derive(Default)]
struct Routes {
    attempts: HashMap<Token, mpsc::UnboundedSender<Signal>>,
    /// Results that came before the attempts of earlier processes were adopted.
    results: HashMap<Token, Vec<(Token, ResultMessage)>>,
}

/// Returns true if a reply goes to the worker itself: its inbox, or a subject of the server's that
/// leads there from another account. This process may publish elsewhere, the worker may not.
fn is_inbox(worker: &Token, reply: &str) -> bool {
    let own = inbox_prefix(worker);
    let in_own = reply.strip_prefix(&own);
    in_own.is_some_and(|rest| rest.starts_with('.')) || reply.starts_with("_R_.")
}

/// The router.
pub(super) struct Router {
    connection: Connection,
    key: Arc<MemberKey>,
    routes: Mutex<Routes>,
    /// Whether every attempt of an earlier process is known.
    is_complete: AtomicBool,
}

impl Router {
    pub(super) async fn start(
        connection: &Connection,
        options: &OwnerOptions,
        tasks: &mut JoinSet<()>,
    ) -> Result<Arc<Self>, FleetError> {
        let router = Arc::new(Self {
            connection: connection.clone(),
            key: options.key.clone(),
            routes: Mutex::default(),
            is_complete: AtomicBool::new(false),
        });
        let claims = claims_to(&options.name, &options.run);
        let claims = connection.subscribe(claims).await?;
        tasks.spawn(router.clone().route_claims(claims));
        let results = results_to(&options.name, &options.run);
        tasks.spawn(router.clone().route_results(results));
        Ok(router)
    }

    /// Attempts that are not known from now on are over.
    pub(super) fn adopted(&self) {
        self.is_complete.store(true, Ordering::SeqCst);
        self.routes().results = HashMap::new();
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an attempt. Results that are known already come first.
    pub(super) fn register(&self, attempt: &Token) -> mpsc::UnboundedReceiver<Signal> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut routes = self.routes();
        for (worker, result) in routes.results.get(attempt).into_iter().flatten() {
            let _ = sender.send(Signal::Result(worker.clone(), Box::new(result.clone())));
        }
        routes.attempts.insert(attempt.clone(), sender);
        receiver
    }

    /// Forgets an attempt that has ended.
    pub(super) fn forget(&self, attempt: &Token) {
        let mut routes = self.routes();
        routes.attempts.remove(attempt);
        routes.results.remove(attempt);
    }

    async fn route_claims(self: Arc<Self>, mut claims: Subscription) {
        while let Some(incoming) = claims.next().await {
            let message = serde_json::from_slice::<ClaimMessage>(&incoming.payload).ok();
            // The last token is the worker, as the server's permissions enforce it.
            let worker = last_token(&incoming.subject);
            let (Some(message), Some(worker), Some(reply)) = (message, worker, incoming.reply)
            else {
                continue;
            };
            if !is_inbox(&worker, &reply) {
                tracing::warn!(%worker, reply, "a claim asks for an answer elsewhere");
                continue;
            }
            let claim = PendingClaim {
                worker,
                message,
                reply,
            };
            let route = self.routes().attempts.get(&claim.message.attempt).cloned();
            match route {
                Some(route) => {
                    let _ = route.send(Signal::Claim(Box::new(claim))); // it has just ended
                }
                // A worker must not stop because this process has only begun.
                None if !self.is_complete.load(Ordering::SeqCst) => {}
                None => self.answer(claim, Decision::Over).await,
            }
        }
    }

    async fn route_results(self: Arc<Self>, subject: String) {
        loop {
            // The whole stream is read again after a failure: known results change nothing.
            if let Ok(mut results) = self.connection.follow_results(&subject).await {
                while let Some(stored) = results.next().await {
                    self.route_result(&stored);
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    fn route_result(&self, stored: &StoredResult) {
        let Some(subject) = AttemptSubject::parse(&stored.subject) else {
            return;
        };
        let Ok(result) = serde_json::from_slice::<ResultMessage>(&stored.payload) else {
            tracing::warn!(subject = stored.subject, "a result cannot be read");
            return;
        };
        let mut routes = self.routes();
        if let Some(route) = routes.attempts.get(&subject.attempt) {
            let signal = Signal::Result(subject.worker.clone(), Box::new(result.clone()));
            let _ = route.send(signal); // it has just ended
        }
        if self.is_complete.load(Ordering::SeqCst) {
            return; // of an attempt that is over, or followed
        }
        let known = routes.results.entry(subject.attempt).or_default();
        let is_known = known
            .iter()
            .any(|(worker, it)| *worker == subject.worker && it.instance == result.instance);
        if !is_known {
            known.push((subject.worker, result));
        }
    }

    /// Answers a claim with the owner's signature.
    pub(super) async fn answer(&self, claim: PendingClaim, decision: Decision) {
        let reply = ClaimReply {
            nonce: claim.message.nonce,
            attempt: claim.message.attempt,
            decision,
        };
        let payload = serde_json::to_vec(&reply).ok();
        let sealed = payload.and_then(|it| seal::seal(&self.key, Purpose::Grant, &it).ok());
        if let Some(sealed) = sealed {
            // Without an answer, the worker asks again.
            let _ = self.connection.publish(claim.reply, sealed).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_go_only_to_the_worker_that_asks() {
        let worker = "w1".parse().unwrap();
        for (reply, expected) in [
            ("_INBOX_w1.abc.1", true),
            ("_R_.abc.def", true),
            ("_INBOX_w1", false),
            ("_INBOX_w10.abc", false),
            ("ostler.work.x", false),
            ("$JS.API.STREAM.PURGE.OSTLER_WORK", false),
        ] {
            assert_eq!(is_inbox(&worker, reply), expected, "{reply}");
        }
    }
}
