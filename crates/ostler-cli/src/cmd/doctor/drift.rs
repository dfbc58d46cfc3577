//! How far an agent has moved on from what this release of Ostler was tested with: its version, and what it said that nobody knew.

use ostler::dialect::Version;
use ostler::event::At;
use ostler_store::{Store, UnknownMessages};
use serde::Serialize;

use crate::environment;

/// How far back is looked, in milliseconds: thirty days.
const RECENT: i64 = 30 * 24 * 60 * 60 * 1000;

/// How many kinds are shown to people.
const SHOWN: usize = 5;

/// A kind of message that Ostler does not know, as it is reported.
#[derive(Debug, Serialize)]
pub(super) struct Unknown {
    pub(super) kind: String,
    agent_version: Option<String>,
    count: u64,
    sessions: u64,
}

impl Unknown {
    /// For people.
    pub(super) fn words(&self) -> String {
        let Self {
            kind,
            agent_version,
            count,
            sessions,
        } = self;
        let times = if *count == 1 {
            "once".to_owned()
        } else {
            format!("{count} times")
        };
        let s = if *sessions == 1 { "" } else { "s" };
        let by = agent_version
            .as_ref()
            .map(|version| format!(", by {version}"))
            .unwrap_or_default();
        format!("{kind}: {times} in {sessions} session{s}{by}")
    }
}

/// What the sessions of the last thirty days met. No store, or one that cannot be read, has met nothing: that is not what a
/// doctor is asked about.
pub(super) fn unknown_messages() -> Vec<UnknownMessages> {
    let store = environment::state_dir().and_then(|dir| Store::open_to_read(&dir).ok());
    let since = At(environment::now().0 - RECENT);
    store
        .and_then(|store| store.unknown_messages(since).ok())
        .unwrap_or_default()
}

/// The part of it that is an agent's.
pub(super) fn of(agent: &str, unknown_messages: &[UnknownMessages]) -> Vec<Unknown> {
    let own = unknown_messages.iter().filter(|row| row.agent == agent);
    own.map(|row| Unknown {
        kind: row.kind.clone(),
        agent_version: row.agent_version.clone(),
        count: row.count,
        sessions: row.sessions,
    })
    .collect()
}

/// Whether a version is newer than the one that was tested.
pub(super) fn is_newer(version: Option<&str>, tested: Version) -> bool {
    version
        .and_then(Version::find)
        .is_some_and(|version| version > tested)
}

/// What is to be said about it all, for people.
pub(super) fn lines(newer_than: Option<&str>, unknown: &[Unknown]) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(tested) = newer_than {
        lines.push((
            "note",
            format!("newer than tested: this release of Ostler was tested with {tested}"),
        ));
    }
    lines.extend(unknown.iter().take(SHOWN).map(|it| ("unknown", it.words())));
    if unknown.len() > SHOWN {
        lines.push((
            "unknown",
            format!(
                "and {} more kinds (--json has them all)",
                unknown.len() - SHOWN
            ),
        ));
    }
    if !unknown.is_empty() {
        lines.push(("do", HINT.to_owned()));
    }
    lines
}

/// What to do about messages that are not known.
pub(super) const HINT: &str = "The agent says things that this release of Ostler does not know, perhaps because it is newer. They are \
    kept as notices (unknown_message) and nothing else is lost; a newer Ostler may understand them.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_is_compared_by_number() {
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
    fn few_lines_are_shown_and_the_rest_is_counted() {
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
            lines[6].1.starts_with("and 2 more") && lines[7] == ("do", HINT.to_owned()),
            "{lines:?}"
        );
        assert_eq!(super::lines(None, &[]), []);
    }
}
