//! Which model a loop works with, and how the files say that it is asked.

use std::sync::Arc;
use std::time::Duration;

use ostler::adapter::{ApiModel, ModelOptions};
use ostler::config::Config;
use ostler::{Host, ModelAdapter, Models, Spec, keys};

use crate::args::{LoopArgs, Time};
use crate::fault::Fault;
use crate::{config, output, spec};

/// The agent whose model is behind a server, and what such a model is called here.
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
        let fault = Fault::usage("no coding agent and no key of a server was found on this machine: there is no model");
        return Err(fault.hint(format!("--model NAME, one of: {}", names(config, host))));
    }
    let name = if chosen.agent.name() == SERVER.0 { SERVER.1.to_owned() } else { as_model(&chosen) };
    Ok(match config::model()? {
        Some(model) => format!("{name}:{model}"),
        None => name,
    })
}

fn as_model(chosen: &spec::Chosen) -> String {
    let is_program = chosen.agent.dialect().probe().is_some();
    if is_program { format!("{}-cli", chosen.name) } else { chosen.name.clone() }
}

fn names(config: &Config, host: &Host) -> String {
    Models::new(host.clone(), config.agents().clone()).names().join(", ")
}

/// The model of that name, asked as the files say.
fn make(sought: &Sought<'_>, name: &str) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let Sought { config, host, args, .. } = sought;
    let (kind, model) = name.split_once(':').map_or((name, None), |(kind, model)| (kind, Some(model)));
    if kind == SERVER.0 || kind == SERVER.1 {
        return server(sought, name, model);
    }
    let typed = kind.strip_suffix("-cli").unwrap_or(kind);
    let models = Models::new((*host).clone(), config.agents().clone());
    let program = config.agent(typed).filter(|agent| agent.dialect().probe().is_some());
    let unknown = |error: ostler::adapter::UnknownModel| Fault::usage(error.to_string());
    let Some(agent) = program else { return models.get(name).map_err(unknown) };
    let mut given = Spec { env: spec::variables(&args.env)?, ..Spec::default() };
    fill(config, typed, model, &mut given)?;
    let real = given.settings.last(keys::MODEL).map(str::to_owned);
    for key in OF_AGENTS.iter().chain(agent.dialect().plain().settings.iter().map(|(key, _)| key)) {
        given.settings.remove(key);
    }
    let options = ModelOptions {
        model: real.clone(),
        program: given.program,
        extra_args: given.extra_args,
        env: given.env,
        settings: given.settings,
        timeout: patience(sought),
        ..ModelOptions::default()
    };
    let own = format!("{}-cli", agent.name());
    let own = real.filter(|real| !real.is_empty()).map_or_else(|| own.clone(), |real| format!("{own}:{real}"));
    models.asking(move |_| options.clone()).get(&own).map_err(unknown)
}

/// A model behind a server, with what the files say of it.
fn server(sought: &Sought<'_>, name: &str, model: Option<&str>) -> Result<Arc<dyn ModelAdapter>, Fault> {
    let mut given = Spec { env: spec::variables(&sought.args.env)?, ..Spec::default() };
    fill(sought.config, SERVER.0, model, &mut given)?;
    let server = ApiModel::server(name, sought.host, &given).map_err(|error| {
        Fault::usage(format!("model {name:?}: {error}")).hint("docs/agents/openai-api.md says what a server needs.")
    })?;
    Ok(Arc::new(server))
}

/// Puts beneath a spec what the files say of an agent.
fn fill(config: &Config, name: &str, model: Option<&str>, given: &mut Spec) -> Result<(), Fault> {
    if let Some(model) = model.filter(|model| !model.is_empty()) {
        given.settings.set(keys::MODEL, model);
    }
    let Some(defaults) = config.defaults(name) else { return Ok(()) };
    let remarks = spec::filled(&defaults, given)?;
    remarks.iter().for_each(|remark| output::tell(remark));
    Ok(())
}

/// How long one answer may take: as long as the whole, if nothing else is said. An agent that waits for its tools in the middle of
/// an answer takes as long as they do.
fn patience(sought: &Sought<'_>) -> Duration {
    let whole = sought.args.limits.timeout.map_or_else(|| sought.config.limits().wall, |Time(time)| time);
    sought.args.limits.reply_timeout.map_or(whole, |Time(time)| time).unwrap_or(FOR_EVER)
}
