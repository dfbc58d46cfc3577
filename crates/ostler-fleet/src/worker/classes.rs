//! Classes of work: what a worker can run, and its requests for items.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Worker;
use crate::clock;
use crate::nats::{ItemMessage, WorkClass};
use crate::subject::Token;

/// How long a request for work waits on the server.
const PULL_WAIT: Duration = Duration::from_secs(1);
/// How long the list of classes is used: an owner may have created another one.
const CLASSES_MAX_AGE: Duration = Duration::from_secs(5);
/// How long to wait if there is no class that this worker can run.
const NO_CLASS_PAUSE: Duration = Duration::from_millis(500);
/// The classes of work that a worker can run, and its requests for their items.
#[derive(Default)]
pub(super) struct Classes {
    all: Vec<WorkClass>,
    /// When they were listed.
    listed: Option<Instant>,
    /// One request per class at most: the oldest one gets the next item.
    pulls: FuturesUnordered<BoxFuture<'static, (Token, Option<ItemMessage>)>>,
    /// The classes of these requests.
    pulled: BTreeSet<Token>,
}

impl Classes {
    /// Asks for an item of each class, unless a request is under way.
    fn pull(&mut self) {
        for class in &self.all {
            let token = class.needs.class();
            if self.pulled.insert(token.clone()) {
                let class = class.clone();
                let pull = async move { (token, class.pull(PULL_WAIT).await.ok().flatten()) };
                self.pulls.push(pull.boxed());
            }
        }
    }

    /// Returns what the requests under way still bring to the queue.
    pub(super) fn hand_back(&mut self, tasks: &mut JoinSet<()>) {
        self.pulled.clear();
        let mut pulls = std::mem::take(&mut self.pulls);
        if pulls.is_empty() {
            return;
        }
        tasks.spawn(async move {
            while let Some((_, pulled)) = pulls.next().await {
                if let Some(item) = pulled {
                    item.hand_back(Duration::ZERO).await;
                }
            }
        });
    }
}

impl Worker {
    /// Waits for an item of any class that this worker can run; `None` after a while.
    pub(super) async fn next_item(&self, classes: &mut Classes) -> Option<ItemMessage> {
        let now = clock::now();
        let is_fresh = |listed: Instant| now.duration_since(listed) < CLASSES_MAX_AGE;
        if !classes.listed.is_some_and(is_fresh) {
            // Without an owner there is no queue yet.
            let mut all = self.connection.classes().await.unwrap_or_default();
            all.retain(|class| class.needs.are_met_by(&self.options.offer));
            classes.listed = (!all.is_empty()).then_some(now);
            classes.all = all;
        }
        if classes.all.is_empty() {
            tokio::time::sleep(NO_CLASS_PAUSE).await;
            return None;
        }
        classes.pull();
        while let Some((class, pulled)) = classes.pulls.next().await {
            classes.pulled.remove(&class);
            if pulled.is_some() {
                return pulled;
            }
        }
        classes.listed = None; // there may be another class by now
        None
    }
}
