//! Choice of the model for a loop, with its configured defaults.

use std::sync::Arc;
use std::time::Duration;

use ostler::adapter::{AgentModel, ApiModel, ModelOptions};
use ostler::config::{Config, Field};
use ostler::{Agent, Host, ModelAdapter, Models, Settings, Spec, keys};

use super::named_model::NamedModel;
use crate::args::{LoopArgs, Time};
use crate::fault::Fault;
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
pub(super) async fn choose(context: &ModelContext<'_>) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let name = match context
        .args
        .model
        .clone()
        .or_else(|| context.previous_model.clone())
    {
        Some(name) => name,
        None => default_name(context).await?,
    };
    make(context, &name)
}

/// Returns the model name of the agent that a run would choose.
async fn default_name(context: &ModelContext<'_>) -> Result<String, Fault> {
    let ModelContext { config, host, .. } = context;
    let chosen = match spec::configured(config) {
        Some(named) => named?,
        None => spec::first_usable(config, host).await?,
    };
    if chosen.agent.plays() && spec::configured(config).is_none() {
        let fault = Fault::usage("no model available: found neither a coding agent nor an API key");
        return Err(fault.hint(format!(
            "choose one with `--model NAME`: {}",
            names(config, host)
        )));
    }
    let is_program = is_program(&*chosen.agent);
    let name = if is_program {
        format!("{}-cli", chosen.name)
    } else {
        chosen.name
    };
    // A script has no choice of models.
    let takes_model = is_program || is_server(&*chosen.agent);
    Ok(match config::model()?.filter(|_| takes_model) {
        Some(model) => format!("{name}:{model}"),
        None => name,
    })
}

fn is_program(agent: &dyn Agent) -> bool {
    agent.is_program()
}

fn is_server(agent: &dyn Agent) -> bool {
    agent.name() == SERVER.0
}

fn names(config: &Config, host: &Host) -> String {
    Models::new(host.clone(), config.agents().clone())
        .names()
        .join(", ")
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
            is_program(agent) || is_server(agent) || agent.plays()
        })
    });
    known.or_else(|| {
        (kind == SERVER.1)
            .then(|| find(SERVER.0, is_server))
            .flatten()
    })
}

/// Returns the model with this name, with its configured defaults.
fn make(context: &ModelContext<'_>, name: &str) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let ModelContext { config, host, .. } = context;
    let (kind, model) = name
        .split_once(':')
        .map_or((name, None), |(kind, model)| (kind, Some(model)));
    let model_agent = model_agent(config, kind, model.filter(|model| !model.is_empty()));
    let get = |name: &str| {
        let models =
            Models::new((*host).clone(), config.agents().clone()).timeout(reply_timeout(context));
        models
            .get(name)
            .map_err(|error| Fault::usage(error.to_string()))
    };
    match model_agent {
        Some(model_agent) if is_program(&*model_agent.agent) => program(context, &model_agent),
        Some(model_agent) if is_server(&*model_agent.agent) => server(context, kind, &model_agent),
        Some(model_agent) if model_agent.model.is_none() => get(&played(config, &model_agent)?),
        _ => get(name),
    }
}

/// Returns an agent program as a model, with its configured defaults.
fn program(
    context: &ModelContext<'_>,
    model_agent: &ModelAgent<'_>,
) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let mut given = Spec {
        env: spec::variables(&context.args.env)?,
        ..Spec::default()
    };
    let model = fill(context.config, model_agent, &mut given)?;
    let real = given
        .settings
        .last(keys::MODEL)
        .filter(|real| !real.is_empty())
        .map(str::to_owned);
    remove_agent_settings(
        &mut given.settings,
        model_agent.agent.dialect().as_model().settings,
    );
    let options = ModelOptions {
        model: real,
        program: given.program,
        extra_args: given.extra_args,
        env: given.env,
        settings: given.settings,
        timeout: reply_timeout(context),
        ..ModelOptions::default()
    };
    let agent = AgentModel::new(model_agent.agent.clone(), context.host.clone(), options);
    let name = with_model(&format!("{}-cli", model_agent.name), model.as_deref());
    Ok(Arc::new(NamedModel {
        name,
        model: Arc::new(agent),
    }))
}

/// Returns a model behind a server, with its configured defaults.
fn server(
    context: &ModelContext<'_>,
    kind: &str,
    model_agent: &ModelAgent<'_>,
) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let mut given = Spec {
        env: spec::variables(&context.args.env)?,
        ..Spec::default()
    };
    let model = fill(context.config, model_agent, &mut given)?;
    let name = with_model(kind, model.as_deref());
    let server = ApiModel::server(&name, context.host, &given).map_err(|error| {
        Fault::usage(format!("model {name:?}: {error}"))
            .hint("see docs/agents/openai-api.md for the settings of a server")
    })?;
    Ok(Arc::new(server.timeout(reply_timeout(context))))
}

/// Returns the model name of a script, with its configured file.
fn played(config: &Config, model_agent: &ModelAgent<'_>) -> Result<String, Fault> {
    let mut given = Spec::default();
    fill(config, model_agent, &mut given)?;
    Ok(with_model(
        model_agent.agent.name(),
        given.settings.last("script"),
    ))
}

fn with_model(name: &str, model: Option<&str>) -> String {
    model.map_or_else(|| name.to_owned(), |model| format!("{name}:{model}"))
}

/// Fills in an agent's configured defaults. Returns the model name as requested or configured;
/// aliases are resolved on each use.
fn fill(
    config: &Config,
    model_agent: &ModelAgent<'_>,
    given: &mut Spec,
) -> Result<Option<String>, Fault> {
    if let Some(model) = model_agent.model {
        given.settings.set(keys::MODEL, model);
    }
    let named = model_agent.model.map(str::to_owned);
    let Some(defaults) = config.defaults(model_agent.name) else {
        return Ok(named);
    };
    let remarks = spec::fill_defaults(&defaults, given)?;
    remarks
        .iter()
        .for_each(|remark| output::eprint_line(remark));
    let default_name = defaults
        .entries()
        .get(&Field::Model)
        .map(|entry| entry.value.text().to_owned());
    Ok(named.or(default_name).filter(|model| !model.is_empty()))
}

/// Removes settings about an agent's own work, and those that would undo what turns it into a plain
/// model.
fn remove_agent_settings(settings: &mut Settings, plain: &[(&str, &str)]) {
    AGENT_ONLY.iter().for_each(|key| settings.remove(key));
    let several = |key: &str| plain.iter().filter(|(known, _)| *known == key).count() > 1;
    let about = |value: &str| {
        value
            .split_once('=')
            .map_or_else(|| value.to_owned(), |(about, _)| about.trim().to_owned())
    };
    for (key, _) in plain {
        // In a setting with several values, each KEY=VALUE counts separately.
        let taken = |value: &str| {
            plain
                .iter()
                .any(|(known, own)| known == key && about(own) == about(value))
        };
        let values = settings.get(key).unwrap_or_default().iter();
        let remaining: Vec<String> = values
            .filter(|value| several(key) && !taken(value))
            .cloned()
            .collect();
        settings.remove(key);
        remaining
            .into_iter()
            .for_each(|value| settings.push(key, value));
    }
}

/// Returns the time limit for one reply, which defaults to that of the whole run. Time spent in
/// tools does not count.
fn reply_timeout(context: &ModelContext<'_>) -> Duration {
    let whole = context
        .args
        .limits
        .timeout
        .map_or_else(|| context.config.limits().wall, |Time(time)| time);
    context
        .args
        .limits
        .reply_timeout
        .map_or(whole, |Time(time)| time)
        .unwrap_or(UNLIMITED)
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
