//! Findings about an agent, as reported.

use ostler::Probed;
use ostler_store::UnknownMessages;
use serde::Serialize;

use super::drift::{self, Unknown};
use crate::spec::{ChosenAgent, docs_page};

/// State of an agent. The names are part of `doctor --json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
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
#[derive(Debug, Serialize)]
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
        let agent = &*subject.agent;
        let mut finding = Self::of(&subject.name, probed);
        let plan = agent.dialect().probe();
        finding.built_in = agent.plays();
        finding.is_program = agent.is_program();
        finding.models = agent.models().to_vec();
        finding.docs = docs_page(agent);
        finding.minimum_version = plan.map(|plan| plan.minimum.to_string());
        let tested = plan.and_then(|plan| plan.tested);
        finding.tested_version = tested.map(|tested| tested.to_string());
        finding.newer_than_tested =
            tested.is_some_and(|tested| drift::is_newer(finding.version.as_deref(), tested));
        finding.unknown_messages = drift::of(agent.name(), unknown_messages);
        finding.unknown_hint = (!finding.unknown_messages.is_empty()).then_some(drift::HINT);
        finding
    }

    fn of(agent: &str, probed: Probed) -> Self {
        let mut f = Self {
            agent: agent.to_owned(),
            state: State::Ready,
            version: None,
            minimum_version: None,
            tested_version: None,
            newer_than_tested: false,
            path: None,
            login: None,
            problem: None,
            hint: None,
            built_in: false,
            models: Vec::new(),
            unknown_messages: Vec::new(),
            unknown_hint: None,
            is_program: false,
            docs: String::new(),
        };
        match probed {
            Probed::Ready {
                version,
                path,
                login,
            } => {
                (f.version, f.login) = (version, login);
                f.path = path.map(|p| p.display().to_string());
            }
            Probed::LoginUnknown {
                path,
                version,
                hint,
            } => {
                f.state = State::UnknownLogin;
                (f.path, f.version, f.hint) =
                    (Some(path.display().to_string()), Some(version), Some(hint));
            }
            Probed::Missing { hint, searched } => {
                let places: Vec<_> = searched.iter().map(|p| p.display().to_string()).collect();
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
                (f.path, f.problem, f.hint) =
                    (Some(path.display().to_string()), Some(why), Some(hint));
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
                (f.path, f.version, f.hint) =
                    (Some(path.display().to_string()), Some(version), Some(hint));
            }
            Probed::NotLoggedIn {
                path,
                version,
                hint,
            } => {
                f.state = State::NotLoggedIn;
                f.problem = Some("not logged in: a login or an API key is required".into());
                f.version = Some(version).filter(|version| !version.is_empty());
                (f.path, f.hint) = (Some(path.display().to_string()), Some(hint));
            }
        }
        f
    }
}
