//! Findings about an agent, as reported.

use std::path::PathBuf;

use ostler::agent::Probed;
use ostler_store::UnknownMessages;
use serde::Serialize;

use super::drift::{self, Unknown};
use crate::spec::{ChosenAgent, docs_page};

/// State of an agent. The names are part of `doctor --json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    #[default]
    Ready,
    UnknownLogin,
    NotLoggedIn,
    TooOld,
    Broken,
    NotConfigured,
    Missing,
}

impl State {
    /// Returns the state for people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::UnknownLogin => "unknown login",
            Self::NotLoggedIn => "needs login",
            Self::TooOld => "too old",
            Self::Broken => "broken",
            Self::NotConfigured => "not configured",
            Self::Missing => "not installed",
        }
    }

    /// Returns true if a run can be tried.
    pub(super) fn is_usable(self) -> bool {
        matches!(self, Self::Ready | Self::UnknownLogin)
    }
}

/// Findings about one agent.
#[derive(Debug, Default, Serialize)]
pub(super) struct Finding {
    pub(super) agent: String,
    #[serde(rename = "status")]
    pub(super) state: State,
    pub(super) version: Option<String>,
    pub(super) minimum_version: Option<String>,
    /// The newest version that this release was tested with.
    pub(super) tested_version: Option<String>,
    pub(super) newer_than_tested: bool,
    pub(super) path: Option<String>,
    pub(super) login: Option<String>,
    pub(super) problem: Option<String>,
    pub(super) hint: Option<String>,
    /// True for a built-in agent that plays scripts.
    pub(super) built_in: bool,
    /// Known models of the agent.
    pub(super) models: Vec<&'static str>,
    /// Unknown messages in the sessions of the last thirty days.
    pub(super) unknown_messages: Vec<Unknown>,
    pub(super) unknown_hint: Option<&'static str>,
    /// Whether the agent is a program, which is unconfigured only if a file refers to something
    /// missing.
    #[serde(skip)]
    pub(super) is_program: bool,
    /// Documentation page of the agent.
    #[serde(skip)]
    pub(super) docs: String,
}

impl Finding {
    /// Combines the results of a probe and of the store.
    pub(super) fn new(
        subject: &ChosenAgent,
        probed: Probed,
        unknown_messages: &[UnknownMessages],
    ) -> Self {
        let about = subject.agent.about();
        let found = Self::of(&subject.name, probed);
        let tested = about.probe.and_then(|plan| plan.tested);
        let version = found.version.as_deref();
        let unknown_messages = drift::of(about.name, unknown_messages);
        Self {
            built_in: about.scripted,
            is_program: about.is_program(),
            models: about.models.to_vec(),
            docs: docs_page(&*subject.agent),
            minimum_version: about.probe.map(|plan| plan.minimum.to_string()),
            tested_version: tested.map(|tested| tested.to_string()),
            newer_than_tested: tested.is_some_and(|tested| drift::is_newer(version, tested)),
            unknown_hint: (!unknown_messages.is_empty()).then_some(drift::HINT),
            unknown_messages,
            ..found
        }
    }

    fn of(agent: &str, probed: Probed) -> Self {
        let mut f = Self {
            agent: agent.to_owned(),
            ..Self::default()
        };
        let shown = |path: &PathBuf| path.display().to_string();
        match probed {
            Probed::Ready {
                version,
                path,
                login,
            } => {
                (f.version, f.login) = (version, login);
                f.path = path.as_ref().map(shown);
            }
            Probed::LoginUnknown {
                path,
                version,
                hint,
            } => {
                f.state = State::UnknownLogin;
                (f.path, f.version, f.hint) = (Some(shown(&path)), Some(version), Some(hint));
            }
            Probed::Missing { hint, searched } => {
                let places: Vec<_> = searched.iter().map(shown).collect();
                f.state = State::Missing;
                f.problem = Some(if places.is_empty() {
                    "PATH is empty".into()
                } else {
                    format!("not found in {}", places.join(", "))
                });
                f.hint = Some(hint);
            }
            Probed::NotConfigured { hint } => {
                (f.state, f.hint) = (State::NotConfigured, Some(hint));
            }
            Probed::Broken { path, why, hint } => {
                f.state = State::Broken;
                (f.path, f.problem, f.hint) = (Some(shown(&path)), Some(why), Some(hint));
            }
            Probed::TooOld {
                path,
                version,
                need,
                hint,
            } => {
                f.state = State::TooOld;
                f.problem = Some(format!(
                    "version {version} is too old; {need} or newer is required"
                ));
                (f.path, f.version, f.hint) = (Some(shown(&path)), Some(version), Some(hint));
            }
            Probed::NotLoggedIn {
                path,
                version,
                hint,
            } => {
                f.state = State::NotLoggedIn;
                f.problem = Some("not logged in: a login or an API key is required".into());
                f.version = Some(version).filter(|version| !version.is_empty());
                (f.path, f.hint) = (Some(shown(&path)), Some(hint));
            }
        }
        f
    }
}
