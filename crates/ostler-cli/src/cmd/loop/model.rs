//! Which model a loop works with, and how the files say that it is asked.

use std::sync::Arc;
use std::time::Duration;

use ostler::adapter::{AgentModel, ApiModel, ModelOptions};
use ostler::config::{Config, Field};
use ostler::{Agent, Host, ModelAdapter, Models, Settings, Spec, keys};

use super::named_model::NamedModel;
use crate::args::{LoopArgs, Time};
use crate::fault::Fault;
use crate::{config, output, spec};

/// The agent whose model is behind a server, and what such a model is called for short.
const SERVER: (&str, &str) = ("openai-api", "openai");

/// What is as good as no limit, where there must be one.
pub(super) const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// What an agent's work is about, and not how its model is asked: a loop has its own.
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
    keys::MODEL, // it has a field of its own
];

/// What the choice depends on.
pub(super) struct ModelContext<'a> {
    pub(super) config: &'a Config,
    pub(super) host: &'a Host,
    pub(super) args: &'a LoopArgs,
    /// The model of the loop that is gone on with.
    pub(super) previous_model: Option<String>,
}

/// The model that was named, that of the session gone on with, or that of the agent that is there.
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

/// The agent that a run would choose, as a model.
async fn default_name(context: &ModelContext<'_>) -> Result<String, Fault> {
    let ModelContext { config, host, .. } = context;
    let chosen = match spec::configured(config) {
        Some(named) => named?,
        None => spec::first_usable(config, host).await?,
    };
    if chosen.agent.plays() && spec::configured(config).is_none() {
        let fault = Fault::usage(
            "no coding agent and no key of a server was found on this machine: there is no model",
        );
        return Err(fault.hint(format!("--model NAME, one of: {}", names(config, host))));
    }
    let is_program = is_program(&*chosen.agent);
    let name = if is_program {
        format!("{}-cli", chosen.name)
    } else {
        chosen.name
    };
    // A script has no models to choose from.
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

/// An agent that is asked as a model.
struct ModelAgent<'a> {
    /// What the files call it: what they say under this name holds.
    name: &'a str,
    agent: Arc<dyn Agent>,
    /// The model of its own, as it was named.
    model: Option<&'a str>,
}

/// The agent behind a name of a model, if there is one.
fn model_agent<'a>(
    config: &Config,
    kind: &'a str,
    model: Option<&'a str>,
) -> Option<ModelAgent<'a>> {
    // An address says all there is to say, whatever a file calls so.
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

/// The model of that name, asked as the files say.
fn make(context: &ModelContext<'_>, name: &str) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let ModelContext { config, host, .. } = context;
    let (kind, model) = name
        .split_once(':')
        .map_or((name, None), |(kind, model)| (kind, Some(model)));
    let model_agent = model_agent(config, kind, model.filter(|model| !model.is_empty()));
    let get = |name: &str| {
        let models =
            Models::new((*host).clone(), config.agents().clone()).patience(reply_timeout(context));
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

/// A program's model, with what the files say of it.
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
    leave_out(
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

/// A model behind a server, with what the files say of it.
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
            .hint("docs/agents/openai-api.md says what a server needs.")
    })?;
    Ok(Arc::new(server.timeout(reply_timeout(context))))
}

/// The name of a script that plays a model, with the file that is configured for it.
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

/// Puts beneath a spec what the files say of an agent. Gives the model as it was named, by the caller or by them: what it is
/// really called is looked up each time.
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
    remarks.iter().for_each(|remark| output::tell(remark));
    let default_name = defaults
        .entries()
        .get(&Field::Model)
        .map(|entry| entry.value.text().to_owned());
    Ok(named.or(default_name).filter(|model| !model.is_empty()))
}

/// Leaves out what is about an agent's own work, and what would undo the settings that make a plain model of it.
fn leave_out(settings: &mut Settings, plain: &[(&str, &str)]) {
    AGENT_ONLY.iter().for_each(|key| settings.remove(key));
    let several = |key: &str| plain.iter().filter(|(known, _)| *known == key).count() > 1;
    let about = |value: &str| {
        value
            .split_once('=')
            .map_or_else(|| value.to_owned(), |(about, _)| about.trim().to_owned())
    };
    for (key, _) in plain {
        // Of what has several values, each KEY=VALUE is a setting of its own.
        let taken = |value: &str| {
            plain
                .iter()
                .any(|(known, own)| known == key && about(own) == about(value))
        };
        let values = settings.get(key).unwrap_or_default().iter();
        let kept: Vec<String> = values
            .filter(|value| several(key) && !taken(value))
            .cloned()
            .collect();
        settings.remove(key);
        kept.into_iter().for_each(|value| settings.push(key, value));
    }
}

/// How long one answer may take: as long as the whole, if nothing else is said. The time that tools take in the middle of it does
/// not count.
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
    fn what_makes_a_plain_model_is_not_undone_and_the_rest_stays() {
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
        leave_out(&mut settings, &plain);
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
