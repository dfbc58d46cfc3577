//! Status of a fleet: its workers as they announce themselves, and the server's queues.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::clock;
use crate::item::Needs;
use crate::message::Heartbeat;
use crate::nats::{Connection, FleetError, QueueState, StreamState, Subscription};
use crate::subject::{HEARTBEATS, Token, last_token};

/// How long a worker is shown after its last heartbeat.
const ALIVE: Duration = Duration::from_secs(15);

/// The state of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetStatus {
    /// Last heartbeats of the workers.
    pub workers: Vec<WorkerStatus>,
    /// The queues.
    pub queues: Vec<QueueStatus>,
    /// Records of attempts on the server.
    pub events: SentStatus,
    /// Results on the server.
    pub results: SentStatus,
    /// Attempts at once of all workers that take work.
    pub capacity: u64,
    /// Attempts under way.
    pub running: u64,
    /// Items that no worker has taken.
    pub queued: u64,
    /// Cost of today's attempts in US dollars.
    pub spent_today_usd: f64,
}

/// A worker, and how long ago it was heard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerStatus {
    /// Milliseconds since its last heartbeat.
    pub heard_ms_ago: u64,
    /// The heartbeat.
    #[serde(flatten)]
    pub heartbeat: Heartbeat,
}

/// A queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// What its items need.
    pub needs: Needs,
    /// Items that no worker has taken.
    pub queued: u64,
    /// Items that a worker has.
    pub taken: u64,
}

/// What workers have sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SentStatus {
    /// Messages on the server.
    pub messages: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Messages that owners have not read yet.
    pub lag: u64,
}

impl From<QueueState> for QueueStatus {
    fn from(state: QueueState) -> Self {
        Self {
            needs: state.needs,
            queued: state.queued,
            taken: state.taken,
        }
    }
}

impl From<StreamState> for SentStatus {
    fn from(state: StreamState) -> Self {
        Self {
            messages: state.messages,
            bytes: state.bytes,
            lag: state.lag,
        }
    }
}

/// Follows a fleet.
#[derive(Debug)]
pub struct StatusReader {
    connection: Connection,
    heartbeats: Subscription,
    known: BTreeMap<Token, (Instant, Heartbeat)>,
}

impl StatusReader {
    /// Begins to follow a fleet.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn new(connection: Connection) -> Result<Self, FleetError> {
        Ok(Self {
            heartbeats: connection.subscribe(HEARTBEATS.to_owned()).await?,
            connection,
            known: BTreeMap::new(),
        })
    }

    /// Listens to heartbeats for this long, and returns the state of the fleet.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn read(&mut self, listen: Duration) -> Result<FleetStatus, FleetError> {
        let until = clock::now() + listen;
        while let Ok(Some(incoming)) = tokio::time::timeout_at(until, self.heartbeats.next()).await
        {
            let beat = serde_json::from_slice::<Heartbeat>(&incoming.payload).ok();
            // The server ties the subject to the worker's key, not the payload.
            let sender = last_token(&incoming.subject);
            if let Some(beat) = beat.filter(|beat| Some(&beat.worker) == sender.as_ref()) {
                self.known.insert(beat.worker.clone(), (clock::now(), beat));
            }
        }
        let now = clock::now();
        let age = |seen: &Instant| now.duration_since(*seen);
        self.known.retain(|_, (seen, _)| age(seen) < ALIVE);
        let workers = self.known.values().map(|(seen, heartbeat)| WorkerStatus {
            heard_ms_ago: u64::try_from(age(seen).as_millis()).unwrap_or(u64::MAX),
            heartbeat: heartbeat.clone(),
        });
        let workers: Vec<WorkerStatus> = workers.collect();
        let queues = self.connection.queues().await?;
        let (events, results) = self.connection.sent().await?;
        Ok(summarize(workers, queues, events, results))
    }
}

fn summarize(
    workers: Vec<WorkerStatus>,
    queues: Vec<QueueState>,
    events: StreamState,
    results: StreamState,
) -> FleetStatus {
    let beats = || workers.iter().map(|worker| &worker.heartbeat);
    let takes_work = beats().filter(|beat| !beat.draining);
    let running = beats().map(|beat| beat.running.len());
    FleetStatus {
        capacity: takes_work.map(|beat| u64::from(beat.capacity)).sum(),
        running: u64::try_from(running.sum::<usize>()).unwrap_or(u64::MAX),
        queued: queues.iter().map(|queue| queue.queued).sum(),
        spent_today_usd: beats().fold(0.0, |sum, beat| sum + beat.spent_today_usd),
        queues: queues.into_iter().map(QueueStatus::from).collect(),
        events: events.into(),
        results: results.into(),
        workers,
    }
}

/// Requests of a member that the server refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerRefusal {
    /// The member; `unknown` if it is not one of the fleet any more.
    pub member: String,
    /// What it tried: `publish` or `subscribe`.
    pub action: &'static str,
    /// The subject.
    pub subject: String,
    /// How often.
    pub count: u64,
}

/// Returns what the server refused, from its log. Members are named by their public keys.
#[must_use]
pub fn refused_by_server(log: &str, members: &BTreeMap<String, Token>) -> Vec<ServerRefusal> {
    let mut counts: BTreeMap<(String, &'static str, String), u64> = BTreeMap::new();
    for line in log.lines() {
        let Some((action, subject)) = violation(line) else {
            continue;
        };
        // Where the key stands depends on the server's version.
        let member = members.iter().find(|(key, _)| line.contains(key.as_str()));
        let name = member.map_or("unknown", |(_, name)| name.as_str());
        let refusal = (name.to_owned(), action, subject.to_owned());
        *counts.entry(refusal).or_default() += 1;
    }
    let all = counts.into_iter();
    all.map(|((member, action, subject), count)| ServerRefusal {
        member,
        action,
        subject,
        count,
    })
    .collect()
}

/// Returns the action and the subject of a line about a refused request.
fn violation(line: &str) -> Option<(&'static str, &str)> {
    let actions = [
        ("publish", " - Publish Violation - "),
        ("subscribe", " - Subscription Violation - "),
    ];
    actions.into_iter().find_map(|(action, marker)| {
        let (_, rest) = line.split_once(marker)?;
        let (_, subject) = rest.split_once("Subject \"")?;
        Some((action, subject.split('"').next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_requests_are_counted_per_member_and_subject() {
        let start = "[7] 2026/11/18 15:17:55.610504 [ERR] 127.0.0.1:47558 - cid:10";
        let new = |what: &str, key: &str, subject: &str| {
            format!(
                "{start} - \"v0.51.0:rust\" - \"worker_w1/nkey:{key}\" - {what} Violation - \
                 Subject \"{subject}\", SID 1\n"
            )
        };
        let old = format!("{start} - Publish Violation - Nkey \"UA\", Subject \"ostler.work.x\"\n");
        let log = new("Publish", "UA", "ostler.work.x")
            + &old
            + &new("Subscription", "UB", "$O.>")
            + "[7] 2026/11/18 15:17:55.610504 [INF] Server is ready\n";
        let members = BTreeMap::from([("UA".to_owned(), "w1".parse().unwrap())]);
        let refused = refused_by_server(&log, &members);
        let shown: Vec<_> = refused
            .iter()
            .map(|it| (&it.member[..], it.action, &it.subject[..], it.count))
            .collect();
        assert_eq!(
            shown,
            [
                ("unknown", "subscribe", "$O.>", 1),
                ("w1", "publish", "ostler.work.x", 2)
            ]
        );
    }
}
