//! An agent: something with a name that can be probed and started. The registry maps names to agents.

mod earlier;
mod mock;
mod model;
mod process;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::dialect::{Capabilities, Dialect, Setting};
use ostler_core::spec::{AfterTurn, Attendance, Sandbox, Spec, SpecError, keys};

use crate::host::{Host, RESERVED_PREFIX};
use crate::probe::Probed;
use crate::session::Session;
use crate::tool::offer;

pub use mock::MockAgent;
pub use model::ApiAgent;
pub use process::ProcessAgent;

/// Something that can be asked to do a task.
pub trait Agent: Send + Sync {
    /// Its name: what `--agent` takes.
    fn name(&self) -> &str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// Model names it is known to take; others may work too.
    fn models(&self) -> &[&'static str];

    /// The settings it takes.
    fn settings(&self) -> Vec<Setting>;

    /// Whether its answers are played from a file: nobody must take them for a model's.
    fn plays(&self) -> bool {
        false
    }

    /// Whether it is a program, and not a part of Ostler.
    fn is_program(&self) -> bool {
        false
    }

    /// Whether its program is there. Quick: nothing is started.
    fn is_found(&self, host: &Host) -> bool;

    /// The same, when this spec has it started: with a program of the caller's, for example.
    fn is_found_for(&self, host: &Host, _: &Spec) -> bool {
        self.is_found(host)
    }

    /// Whether it is ready to be started, and if not, what to do. This asks the agent itself and takes a moment.
    fn probe<'a>(&'a self, host: &'a Host) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>>;

    /// The same, for what this spec needs besides the agent itself: helper programs, for example. A wrong spec is not told
    /// apart here; [`Agent::start`] does that.
    fn probe_for<'a>(
        &'a self,
        host: &'a Host,
        _: &'a Spec,
    ) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>> {
        self.probe(host)
    }

    /// Starts a session with `spec.prompt` as its first message. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the spec is wrong; nothing is started then. An agent that cannot be started is not an error here: the
    /// session ends with cause `unavailable`, and its events say why.
    fn start(&self, host: &Host, spec: Spec) -> Result<Session, SpecError>;

    /// The language its output is written in.
    fn dialect(&self) -> &'static dyn Dialect;
}

/// Every agent this program knows, in the order in which they are tried when none is named.
#[derive(Clone)]
pub struct Agents(Vec<Arc<dyn Agent>>);

impl Default for Agents {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Agents {
    /// The agents that come with Ostler, in the order in which they are looked for. The scripted one needs nothing and is
    /// always there; the mock one is for whoever asks for it.
    #[must_use]
    pub fn builtin() -> Self {
        let programs = ostler_dialects::all()
            .iter()
            .filter(|dialect| dialect.probe().is_some());
        let mut all: Vec<Arc<dyn Agent>> = Vec::new();
        for dialect in programs {
            all.push(Arc::new(ProcessAgent::new(*dialect)));
        }
        all.push(Arc::new(ApiAgent::openai()));
        all.push(Arc::new(ApiAgent::scripted()));
        all.push(Arc::new(MockAgent::new()));
        Self(all)
    }

    /// Adds an agent, or replaces the one of the same name.
    pub fn add(&mut self, agent: Arc<dyn Agent>) {
        self.0.retain(|known| known.name() != agent.name());
        self.0.insert(0, agent);
    }

    /// Adds an agent behind all others: it is used by whoever names it.
    pub(crate) fn add_last(&mut self, agent: Arc<dyn Agent>) {
        self.0.push(agent);
    }

    /// The agent of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<dyn Agent>> {
        self.0.iter().find(|agent| agent.name() == name).cloned()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Agent>> {
        self.0.iter()
    }

    /// The agent to use when none is named: the first that is installed, configured and not known to lack a login. If only one
    /// is installed, it is not probed.
    pub async fn choose(&self, host: &Host) -> Option<Arc<dyn Agent>> {
        self.choose_for(host, |_| Spec::default()).await
    }

    /// The same, when each agent is started with a spec of its own.
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
            if agent.probe_for(host, spec).await.is_usable() {
                return Some(Arc::clone(agent));
            }
        }
        None
    }

    /// The agent that [`Agents::choose_for`] chooses, and why, for a caller that has probed every agent already.
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

    /// The agents that are installed or configured, each with its spec.
    fn found(
        &self,
        host: &Host,
        spec: impl Fn(&dyn Agent) -> Spec,
    ) -> Vec<(&Arc<dyn Agent>, Spec)> {
        let all = self.0.iter().map(|agent| (agent, spec(&**agent)));
        all.filter(|(agent, spec)| agent.is_found_for(host, spec))
            .collect()
    }
}

/// An agent that is used because none was named.
#[derive(Clone)]
pub struct Choice {
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// Why it is this one.
    pub reason: ChoiceReason,
}

/// Why an agent is used when none was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceReason {
    /// No other is installed.
    Only,
    /// It is the first, in Ostler's order, that can be used.
    First,
}

/// The only candidate, which is used without a probe. The agent of last resort is always found beside it.
fn only(found: &[(&Arc<dyn Agent>, Spec)]) -> Option<Choice> {
    let ([(only, _), _] | [(only, _)]) = found else {
        return None;
    };
    Some(Choice {
        agent: Arc::clone(only),
        reason: ChoiceReason::Only,
    })
}

fn check(spec: &Spec) -> Result<(), SpecError> {
    // A session that waits for messages can begin without one.
    if spec.prompt.trim().is_empty()
        && !(spec.prompt.is_empty() && spec.after_turn == AfterTurn::Wait)
    {
        return Err(SpecError::new(
            "prompt",
            &spec.prompt,
            "expected a message that is not empty",
        ));
    }
    for (name, value) in &spec.env {
        let why = if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            "expected a name without = and a value without NUL"
        } else if name.starts_with(RESERVED_PREFIX) {
            "names that start with OSTLER_ are Ostler's own"
        } else {
            continue;
        };
        return Err(SpecError::new("env", name, why)); // the value may be a secret and is not shown
    }
    Ok(())
}

/// For agents that are no process: there is nothing to put into a sandbox.
fn check_without_process(spec: &Spec) -> Result<(), SpecError> {
    check(spec)?;
    match spec.sandbox {
        Sandbox::Usual | Sandbox::Off => Ok(()),
        asked => Err(SpecError::new(
            "sandbox",
            asked.as_str(),
            "this agent has no process of its own; what it runs for its model is always in a sandbox (ostler sandbox --help)",
        )),
    }
}

/// What holds for every agent: its tools besides its own, who answers, its budget.
fn prepare(host: &Host, spec: &mut Spec) {
    if let Some(budget) = spec
        .settings
        .last(keys::MAX_BUDGET_USD)
        .and_then(|b| b.parse().ok())
    {
        spec.limits.budget_usd.get_or_insert(budget);
    }
    if host.permission_handler().is_some() {
        spec.attendance = Attendance::Attended;
    }
    for tool in host.tools() {
        spec.tools.retain(|known| known.name != tool.name());
        spec.tools.push(offer(&**tool));
    }
}

/// The directory of a spec, as a path that means the same everywhere.
fn directory(spec: &Spec) -> PathBuf {
    let dir = spec.dir.clone().unwrap_or_else(|| PathBuf::from("."));
    dir.canonicalize().unwrap_or(dir)
}

fn session_id() -> Arc<str> {
    uuid::Uuid::new_v4().to_string().into()
}
