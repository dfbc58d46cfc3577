//! From the command line to what the library starts: the choice of the agent and its spec, the same for every verb.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler::config::{Config, Defaults, nearest};
use ostler::{
    AfterTurn, Agent, Attendance, Denials, Dialect, Host, Limits, Sandbox, Settings, Spec,
    SpecError, keys,
};

use crate::args::{AgentSettings, LimitArgs, SandboxKind, StartArgs, Time};
use crate::fault::Fault;
use crate::trust::Project;
use crate::{config, environment, output, policy};

/// The agent that `ostler loop` is. It is no agent of `ostler run`: it has no model of its own.
pub(crate) const LOOP: &str = "loop";

/// The directory to work in.
pub(crate) fn directory(given: Option<&Path>) -> Result<PathBuf, Fault> {
    let here = environment::directory()
        .map_err(|e| Fault::usage(format!("this directory cannot be used: {e}")))?;
    Ok(given.map_or_else(|| here.clone(), |dir| here.join(dir)))
}

/// Agents with a page of their own; the others speak ACP, and share one.
const AGENT_PAGES: [&str; 8] = [
    "claude",
    "codex",
    "copilot",
    "loop",
    "mock",
    "openai-api",
    "openclaw",
    "scripted",
];

/// The page about an agent.
pub(crate) fn docs_page(agent: &dyn Agent) -> String {
    let name = AGENT_PAGES
        .iter()
        .find(|name| **name == agent.name())
        .unwrap_or(&"acp");
    format!("docs/agents/{name}.md")
}

/// What an agent says of a spec that is wrong.
pub(crate) fn spec_fault(error: &SpecError, agent: &dyn Agent, verb: &str) -> Fault {
    let hint = format!(
        "`ostler {verb} --help` and {} list the settings.",
        docs_page(agent)
    );
    Fault::usage(error.to_string()).hint(hint)
}

/// The agent to start, and the name it goes by: its own, or another that a file gives it.
#[derive(Clone)]
pub(crate) struct ChosenAgent {
    pub(crate) name: String,
    pub(crate) agent: Arc<dyn Agent>,
}

/// The agent that was named, or the one that is there. A played one only where somebody looks on (`has_viewer`).
pub(crate) async fn choose(
    config: &Config,
    args: &StartArgs,
    (host, has_viewer): (&Host, bool),
) -> Result<ChosenAgent, Fault> {
    if let Some(name) = &args.agent {
        return find_agent(config, name);
    }
    if let Some(chosen) = configured(config) {
        return chosen;
    }
    let chosen = first_usable(config, host).await?;
    if !chosen.agent.plays() {
        return Ok(chosen);
    }
    // A person is shown what Ostler does. A script that asked for an answer, and whoever asked an agent for something,
    // must not take a played one for it: the first real agent then says that it is missing.
    if args.is_for_any_agent() && has_viewer {
        output::tell(
            "No coding agent was found on this machine: the built-in agent `scripted` plays a script instead.",
        );
        output::tell("`ostler doctor` says how to install one.\n");
        return Ok(chosen);
    }
    Ok(config
        .agents()
        .iter()
        .find(|known| !known.plays())
        .map_or(chosen, |agent| ChosenAgent::unaliased(agent.clone())))
}

/// The agent that a file or the environment names.
pub(crate) fn configured(config: &Config) -> Option<Result<ChosenAgent, Fault>> {
    let entry = config.default_agent()?;
    Some(find_agent(config, entry.value.text()).map_err(|fault| fault.with_origin(&entry.from)))
}

/// The first agent that is there and ready; one that plays a script when there is none.
pub(crate) async fn first_usable(config: &Config, host: &Host) -> Result<ChosenAgent, Fault> {
    let agent = config
        .agents()
        .choose_for(host, |agent| probe_spec(config, agent.name()))
        .await;
    agent
        .map(ChosenAgent::unaliased)
        .ok_or_else(|| Fault::internal("no agent is known"))
}

impl ChosenAgent {
    pub(crate) fn unaliased(agent: Arc<dyn Agent>) -> Self {
        Self {
            name: agent.name().to_owned(),
            agent,
        }
    }
}

/// The language that is spoken with an agent that is started like this.
pub(crate) fn dialect_for(agent: &dyn Agent, spec: &Spec) -> &'static dyn Dialect {
    let dialect = agent.dialect();
    dialect.select_transport(spec).unwrap_or(dialect)
}

/// The same before there is a spec: by what was typed and what the files say. What is wrong with that is said later.
pub(crate) fn likely_dialect(
    args: &StartArgs,
    config: &Config,
    chosen: &ChosenAgent,
) -> &'static dyn Dialect {
    let mut spec = Spec {
        after_turn: AfterTurn::Wait,
        ..Spec::default()
    };
    let _ = collect_settings(&args.agent_settings, &mut spec.settings);
    if let Some(defaults) = config.defaults(&chosen.name) {
        let _ = defaults.fill(&mut spec, &lookup);
    }
    dialect_for(&*chosen.agent, &spec)
}

/// A spec to probe an agent with: what the files say of it, as far as it can be had.
pub(crate) fn probe_spec(config: &Config, name: &str) -> Spec {
    let mut spec = Spec::default();
    if let Some(defaults) = config.defaults(name) {
        let _ = defaults.fill(&mut spec, &lookup); // the run says what is wrong
    }
    spec
}

/// A variable of the caller's, for a file that refers to it.
pub(crate) fn lookup(name: &str) -> Option<String> {
    environment::variable(name)?.into_string().ok()
}

/// The agent of that name, or an error that lists those there are.
pub(crate) fn find_agent(config: &Config, name: &str) -> Result<ChosenAgent, Fault> {
    let agent = config.agent(name).ok_or_else(|| {
        if name == LOOP {
            return Fault::usage("the agent loop is a verb of its own")
                .hint("ostler loop \"…\"; ostler loop --help");
        }
        let (names, fault) = (
            config.names(),
            Fault::usage(format!("there is no agent {name:?}")),
        );
        let near = nearest(name, &names);
        let meant = if near.is_empty() {
            String::new()
        } else {
            format!("did you mean {}? ", near.join(" or "))
        };
        fault.hint(format!("{meant}agents: {}", names.join(", ")))
    })?;
    Ok(ChosenAgent {
        name: name.to_owned(),
        agent,
    })
}

/// What differs from one use of an agent to another.
#[derive(Debug, Default)]
pub(crate) struct LaunchContext {
    pub(crate) prompt: String,
    pub(crate) dir: PathBuf,
    /// The project in that directory.
    pub(crate) project: Project,
    /// A person or a program that follows along wants text as it is written; the others want the answer only.
    pub(crate) streaming: bool,
    pub(crate) after_turn: AfterTurn,
    pub(crate) attendance: Attendance,
    /// Whether the model is chosen already, so that the environment's is not asked for.
    pub(crate) has_model: bool,
}

/// What was typed, before an agent's own defaults.
#[derive(Debug)]
pub(crate) struct RequestedSpec {
    pub(crate) spec: Spec,
    streaming: bool,
    /// Whether rules hold that the workspace's own settings of an agent would go round.
    has_policy: bool,
}

/// Puts together what was typed.
pub(crate) fn build(
    args: StartArgs,
    config: &Config,
    context: LaunchContext,
) -> Result<RequestedSpec, Fault> {
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
    let env = variables(&args.env)?;
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
    loaded
        .remarks
        .iter()
        .for_each(|remark| output::tell(remark));
    let has_policy = loaded.policy.is_some() && !context.project.is_trusted;
    let spec = Spec {
        prompt: context.prompt,
        dir: Some(context.dir),
        after_turn: context.after_turn,
        attendance: context.attendance,
        policy: loaded.policy,
        settings,
        extra_args: args.extra,
        env,
        program,
        raw_log,
        limits: merged_limits(&args.limits, &config.limits()),
        denials,
        sandbox: sandbox(args.sandbox),
        ..Spec::default()
    };
    Ok(RequestedSpec {
        spec,
        streaming: context.streaming,
        has_policy,
    })
}

/// The limits: those of the files, and over them those of the flags.
fn merged_limits(args: &LimitArgs, usual: &Limits) -> Limits {
    let flag_or = |flag: Option<Time>, usual| flag.map_or(usual, |time| time.0);
    Limits {
        wall: flag_or(args.timeout, usual.wall),
        idle: flag_or(args.idle_timeout, usual.idle),
        startup: flag_or(args.startup_timeout, usual.startup),
        grace: args.grace.and_then(|time| time.0).unwrap_or(usual.grace),
        budget_tokens: args.max_tokens.or(usual.budget_tokens),
        budget_turns: args.max_messages.or(usual.budget_turns),
        budget_wall: flag_or(args.max_time, usual.budget_wall),
        event_bytes: args
            .sizes
            .max_log_size
            .map_or(usual.event_bytes, |size| size.0),
        raw_bytes: args
            .sizes
            .max_raw_size
            .map_or(usual.raw_bytes, |size| size.0),
        ..usual.clone()
    }
}

impl RequestedSpec {
    /// The same as [`RequestedSpec::spec`], and what there is to say about it is told.
    pub(crate) fn resolve(&self, config: &Config, chosen: &ChosenAgent) -> Result<Spec, Fault> {
        let (spec, remarks) = self.spec(config, chosen)?;
        remarks.iter().for_each(|remark| output::tell(remark));
        Ok(spec)
    }

    /// The spec for an agent: what was typed, and beneath it what the files say of the agent; and what to say about it.
    pub(crate) fn spec(
        &self,
        config: &Config,
        chosen: &ChosenAgent,
    ) -> Result<(Spec, Vec<String>), Fault> {
        let (agent, mut spec) = (&*chosen.agent, self.spec.clone());
        let mut remarks = match config.defaults(&chosen.name) {
            Some(defaults) => fill_defaults(&defaults, &mut spec)?,
            None => config.limit(agent, &mut spec),
        };
        let knows = |key: &str| agent.settings().iter().any(|known| known.key == key);
        if knows(keys::INCLUDE_PARTIAL) && spec.settings.get(keys::INCLUDE_PARTIAL).is_none() {
            spec.settings
                .set(keys::INCLUDE_PARTIAL, self.streaming.to_string());
        }
        if self.has_policy
            && let Some(dir) = &self.spec.dir
        {
            remarks.extend(leave_out_project_settings(agent, &mut spec.settings, dir));
        }
        Ok((spec, remarks))
    }
}

/// Puts beneath a spec what the files say of an agent, and gives what there is to say about it.
pub(crate) fn fill_defaults(
    defaults: &Defaults<'_>,
    spec: &mut Spec,
) -> Result<Vec<String>, Fault> {
    defaults.fill(spec, &lookup).map_err(|error| {
        Fault::usage(error.to_string())
            .hint("set it, or give the agent's variable with --env NAME=VALUE")
    })
}

/// Where an agent's settings of a project are, for a word about them.
const PROJECT_SETTINGS: [&str; 3] = [".claude", ".mcp.json", "CLAUDE.md"];

/// Whoever sets rules does not want a repository to go round them: its own settings of the agent can start programs (hooks,
/// MCP servers) that no rule sees.
fn leave_out_project_settings(
    agent: &dyn Agent,
    settings: &mut Settings,
    dir: &Path,
) -> Option<String> {
    let takes = agent
        .settings()
        .iter()
        .any(|known| known.key == "setting_sources");
    if !takes || settings.get("setting_sources").is_some() {
        return None;
    }
    settings.set("setting_sources", "user");
    let there: Vec<&str> = PROJECT_SETTINGS
        .into_iter()
        .filter(|name| dir.join(name).exists())
        .collect();
    (!there.is_empty()).then(|| {
        format!(
            "Under a policy the workspace's own settings of the agent ({}) are left out: they can start programs that no rule sees. \
             --trust-project takes them; so does trusted_projects in your own policy.",
            there.join(", ")
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

/// Puts the agent's settings under their keys.
fn collect_settings(given: &AgentSettings, settings: &mut Settings) -> Result<(), Fault> {
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
        // The agent runs in another directory: a path must not depend on ours.
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

/// What `--set` says.
pub(crate) fn apply_set_flags(settings: &mut Settings, entries: &[String]) -> Result<(), Fault> {
    let mut set: Vec<&str> = Vec::new();
    for entry in entries {
        let Some((key, value)) = entry.split_once('=') else {
            return Err(Fault::usage(format!("--set {entry}: expected KEY=VALUE")));
        };
        // The first --set of a key replaces what Ostler chose, further ones add to it.
        if set.contains(&key) {
            settings.push(key, value);
        } else {
            settings.set(key, value);
        }
        set.push(key);
    }
    Ok(())
}

/// Tools are typed as agents' own help shows it: separated by commas or spaces, with patterns in parentheses.
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
    if tools.is_empty() { vec![typed] } else { tools } // an empty text means: no tools
}

fn schema_text(schema: &str) -> Result<String, Fault> {
    if schema.trim_start().starts_with('{') {
        return Ok(schema.to_owned());
    }
    std::fs::read_to_string(schema)
        .map_err(|e| Fault::usage(format!("the schema {schema} cannot be read: {e}")))
}

/// What `--env` says.
pub(crate) fn variables(entries: &[String]) -> Result<BTreeMap<String, String>, Fault> {
    entries.iter().map(|entry| variable(entry)).collect()
}

fn variable(entry: &str) -> Result<(String, String), Fault> {
    if let Some((name, value)) = entry.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    let value = environment::variable(entry).ok_or_else(|| {
        Fault::usage(format!("--env {entry}: this variable is not set"))
            .hint("--env NAME=VALUE sets it")
    })?;
    let value = value
        .into_string()
        .map_err(|_| Fault::usage(format!("--env {entry}: its value is not UTF-8")))?;
    Ok((entry.to_owned(), value))
}

fn absolute(path: &Path) -> Result<PathBuf, Fault> {
    std::path::absolute(path).map_err(|e| Fault::usage(format!("{}: {e}", path.display())))
}

fn utf8_path(path: &Path) -> Result<String, Fault> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Fault::usage(format!("{} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_a_page() {
        for agent in ostler::Agents::builtin().iter() {
            let docs_page = docs_page(&**agent);
            let file = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(&docs_page);
            let text = std::fs::read_to_string(file).unwrap();
            assert!(
                text.contains(agent.name()),
                "{docs_page} does not mention {}",
                agent.name()
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
