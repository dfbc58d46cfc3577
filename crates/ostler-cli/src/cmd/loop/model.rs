//! Which model a loop works with, and how the files say that it is asked.

use std::sync::Arc;
use std::time::Duration;

use ostler::adapter::{AgentModel, ApiModel, ModelOptions};
use ostler::config::{Config, Field};
use ostler::{Agent, Host, ModelAdapter, Models, Settings, Spec, keys};

use super::named_model::Named;
use crate::args::{LoopArgs, Time};
use crate::fault::Fault;
use crate::{config, output, spec};

/// The agent whose model is behind a server, and what such a model is called for short.
const SERVER: (&str, &str) = ("openai-api", "openai");

/// What is as good as no limit, where there must be one.
pub(super) const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// What an agent's work is about, and not how its model is asked: a loop has its own.
const OF_AGENTS: [&str; 14] = [
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
pub(super) struct Sought<'a> {
    pub(super) config: &'a Config,
    pub(super) host: &'a Host,
    pub(super) args: &'a LoopArgs,
    /// The model of the loop that is gone on with.
    pub(super) before: Option<String>,
}

/// The model that was named, that of the session gone on with, or that of the agent that is there.
pub(super) async fn choose(sought: &Sought<'_>) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let name = match sought.args.model.clone().or_else(|| sought.before.clone()) {
        Some(name) => name,
        None => usual(sought).await?,
    };
    make(sought, &name)
}

/// The agent that a run would choose, as a model.
async fn usual(sought: &Sought<'_>) -> Result<String, Fault> {
    let Sought { config, host, .. } = sought;
    let chosen = match spec::configured(config) {
        Some(named) => named?,
        None => spec::found(config, host).await?,
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
struct Asked<'a> {
    /// What the files call it: what they say under this name holds.
    name: &'a str,
    agent: Arc<dyn Agent>,
    /// The model of its own, as it was named.
    model: Option<&'a str>,
}

/// The agent behind a name of a model, if there is one.
fn asked<'a>(config: &Config, kind: &'a str, model: Option<&'a str>) -> Option<Asked<'a>> {
    // An address says all there is to say, whatever a file calls so.
    if kind == "openai-compatible" && model.is_some_and(|model| model.contains("://")) {
        return None;
    }
    let find = |name: &'a str, fits: fn(&dyn Agent) -> bool| {
        config
            .agent(name)
            .filter(|agent| fits(&**agent))
            .map(|agent| Asked { name, agent, model })
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
fn make(sought: &Sought<'_>, name: &str) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let Sought { config, host, .. } = sought;
    let (kind, model) = name
        .split_once(':')
        .map_or((name, None), |(kind, model)| (kind, Some(model)));
    let asked = asked(config, kind, model.filter(|model| !model.is_empty()));
    let get = |name: &str| {
        let models =
            Models::new((*host).clone(), config.agents().clone()).patience(patience(sought));
        models
            .get(name)
            .map_err(|error| Fault::usage(error.to_string()))
    };
    match asked {
        Some(asked) if is_program(&*asked.agent) => program(sought, &asked),
        Some(asked) if is_server(&*asked.agent) => server(sought, kind, &asked),
        Some(asked) if asked.model.is_none() => get(&played(config, &asked)?),
        _ => get(name),
    }
}

/// A program's model, with what the files say of it.
fn program(sought: &Sought<'_>, asked: &Asked<'_>) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let mut given = Spec {
        env: spec::variables(&sought.args.env)?,
        ..Spec::default()
    };
    let model = fill(sought.config, asked, &mut given)?;
    let real = given
        .settings
        .last(keys::MODEL)
        .filter(|real| !real.is_empty())
        .map(str::to_owned);
    leave_out(
        &mut given.settings,
        asked.agent.dialect().as_model().settings,
    );
    let options = ModelOptions {
        model: real,
        program: given.program,
        extra_args: given.extra_args,
        env: given.env,
        settings: given.settings,
        timeout: patience(sought),
        ..ModelOptions::default()
    };
    let agent = AgentModel::new(asked.agent.clone(), sought.host.clone(), options);
    let name = with_model(&format!("{}-cli", asked.name), model.as_deref());
    Ok(Arc::new(Named {
        name,
        model: Arc::new(agent),
    }))
}

/// A model behind a server, with what the files say of it.
fn server(
    sought: &Sought<'_>,
    kind: &str,
    asked: &Asked<'_>,
) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let mut given = Spec {
        env: spec::variables(&sought.args.env)?,
        ..Spec::default()
    };
    let model = fill(sought.config, asked, &mut given)?;
    let name = with_model(kind, model.as_deref());
    let server = ApiModel::server(&name, sought.host, &given).map_err(|error| {
        Fault::usage(format!("model {name:?}: {error}"))
            .hint("docs/agents/openai-api.md says what a server needs.")
    })?;
    Ok(Arc::new(server.timeout(patience(sought))))
}

/// The name of a script that plays a model, with the file that is configured for it.
fn played(config: &Config, asked: &Asked<'_>) -> Result<String, Fault> {
    let mut given = Spec::default();
    fill(config, asked, &mut given)?;
    Ok(with_model(
        asked.agent.name(),
        given.settings.last("script"),
    ))
}

fn with_model(name: &str, model: Option<&str>) -> String {
    model.map_or_else(|| name.to_owned(), |model| format!("{name}:{model}"))
}

/// Puts beneath a spec what the files say of an agent. Gives the model as it was named, by the caller or by them: what it is
/// really called is looked up each time.
fn fill(config: &Config, asked: &Asked<'_>, given: &mut Spec) -> Result<Option<String>, Fault> {
    if let Some(model) = asked.model {
        given.settings.set(keys::MODEL, model);
    }
    let named = asked.model.map(str::to_owned);
    let Some(defaults) = config.defaults(asked.name) else {
        return Ok(named);
    };
    let remarks = spec::filled(&defaults, given)?;
    remarks.iter().for_each(|remark| output::tell(remark));
    let usual = defaults
        .entries()
        .get(&Field::Model)
        .map(|entry| entry.value.text().to_owned());
    Ok(named.or(usual).filter(|model| !model.is_empty()))
}

/// Leaves out what is about an agent's own work, and what would undo the settings that make a plain model of it.
fn leave_out(settings: &mut Settings, plain: &[(&str, &str)]) {
    OF_AGENTS.iter().for_each(|key| settings.remove(key));
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
fn patience(sought: &Sought<'_>) -> Duration {
    let whole = sought
        .args
        .limits
        .timeout
        .map_or_else(|| sought.config.limits().wall, |Time(time)| time);
    sought
        .args
        .limits
        .reply_timeout
        .map_or(whole, |Time(time)| time)
        .unwrap_or(FOR_EVER)
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
