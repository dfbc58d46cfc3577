//! Agents of trials: configuration, policy and trust, as for `ostler run`.

use ostler::Host;
use ostler::config::Config;
use ostler::event::Timestamp;
use ostler::spec::{Attendance, Denials};
use ostler_eval::embedder::{AgentRequest, Embedder, EmbedderError, PrepareFuture, PreparedAgent};
use serde_json::Value;

use crate::args::{ConfigArgs, Permissions, PolicyArgs, StartArgs};
use crate::fault::{Fault, Result};
use crate::spec::{self, LaunchContext};
use crate::trust::Project;
use crate::{config, environment, trust_review};

/// This program, as the evaluation sees it.
pub(in crate::cmd) struct Program {
    policy: PolicyArgs,
    config: ConfigArgs,
    pub(super) host: Host,
    /// Whether agents use the user's home directory.
    pub(super) share_login: bool,
}

impl Program {
    /// Sessions are stored like any other.
    pub(in crate::cmd) fn new(
        policy: PolicyArgs,
        config: ConfigArgs,
        host: Host,
        share_login: bool,
    ) -> Self {
        Self {
            policy,
            config,
            host,
            share_login,
        }
    }

    /// Returns the configuration of the current directory.
    pub(super) fn configuration(&self) -> Result<Config> {
        let dir = environment::directory().map_err(Fault::internal)?;
        let own = Project::read(self.config, &self.policy, &dir)?;
        config::load(self.config, &own)
    }

    /// Prepares an agent that may read its directory, and change nothing.
    pub(super) async fn prepare_reader(&self, request: &AgentRequest) -> Result<PreparedAgent> {
        let policy = PolicyArgs {
            permissions: Some(Permissions::ReadOnly),
            trust_project: false,
            ..self.policy.clone()
        };
        self.prepare_agent(request, &policy).await
    }

    async fn prepare_agent(
        &self,
        request: &AgentRequest,
        policy: &PolicyArgs,
    ) -> Result<PreparedAgent> {
        let contender = &request.contender;
        let mut args = StartArgs {
            agent: Some(contender.agent.clone()),
            policy: policy.clone(),
            config: self.config,
            ..StartArgs::default()
        };
        args.agent_settings.model.clone_from(&contender.model);
        args.agent_settings.tolerate_denials = true;
        // Files of the evaluated repository grant nothing, unless `--trust-project` says so.
        let config = self.configuration()?;
        let project = Project::read(self.config, policy, &request.dir)?;
        let host = trust_review::attach(self.host.clone(), &project, &config)?;
        let chosen = spec::choose(&config, &args, &host, spec::Demo::Refused).await?;
        let context = LaunchContext {
            prompt: request.prompt.clone(),
            dir: request.dir.clone(),
            project,
            streaming: false,
            attendance: Attendance::Unattended,
            has_model: true,
            verb: "run",
            ..LaunchContext::default()
        };
        let mut requested = spec::build(args, &config, context)?;
        for (key, value) in &contender.settings {
            requested.settings.remove(key);
            for value in values(key, value)? {
                requested.settings.push(key, value);
            }
        }
        let (spec, _) = requested.spec(&config, &chosen)?;
        Ok(PreparedAgent {
            agent: chosen.agent,
            host,
            spec: spec.denials(Denials::Tolerate),
        })
    }
}

/// Returns the values of a setting.
fn values(key: &str, value: &Value) -> Result<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) => Err(usage!(
            "setting {key}: expected a value, or a list of values"
        )),
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => Ok(vec![one(value)?]),
    }
}

impl Embedder for Program {
    fn prepare<'a>(&'a self, request: &'a AgentRequest) -> PrepareFuture<'a> {
        Box::pin(async {
            self.prepare_agent(request, &self.policy)
                .await
                .map_err(|fault| {
                    let outcome = fault.outcome();
                    EmbedderError {
                        message: outcome.message,
                        hint: outcome.hint,
                    }
                })
        })
    }

    fn host(&self) -> Host {
        environment::host()
    }

    fn now(&self) -> Timestamp {
        environment::now()
    }
}
