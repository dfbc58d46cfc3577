//! Choice of a model: an adapter, or a name that is resolved once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ostler_core::near::nearest;
use ostler_core::spec::Spec;

use super::{AgentModel, ApiModel, ModelAdapter, ModelOptions};
use crate::agent::Agents;
use crate::host::Host;
use crate::model::Script;

/// A model: an adapter, or the name of one. A name is resolved once, when it is first needed.
#[derive(Clone)]
pub enum ModelChoice {
    /// An adapter.
    Adapter(Arc<dyn ModelAdapter>),
    /// The name of a model.
    Name(String),
}

impl From<&str> for ModelChoice {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<String> for ModelChoice {
    fn from(name: String) -> Self {
        Self::Name(name)
    }
}

impl From<Arc<dyn ModelAdapter>> for ModelChoice {
    fn from(adapter: Arc<dyn ModelAdapter>) -> Self {
        Self::Adapter(adapter)
    }
}

impl<A: ModelAdapter + 'static> From<A> for ModelChoice {
    fn from(adapter: A) -> Self {
        Self::Adapter(Arc::new(adapter))
    }
}

/// The error of a model name that is unknown or cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("model {name:?}: {why}")]
pub struct UnknownModel {
    /// The name as given, without credentials.
    pub name: String,
    /// The reason, and the names that exist.
    pub why: String,
}

/// Why a name cannot be used.
struct Unusable(String);

impl<T: ToString> From<T> for Unusable {
    fn from(why: T) -> Self {
        Self(why.to_string())
    }
}

/// Registry of models by name:
///
/// | name | is |
/// |---|---|
/// | `claude-cli`, `codex-cli:gpt-5`, `gemini-cli`, … | an agent, with its model after the colon |
/// | `openai:gpt-5-mini` | a model of the server in `OPENAI_BASE_URL`, or of OpenAI |
/// | `openai-compatible:http://localhost:8000/v1#qwen` | a model of another server |
/// | `scripted`, `scripted:answers.toml` | a script that plays a model |
///
/// Without `#MODEL`, a server must have exactly one model.
#[must_use]
pub struct Models {
    host: Host,
    agents: Agents,
    options: Box<Options>,
    /// Maximum time for a server's reply.
    timeout: Option<Duration>,
    known: Mutex<HashMap<String, Arc<dyn ModelAdapter>>>,
}

/// Options of an agent, by its name.
type Options = dyn Fn(&str) -> ModelOptions + Send + Sync;

impl Models {
    /// Creates a registry with these agents, and with the servers that the host has keys for.
    pub fn new(host: Host, agents: Agents) -> Self {
        Self {
            host,
            agents,
            options: Box::new(|_| ModelOptions::default()),
            timeout: None,
            known: Mutex::default(),
        }
    }

    /// Sets the options of agents, such as another program or timeout. The function receives the
    /// agent's name.
    pub fn with_options(
        mut self,
        options: impl Fn(&str) -> ModelOptions + Send + Sync + 'static,
    ) -> Self {
        self.options = Box::new(options);
        self
    }

    /// Sets the maximum time for a server's reply. The default is two minutes. For agents, use
    /// [`ModelOptions::timeout`].
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Returns the model of a choice. A name always resolves to the same adapter.
    ///
    /// # Errors
    /// Returns an error that lists the known names.
    pub fn resolve(
        &self,
        choice: impl Into<ModelChoice>,
    ) -> Result<Arc<dyn ModelAdapter>, UnknownModel> {
        match choice.into() {
            ModelChoice::Adapter(adapter) => Ok(adapter),
            ModelChoice::Name(name) => self.get(&name),
        }
    }

    /// Returns the model with this name.
    ///
    /// # Errors
    /// Returns an error that lists the known names.
    pub fn get(&self, name: &str) -> Result<Arc<dyn ModelAdapter>, UnknownModel> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(adapter) = known().get(name) {
            return Ok(adapter.clone());
        }
        let adapter = self.make(name).map_err(|Unusable(why)| UnknownModel {
            name: shown(name),
            why,
        })?;
        Ok(known().entry(name.to_owned()).or_insert(adapter).clone())
    }

    /// Returns the prefixes of model names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let programs = self
            .agents
            .iter()
            .filter(|agent| agent.about().is_program());
        let mut names: Vec<String> = programs
            .map(|agent| format!("{}-cli", agent.about().name))
            .collect();
        names.extend(
            [
                "openai:MODEL",
                "openai-compatible:URL#MODEL",
                "scripted[:FILE]",
            ]
            .map(str::to_owned),
        );
        names
    }

    fn make(&self, name: &str) -> Result<Arc<dyn ModelAdapter>, Unusable> {
        let (kind, rest) = match name.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest).filter(|rest| !rest.is_empty())),
            None => (name, None),
        };
        match kind {
            "openai" | "openai-api" => self.server(name, None, rest),
            "openai-compatible" => {
                let rest = rest.ok_or(
                    "expected a server, as in openai-compatible:http://localhost:8000/v1#MODEL",
                )?;
                let (url, model) = rest
                    .split_once('#')
                    .map_or((rest, None), |(url, model)| (url, Some(model)));
                self.server(name, Some(url), model)
            }
            "scripted" => script(rest).map(|script| -> Arc<dyn ModelAdapter> {
                Arc::new(ApiModel::scripted(name, script))
            }),
            _ => {
                let program = kind.strip_suffix("-cli").unwrap_or(kind);
                let agent = self
                    .agents
                    .get(program)
                    .filter(|agent| agent.about().is_program());
                let agent = agent.ok_or_else(|| self.unknown(kind))?;
                let mut options = (self.options)(agent.about().name);
                if let Some(model) = rest {
                    options.model = Some(model.to_owned());
                }
                Ok(Arc::new(AgentModel::new(agent, self.host.clone(), options)))
            }
        }
    }

    fn server(
        &self,
        name: &str,
        url: Option<&str>,
        model: Option<&str>,
    ) -> Result<Arc<dyn ModelAdapter>, Unusable> {
        let mut spec = Spec::default();
        if let Some(url) = url {
            ostler_dialects::openai::url(url)?;
            spec.set("base_url", [url])?;
        }
        if let Some(model) = model {
            spec.model = Some(model.into());
        }
        let server = ApiModel::server(name, &self.host, &spec)?;
        Ok(Arc::new(match self.timeout {
            Some(limit) => server.timeout(limit),
            None => server,
        }))
    }

    fn unknown(&self, kind: &str) -> String {
        let names = self.names();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let near = nearest(kind, &known);
        let hint = near.first().map(|name| format!("did you mean {name}? "));
        let hint = hint.unwrap_or_default();
        format!("unknown; {hint}there are: {}", names.join(", "))
    }
}

/// Returns a name for display, without the user and password in its URL.
fn shown(name: &str) -> String {
    match (name.split_once("://"), name.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => name.to_owned(),
    }
}

fn script(file: Option<&str>) -> Result<Script, Unusable> {
    let Some(file) = file else {
        return Ok(Script::demo());
    };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    Ok(Script::parse(&text).map_err(|error| format!("{file}: {error}"))?)
}
