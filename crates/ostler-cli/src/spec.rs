//! Choice of the agent and its spec from the command line, shared by all verbs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler::config::{Config, Defaults, nearest};
use ostler::dialect::Dialect;
use ostler::spec::{
    AfterTurn, Attendance, Denials, Limits, ProjectSettings, Sandbox, Settings, keys,
};
use ostler::trust::ignored_agent_files;
use ostler::{Agent, Host, Spec, SpecError};

use crate::args::{AgentSettings, LimitArgs, SandboxKind, StartArgs, Time};
use crate::fault::{Fault, Result};
use crate::trust::Project;
use crate::{config, environment, output, policy};

/// Agent name of `ostler loop`. `ostler run` cannot use it, because it has no model.
pub(crate) const LOOP: &str = "loop";

/// Returns the documentation page of an agent. A configured agent speaks ACP.
pub(crate) fn docs_page(agent: &dyn Agent) -> String {
    let page = |name| format!("docs/agents/{name}.md");
    let about = agent.about();
    ostler_agents::find(about.name).map_or_else(
        || page(about.probe.map_or(about.name, |_| "acp")),
        ostler_agents::Manifest::docs_page,
    )
}

/// Converts a spec error into a usage error.
pub(crate) fn spec_fault(error: &SpecError, agent: &dyn Agent, verb: &str) -> Fault {
    usage!("{error}").hint(settings_hint(agent, verb))
}

/// Returns the hint for a spec that the agent rejects.
pub(crate) fn settings_hint(agent: &dyn Agent, verb: &str) -> String {
    format!(
        "see `ostler {verb} --help` and {} for the settings",
        docs_page(agent)
    )
}

/// The agent to start, and the name it was chosen by: its own or a configured one.
#[derive(Clone)]
pub(crate) struct ChosenAgent {
    pub(crate) name: String,
    pub(crate) agent: Arc<dyn Agent>,
}

/// Whether the scripted agent may be chosen if no other is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demo {
    /// A user follows the run.
    Allowed,
    /// A program reads the answer.
    Refused,
}

/// Returns the requested agent, or the first usable one.
pub(crate) async fn choose(
    config: &Config,
    args: &StartArgs,
    host: &Host,
    demo: Demo,
) -> Result<ChosenAgent> {
    if let Some(name) = &args.agent {
        return find_agent(config, name);
    }
    if let Some(chosen) = configured(config) {
        return chosen;
    }
    let chosen = first_usable(config, host).await?;
    if !chosen.agent.about().scripted {
        return Ok(chosen);
    }
    // A user who tries Ostler sees what it does. A script, or a request with agent-specific flags,
    // must not mistake a scripted answer for a real one: it gets the first real agent, which
    // reports that it is not installed.
    if args.is_for_any_agent() && demo == Demo::Allowed {
        output::eprint_line(
            "No coding agent found. The built-in agent `scripted` plays a demo instead.",
        );
        output::eprint_line("Run `ostler doctor` to see how to install one.\n");
        return Ok(chosen);
    }
    Ok(config
        .agents()
        .iter()
        .find(|known| !known.about().scripted)
        .map_or(chosen, |agent| ChosenAgent::unaliased(agent.clone())))
}

/// Returns the agent configured by a file or the environment.
pub(crate) fn configured(config: &Config) -> Option<Result<ChosenAgent>> {
    let entry = config.default_agent()?;
    Some(find_agent(config, entry.value.text()).map_err(|fault| fault.with_origin(&entry.from)))
}

/// Returns the first agent that is installed and ready, or the scripted agent if there is none.
pub(crate) async fn first_usable(config: &Config, host: &Host) -> Result<ChosenAgent> {
    let agent = config
        .agents()
        .choose_for(host, |agent| probe_spec(config, agent.about().name))
        .await;
    agent
        .map(ChosenAgent::unaliased)
        .ok_or_else(|| Fault::internal("no agents are registered"))
}

impl ChosenAgent {
    pub(crate) fn unaliased(agent: Arc<dyn Agent>) -> Self {
        Self {
            name: agent.about().name.to_owned(),
            agent,
        }
    }
}

/// Returns the dialect for an agent started with this spec.
pub(crate) fn dialect_for(agent: &dyn Agent, spec: &Spec) -> &'static dyn Dialect {
    let dialect = agent.dialect();
    dialect.select_transport(spec).unwrap_or(dialect)
}

/// Returns the probable dialect before there is a spec, from flags and files. Errors are reported
/// later.
pub(crate) fn likely_dialect(
    args: &StartArgs,
    config: &Config,
    chosen: &ChosenAgent,
) -> &'static dyn Dialect {
    let mut spec = Spec::default().after_turn(AfterTurn::Wait);
    let mut settings = Settings::default();
    let _ = collect_settings(&args.agent_settings, &mut settings);
    let _ = spec.apply(&settings);
    if let Some(defaults) = config.defaults(&chosen.name) {
        let _ = defaults.fill(&mut spec, &lookup);
    }
    dialect_for(&*chosen.agent, &spec)
}

/// Returns the spec to probe an agent with, from the configuration files.
pub(crate) fn probe_spec(config: &Config, name: &str) -> Spec {
    let mut spec = Spec::default();
    if let Some(defaults) = config.defaults(name) {
        let _ = defaults.fill(&mut spec, &lookup); // the run reports errors
    }
    spec
}

/// Returns an environment variable that a file refers to.
pub(crate) fn lookup(name: &str) -> Option<String> {
    environment::variable(name)?.into_string().ok()
}

/// Returns the agent with this name, or an error that lists all names.
pub(crate) fn find_agent(config: &Config, name: &str) -> Result<ChosenAgent> {
    let agent = config.agent(name).ok_or_else(|| {
        if name == LOOP {
            return Fault::usage("`loop` is a command, not an agent")
                .hint("run `ostler loop \"…\"`");
        }
        let (names, fault) = (config.names(), usage!("unknown agent {name:?}"));
        let near = nearest(name, &names);
        let meant = if near.is_empty() {
            String::new()
        } else {
            format!("did you mean {}? ", near.join(" or "))
        };
        fault.hint(format!("{meant}available agents: {}", names.join(", ")))
    })?;
    Ok(ChosenAgent {
        name: name.to_owned(),
        agent,
    })
}

/// How a verb launches an agent.
#[derive(Debug, Default)]
pub(crate) struct LaunchContext {
    pub(crate) prompt: String,
    pub(crate) dir: PathBuf,
    /// The project in the working directory.
    pub(crate) project: Project,
    /// Whether text is streamed; otherwise only the final answer is used.
    pub(crate) streaming: bool,
    pub(crate) after_turn: AfterTurn,
    pub(crate) attendance: Attendance,
    /// Whether the model is already chosen, so that the environment variable is ignored.
    pub(crate) has_model: bool,
    /// The verb, to name it in a hint.
    pub(crate) verb: &'static str,
}

/// The spec from the command line, before an agent's configured defaults.
#[derive(Debug)]
pub(crate) struct RequestedSpec {
    pub(crate) spec: Spec,
    /// The agent's settings, by their keys.
    pub(crate) settings: Settings,
    /// The verb, to name it in a hint.
    verb: &'static str,
    streaming: bool,
}

/// Builds the spec from the command line.
pub(crate) fn build(
    args: StartArgs,
    config: &Config,
    context: LaunchContext,
) -> Result<RequestedSpec> {
    let mut settings = Settings::default();
    let denials = if args.agent_settings.tolerate_denials {
        Denials::Tolerate
    } else {
        Denials::Fail
    };
    collect_settings(&args.agent_settings, &mut settings)?;
    if !context.has_model
        && settings.last(keys::MODEL).is_none()
        && let Some(model) = config::model()?
    {
        settings.set(keys::MODEL, model);
    }
    let limits = &args.limits;
    for (key, value) in [
        (keys::MAX_TURNS, &limits.max_turns),
        (keys::MAX_BUDGET_USD, &limits.max_budget_usd),
    ] {
        if let Some(value) = value {
            settings.set(key, value);
        }
    }
    let (env, labels) = (variables(&args.env)?, labels(&args.label)?);
    let raw_log = args.raw_log.as_deref().map(absolute).transpose()?;
    let program = args
        .program
        .map(|p| {
            if p.components().count() > 1 {
                absolute(&p)
            } else {
                Ok(p)
            }
        })
        .transpose()?;
    let loaded = policy::load(&args.policy, &context.project)?;
    output::warn(&loaded.remarks);
    let project_settings = if context.project.is_trusted {
        ProjectSettings::Trusted
    } else {
        ProjectSettings::Untrusted
    };
    let mut spec = Spec::new(context.prompt)
        .dir(context.dir)
        .after_turn(context.after_turn)
        .attendance(context.attendance)
        .policy(loaded.policy)
        .project_settings(project_settings)
        .extra_args(args.extra)
        .labels(labels)
        .limits(merged_limits(&args.limits, &config.limits()))
        .denials(denials)
        .sandbox(sandbox(args.sandbox));
    spec.env = env;
    spec.program = program;
    spec.raw_log = raw_log;
    Ok(RequestedSpec {
        spec,
        settings,
        verb: context.verb,
        streaming: context.streaming,
    })
}

/// Returns the limits from the files, overridden by the flags.
fn merged_limits(args: &LimitArgs, usual: &Limits) -> Limits {
    let flag_or = |flag: Option<Time>, usual| flag.map_or(usual, |time| time.0);
    usual
        .clone()
        .wall(flag_or(args.timeout, usual.wall))
        .idle(flag_or(args.idle_timeout, usual.idle))
        .startup(flag_or(args.startup_timeout, usual.startup))
        .grace(args.grace.and_then(|time| time.0).unwrap_or(usual.grace))
        .budget_tokens(args.max_tokens.or(usual.budget_tokens))
        .budget_turns(args.max_messages.or(usual.budget_turns))
        .budget_wall(flag_or(args.max_time, usual.budget_wall))
        .event_bytes(
            args.sizes
                .max_log_size
                .map_or(usual.event_bytes, |size| size.0),
        )
        .raw_bytes(
            args.sizes
                .max_raw_size
                .map_or(usual.raw_bytes, |size| size.0),
        )
}

impl RequestedSpec {
    /// Returns the result of [`RequestedSpec::spec`] and prints its warnings.
    pub(crate) fn resolve(&self, config: &Config, chosen: &ChosenAgent) -> Result<Spec> {
        let (spec, remarks) = self.spec(config, chosen)?;
        output::warn(&remarks);
        Ok(spec)
    }

    /// Returns the spec for an agent, with its configured defaults filled in, and warnings for the
    /// user.
    pub(crate) fn spec(
        &self,
        config: &Config,
        chosen: &ChosenAgent,
    ) -> Result<(Spec, Vec<String>)> {
        let (agent, mut spec) = (&*chosen.agent, self.spec.clone());
        spec.apply(&self.settings)
            .map_err(|error| spec_fault(&error, agent, self.verb))?;
        let mut remarks = match config.defaults(&chosen.name) {
            Some(defaults) => fill_defaults(&defaults, &mut spec)?,
            None => config.fill_limits(agent, &mut spec),
        };
        if agent.about().accepts(keys::INCLUDE_PARTIAL) {
            spec.include_partial.get_or_insert(self.streaming);
        }
        remarks.extend(ignored_settings(agent, &spec));
        Ok((spec, remarks))
    }
}

/// Fills in an agent's configured defaults, and returns warnings for the user.
pub(crate) fn fill_defaults(defaults: &Defaults<'_>, spec: &mut Spec) -> Result<Vec<String>> {
    defaults.fill(spec, &lookup).map_err(|error| {
        usage!("{error}").hint("set it, or pass the agent's variable with `--env NAME=VALUE`")
    })
}

/// Returns a warning about settings of the project for the agent that a policy excludes.
fn ignored_settings(agent: &dyn Agent, spec: &Spec) -> Option<String> {
    let about = dialect_for(agent, spec).about();
    let ignored = ignored_agent_files(&about, spec, spec.dir.as_deref()?);
    (about.project_files.can_ignore && !ignored.is_empty()).then(|| {
        format!(
            "The project's settings for the agent ({}) are ignored because a policy applies: they \
             can start programs that no rule covers. To use them, pass `--trust-project` or add \
             the project to `trusted_projects` in your policy.",
            ignored.join(", ")
        )
    })
}

fn sandbox(kind: Option<SandboxKind>) -> Sandbox {
    match kind {
        None => Sandbox::Usual,
        Some(SandboxKind::WorkspaceWrite) => Sandbox::WorkspaceWrite,
        Some(SandboxKind::ReadOnly) => Sandbox::ReadOnly,
        Some(SandboxKind::Off) => Sandbox::Off,
    }
}

/// Stores the agent settings under their keys.
pub(crate) fn collect_settings(given: &AgentSettings, settings: &mut Settings) -> Result<()> {
    let single = [
        (keys::MODEL, &given.model),
        (keys::SYSTEM_PROMPT, &given.system_prompt),
        (keys::APPEND_SYSTEM_PROMPT, &given.append_system_prompt),
        (keys::PERMISSION_MODE, &given.permission_mode),
        (keys::WORKSPACE_TOOLS, &given.workspace_tools),
        (keys::RESUME, &given.resume),
        (keys::SESSION_ID, &given.session_id),
    ];
    for (key, value) in single {
        if let Some(value) = value {
            settings.set(key, value);
        }
    }
    let lists = [
        (keys::TOOLS, &given.tools),
        (keys::ALLOWED_TOOLS, &given.allowed_tools),
        (keys::DISALLOWED_TOOLS, &given.disallowed_tools),
    ];
    for (key, values) in lists {
        for value in values.iter().flat_map(|v| split_tools(v)) {
            settings.push(key, value);
        }
    }
    for config in &given.mcp_config {
        // The agent may run in another directory, so the path must be absolute.
        let config = if config.trim_start().starts_with('{') {
            config.clone()
        } else {
            utf8_path(&absolute(Path::new(config))?)?
        };
        settings.push(keys::MCP_CONFIG, config);
    }
    for (key, on) in [
        (keys::STRICT_MCP, given.strict_mcp),
        (keys::FORK, given.fork),
    ] {
        if on {
            settings.set(key, "true");
        }
    }
    if let Some(schema) = &given.json_schema {
        settings.set(keys::JSON_SCHEMA, schema_text(schema)?);
    }
    apply_set_flags(settings, &given.set)
}

/// Applies the `--set` flags.
pub(crate) fn apply_set_flags(settings: &mut Settings, entries: &[String]) -> Result<()> {
    let mut set: Vec<&str> = Vec::new();
    for entry in entries {
        let Some((key, value)) = entry.split_once('=') else {
            return Err(usage!("--set {entry}: expected KEY=VALUE"));
        };
        // The first `--set` of a key replaces Ostler's value, further ones add to it.
        if set.contains(&key) {
            settings.push(key, value);
        } else {
            settings.set(key, value);
        }
        set.push(key);
    }
    Ok(())
}

/// Splits a tool list at commas and spaces outside parentheses, as the agents' own flags do.
fn split_tools(typed: &str) -> Vec<&str> {
    let mut depth = 0u32;
    let between = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_whitespace())
    };
    let tools: Vec<&str> = typed
        .split(between)
        .filter(|tool| !tool.is_empty())
        .collect();
    if tools.is_empty() { vec![typed] } else { tools } // an empty text means no tools
}

fn schema_text(schema: &str) -> Result<String> {
    if schema.trim_start().starts_with('{') {
        return Ok(schema.to_owned());
    }
    std::fs::read_to_string(schema).map_err(|e| usage!("cannot read the schema {schema}: {e}"))
}

/// Parses the `--env` flags.
pub(crate) fn variables(entries: &[String]) -> Result<BTreeMap<String, String>> {
    entries.iter().map(|entry| variable(entry)).collect()
}

fn variable(entry: &str) -> Result<(String, String)> {
    if let Some((name, value)) = entry.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    let value = environment::variable(entry).ok_or_else(|| {
        usage!("--env {entry}: the variable is not set").hint("set it with `--env NAME=VALUE`")
    })?;
    let value = value
        .into_string()
        .map_err(|_| usage!("--env {entry}: its value is not UTF-8"))?;
    Ok((entry.to_owned(), value))
}

/// Parses the `--label` flags.
pub(crate) fn labels(entries: &[String]) -> Result<BTreeMap<String, String>> {
    let parse = |entry: &String| match entry.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(usage!("--label {entry}: expected NAME=VALUE")),
    };
    entries.iter().map(parse).collect()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| usage!("{}: {e}", path.display()))
}

fn utf8_path(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| usage!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_a_docs_page() {
        for agent in ostler::Agents::builtin().iter() {
            let docs_page = docs_page(&**agent);
            let file = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(&docs_page);
            let text = std::fs::read_to_string(file).unwrap();
            assert!(
                text.contains(agent.about().name),
                "{docs_page} does not mention {}",
                agent.about().name
            );
        }
    }

    #[test]
    fn tools_are_split_outside_parentheses() {
        assert_eq!(split_tools("Bash,Read"), ["Bash", "Read"]);
        assert_eq!(
            split_tools("Bash(git log *, x) Edit , Read"),
            ["Bash(git log *, x)", "Edit", "Read"]
        );
        assert_eq!(split_tools(""), [""]);
    }
}
