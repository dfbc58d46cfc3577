//! Workers as the owner knows them: their heartbeats, and the capacity of those alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock;
use crate::item::{Missing, Needs};
use crate::message::Heartbeat;
use crate::nats::{Connection, FleetError, Subscription};
use crate::subject::{HEARTBEATS, Token, last_token};

/// How long a worker counts as alive after a heartbeat.
const ALIVE: Duration = Duration::from_secs(15);

/// How long a need may be unmet before it is reported: heartbeats take a while to come.
const SHORTAGE_AFTER: Duration = Duration::from_secs(6);
/// Number of workers that a shortage names.
const MAX_NAMED: usize = 5;

/// The workers.
#[derive(Debug, Default)]
pub(super) struct Workers {
    known: Mutex<BTreeMap<Token, (Instant, Heartbeat)>>,
    /// What the run needs; nothing is known about it if this is empty.
    needs: Mutex<Vec<Needs>>,
    capacity: watch::Sender<u32>,
    shortage: watch::Sender<Option<String>>,
}

impl Workers {
    /// Follows heartbeats.
    pub(super) async fn follow(
        connection: &Connection,
        tasks: &mut JoinSet<()>,
    ) -> Result<Arc<Self>, FleetError> {
        let workers = Arc::new(Self::default());
        let heartbeats = connection.subscribe(HEARTBEATS.to_owned()).await?;
        tasks.spawn(workers.clone().listen(heartbeats));
        Ok(workers)
    }

    /// Counts only workers that meet one of these needs.
    pub(super) fn expect(&self, needs: Vec<Needs>) {
        *self.needs() = needs;
        self.publish_capacity();
    }

    /// Returns the number of attempts that suitable workers run at once.
    pub(super) fn capacity(&self) -> watch::Receiver<u32> {
        self.capacity.subscribe()
    }

    /// Returns which needs no worker meets, once that has lasted for a while.
    pub(super) fn shortage(&self) -> watch::Receiver<Option<String>> {
        self.shortage.subscribe()
    }

    async fn listen(self: Arc<Self>, mut heartbeats: Subscription) {
        let mut short_since: Option<Instant> = None;
        loop {
            tokio::select! {
                next = heartbeats.next() => {
                    let Some(incoming) = next else { return };
                    let beat = serde_json::from_slice::<Heartbeat>(&incoming.payload).ok();
                    // The server ties the subject to the worker's key, not the payload.
                    let sender = last_token(&incoming.subject);
                    if let Some(beat) = beat.filter(|beat| Some(&beat.worker) == sender.as_ref()) {
                        let name = beat.worker.clone();
                        self.known().insert(name, (clock::now(), beat));
                    }
                }
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            self.publish_capacity();
            let shortage = shortage(&self.needs(), &self.alive());
            let now = clock::now();
            let since = *short_since.get_or_insert(now);
            if shortage.is_none() {
                short_since = None;
            }
            let shortage = shortage.filter(|_| now.duration_since(since) >= SHORTAGE_AFTER);
            self.shortage
                .send_if_modified(|current| replace(current, shortage));
        }
    }

    fn publish_capacity(&self) {
        let total = capacity(&self.needs(), &self.alive());
        self.capacity
            .send_if_modified(|current| replace(current, total));
    }

    fn needs(&self) -> MutexGuard<'_, Vec<Needs>> {
        self.needs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Token, (Instant, Heartbeat)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last heartbeats of the workers that are alive.
    pub(super) fn alive(&self) -> Vec<Heartbeat> {
        let now = clock::now();
        let mut known = self.known();
        known.retain(|_, (seen, _)| now.duration_since(*seen) < ALIVE);
        known.values().map(|(_, beat)| beat.clone()).collect()
    }
}

/// Replaces a value. Returns true if it was another one.
fn replace<T: PartialEq>(current: &mut T, new: T) -> bool {
    let is_other = *current != new;
    *current = new;
    is_other
}

/// Returns how many attempts the workers run at once that meet one of the needs.
fn capacity(needs: &[Needs], alive: &[Heartbeat]) -> u32 {
    let is_suitable = |beat: &Heartbeat| {
        let mut needs_met = needs.iter().map(|needs| needs.are_met_by(&beat.offer));
        !beat.draining && (needs.is_empty() || needs_met.any(|is_met| is_met))
    };
    let suitable = alive.iter().filter(|beat| is_suitable(beat));
    suitable.fold(0, |sum, beat| sum.saturating_add(beat.capacity))
}

/// Returns which needs no worker meets, and what each worker lacks.
fn shortage(needs: &[Needs], alive: &[Heartbeat]) -> Option<String> {
    let workers: Vec<&Heartbeat> = alive.iter().filter(|beat| !beat.draining).collect();
    let is_met = |needs: &&Needs| workers.iter().any(|it| needs.are_met_by(&it.offer));
    let unmet: Vec<String> = needs
        .iter()
        .filter(|needs| !is_met(needs))
        .map(|needs| {
            let lacking = workers.iter().take(MAX_NAMED).map(|beat| {
                let missing = needs.missing_in(&beat.offer);
                let missing: Vec<String> = missing.iter().map(Missing::to_string).collect();
                format!("{} {}", beat.worker, missing.join(" and "))
            });
            let lacking: Vec<String> = lacking.collect();
            let more = workers.len().saturating_sub(MAX_NAMED);
            match (lacking.is_empty(), more) {
                (true, _) => format!("no worker is there for {needs}"),
                (_, 0) => format!("no worker has {needs} ({})", lacking.join("; ")),
                (..) => format!(
                    "no worker has {needs} ({}; and {more} more)",
                    lacking.join("; ")
                ),
            }
        })
        .collect();
    (!unmet.is_empty()).then(|| unmet.join(". "))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use ostler_core::event::Timestamp;

    use super::*;
    use crate::item::{Offer, WorkKind};

    fn beat(worker: &str, agent: &str, labels: &[&str]) -> Heartbeat {
        Heartbeat {
            worker: worker.parse().unwrap(),
            instance: String::new(),
            ostler: String::new(),
            at: Timestamp(0),
            offer: Offer {
                kinds: BTreeSet::from([WorkKind::Trial]),
                agents: BTreeMap::from([(agent.to_owned(), None)]),
                labels: labels.iter().map(|&label| label.to_owned()).collect(),
                isolation: BTreeSet::new(),
            },
            capacity: 4,
            draining: false,
            running: Vec::new(),
            logins: BTreeMap::new(),
            undelivered: 0,
            spent_today_usd: 0.0,
            refused: Vec::new(),
        }
    }

    fn needs(agent: &str, labels: &[&str]) -> Needs {
        Needs {
            kind: WorkKind::Trial,
            agent: agent.to_owned(),
            version: None,
            labels: labels.iter().map(|&label| label.to_owned()).collect(),
            isolation: None,
        }
    }

    #[test]
    fn only_suitable_workers_count() {
        let alive = [beat("w1", "claude", &[]), beat("w2", "codex", &["gpu"])];
        assert_eq!(capacity(&[], &alive), 8);
        assert_eq!(capacity(&[needs("claude", &[])], &alive), 4);
        assert_eq!(capacity(&[needs("claude", &["gpu"])], &alive), 0);
        let both = [needs("claude", &[]), needs("codex", &["gpu"])];
        assert_eq!(capacity(&both, &alive), 8);
        let draining = Heartbeat {
            draining: true,
            ..beat("w1", "claude", &[])
        };
        assert_eq!(capacity(&[], &[draining]), 0);
    }

    #[test]
    fn a_shortage_names_what_each_worker_lacks() {
        let alive = [beat("w1", "claude", &[]), beat("w2", "codex", &["gpu"])];
        assert_eq!(shortage(&[needs("claude", &[])], &alive), None);
        let why = shortage(&[needs("claude", &["gpu"])], &alive).unwrap();
        assert_eq!(
            why,
            "no worker has agent `claude`, label `gpu` \
             (w1 has no label `gpu`; w2 has no agent `claude`)"
        );
        let why = shortage(&[needs("claude", &[])], &[]).unwrap();
        assert_eq!(why, "no worker is there for agent `claude`");
    }
}
