//! `ostler run`: one task, one agent, from the command line to an exit code.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler::{Agent, Agents, Denials, Host, Limits, Sandbox, Session, Settings, Spec, keys};

use crate::args::{AgentSettings, Format, RunArgs, SandboxKind};
use crate::exit::Code;
use crate::fault::Fault;
use crate::follow::follow;
use crate::output::{self, Liveness};
use crate::signals::Signals;
use crate::{environment, prompt};

/// Runs one task.
pub(crate) async fn run(args: RunArgs) -> Result<Code, Fault> {
    let format = args.output;
    let begun = match begin(args).await {
        Err(fault) if format == Format::Json => {
            output::report(&fault);
            Err(fault)
        }
        begun => begun,
    };
    let (session, signals) = begun?;
    follow(session, output::open(format, Liveness::Now), signals).await
}

/// Everything that can be wrong before an agent is started.
async fn begin(args: RunArgs) -> Result<(Session, Signals), Fault> {
    let here = environment::directory().map_err(|e| Fault::usage(format!("this directory cannot be used: {e}")))?;
    let dir = args.dir.as_ref().map_or_else(|| here.clone(), |d| here.join(d));
    let task = prompt::read(&prompt::Sources {
        prompt: args.prompt.as_deref().or(args.task.as_deref()),
        file: args.prompt_file.as_deref(),
        stdin: args.stdin,
        dir: &dir,
    })?;
    let (host, agents) = (environment::host(), Agents::builtin());
    let agent = choose(&agents, &args, &host).await?;
    let spec = spec(args, task, dir, &*agent)?;
    let signals = Signals::listen()?;
    let session = agent.start(&host, spec).map_err(|e| {
        let hint = format!("`ostler run --help` and docs/agents/{}.md list the settings.", agent.name());
        Fault::usage(e.to_string()).hint(hint)
    })?;
    Ok((session, signals))
}

async fn choose(agents: &Agents, args: &RunArgs, host: &Host) -> Result<Arc<dyn Agent>, Fault> {
    if let Some(name) = &args.agent {
        return named(agents, name);
    }
    let agent = agents.choose(host).await.ok_or_else(|| Fault::internal("no agent is known"))?;
    if !agent.plays() {
        return Ok(agent);
    }
    // A person is shown what Ostler does. A script that asked for an answer, and whoever asked an agent for something,
    // must not take a played one for it: the first real agent then says that it is missing.
    if args.is_for_any_agent() && matches!(args.output, Format::Human | Format::Events) {
        output::tell(
            "No coding agent was found on this machine: the built-in agent `scripted` plays a script instead.",
        );
        output::tell("`ostler doctor` says how to install one.\n");
        return Ok(agent);
    }
    Ok(agents.iter().find(|known| !known.plays()).cloned().unwrap_or(agent))
}

/// The agent of that name, or an error that lists those there are.
pub(crate) fn named(agents: &Agents, name: &str) -> Result<Arc<dyn Agent>, Fault> {
    agents.get(name).ok_or_else(|| {
        let known: Vec<_> = agents.iter().map(|a| a.name().to_owned()).collect();
        Fault::usage(format!("there is no agent {name:?}")).hint(format!("agents: {}", known.join(", ")))
    })
}

fn spec(args: RunArgs, task: String, dir: PathBuf, agent: &dyn Agent) -> Result<Spec, Fault> {
    let mut settings = Settings::default();
    // A person or a program that follows along wants text as it is written; the others want the answer only.
    let streaming = matches!(args.output, Format::Human | Format::Events);
    if agent.settings().iter().any(|known| known.key == keys::INCLUDE_PARTIAL) {
        settings.set(keys::INCLUDE_PARTIAL, streaming.to_string());
    }
    let denials = if args.agent_settings.tolerate_denials { Denials::Tolerate } else { Denials::Fail };
    gather(&args.agent_settings, &mut settings)?;
    let limits = &args.limits;
    for (key, value) in [(keys::MAX_TURNS, &limits.max_turns), (keys::MAX_BUDGET_USD, &limits.max_budget_usd)] {
        if let Some(value) = value {
            settings.set(key, value);
        }
    }
    let defaults = Limits::default();
    let limits = Limits {
        wall: limits.timeout.0,
        idle: limits.idle_timeout.0,
        startup: limits.startup_timeout.0,
        grace: limits.grace.0.unwrap_or(defaults.grace),
        ..defaults
    };
    let env = args.env.iter().map(|entry| variable(entry)).collect::<Result<_, _>>()?;
    let raw_log = args.raw_log.as_deref().map(absolute).transpose()?;
    let program = args.program.map(|p| if p.components().count() > 1 { absolute(&p) } else { Ok(p) }).transpose()?;
    Ok(Spec {
        prompt: task,
        dir: Some(dir),
        settings,
        extra_args: args.extra,
        env,
        program,
        raw_log,
        limits,
        denials,
        sandbox: sandbox(args.sandbox),
        ..Spec::default()
    })
}

fn sandbox(kind: SandboxKind) -> Sandbox {
    match kind {
        SandboxKind::WorkspaceWrite => Sandbox::WorkspaceWrite,
        SandboxKind::ReadOnly => Sandbox::ReadOnly,
        SandboxKind::Off => Sandbox::Off,
    }
}

/// Puts the agent's settings under their keys.
fn gather(given: &AgentSettings, settings: &mut Settings) -> Result<(), Fault> {
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
        let config =
            if config.trim_start().starts_with('{') { config.clone() } else { shown(&absolute(Path::new(config))?)? };
        settings.push(keys::MCP_CONFIG, config);
    }
    for (key, on) in [(keys::STRICT_MCP, given.strict_mcp), (keys::FORK, given.fork)] {
        if on {
            settings.set(key, "true");
        }
    }
    if let Some(schema) = &given.json_schema {
        settings.set(keys::JSON_SCHEMA, schema_text(schema)?);
    }
    let mut set: Vec<&str> = Vec::new();
    for entry in &given.set {
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
    let tools: Vec<&str> = typed.split(between).filter(|tool| !tool.is_empty()).collect();
    if tools.is_empty() { vec![typed] } else { tools } // an empty text means: no tools
}

fn schema_text(schema: &str) -> Result<String, Fault> {
    if schema.trim_start().starts_with('{') {
        return Ok(schema.to_owned());
    }
    std::fs::read_to_string(schema).map_err(|e| Fault::usage(format!("the schema {schema} cannot be read: {e}")))
}

fn variable(entry: &str) -> Result<(String, String), Fault> {
    if let Some((name, value)) = entry.split_once('=') {
        return Ok((name.to_owned(), value.to_owned()));
    }
    let value = environment::variable(entry).ok_or_else(|| {
        Fault::usage(format!("--env {entry}: this variable is not set")).hint("--env NAME=VALUE sets it")
    })?;
    let value = value.into_string().map_err(|_| Fault::usage(format!("--env {entry}: its value is not UTF-8")))?;
    Ok((entry.to_owned(), value))
}

fn absolute(path: &Path) -> Result<PathBuf, Fault> {
    std::path::absolute(path).map_err(|e| Fault::usage(format!("{}: {e}", path.display())))
}

fn shown(path: &Path) -> Result<String, Fault> {
    path.to_str().map(str::to_owned).ok_or_else(|| Fault::usage(format!("{} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_split_outside_parentheses() {
        assert_eq!(split_tools("Bash,Read"), ["Bash", "Read"]);
        assert_eq!(split_tools("Bash(git log *, x) Edit , Read"), ["Bash(git log *, x)", "Edit", "Read"]);
        assert_eq!(split_tools(""), [""]);
    }
}
