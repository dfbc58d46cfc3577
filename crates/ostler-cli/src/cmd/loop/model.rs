//! Choice of the model for a loop, with its configured defaults.

use std::sync::Arc;
use std::time::Duration;

use ostler::adapter::{AgentModel, ApiModel, ModelOptions};
use ostler::config::{Config, Field};
use ostler::spec::{Settings, keys};
use ostler::{Agent, Host, ModelAdapter, Models, Spec};

use crate::args::{LoopArgs, Time};
use crate::fault::{Fault, Result};
use crate::{config, output, spec};

/// The agent for models behind a server, and the short name of such models.
const SERVER: (&str, &str) = ("openai-api", "openai");

/// Timeout that means unlimited, where one is required.
pub(super) const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Settings about an agent's own work. They do not apply to a loop, which has its own.
const AGENT_ONLY: [&str; 14] = [
    keys::TOOLS,
    keys::ALLOWED_TOOLS,
    keys::DISALLOWED_TOOLS,
    keys::PERMISSION_MODE,
    keys::SYSTEM_PROMPT,
    keys::APPEND_SYSTEM_PROMPT,
    keys::WORKSPACE_TOOLS,
    keys::MCP_CONFIG,
    keys::STRICT_MCP,
    keys::JSON_SCHEMA,
    keys::MAX_TURNS,
    keys::MAX_BUDGET_USD,
    keys::RESUME,
    keys::MODEL, // set separately
];

/// Inputs for choosing the model.
pub(super) struct ModelContext<'a> {
    pub(super) config: &'a Config,
    pub(super) host: &'a Host,
    pub(super) args: &'a LoopArgs,
    /// Model of the resumed loop.
    pub(super) previous_model: Option<String>,
}

/// Returns the requested model, the resumed session's, or that of the default agent.
pub(super) async fn choose(context: &ModelContext<'_>) -> Result<Arc<dyn ModelAdapter>> {
    let requested = context.args.model.as_ref();
    match requested.or(context.previous_model.as_ref()) {
        Some(name) => make(context, name),
        None => make(context, &default_name(context).await?),
    }
}

/// Returns the model name of the agent that a run would choose.
async fn default_name(context: &ModelContext<'_>) -> Result<String> {
    let ModelContext { config, host, .. } = context;
    let chosen = match spec::configured(config) {
        Some(named) => named?,
        None => spec::first_usable(config, host).await?,
    };
    if chosen.agent.about().scripted && spec::configured(config).is_none() {
        let names = models(context).names().join(", ");
        let fault = Fault::usage("no model available: found neither a coding agent nor an API key");
        return Err(fault.hint(format!("choose one with `--model NAME`: {names}")));
    }
    let is_program = is_program(&*chosen.agent);
    let name = if is_program {
        format!("{}-cli", chosen.name)
    } else {
        chosen.name
    };
    // A script has no choice of models.
    let takes_model = is_program || is_server(&*chosen.agent);
    let model = config::model()?.filter(|_| takes_model);
    Ok(with_model(&name, model.as_deref()))
}

fn is_program(agent: &dyn Agent) -> bool {
    agent.about().is_program()
}

fn is_server(agent: &dyn Agent) -> bool {
    agent.about().name == SERVER.0
}

/// Returns the models that need no configuration.
fn models(context: &ModelContext<'_>) -> Models {
    Models::new(context.host.clone(), context.config.agents().clone())
        .timeout(reply_timeout(context))
}

/// An agent that is used as a model.
struct ModelAgent<'a> {
    /// Name in the configuration files, whose defaults apply.
    name: &'a str,
    agent: Arc<dyn Agent>,
    /// The agent's model, as requested.
    model: Option<&'a str>,
}

/// Returns the agent behind a model name, if there is one.
fn model_agent<'a>(
    config: &Config,
    kind: &'a str,
    model: Option<&'a str>,
) -> Option<ModelAgent<'a>> {
    // An address is complete on its own, even if a file uses the same name.
    if kind == "openai-compatible" && model.is_some_and(|model| model.contains("://")) {
        return None;
    }
    let find = |name: &'a str, fits: fn(&dyn Agent) -> bool| {
        config
            .agent(name)
            .filter(|agent| fits(&**agent))
            .map(|agent| ModelAgent { name, agent, model })
    };
    let program = kind
        .strip_suffix("-cli")
        .and_then(|name| find(name, is_program));
    let known = program.or_else(|| {
        find(kind, |agent| {
            is_program(agent) || is_server(agent) || agent.about().scripted
        })
    });
    known.or_else(|| find(SERVER.0, is_server).filter(|_| kind == SERVER.1))
}

/// Returns the model with this name, with its configured defaults.
fn make(context: &ModelContext<'_>, name: &str) -> Result<Arc<dyn ModelAdapter>> {
    let (kind, model) = name.split_once(':').unwrap_or((name, ""));
    let model = Some(model).filter(|model| !model.is_empty());
    let get = |name: &str| models(context).get(name).map_err(|error| usage!("{error}"));
    match model_agent(context.config, kind, model) {
        Some(agent) if is_program(&*agent.agent) => program(context, &agent),
        Some(agent) if is_server(&*agent.agent) => server(context, kind, &agent),
        Some(agent) if agent.model.is_none() => get(&played(context, &agent)?),
        _ => get(name),
    }
}

/// Returns an agent program as a model, with its configured defaults.
fn program(
    context: &ModelContext<'_>,
    model_agent: &ModelAgent<'_>,
) -> Result<Arc<dyn ModelAdapter>> {
    let Filled { mut given, model } = fill(context, model_agent)?;
    let real = given.model.take().filter(|real| !real.is_empty());
    let mut settings = given.to_settings();
    remove_agent_settings(&mut settings, model_agent.agent.about().as_model.settings);
    let options = ModelOptions {
        model: real,
        program: given.program,
        extra_args: given.extra_args,
        env: given.env,
        settings,
        timeout: reply_timeout(context),
        ..ModelOptions::default()
    };
    let agent = AgentModel::new(model_agent.agent.clone(), context.host.clone(), options);
    // The name it was chosen by, so that a resumed loop finds the same model.
    let name = with_model(&format!("{}-cli", model_agent.name), model.as_deref());
    Ok(Arc::new(agent.named(&name)))
}

/// Returns a model behind a server, with its configured defaults.
fn server(
    context: &ModelContext<'_>,
    kind: &str,
    model_agent: &ModelAgent<'_>,
) -> Result<Arc<dyn ModelAdapter>> {
    let Filled { given, model } = fill(context, model_agent)?;
    let name = with_model(kind, model.as_deref());
    let server = ApiModel::server(&name, context.host, &given).map_err(|error| {
        usage!("model {name:?}: {error}")
            .hint("see docs/agents/openai-api.md for the settings of a server")
    })?;
    Ok(Arc::new(server.timeout(reply_timeout(context))))
}

/// Returns the model name of a script, with its configured file.
fn played(context: &ModelContext<'_>, model_agent: &ModelAgent<'_>) -> Result<String> {
    let script = fill(context, model_agent)?.given.value("script");
    Ok(with_model(
        model_agent.agent.about().name,
        script.as_deref(),
    ))
}

fn with_model(name: &str, model: Option<&str>) -> String {
    model.map_or_else(|| name.to_owned(), |model| format!("{name}:{model}"))
}

/// The spec of an agent that is used as a model.
struct Filled {
    given: Spec,
    /// The model name as requested or configured; aliases are resolved on each use.
    model: Option<String>,
}

/// Fills in an agent's configured defaults.
fn fill(context: &ModelContext<'_>, model_agent: &ModelAgent<'_>) -> Result<Filled> {
    let mut model = model_agent.model.map(str::to_owned);
    let mut given = Spec::default();
    given.env = spec::variables(&context.args.env)?;
    given.model.clone_from(&model);
    if let Some(defaults) = context.config.defaults(model_agent.name) {
        output::warn(&spec::fill_defaults(&defaults, &mut given)?);
        let entries = defaults.entries();
        let default = entries.get(&Field::Model);
        model = model
            .or_else(|| default.map(|entry| entry.value.text().to_owned()))
            .filter(|model| !model.is_empty());
    }
    Ok(Filled { given, model })
}

/// Removes settings about an agent's own work, and those that would undo what turns it into a plain
/// model.
fn remove_agent_settings(settings: &mut Settings, plain: &[(&str, &str)]) {
    AGENT_ONLY.iter().for_each(|key| settings.remove(key));
    let several = |key: &str| plain.iter().filter(|(known, _)| *known == key).count() > 1;
    fn about(value: &str) -> &str {
        let about = value.split_once('=').map(|(about, _)| about.trim());
        about.unwrap_or(value)
    }
    for (key, _) in plain {
        // In a setting with several values, each KEY=VALUE counts separately.
        let taken = |value: &str| {
            let mut own = plain.iter().filter(|(known, _)| known == key);
            own.any(|(_, own)| about(own) == about(value))
        };
        let mut values = settings.get(key).unwrap_or_default().to_vec();
        values.retain(|value| several(key) && !taken(value));
        settings.remove(key);
        values
            .into_iter()
            .for_each(|value| settings.push(key, value));
    }
}

/// Returns the time limit for one reply, which defaults to that of the whole run. Time spent in
/// tools does not count.
fn reply_timeout(context: &ModelContext<'_>) -> Duration {
    let limits = &context.args.limits;
    let whole = limits.timeout.map(|Time(time)| time);
    let reply = limits.reply_timeout.map(|Time(time)| time);
    let usual = || context.config.limits().wall;
    reply.or(whole).unwrap_or_else(usual).unwrap_or(UNLIMITED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_model_settings_override_configured_ones() {
        let mut settings = Settings::default();
        for (key, value) in [
            ("config", "model_provider=\"mine\""),
            ("config", "features.shell = true"),
            ("config", "features.shell_too=1"),
            ("ephemeral", "false"),
            (keys::ALLOWED_TOOLS, "Bash"),
            ("effort", "high"),
        ] {
            settings.push(key, value);
        }
        let plain = [
            ("ephemeral", "true"),
            ("config", "features.shell=false"),
            ("config", "features.web=false"),
        ];
        remove_agent_settings(&mut settings, &plain);
        let left: Vec<_> = settings
            .iter()
            .flat_map(|(key, values)| values.iter().map(move |v| (key, &**v)))
            .collect();
        let config = [
            ("config", "model_provider=\"mine\""),
            ("config", "features.shell_too=1"),
        ];
        assert_eq!(left, [&config[..], &[("effort", "high")]].concat());
    }
}
