//! Drift of an agent from what this release was tested with: a newer version, and unknown messages.

use ostler::dialect::Version;
use ostler::event::Timestamp;
use ostler_store::{Store, UnknownMessages};
use serde::Serialize;

use crate::environment;
use crate::output::counted;

/// Period of sessions to search, in milliseconds: thirty days.
const RECENT: i64 = 30 * 24 * 60 * 60 * 1000;

/// Maximum number of message kinds shown to people.
const SHOWN: usize = 5;

/// A kind of unknown message, as reported.
#[derive(Debug, Serialize)]
pub(super) struct Unknown {
    pub(super) kind: String,
    agent_version: Option<String>,
    count: u64,
    sessions: u64,
}

impl Unknown {
    /// Formats it for people.
    pub(super) fn summary(&self) -> String {
        let times = match self.count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        let by = self.agent_version.as_ref();
        let by = by.map(|version| format!(", by {version}"));
        let (sessions, by) = (counted(self.sessions, "session"), by.unwrap_or_default());
        format!("{}: {times} in {sessions}{by}", self.kind)
    }
}

/// Returns the unknown messages of the last thirty days. A missing or unreadable store counts as
/// empty: it is not what `doctor` checks.
pub(super) fn unknown_messages() -> Vec<UnknownMessages> {
    let store = environment::state_dir().and_then(|dir| Store::open_to_read(&dir).ok());
    let since = Timestamp(environment::now().0 - RECENT);
    store
        .and_then(|store| store.unknown_messages(since).ok())
        .unwrap_or_default()
}

/// Returns the unknown messages of one agent.
pub(super) fn of(agent: &str, unknown_messages: &[UnknownMessages]) -> Vec<Unknown> {
    let rows = unknown_messages.iter().filter(|row| row.agent == agent);
    rows.map(|row| Unknown {
        kind: row.kind.clone(),
        agent_version: row.agent_version.clone(),
        count: row.count,
        sessions: row.sessions,
    })
    .collect()
}

/// Returns true if a version is newer than the tested one.
pub(super) fn is_newer(version: Option<&str>, tested: Version) -> bool {
    version
        .and_then(Version::find)
        .is_some_and(|version| version > tested)
}

/// Formats the drift for people, as labelled lines.
pub(super) fn lines(newer_than: Option<&str>, unknown: &[Unknown]) -> Vec<(&'static str, String)> {
    let newer = newer_than.map(|tested| {
        format!("newer than tested: this release of Ostler was tested with {tested}")
    });
    let more = unknown.len().saturating_sub(SHOWN);
    let more = (more > 0).then(|| format!("and {more} more kinds (`--json` lists all)"));
    let summaries = unknown.iter().take(SHOWN).map(Unknown::summary).chain(more);
    let mut lines: Vec<_> = newer.map(|newer| ("note", newer)).into_iter().collect();
    lines.extend(summaries.map(|summary| ("unknown", summary)));
    if !unknown.is_empty() {
        lines.push(("fix", HINT.to_owned()));
    }
    lines
}

/// Hint about unknown messages.
pub(super) const HINT: &str = "this release of Ostler does not understand some of the agent's \
    messages, perhaps because the agent is newer. They are stored as notices (unknown_message) and \
    nothing is lost; try a newer Ostler";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_numerically() {
        for (version, expected) in [
            ("2.1.326", true),
            ("2.1.325", false),
            ("2.1.99", false),
            ("10.0.0 (x)", true),
            ("?", false),
        ] {
            assert_eq!(
                is_newer(Some(version), Version(2, 1, 325)),
                expected,
                "{version}"
            );
        }
        assert!(!is_newer(None, Version(2, 1, 325)));
    }

    #[test]
    fn long_lists_are_cut_with_a_count() {
        let unknown = |n: u64| Unknown {
            kind: format!("type \"{n}\""),
            agent_version: None,
            count: n,
            sessions: 1,
        };
        let many: Vec<Unknown> = (1..=7).map(unknown).collect();
        let lines = lines(Some("1.2.3"), &many);
        assert!(lines[0].1.contains("1.2.3"));
        assert_eq!(
            (lines[1].1.as_str(), lines[2].1.as_str()),
            (
                "type \"1\": once in 1 session",
                "type \"2\": 2 times in 1 session"
            )
        );
        assert!(
            lines[6].1.starts_with("and 2 more") && lines[7] == ("fix", HINT.to_owned()),
            "{lines:?}"
        );
        assert_eq!(super::lines(None, &[]), []);
    }
}
