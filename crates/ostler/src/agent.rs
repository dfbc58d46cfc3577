//! Agents, which can be probed and started, and the registry that maps names to them.
//!
//! ```
//! use ostler::agent::Probed;
//! use ostler::{Agents, Host, Spec};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let host = Host::new(std::env::vars_os());
//! for agent in Agents::builtin().iter() {
//!     match agent.probe(&host, &Spec::default()).await {
//!         Probed::Ready { version, .. } => println!("{}: {version:?}", agent.about().name),
//!         missing => println!("{}: {missing:?}", agent.about().name),
//!     }
//! #   break;
//! }
//! # });
//! ```

mod api;
mod mock;
mod previous_session;
mod process;

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use ostler_core::dialect::{About, Dialect};
use ostler_core::spec::{AfterTurn, Attendance, Sandbox, Spec, SpecError, check_labels, is_uuid};

use crate::host::{Host, RESERVED_PREFIX};
use crate::session::Session;
use crate::tools::offer;

pub use api::ApiAgent;
pub use mock::MockAgent;
pub use process::ProcessAgent;

pub use crate::breaker::{BreakerState, Breakers};
pub use crate::probe::Probed;
pub use ostler_dialects as dialects;

/// A coding agent that can be started.
pub trait Agent: Send + Sync {
    /// Returns the dialect of its output.
    fn dialect(&self) -> &'static dyn Dialect;

    /// Returns the static facts about the agent: its name, capabilities, models and settings.
    fn about(&self) -> About {
        self.dialect().about()
    }

    /// Returns true if the agent is installed or configured, with the program that the spec names,
    /// if it names one. Fast: nothing is started.
    fn is_found(&self, host: &Host, spec: &Spec) -> bool;

    /// Checks whether the agent is ready to be started, including what the spec needs besides it,
    /// such as helper programs. This runs the agent's program and takes a moment. An invalid spec
    /// is only detected by [`Agent::start`].
    fn probe<'a>(&'a self, host: &'a Host, spec: &'a Spec) -> ProbeFuture<'a>;

    /// Starts a session with `spec.prompt` as its first message. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// If the spec is invalid; nothing is started then. An agent that cannot be started is not an
    /// error here: the session ends with cause `unavailable`, and its events have the reason.
    fn start(&self, host: &Host, spec: Spec) -> Result<Session, SpecError>;

    /// Follows a session again that runs elsewhere and that an earlier process followed. The spec
    /// has its id. `None` if sessions of this agent end with their process. May block.
    ///
    /// # Errors
    /// If its events cannot be read.
    fn rejoin(&self, host: &Host, spec: &Spec) -> Option<Result<Session, SpecError>> {
        let _ = (host, spec);
        None
    }

    /// Returns the circuit breaker that a session with this host and spec has, or `None` if it has
    /// none.
    fn breaker(&self, host: &Host, spec: &Spec) -> Option<BreakerState> {
        let _ = (host, spec);
        None
    }

    /// Returns where the agent's login is stored, as a file or directory. Sessions with the same
    /// login must not refresh it at the same time. `None` if it has no login.
    fn login(&self, host: &Host, spec: &Spec) -> Option<PathBuf> {
        let _ = (host, spec);
        None
    }
}

/// A future that resolves to the result of a probe.
pub type ProbeFuture<'a> = BoxFuture<'a, Probed>;

/// The known agents, in the order in which they are tried when none is named.
#[derive(Clone)]
pub struct Agents(Vec<Arc<dyn Agent>>);

impl Default for Agents {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Agents {
    /// Returns the agents that come with Ostler, in order of preference. The scripted agent needs
    /// nothing and is always available; the mock agent is only used when it is named.
    ///
    /// A program that uses one agent is smaller and starts faster if it creates that agent alone:
    /// see [`ProcessAgent`].
    #[must_use]
    pub fn builtin() -> Self {
        let programs = ostler_dialects::all()
            .iter()
            .filter(|dialect| dialect.about().is_program());
        let mut all: Vec<Arc<dyn Agent>> = Vec::new();
        for dialect in programs {
            all.push(Arc::new(ProcessAgent::new(*dialect)));
        }
        all.push(Arc::new(ApiAgent::openai()));
        all.push(Arc::new(ApiAgent::scripted()));
        all.push(Arc::new(MockAgent::new()));
        Self(all)
    }

    /// Adds an agent in front of all others, replacing any with the same name.
    pub fn add(&mut self, agent: Arc<dyn Agent>) {
        self.0
            .retain(|known| known.about().name != agent.about().name);
        self.0.insert(0, agent);
    }

    /// Adds an agent after all others, so that it is only used when it is named.
    pub(crate) fn add_last(&mut self, agent: Arc<dyn Agent>) {
        self.0.push(agent);
    }

    /// Returns the agent with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.0
            .iter()
            .find(|agent| agent.about().name == name)
            .cloned()
    }

    /// Iterates over all agents.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Agent>> {
        self.0.iter()
    }

    /// Chooses the agent to use when none is named: the first that is installed, configured and not
    /// known to lack a login. If only one is installed, it is not probed.
    pub async fn choose(&self, host: &Host) -> Option<Arc<dyn Agent>> {
        self.choose_for(host, |_| Spec::default()).await
    }

    /// Like [`Agents::choose`], with a separate spec for each agent.
    pub async fn choose_for(
        &self,
        host: &Host,
        spec: impl Fn(&dyn Agent) -> Spec,
    ) -> Option<Arc<dyn Agent>> {
        let found = self.found(host, spec);
        if let Some(only) = only(&found) {
            return Some(only.agent);
        }
        for (agent, spec) in &found {
            if agent.probe(host, spec).await.is_usable() {
                return Some(Arc::clone(agent));
            }
        }
        None
    }

    /// Returns the agent that [`Agents::choose_for`] would choose, and why, for a caller that has
    /// already probed every agent.
    pub fn choose_probed(
        &self,
        host: &Host,
        spec: impl Fn(&dyn Agent) -> Spec,
        is_usable: impl Fn(&dyn Agent) -> bool,
    ) -> Option<Choice> {
        let found = self.found(host, spec);
        let first = || found.iter().find(|(agent, _)| is_usable(&***agent));
        only(&found).or_else(|| {
            first().map(|(agent, _)| Choice {
                agent: Arc::clone(agent),
                reason: ChoiceReason::First,
            })
        })
    }

    /// Returns the agents that are installed or configured, each with its spec.
    fn found(
        &self,
        host: &Host,
        spec: impl Fn(&dyn Agent) -> Spec,
    ) -> Vec<(&Arc<dyn Agent>, Spec)> {
        let all = self.0.iter().map(|agent| (agent, spec(&**agent)));
        all.filter(|(agent, spec)| agent.is_found(host, spec))
            .collect()
    }
}

/// An agent chosen because none was named.
#[derive(Clone)]
pub struct Choice {
    /// The chosen agent.
    pub agent: Arc<dyn Agent>,
    /// The reason for the choice.
    pub reason: ChoiceReason,
}

/// The reason why an agent was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceReason {
    /// No other agent is installed.
    Only,
    /// It is the first usable agent in Ostler's order.
    First,
}

/// Returns the only candidate, which is used without a probe. The scripted agent, always present,
/// does not count.
fn only(found: &[(&Arc<dyn Agent>, Spec)]) -> Option<Choice> {
    let ([(only, _), _] | [(only, _)]) = found else {
        return None;
    };
    Some(Choice {
        agent: Arc::clone(only),
        reason: ChoiceReason::Only,
    })
}

fn check(spec: &Spec, about: &About) -> Result<(), SpecError> {
    let approves = !spec.approved_calls.is_empty();
    if approves && !(about.capabilities.resumes_from_events && spec.resume.is_some()) {
        let why = "only a resumed session of a model with Ostler's tools has calls to approve";
        return Err(SpecError::secret("approved calls", why.to_owned()));
    }
    // A session that waits for messages can start without one.
    if spec.prompt.trim().is_empty()
        && !approves
        && !(spec.prompt.is_empty() && spec.after_turn == AfterTurn::Wait)
    {
        return Err(SpecError::new(
            "prompt",
            &spec.prompt,
            "expected a non-empty message",
        ));
    }
    for (name, value) in &spec.env {
        let why = if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            "expected a name without `=` and a value without NUL"
        } else if name.starts_with(RESERVED_PREFIX) {
            "names that start with OSTLER_ are reserved"
        } else {
            continue;
        };
        return Err(SpecError::new("env", name, why)); // the value may be secret
    }
    if let Some(id) = &spec.id
        && !is_uuid(id)
    {
        return Err(SpecError::new("id", id, "expected a UUID"));
    }
    check_labels(&spec.labels)
}

/// Checks the spec of an agent without a process, which cannot be sandboxed as a whole.
fn check_without_process(spec: &Spec, about: &About) -> Result<(), SpecError> {
    check(spec, about)?;
    match spec.sandbox {
        Sandbox::Usual | Sandbox::Off => Ok(()),
        mode => {
            let why = "this agent has no separate process; \
                       the commands it runs are always sandboxed (ostler sandbox --help)";
            Err(SpecError::new("sandbox", mode.as_str(), why))
        }
    }
}

/// Completes the spec with what every agent needs: the host's tools, attendance and budget.
fn prepare(host: &Host, spec: &mut Spec) {
    spec.limits.budget_usd = spec.limits.budget_usd.or(spec.max_budget_usd);
    if host.permission_handler().is_some() {
        spec.attendance = Attendance::Attended;
    }
    for tool in host.tools() {
        spec.bound_tools.retain(|known| known.name != tool.name());
        spec.bound_tools.push(offer(&**tool));
    }
}

/// Returns the working directory of a spec as a canonical path.
fn directory(spec: &Spec) -> PathBuf {
    let dir = spec.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    dir.canonicalize().unwrap_or(dir)
}

/// Returns the session id that the caller chose, or a random one.
fn session_id(spec: &Spec) -> Arc<str> {
    let random = || uuid::Uuid::new_v4().to_string();
    spec.id.clone().unwrap_or_else(random).into()
}
