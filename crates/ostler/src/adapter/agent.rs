//! An agent as a plain model: its own tools are switched off, each question is a session of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ostler_core::outcome::{Cause, Outcome};
use ostler_core::permission::Policy;
use ostler_core::spec::{Attendance, Denials, Limits, Settings, Spec, ToolOffer, keys};
use ostler_dialects::plain::{self, Gate, Message};
use tokio::sync::Mutex;

use super::reply_session::{Audience, Hearing, Held, Terms};
use super::{ModelAdapter, ModelError, ReplyFuture, Updates};
use crate::agent::Agent;
use crate::host::Host;
use crate::session::Session;

/// How an agent is asked. The defaults are those of document 000.
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// The model; the agent's own choice when none is given.
    pub model: Option<String>,
    /// The program to start instead of the agent's usual name on PATH.
    pub program: Option<PathBuf>,
    /// The longest that a reply may take. While the caller runs tools, it does not count.
    pub timeout: Duration,
    /// The most that a reply may hold, in bytes. What is longer is an error, not a part of a reply.
    pub max_output: usize,
    /// How the model calls tools.
    pub calling: Calling,
    /// The directory that the agent is started in: an empty one of its own when none is given, so that nothing of a project
    /// reaches the model.
    pub dir: Option<PathBuf>,
    /// Arguments passed to the agent's program as they are.
    pub extra_args: Vec<String>,
    /// Variables added to the agent's environment.
    pub env: BTreeMap<String, String>,
    /// Further settings of the agent's own.
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
    /// Natively where the agent takes tools of the caller's, by the prompt where it does not, or where it would need a bridge
    /// ([`Host::with_bridge`]) and there is none.
    #[default]
    Auto,
    /// By the agent's own means: it waits in the middle of its turn until the results come with the next messages. What it
    /// used is told with the last reply of the turn.
    Native,
    /// By a block of JSON in its text; each reply is a session of its own.
    Prompt,
}

/// What a model without tools of its own is told to be.
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
    /// The session that waits for tools, if there is one.
    held: Arc<Mutex<Option<Held>>>,
}

impl AgentModel {
    /// This agent, asked in this way.
    #[must_use]
    pub fn new(agent: Arc<dyn Agent>, host: Host, options: ModelOptions) -> Self {
        let name = match &options.model {
            Some(model) => format!("{}-cli:{model}", agent.name()),
            None => format!("{}-cli", agent.name()),
        };
        let host = host.bare();
        Self {
            name: name.into(),
            agent,
            host,
            options,
            tools: Vec::new(),
            held: Arc::default(),
        }
    }

    /// Whether tools are called by the agent's own means.
    fn is_native(&self) -> bool {
        let can = || {
            let spec = self.spec(String::new());
            let dialect = self
                .agent
                .dialect()
                .select_transport(&spec)
                .unwrap_or(self.agent.dialect());
            dialect.capabilities().tools
                && (!dialect.needs_bridge() || self.host.bridge().is_some())
        };
        match self.options.calling {
            Calling::Auto => !self.tools.is_empty() && can(),
            Calling::Native => !self.tools.is_empty(),
            Calling::Prompt => false,
        }
    }

    /// The agent's settings with its own tools switched off.
    fn spec(&self, prompt: String) -> Spec {
        let options = &self.options;
        let mut settings = Settings::default();
        let plain = self.agent.dialect().as_model().settings;
        plain
            .iter()
            .for_each(|(key, value)| settings.push(key, *value));
        if self
            .agent
            .settings()
            .iter()
            .any(|setting| setting.key == keys::SYSTEM_PROMPT)
        {
            settings.set(keys::SYSTEM_PROMPT, SYSTEM);
        }
        for (key, values) in options.settings.iter() {
            // What has several values gets the caller's behind them.
            if plain.iter().filter(|(known, _)| *known == key).count() < 2 {
                settings.remove(key);
            }
            values.iter().for_each(|value| settings.push(key, value));
        }
        if let Some(model) = &options.model {
            settings.set(keys::MODEL, model);
        }
        Spec {
            prompt,
            dir: options.dir.clone(),
            settings,
            extra_args: options.extra_args.clone(),
            env: options.env.clone(),
            program: options.program.clone(),
            // The time of each reply is watched here: a session that waits for tools takes as long as they do.
            limits: Limits {
                wall: None,
                idle: None,
                startup: None,
                output: options.max_output,
                ..Limits::default()
            },
            denials: Denials::Tolerate,
            attendance: Attendance::Unattended,
            ..Spec::default()
        }
    }

    /// Starts the session that answers these messages.
    fn ask(&self, messages: &[Message], native: bool) -> Result<Hearing, ModelError> {
        let wrong = |why: String| ModelError::new(Outcome::new(Cause::BadRequest, why));
        if messages.is_empty() {
            return Err(wrong("There are no messages to answer.".into()));
        }
        let mut prompt = plain::write_messages(messages);
        if !native && !self.tools.is_empty() {
            prompt = format!("{}\n\n{prompt}", plain::tool_preamble(&self.tools));
        }
        let mut spec = self.spec(prompt);
        let place = match &spec.dir {
            Some(_) => None,
            None => {
                let place = tempfile::Builder::new()
                    .prefix("ostler-model-")
                    .tempdir_in(self.host.temp_dir());
                let place = place
                    .map_err(|error| wrong(format!("No directory for the agent: {error}.")))?;
                spec.dir = Some(place.path().to_owned());
                Some(place)
            }
        };
        if native {
            spec.tools = self.tools.clone();
        }
        let dialect = self
            .agent
            .dialect()
            .select_transport(&spec)
            .unwrap_or(self.agent.dialect());
        if !dialect.as_model().toolless && dialect.capabilities().ask {
            let names = spec.tools.iter().map(|tool| tool.name.as_str());
            spec.policy = Some(Policy::only(
                names,
                "This model has no tools of its own: say what you would do.",
            ));
        }
        let session: Session = self
            .agent
            .start(&self.host, spec)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(Hearing::new(session, place))
    }

    async fn reply(
        &self,
        messages: &[Message],
        updates: &Updates,
    ) -> Result<super::Reply, ModelError> {
        let native = self.is_native();
        let waiting = self.held.lock().await.take();
        let goes_on = match waiting {
            Some(held) => held.go_on(messages).await,
            None => Err(Vec::new()),
        };
        // What a session that was given up has used is paid for with the reply of the next.
        let (mut hearing, spent, went_on) = match goes_on {
            Ok(hearing) => (hearing, Vec::new(), true),
            Err(spent) => (self.ask(messages, native)?, spent, false),
        };
        hearing.owes(spent);
        let terms = Terms {
            agent: self.agent.name(),
            bound: if native { &self.tools } else { &[] },
            most: self.options.max_output,
            time: self.options.timeout,
        };
        let gate = (!native && !self.tools.is_empty()).then(Gate::default);
        let mut audience = Audience { updates, gate };
        let mut heard = hearing.hear(&terms, &mut audience).await;
        // It died while it waited, and nobody had noticed: the conversation is asked anew.
        if let (Err(error), true) = (&heard, went_on)
            && error.cause() == Cause::AgentDied
        {
            let spent = error.usage.clone();
            hearing.end().await;
            hearing = self.ask(messages, native)?;
            hearing.owes(spent);
            heard = hearing.hear(&terms, &mut audience).await;
        }
        match heard {
            Ok(Some(mut reply)) => {
                hearing.end_well().await;
                if let Some(gate) = audience.gate {
                    let said = plain::read_reply(&reply.content, || {
                        format!("call_{}", uuid::Uuid::new_v4().simple())
                    });
                    let rest = gate.rest(&said.content);
                    if !rest.is_empty() {
                        updates.tell(&super::Update::Text(rest.to_owned()));
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
                let (held, reply) = hearing.hold(messages);
                *self.held.lock().await = Some(held);
                Ok(reply)
            }
            Err(error) => {
                hearing.end().await;
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

    fn counts_at_the_end(&self) -> bool {
        self.is_native()
    }

    fn counting_each_reply(&self) -> Option<Arc<dyn ModelAdapter>> {
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
