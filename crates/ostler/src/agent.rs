//! An agent: something with a name that can be probed and started. The registry maps names to agents.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use ostler_core::dialect::{Capabilities, Dialect, Setting};
use ostler_core::spec::{Spec, SpecError, keys};

use crate::host::{Found, Host, RESERVED_PREFIX};
use crate::probe::{self, Probed};
use crate::process::Prepared;
use crate::scripted::{self, Script};
use crate::session::{Beginning, Body, Session};

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

    /// Whether its program is there. Quick: nothing is started.
    fn is_found(&self, host: &Host) -> bool;

    /// Whether it is ready to be started, and if not, what to do. This asks the agent itself and takes a moment.
    fn probe<'a>(&'a self, host: &'a Host) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>>;

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
    /// The agents that come with Ostler. The scripted one is last: it needs nothing and is always there.
    #[must_use]
    pub fn builtin() -> Self {
        Self(ostler_dialects::all().iter().map(|dialect| builtin(*dialect)).collect())
    }

    /// Adds an agent, or replaces the one of the same name.
    pub fn add(&mut self, agent: Arc<dyn Agent>) {
        self.0.retain(|known| known.name() != agent.name());
        self.0.insert(0, agent);
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

    /// The agent to use when none is named: the first whose program is there and, if several are, the first that is
    /// ready.
    pub async fn choose(&self, host: &Host) -> Option<Arc<dyn Agent>> {
        let found: Vec<_> = self.0.iter().filter(|agent| agent.is_found(host)).collect();
        // The agent of last resort is always found; beside it, one candidate needs no questions.
        if let [only, _] | [only] = found[..] {
            return Some(only.clone());
        }
        for agent in &found {
            if matches!(agent.probe(host).await, Probed::Ready { .. }) {
                return Some((*agent).clone());
            }
        }
        None
    }
}

fn builtin(dialect: &'static dyn Dialect) -> Arc<dyn Agent> {
    match dialect.probe() {
        Some(_) => Arc::new(ProcessAgent(dialect)),
        None => Arc::new(ScriptedAgent { dialect, script: None }),
    }
}

fn check(spec: &Spec) -> Result<(), SpecError> {
    if spec.prompt.trim().is_empty() {
        return Err(SpecError::new("prompt", &spec.prompt, "expected a message that is not empty"));
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

fn session_id() -> Arc<str> {
    uuid::Uuid::new_v4().to_string().into()
}

/// An agent that is a program: any dialect, over a child process.
pub struct ProcessAgent(&'static dyn Dialect);

impl ProcessAgent {
    /// An agent that speaks `dialect`.
    #[must_use]
    pub fn new(dialect: &'static dyn Dialect) -> Self {
        Self(dialect)
    }
}

impl Agent for ProcessAgent {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn models(&self) -> &[&'static str] {
        self.0.models()
    }

    fn settings(&self) -> Vec<Setting> {
        self.0.settings()
    }

    fn is_found(&self, host: &Host) -> bool {
        self.0.probe().is_some_and(|p| matches!(host.find(Path::new(p.program)), Found::At(_)))
    }

    fn probe<'a>(&'a self, host: &'a Host) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>> {
        Box::pin(async move {
            match self.0.probe() {
                Some(plan) => probe::probe(host, &plan).await,
                None => Probed::Ready { version: None, path: None, login: None },
            }
        })
    }

    fn start(&self, host: &Host, mut spec: Spec) -> Result<Session, SpecError> {
        check(&spec)?;
        if let Some(budget) = spec.settings.last(keys::MAX_BUDGET_USD).and_then(|b| b.parse().ok()) {
            spec.limits.budget_usd.get_or_insert(budget);
        }
        let launch = self.0.launch(&spec)?;
        let id = session_id();
        let prepared = Prepared::agent(host, &spec, &launch, &id);
        Ok(Session::begin(Beginning {
            conversation: self.0.converse(&spec),
            body: Body::Process(Box::new(prepared)),
            install_hint: self.0.probe().map(|p| p.install_hint),
            id,
            pid: Arc::default(),
            spec,
        }))
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.0
    }
}

/// The agent that is part of Ostler: it plays a script, for demonstrations and tests.
pub struct ScriptedAgent {
    dialect: &'static dyn Dialect,
    script: Option<Script>,
}

impl ScriptedAgent {
    /// An agent that plays `script` for every message.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self { dialect: &ostler_dialects::scripted::Scripted, script: Some(script) }
    }
}

impl Agent for ScriptedAgent {
    fn name(&self) -> &str {
        self.dialect.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.dialect.capabilities()
    }

    fn models(&self) -> &[&'static str] {
        self.dialect.models()
    }

    fn settings(&self) -> Vec<Setting> {
        self.dialect.settings()
    }

    fn is_found(&self, _host: &Host) -> bool {
        true
    }

    fn probe<'a>(&'a self, _host: &'a Host) -> Pin<Box<dyn Future<Output = Probed> + Send + 'a>> {
        Box::pin(async { Probed::Ready { version: Some(env!("CARGO_PKG_VERSION").into()), path: None, login: None } })
    }

    fn start(&self, _host: &Host, spec: Spec) -> Result<Session, SpecError> {
        check(&spec)?;
        self.dialect.launch(&spec)?;
        let script = match (&self.script, spec.settings.last("script")) {
            (Some(script), _) => Some(script.clone()),
            (None, Some(path)) => Some(read_script(path)?),
            (None, None) => None,
        };
        let first = spec.prompt.clone();
        Ok(Session::begin(Beginning {
            conversation: self.dialect.converse(&spec),
            body: Body::Script(Box::new(move || scripted::start(script, &first))),
            install_hint: None,
            id: session_id(),
            pid: Arc::default(),
            spec,
        }))
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.dialect
    }
}

fn read_script(path: &str) -> Result<Script, SpecError> {
    let text = std::fs::read_to_string(path).map_err(|error| SpecError::new("script", path, error.to_string()))?;
    Script::parse(&text).map_err(|error| SpecError::new("script", path, error))
}
