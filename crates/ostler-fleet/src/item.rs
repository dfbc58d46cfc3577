//! Work items: what a worker is asked to run, what it needs for that, and who asks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use ostler_core::event::Timestamp;
use ostler_eval::case::{Case, Contender, Isolation};
use ostler_eval::identity::sha256;
use serde::{Deserialize, Serialize};

pub use crate::attachment::Attachment;
use crate::session_work::SessionWork;
use crate::subject::{AttemptSubject, Token};

/// Maximum size of a sealed item, in bytes. The server's default limit of a message is 1 MiB.
pub const MAX_ITEM_BYTES: usize = 900 * 1024;

/// Version of the protocol. A worker refuses items of another one.
pub const PROTOCOL: u32 = 1;

/// What is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// A trial of an evaluation.
    Trial,
    /// A live session.
    Session,
}

/// What a worker must have to run an item. Items with equal needs form a class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Needs {
    /// What is run.
    pub kind: WorkKind,
    /// The agent's name in Ostler.
    pub agent: String,
    /// Version of the agent: all of it, or its first numbers such as `2.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Labels that the worker must have.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Isolation that the worker must provide; any if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// What a worker has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Offer {
    /// What it runs.
    pub kinds: BTreeSet<WorkKind>,
    /// Its agents, with their versions if known.
    pub agents: BTreeMap<String, Option<String>>,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeSet<String>,
    /// The tiers of isolation that hold on it.
    #[serde(default)]
    pub isolation: BTreeSet<Isolation>,
}

impl Needs {
    /// Returns the class: a hash of the needs, which is a token of a subject.
    #[must_use]
    pub fn class(&self) -> Token {
        let text = serde_json::to_string(self).unwrap_or_default();
        Token::of_hash(&sha256(&text))
    }

    /// Returns true if a worker has everything that is needed.
    #[must_use]
    pub fn are_met_by(&self, offer: &Offer) -> bool {
        self.missing_in(offer).is_empty()
    }

    /// Returns what a worker does not have.
    #[must_use]
    pub fn missing_in(&self, offer: &Offer) -> Vec<Missing> {
        let mut missing = Vec::new();
        if !offer.kinds.contains(&self.kind) {
            missing.push(Missing::Kind(self.kind));
        }
        match (&self.version, offer.agents.get(&self.agent)) {
            (_, None) => missing.push(Missing::Agent(self.agent.clone())),
            (Some(wanted), Some(found)) => {
                let found = found.as_deref();
                if !found.is_some_and(|found| is_version(found, wanted)) {
                    let (agent, wanted) = (self.agent.clone(), wanted.clone());
                    missing.push(Missing::Version(agent, wanted));
                }
            }
            (None, Some(_)) => {}
        }
        let labels = self.labels.difference(&offer.labels);
        missing.extend(labels.cloned().map(Missing::Label));
        let isolation = self.isolation;
        missing.extend(
            isolation
                .filter(|tier| !offer.isolation.contains(tier))
                .map(Missing::Isolation),
        );
        missing
    }
}

/// A need that a worker does not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// It does not run this kind of work.
    Kind(WorkKind),
    /// It does not have the agent.
    Agent(String),
    /// It has another version of the agent.
    Version(String, String),
    /// It does not have the label.
    Label(String),
    /// It does not provide the isolation.
    Isolation(Isolation),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(WorkKind::Trial) => f.write_str("runs no trials"),
            Self::Kind(WorkKind::Session) => f.write_str("runs no sessions"),
            Self::Agent(agent) => write!(f, "has no agent `{agent}`"),
            Self::Version(agent, version) => write!(f, "has no `{agent}` {version}"),
            Self::Label(label) => write!(f, "has no label `{label}`"),
            Self::Isolation(tier) => write!(f, "has no isolation `{}`", tier.as_str()),
        }
    }
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent `{}`", self.agent)?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        for label in &self.labels {
            write!(f, ", label `{label}`")?;
        }
        match self.isolation {
            Some(tier) => write!(f, ", isolation `{}`", tier.as_str()),
            None => Ok(()),
        }
    }
}

/// Returns true if a version is the wanted one, or starts with its numbers.
fn is_version(found: &str, wanted: &str) -> bool {
    found
        .strip_prefix(wanted)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+', ' ']))
}

/// A work item: the payload of a message that its owner sealed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// Version of the protocol.
    pub protocol: u32,
    /// Unique id. Publishing an attempt again keeps it.
    pub id: String,
    /// The owner.
    pub owner: Token,
    /// The owner's run.
    pub run: Token,
    /// The attempt, unique within the run.
    pub attempt: Token,
    /// Fence of the attempt.
    pub fence: u64,
    /// When it expires.
    pub not_after: Timestamp,
    /// What the worker must have.
    pub needs: Needs,
    /// What is run.
    pub work: Work,
}

/// What is run, without secrets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A trial of an evaluation.
    Trial(Box<TrialWork>),
    /// A live session.
    Session(Box<SessionWork>),
}

/// A trial. Paths in the case are those of the owner's machine; attachments bring what lies there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialWork {
    /// Name of the run.
    pub run: String,
    /// The case.
    pub case: Case,
    /// The agent.
    pub contender: Contender,
    /// The repetition, from 1.
    pub repetition: u32,
    /// What it may spend of the run's budget.
    pub cap_usd: Option<f64>,
    /// The requested isolation.
    pub isolation: Option<Isolation>,
    /// Whether the agent uses the home directory of the worker's user.
    pub share_login: bool,
    /// Files and directories of the owner's machine.
    pub attachments: Vec<Attachment>,
}

impl TrialWork {
    /// Returns what the trial may cost in US dollars, if it is limited.
    #[must_use]
    pub fn max_usd(&self) -> Option<f64> {
        let limits = [self.case.limits.max_budget_usd, self.cap_usd];
        limits.into_iter().flatten().reduce(f64::min)
    }
}

impl Item {
    /// Returns what the work may cost in US dollars, if it is limited.
    #[must_use]
    pub fn max_usd(&self) -> Option<f64> {
        match &self.work {
            Work::Trial(trial) => trial.max_usd(),
            Work::Session(session) => session.max_usd(),
        }
    }

    /// Returns the subjects of the attempt on a worker.
    #[must_use]
    pub fn subject(&self, worker: &Token) -> AttemptSubject {
        AttemptSubject {
            worker: worker.clone(),
            owner: self.owner.clone(),
            run: self.run.clone(),
            attempt: self.attempt.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs() -> Needs {
        Needs {
            kind: WorkKind::Trial,
            agent: "one".to_owned(),
            version: None,
            labels: BTreeSet::new(),
            isolation: None,
        }
    }

    fn offer() -> Offer {
        Offer {
            kinds: BTreeSet::from([WorkKind::Trial]),
            agents: BTreeMap::from([("one".to_owned(), Some("2.1.5".to_owned()))]),
            labels: BTreeSet::from(["gpu".to_owned()]),
            isolation: BTreeSet::from([Isolation::Directory]),
        }
    }

    #[test]
    fn a_worker_needs_the_agent_its_version_all_labels_and_the_isolation() {
        let met = |change: &dyn Fn(&mut Needs)| {
            let mut needs = needs();
            change(&mut needs);
            needs.are_met_by(&offer())
        };
        assert!(met(&|_| {}));
        assert!(!met(&|needs| needs.agent = "two".to_owned()));
        assert!(!met(&|needs| needs.kind = WorkKind::Session));
        for (version, expected) in [
            ("2.1.5", true),
            ("2.1", true),
            ("2", true),
            ("2.1.50", false),
        ] {
            assert_eq!(met(&|needs| needs.version = Some(version.into())), expected);
        }
        assert!(!met(&|needs| needs.version = Some("2.1.".into())));
        assert!(met(
            &|needs| needs.labels = BTreeSet::from(["gpu".to_owned()])
        ));
        let two = || BTreeSet::from(["gpu".to_owned(), "big".to_owned()]);
        assert!(!met(&|needs| needs.labels = two()));
        assert!(met(&|needs| needs.isolation = Some(Isolation::Directory)));
        assert!(!met(&|needs| needs.isolation = Some(Isolation::Sandbox)));
    }

    #[test]
    fn equal_needs_are_one_class() {
        let mut other = needs();
        assert_eq!(other.class(), needs().class());
        other.labels.insert("gpu".to_owned());
        assert_ne!(other.class(), needs().class());
        assert_eq!(other.class().as_str().len(), 16);
    }
}
