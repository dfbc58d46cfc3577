//! An agent as a plain model: its own tools are disabled, and each request is a separate session.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::dialect::About;
use ostler_core::outcome::Cause;
use ostler_core::permission::Policy;
use ostler_core::spec::{Denials, Limits, Settings, Spec, SpecError, ToolOffer, keys};
use ostler_model::Message;
use ostler_model::plain::{self, Gate};
use tokio::sync::Mutex;

use super::reply_session::{ReplySession, ReplyTerms, SuspendedSession, UpdateFilter};
use super::{ModelAdapter, ModelError, ReplyFuture, Updates, model_error, no_messages};
use crate::agent::Agent;
use crate::host::Host;

/// Options for an agent that serves as a model.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// Name of the model; the agent's default if `None`.
    pub model: Option<String>,
    /// The program to start instead of the agent's usual name on PATH.
    pub program: Option<PathBuf>,
    /// Maximum time for a reply. The time in which the caller runs tools does not count.
    pub timeout: Duration,
    /// Maximum size of a reply in bytes. A longer reply is an error and is not truncated.
    pub max_output: usize,
    /// How the model calls tools.
    pub calling: Calling,
    /// Working directory of the agent. If `None`, an empty temporary directory, so that no project
    /// file reaches the model.
    pub dir: Option<PathBuf>,
    /// Additional arguments, passed to the agent's program unchanged.
    pub extra_args: Vec<String>,
    /// Variables added to the agent's environment.
    pub env: BTreeMap<String, String>,
    /// Additional settings of the agent.
    pub settings: Settings,
}

impl Default for ModelOptions {
    fn default() -> Self {
        Self {
            model: None,
            program: None,
            timeout: Duration::from_secs(120),
            max_output: 10 * 1024 * 1024,
            calling: Calling::default(),
            dir: None,
            extra_args: Vec::new(),
            env: BTreeMap::new(),
            settings: Settings::default(),
        }
    }
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calling {
    /// [`Native`](Calling::Native) if the agent accepts the caller's tools, otherwise
    /// [`Prompt`](Calling::Prompt). `Prompt` is also used if the agent needs a bridge
    /// ([`Host::with_bridge`]) and the host has none.
    #[default]
    Auto,
    /// Through the agent's own tool support. The agent waits in the middle of its turn until the
    /// next messages bring the results. Usage is reported with the last reply of the turn.
    Native,
    /// Through a JSON block in the text. Each reply is a separate session.
    Prompt,
}

/// System prompt of an agent that serves as a model.
const SYSTEM: &str = "You are a language model behind an interface. You get a conversation in which each message has a label \
                      above it, such as [System], [User], [Assistant] or [Tool Result (id)]. Write the next message of the \
                      assistant, without a label. You have no tools but those that the conversation lists.";

/// An agent as a plain model.
///
/// ```
/// use ostler::adapter::{AgentModel, ModelOptions};
/// use ostler::{Agents, Host};
///
/// let claude = Agents::builtin().get("claude").unwrap();
/// let options = ModelOptions { model: Some("sonnet".into()), ..ModelOptions::default() };
/// let model = AgentModel::new(claude, Host::new(std::env::vars_os()), options);
/// ```
#[derive(Clone)]
pub struct AgentModel {
    name: Arc<str>,
    agent: Arc<dyn Agent>,
    host: Host,
    options: ModelOptions,
    tools: Vec<ToolOffer>,
    /// The session that is waiting for tool results, if any.
    held: Arc<Mutex<Option<SuspendedSession>>>,
}

impl AgentModel {
    /// Creates a model from an agent.
    #[must_use]
    pub fn new(agent: Arc<dyn Agent>, host: Host, options: ModelOptions) -> Self {
        let name = match &options.model {
            Some(model) => format!("{}-cli:{model}", agent.about().name),
            None => format!("{}-cli", agent.about().name),
        };
        Self {
            name: name.into(),
            agent,
            host: host.bare(),
            options,
            tools: Vec::new(),
            held: Arc::default(),
        }
    }

    /// Sets the adapter's name, which defaults to the agent's with its model.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Returns the facts about the dialect that this spec selects.
    fn about(&self, spec: &Spec) -> About {
        let dialect = self.agent.dialect();
        dialect.select_transport(spec).unwrap_or(dialect).about()
    }

    /// Whether tools are called through the agent's own tool support.
    fn is_native(&self) -> bool {
        let can = || {
            // An invalid setting is reported by the start of the session.
            let spec = self.spec(String::new()).unwrap_or_default();
            let able = self.about(&spec).capabilities;
            able.tools && (!able.bridged_tools || self.host.bridge().is_some())
        };
        match self.options.calling {
            Calling::Auto => !self.tools.is_empty() && can(),
            Calling::Native => !self.tools.is_empty(),
            Calling::Prompt => false,
        }
    }

    /// Returns the agent's spec with its own tools disabled.
    fn spec(&self, prompt: String) -> Result<Spec, SpecError> {
        let options = &self.options;
        let mut settings = Settings::default();
        let plain = self.agent.about().as_model.settings;
        plain
            .iter()
            .for_each(|(key, value)| settings.push(key, *value));
        if self.agent.about().accepts(keys::SYSTEM_PROMPT) {
            settings.set(keys::SYSTEM_PROMPT, SYSTEM);
        }
        for (key, values) in options.settings.iter() {
            // Of a setting with several values, the caller's come last.
            if plain.iter().filter(|(known, _)| *known == key).count() < 2 {
                settings.remove(key);
            }
            values.iter().for_each(|value| settings.push(key, value));
        }
        if let Some(model) = &options.model {
            settings.set(keys::MODEL, model);
        }
        // Each reply has its own timeout. The session may last as long as the caller's tools run.
        let limits = Limits::default()
            .wall(None)
            .idle(None)
            .startup(None)
            .output(options.max_output);
        let mut spec = Spec::new(prompt)
            .extra_args(options.extra_args.clone())
            .limits(limits)
            .denials(Denials::Tolerate);
        spec.dir.clone_from(&options.dir);
        spec.env.clone_from(&options.env);
        spec.program.clone_from(&options.program);
        spec.apply(&settings)?;
        Ok(spec)
    }

    /// Starts a session that replies to these messages.
    fn ask(&self, messages: &[Message], native: bool) -> Result<ReplySession, ModelError> {
        let wrong = |error: SpecError| model_error(Cause::BadRequest, error.to_string());
        if messages.is_empty() {
            return Err(no_messages());
        }
        let mut prompt = plain::write_messages(messages);
        if !native && !self.tools.is_empty() {
            prompt = format!("{}\n\n{prompt}", plain::tool_preamble(&self.tools));
        }
        let mut spec = self.spec(prompt).map_err(wrong)?;
        let create = || {
            let mut builder = tempfile::Builder::new();
            let builder = builder.prefix("ostler-model-");
            builder.tempdir_in(self.host.temp_dir())
        };
        let place = spec.dir.is_none().then(create).transpose();
        let place = place.map_err(|error| {
            let why = format!("A directory for the agent could not be created: {error}.");
            model_error(Cause::BadRequest, why)
        })?;
        if let Some(place) = &place {
            spec.dir = Some(place.path().to_owned());
        }
        if native {
            spec.bound_tools = self.tools.clone();
        }
        let about = self.about(&spec);
        if !about.as_model.toolless && about.capabilities.ask {
            let names = spec.bound_tools.iter().map(|tool| tool.name.as_str());
            spec.policy = Some(Policy::only(
                names,
                "This model has no tools of its own: say what you would do.",
            ));
        }
        let session = self.agent.start(&self.host, spec).map_err(wrong)?;
        Ok(ReplySession::new(session, place))
    }

    async fn reply(
        &self,
        messages: &[Message],
        updates: &Updates,
    ) -> Result<super::Reply, ModelError> {
        let native = self.is_native();
        let waiting = self.held.lock().await.take();
        let resumed = match waiting {
            Some(held) => held.resume(messages).await,
            None => Err(Vec::new()),
        };
        // Usage of an abandoned session is reported with the next reply.
        let (mut session, usage, was_resumed) = match resumed {
            Ok(session) => (session, Vec::new(), true),
            Err(usage) => (self.ask(messages, native)?, usage, false),
        };
        session.add_usage(usage);
        let terms = ReplyTerms {
            agent: self.agent.about().name,
            bound: if native { &self.tools } else { &[] },
            max_bytes: self.options.max_output,
            time: self.options.timeout,
        };
        let gate = (!native && !self.tools.is_empty()).then(Gate::default);
        let mut filter = UpdateFilter { updates, gate };
        let mut result = session.read_reply(&terms, &mut filter).await;
        // The agent exited unnoticed while it was suspended: replay the whole conversation.
        if let (Err(error), true) = (&result, was_resumed)
            && error.cause() == Cause::AgentDied
        {
            let usage = error.usage.clone();
            session.end().await;
            session = self.ask(messages, native)?;
            session.add_usage(usage);
            result = session.read_reply(&terms, &mut filter).await;
        }
        match result {
            Ok(Some(mut reply)) => {
                session.finish().await;
                if let Some(gate) = filter.gate {
                    let said = plain::read_reply(&reply.content, || {
                        format!("call_{}", uuid::Uuid::new_v4().simple())
                    });
                    let rest = gate.rest(&said.content);
                    if !rest.is_empty() {
                        updates.send(&super::Update::Text(rest.to_owned()));
                    }
                    reply.content = said.content;
                    reply.tool_calls = said.calls;
                    if !reply.tool_calls.is_empty() {
                        reply.stop = super::Stop::ToolCalls;
                    }
                }
                Ok(reply)
            }
            Ok(None) => {
                let (held, reply) = session.suspend(messages);
                *self.held.lock().await = Some(held);
                Ok(reply)
            }
            Err(error) => {
                session.end().await;
                Err(error)
            }
        }
    }
}

impl ModelAdapter for AgentModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn invoke_with_updates<'a>(
        &'a self,
        messages: &'a [Message],
        updates: Updates,
    ) -> ReplyFuture<'a> {
        Box::pin(async move { self.reply(messages, &updates).await })
    }

    fn bind_tools(&self, tools: Vec<ToolOffer>) -> Arc<dyn ModelAdapter> {
        Arc::new(Self {
            tools,
            held: Arc::default(),
            ..self.clone()
        })
    }

    fn reports_usage_late(&self) -> bool {
        self.is_native()
    }

    fn with_usage_per_reply(&self) -> Option<Arc<dyn ModelAdapter>> {
        let options = ModelOptions {
            calling: Calling::Prompt,
            ..self.options.clone()
        };
        Some(Arc::new(Self {
            options,
            held: Arc::default(),
            ..self.clone()
        }))
    }
}
