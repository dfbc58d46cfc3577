//! Subjects, streams and buckets: every name that the fleet uses on the server.
//!
//! The server grants permissions by these names. A worker's own name is a token of every subject
//! that it publishes on, so that the server can tie it to the worker's key.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Stream of work items, with work-queue retention.
pub const WORK_STREAM: &str = "OSTLER_WORK";
/// Stream of the events of attempts.
pub const EVENTS_STREAM: &str = "OSTLER_EVENTS";
/// Stream of the results of attempts.
pub const RESULTS_STREAM: &str = "OSTLER_RESULTS";
/// Object-store bucket of workspaces: owners write, workers read.
pub const WORKSPACES_BUCKET: &str = "ostler_workspaces";

/// Subjects of [`WORK_STREAM`].
pub const WORK_SUBJECTS: &str = "ostler.work.*";
/// Subjects of [`EVENTS_STREAM`].
pub const EVENTS_SUBJECTS: &str = "ostler.events.*.*.*.*";
/// Subjects of [`RESULTS_STREAM`].
pub const RESULTS_SUBJECTS: &str = "ostler.results.*.*.*.*";
/// Heartbeats of all workers.
pub const HEARTBEATS: &str = "ostler.heartbeat.*";

/// Maximum length of a name.
const MAX_NAME: usize = 64;

/// A name that is one token of a subject: 1 to 64 letters, digits, `-` or `_`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token(String);

impl Token {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a short name for a text: the first 16 digits of its hexadecimal hash.
    pub(crate) fn of_hash(hash: &str) -> Self {
        let plain = hash.chars().filter(char::is_ascii_hexdigit);
        Self(plain.take(16).collect())
    }

    /// Returns a name that no one else has.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string())
    }

    /// Returns a short name with a number.
    pub(crate) fn numbered(self, number: u64) -> Self {
        Self(format!("{}-{number}", self.0))
    }
}

/// A text that is not a [`Token`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a name in a fleet; use 1 to 64 letters, digits, `-` or `_`")]
pub struct InvalidToken(String);

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        Self::try_from(text.to_owned())
    }
}

impl TryFrom<String> for Token {
    type Error = InvalidToken;

    fn try_from(text: String) -> Result<Self, InvalidToken> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let fits = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_plain);
        match fits {
            true => Ok(Self(text)),
            false => Err(InvalidToken(text)),
        }
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.0
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the subject of the work items of a class.
#[must_use]
pub fn work(class: &Token) -> String {
    format!("ostler.work.{class}")
}

/// Returns the subject on which a worker asks for an attempt of a run, or to renew its lease.
#[must_use]
pub fn claim(owner: &Token, run: &Token, worker: &Token) -> String {
    format!("ostler.claim.{owner}.{run}.{worker}")
}

/// Returns the subjects of all claims to the attempts of a run.
#[must_use]
pub fn claims_to(owner: &Token, run: &Token) -> String {
    format!("ostler.claim.{owner}.{run}.*")
}

/// Returns the subjects of the results of all attempts of a run.
#[must_use]
pub fn results_to(owner: &Token, run: &Token) -> String {
    format!("ostler.results.*.{owner}.{run}.*")
}

/// Returns the subject on which a worker takes requests for a running attempt: send, interrupt,
/// answer, stop.
#[must_use]
pub fn control(worker: &Token, attempt: &Token) -> String {
    format!("ostler.control.{worker}.{attempt}")
}

/// Returns the subjects of all requests to a worker.
#[must_use]
pub fn controls_of(worker: &Token) -> String {
    format!("ostler.control.{worker}.*")
}

/// Returns the subject of a worker's heartbeats.
#[must_use]
pub fn heartbeat(worker: &Token) -> String {
    format!("ostler.heartbeat.{worker}")
}

/// Returns the bucket of a worker's artifacts: the worker writes, owners read.
#[must_use]
pub fn artifacts_bucket(worker: &Token) -> String {
    format!("artifacts_{worker}")
}

/// Returns the prefix of the inboxes of a member, which nobody else may subscribe to.
#[must_use]
pub fn inbox_prefix(member: &Token) -> String {
    format!("_INBOX_{member}")
}

/// Returns the durable consumer of a class of work items.
#[must_use]
pub fn class_consumer(class: &Token) -> String {
    format!("class_{class}")
}

/// The variable tokens of the subjects of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttemptSubject {
    /// The worker, as the server's permissions enforce it.
    pub worker: Token,
    /// The owner.
    pub owner: Token,
    /// The owner's run.
    pub run: Token,
    /// The attempt, unique within the run.
    pub attempt: Token,
}

impl AttemptSubject {
    /// Returns the subject of the attempt's events.
    #[must_use]
    pub fn events(&self) -> String {
        self.below("events")
    }

    /// Returns the subject of the attempt's result.
    #[must_use]
    pub fn result(&self) -> String {
        self.below("results")
    }

    fn below(&self, area: &str) -> String {
        let Self {
            worker,
            owner,
            run,
            attempt,
        } = self;
        format!("ostler.{area}.{worker}.{owner}.{run}.{attempt}")
    }

    /// Parses `ostler.events.…` and `ostler.results.…`.
    #[must_use]
    pub fn parse(subject: &str) -> Option<Self> {
        let mut tokens = subject.split('.');
        let is_known =
            tokens.next() == Some("ostler") && matches!(tokens.next()?, "events" | "results");
        let mut next = || tokens.next()?.parse().ok();
        let parsed = Self {
            worker: next()?,
            owner: next()?,
            run: next()?,
            attempt: next()?,
        };
        (is_known && tokens.next().is_none()).then_some(parsed)
    }
}

/// Returns the subjects of an attempt's events and results on any worker.
pub(crate) fn of_all_workers(owner: &Token, run: &Token, attempt: &Token) -> (String, String) {
    let below = |area: &str| format!("ostler.{area}.*.{owner}.{run}.{attempt}");
    (below("events"), below("results"))
}

/// Returns the last token of a subject: the worker of a claim or heartbeat, the attempt of a
/// request.
#[must_use]
pub fn last_token(subject: &str) -> Option<Token> {
    subject.rsplit('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_widen_a_subject() {
        for bad in ["", ".", "a.b", "*", ">", "a b", "a\n", "ä", &"x".repeat(65)] {
            assert!(bad.parse::<Token>().is_err(), "{bad:?}");
            let json = serde_json::to_string(bad).unwrap();
            assert!(serde_json::from_str::<Token>(&json).is_err(), "{bad:?}");
        }
        assert!("Worker-1_b".parse::<Token>().is_ok());
    }

    #[test]
    fn subjects_of_attempts_are_parsed_back() {
        let token = |text: &str| text.parse::<Token>().unwrap();
        let subject = AttemptSubject {
            worker: token("w"),
            owner: token("o"),
            run: token("20261118-1"),
            attempt: token("a-1"),
        };
        for text in [subject.events(), subject.result()] {
            assert_eq!(
                AttemptSubject::parse(&text),
                Some(subject.clone()),
                "{text}"
            );
        }
        for bad in [
            "ostler.events.w.o.r",
            "ostler.work.w.o.r.a",
            "ostler.events.w.o.r.a.b",
        ] {
            assert_eq!(AttemptSubject::parse(bad), None, "{bad}");
        }
        let claim = claim(&subject.owner, &subject.run, &subject.worker);
        assert_eq!(last_token(&claim), Some(subject.worker));
    }
}
