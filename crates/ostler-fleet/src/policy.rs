//! The worker's local policy: what it agrees to run, whoever asks.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use ostler_core::event::Timestamp;
use ostler_eval::case::{Isolation, Source};

use crate::item::{Attachment, Item, Offer, PROTOCOL, TrialWork, Work, WorkKind};

/// Limits that a worker sets for itself.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    /// Agents that may run; all of the worker's if there is no list.
    pub agents: Option<BTreeSet<String>>,
    /// Directories of this machine that an item may name as a repository.
    pub dirs: Vec<PathBuf>,
    /// Maximum cost per day in US dollars.
    pub budget_usd_per_day: Option<f64>,
    /// Whether agents may use the home directory of the worker's user, with its logins.
    pub allow_share_login: bool,
    /// Whether agents and commands of work run in the sandbox only.
    pub sandbox_only: bool,
}

/// Why an item is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// It is of another version.
    #[error("it is of version {0} of the protocol; this worker speaks version {PROTOCOL}")]
    Protocol(u32),
    /// It has expired.
    #[error("it expired at {0}")]
    Expired(Timestamp),
    /// It names another need than its class.
    #[error("it asks for {needed:?}, but runs {found:?}")]
    OtherAgent {
        /// The agent that it says it needs.
        needed: String,
        /// The agent that it would run.
        found: String,
    },
    /// The worker cannot run it.
    #[error("this worker does not have what it needs")]
    NotOffered,
    /// The agent is not allowed.
    #[error("the policy of this worker does not allow the agent {0:?}")]
    Agent(String),
    /// It asks for the user's logins.
    #[error("the policy of this worker does not allow its logins to be shared")]
    ShareLogin,
    /// Its commands would not be confined.
    #[error("the policy of this worker runs work in the sandbox only")]
    Unconfined,
    /// It reads a directory of this machine.
    #[error("the policy of this worker does not allow {}", .0.display())]
    Directory(PathBuf),
    /// It would run without a limit although the day has a budget.
    #[error("it names no budget, and the policy of this worker sets one per day")]
    NoBudget,
    /// The day's budget is used up.
    #[error("it may cost {asked} USD, and {left} USD are left of this worker's budget of today")]
    Budget {
        /// The item's limit.
        asked: f64,
        /// What is left.
        left: f64,
    },
}

impl Policy {
    /// Checks an item. Today's cost includes what attempts under way may still cost.
    ///
    /// # Errors
    /// Says why the worker does not run it.
    pub fn check(
        &self,
        item: &Item,
        offer: &Offer,
        committed_usd: f64,
        now: Timestamp,
    ) -> Result<(), PolicyError> {
        if item.protocol != PROTOCOL {
            return Err(PolicyError::Protocol(item.protocol));
        }
        if item.not_after <= now {
            return Err(PolicyError::Expired(item.not_after));
        }
        if !item.needs.are_met_by(offer) {
            return Err(PolicyError::NotOffered);
        }
        let agent = match &item.work {
            Work::Trial(trial) => &trial.contender.agent,
            Work::Session(session) => &session.agent,
        };
        if *agent != item.needs.agent {
            return Err(PolicyError::OtherAgent {
                needed: item.needs.agent.clone(),
                found: agent.clone(),
            });
        }
        if self.agents.as_ref().is_some_and(|all| !all.contains(agent)) {
            return Err(PolicyError::Agent(agent.clone()));
        }
        let (source, attachments, is_kind) = match &item.work {
            Work::Trial(trial) => {
                if trial.share_login && !self.allow_share_login {
                    return Err(PolicyError::ShareLogin);
                }
                if self.sandbox_only && trial.isolation == Some(Isolation::Directory) {
                    return Err(PolicyError::Unconfined);
                }
                let is_kind = item.needs.kind == WorkKind::Trial;
                (&trial.case.source, &trial.attachments, is_kind)
            }
            Work::Session(session) => {
                let is_kind = item.needs.kind == WorkKind::Session;
                (&session.source, &session.attachments, is_kind)
            }
        };
        if !is_kind {
            return Err(PolicyError::NotOffered);
        }
        if let Source::Repository { url, .. } = source {
            self.check_repository(url, attachments)?;
        }
        let Some(budget) = self.budget_usd_per_day else {
            return Ok(());
        };
        let asked = item.max_usd().ok_or(PolicyError::NoBudget)?;
        let left = (budget - committed_usd).max(0.0);
        match asked <= left {
            true => Ok(()),
            false => Err(PolicyError::Budget { asked, left }),
        }
    }

    /// Returns the isolation of a trial: one that asks for none is confined if it must be.
    pub(crate) fn isolation(&self, trial: &TrialWork) -> Option<Isolation> {
        let is_chosen = trial.isolation.is_none() && trial.case.mounts.is_none();
        match self.sandbox_only && is_chosen {
            true => Some(Isolation::Sandbox),
            false => trial.isolation,
        }
    }

    /// Checks that a repository is attached, on the network, or in an allowed directory.
    fn check_repository(&self, url: &str, attachments: &[Attachment]) -> Result<(), PolicyError> {
        let Some(path) = local_path(url) else {
            return Ok(());
        };
        let is_attached = attachments.iter().any(|it| it.path == path);
        let is_plain = !path.components().any(|part| part == Component::ParentDir);
        let is_allowed = is_plain && self.dirs.iter().any(|dir| path.starts_with(dir));
        match is_attached || is_allowed {
            true => Ok(()),
            false => Err(PolicyError::Directory(path.to_owned())),
        }
    }
}

/// Returns the path of a repository, or `None` for one on the network. Whoever opens the repository
/// uses this path instead of the URL: Git decodes `%2e` in a URL, and a check of the URL would not
/// see it.
pub(crate) fn local_path(url: &str) -> Option<&Path> {
    let is_remote = ["https://", "ssh://", "git@"]
        .iter()
        .any(|prefix| url.starts_with(prefix));
    (!is_remote).then(|| Path::new(url.strip_prefix("file://").unwrap_or(url)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_attached_on_the_network_or_in_an_allowed_directory() {
        let policy = Policy {
            dirs: vec!["/srv/repos".into()],
            ..Policy::default()
        };
        let attachments = [Attachment {
            path: "/owner/seed".into(),
            sha256: String::new(),
            bytes: 0,
        }];
        for (url, expected) in [
            ("https://host/x.git", true),
            ("ssh://host/x.git", true),
            ("git@host:x.git", true),
            ("/owner/seed", true),
            ("file:///owner/seed", true),
            ("/srv/repos", true),
            ("/srv/repos/x", true),
            ("file:///srv/repos/x", true),
            ("/srv/repos-of-others", false),
            ("/srv", false),
            ("/srv/repos/../secret", false),
            ("file:///srv/repos/../secret", false),
            ("/owner", false),
            ("/owner/seed/below", false),
            ("srv/repos/x", false),
            ("file://srv/repos/x", false),
            ("ext::sh -c id", false),
            ("http://host/x.git", false),
            ("", false),
        ] {
            let checked = policy.check_repository(url, &attachments);
            assert_eq!(checked.is_ok(), expected, "{url}: {checked:?}");
        }
    }

    #[test]
    fn a_trial_that_leaves_its_isolation_open_is_confined() {
        let trial = |isolation: Option<&str>| -> TrialWork {
            serde_json::from_value(serde_json::json!({
                "run": "run", "repetition": 1, "isolation": isolation, "share_login": false,
                "cap_usd": null, "attachments": [],
                "contender": {"label": "one", "agent": "one"},
                "case": {
                    "name": "case", "file": "/case", "source": "Empty", "prompt": "",
                    "description": null, "agent": null, "expected": null, "evaluators": [],
                    "pre_execution": [], "post_evaluation": [], "mounts": null, "exports": [],
                    "limits": {
                        "timeout": null, "max_turns": null, "max_budget_usd": null,
                        "max_tokens": null,
                    },
                    "workspace": {},
                },
            }))
            .unwrap()
        };
        let policy = |sandbox_only| Policy {
            sandbox_only,
            ..Policy::default()
        };
        assert_eq!(policy(false).isolation(&trial(None)), None);
        let confined = policy(true).isolation(&trial(None));
        assert_eq!(confined, Some(Isolation::Sandbox));
        let stricter = policy(true).isolation(&trial(Some("private-root")));
        assert_eq!(stricter, Some(Isolation::PrivateRoot));
    }

    #[test]
    fn a_repository_is_opened_by_the_path_that_was_checked() {
        assert_eq!(local_path("https://host/%2e%2e"), None);
        let encoded = local_path("file:///srv/repos/%2e%2e/secret").unwrap();
        assert_eq!(encoded, Path::new("/srv/repos/%2e%2e/secret"));
    }
}
