//! Messages between owners and workers, besides work items.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ostler_core::event::Timestamp;
use ostler_core::log::NewSession;
use ostler_core::request::{SessionReply, SessionRequest};
use ostler_core::usage::Usage;
use ostler_eval::run_trial::{Attempt, Disposition};
use ostler_eval::trial::TrialResult;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::item::Offer;
use crate::subject::Token;

/// A worker's request about an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimMessage {
    /// The attempt.
    pub attempt: Token,
    /// Id of its item.
    pub item: String,
    /// The worker's process: a restarted worker is another one.
    pub instance: String,
    /// Random text that the answer repeats, so that it cannot be replayed.
    pub nonce: String,
    /// What is asked for.
    pub action: ClaimAction,
}

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimAction {
    /// To run the attempt.
    Start,
    /// To continue it.
    Renew,
    /// Nothing: it does not run the attempt, and says why.
    Decline {
        /// The reason.
        reason: String,
    },
}

/// An owner's answer, sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimReply {
    /// The nonce of the request.
    pub nonce: String,
    /// The attempt.
    pub attempt: Token,
    /// The answer.
    pub decision: Decision,
}

/// Answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The worker may run the attempt, for this long without a renewal.
    Granted {
        /// Duration of the lease.
        lease_ms: u64,
    },
    /// Another worker, or an earlier process of this one, has the attempt.
    Taken,
    /// The attempt has ended, was lost or cancelled, or never existed.
    Over,
    /// The owner has noted that the worker declines.
    Noted,
}

/// An owner's request to a running attempt, sealed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ControlMessage {
    /// The attempt.
    pub attempt: Token,
    /// Id of its item: an old request does not concern a later attempt.
    pub item: String,
    /// What is asked for.
    pub action: ControlAction,
}

/// What an owner asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlAction {
    /// Stop the attempt, and send what there is.
    Stop,
    /// A request to a session. The reply is part of the attempt's record.
    Session(SessionCall),
}

/// A request to a session. It is sent until its reply is there, and carried out once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionCall {
    /// The owner's process, which numbers its requests from 1.
    pub caller: String,
    /// Number of the request. Requests are carried out in this order.
    pub number: u64,
    /// Number of the oldest request that the owner still wants; older ones are not waited for.
    pub oldest: u64,
    /// When it expires.
    pub not_after: Timestamp,
    /// What is asked for.
    pub request: SessionRequest,
}

/// A line of the spool of an attempt, which is published as it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A session was opened.
    Opened(OpenedSession),
    /// An event of a session, as Ostler writes it.
    Event(Box<RawValue>),
    /// Tokens and cost of the attempt so far.
    Usage {
        /// The session.
        session: String,
        /// Everything so far.
        usage: Box<Usage>,
    },
    /// The result of a request to the session.
    Reply {
        /// The owner's process.
        caller: String,
        /// Number of the request.
        number: u64,
        /// The result.
        reply: SessionReply,
    },
}

/// Label of a mirrored session with the attempt whose record may add events to it.
pub(crate) const ATTEMPT_LABEL: &str = "ostler.attempt";

/// A session of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedSession {
    session: String,
    agent: String,
    dir: PathBuf,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
}

impl From<&NewSession> for OpenedSession {
    fn from(new: &NewSession) -> Self {
        Self {
            session: new.session.clone(),
            agent: new.agent.clone(),
            dir: new.dir.clone(),
            at: new.at,
            labels: new.labels.clone(),
        }
    }
}

impl OpenedSession {
    /// Returns Ostler's id of the session.
    pub(crate) fn id(&self) -> &str {
        &self.session
    }

    /// Returns the session as the owner stores it, held by this process. Its labels name the worker
    /// and the attempt, whatever the worker says.
    pub(crate) fn into_new(self, worker: &Token, attempt: &str, pid: u32) -> NewSession {
        let mut labels = self.labels;
        labels.insert("ostler.worker".to_owned(), worker.to_string());
        labels.insert(ATTEMPT_LABEL.to_owned(), attempt.to_owned());
        NewSession {
            session: self.session,
            agent: self.agent,
            dir: self.dir,
            at: self.at,
            continues: None,
            labels,
            pid,
        }
    }
}

/// The end of an attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultMessage {
    /// The worker's process.
    pub instance: String,
    /// Length of the attempt's record in bytes: everything that the owner must have mirrored before
    /// it accepts the result.
    pub record_bytes: u64,
    /// How it ended.
    pub ending: Ending,
}

/// How an attempt ended on its worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It has a result.
    Finished {
        /// The result. Paths are those of the worker.
        result: Box<TrialResult>,
        /// What becomes of it.
        disposition: SentDisposition,
        /// Its artifacts; `None` if there are none, or they are too large.
        artifacts: Option<ArtifactReference>,
    },
    /// The session ended. Its last event is in the record, unless it could not be started.
    Session {
        /// Why it could not be started.
        failure: Option<String>,
        /// The changes as a bundle; `None` if there are none.
        bundle: Option<ArtifactReference>,
        /// What went wrong after the session.
        warnings: Vec<String>,
    },
    /// The worker gave it up.
    Abandoned {
        /// Why.
        reason: String,
    },
}

/// The archive of an attempt's artifacts in its worker's bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactReference {
    /// Name in the bucket.
    pub name: String,
    /// SHA-256 of the archive.
    pub sha256: String,
    /// Size of the archive in bytes.
    pub bytes: u64,
}

/// [`Disposition`] in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SentDisposition {
    /// It is the trial's result.
    Accept,
    /// The infrastructure failed.
    Retry {
        /// When it may work again.
        resets_at: Option<Timestamp>,
    },
    /// It was cancelled.
    Cancel,
}

impl SentDisposition {
    /// Returns the disposition of an attempt; `None` if it has no result.
    #[must_use]
    pub fn of(attempt: &Attempt) -> Option<Self> {
        Some(match attempt.disposition {
            Disposition::Accept => Self::Accept,
            Disposition::Retry(resets_at) => Self::Retry { resets_at },
            Disposition::Cancel => Self::Cancel,
            Disposition::Lost => return None,
        })
    }
}

impl From<SentDisposition> for Disposition {
    fn from(sent: SentDisposition) -> Self {
        match sent {
            SentDisposition::Accept => Self::Accept,
            SentDisposition::Retry { resets_at } => Self::Retry(resets_at),
            SentDisposition::Cancel => Self::Cancel,
        }
    }
}

/// What a worker announces of itself every few seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The worker.
    pub worker: Token,
    /// Its process.
    pub instance: String,
    /// Its version of Ostler.
    pub ostler: String,
    /// When.
    pub at: Timestamp,
    /// What it has.
    pub offer: Offer,
    /// State of its agents' logins, by agent.
    #[serde(default)]
    pub logins: BTreeMap<String, String>,
    /// Number of attempts that it runs at once.
    pub capacity: u32,
    /// Whether it takes no further work.
    pub draining: bool,
    /// Attempts under way.
    pub running: Vec<RunningAttempt>,
    /// Attempts that ended and are not delivered yet.
    pub undelivered: u32,
    /// Cost of today's attempts in US dollars.
    pub spent_today_usd: f64,
    /// The last items that it refused.
    pub refused: Vec<RefusedItem>,
}

/// An attempt under way on a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningAttempt {
    /// The owner.
    pub owner: Token,
    /// The owner's run.
    pub run: Token,
    /// The attempt.
    pub attempt: Token,
    /// The agent.
    pub agent: String,
    /// Since when.
    pub since: Timestamp,
}

/// An item that a worker refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedItem {
    /// Id of the item, or its position in the stream if it could not be read.
    pub item: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}
