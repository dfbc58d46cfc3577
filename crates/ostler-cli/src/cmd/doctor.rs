//! `ostler doctor`: shows which agents are installed and usable, which one a run would use, and how
//! to fix the rest.

mod conformance;
mod drift;
mod finding;
mod report;

use std::sync::Arc;
use std::time::Duration;

use ostler::agent::{ChoiceReason, Probed};
use ostler::config::Config;
use ostler::spec::keys;
use ostler::{Agent, Host, Spec};
use ostler_daemon::api::AgentView;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::args::DoctorArgs;
use crate::config::directory;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{self, print_line};
use crate::spec::{ChosenAgent, find_agent, lookup, probe_spec};
use crate::{config, environment};
use finding::Finding;

/// Maximum number of agents to probe concurrently: each probe starts programs.
const MAX_PROBES: usize = 4;

/// Refresh interval of the progress line.
const TICK: Duration = Duration::from_millis(100);

/// The agent that `ostler run` uses without `--agent`.
#[derive(Debug, Serialize)]
struct RunChoice {
    agent: String,
    /// The agent's own name, if `agent` is a configured one.
    #[serde(skip)]
    behind: String,
    reason: Reason,
    /// What configures it: a variable, or a file and a line.
    configured_by: Option<String>,
}

/// Why a run uses an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    Configured,
    OnlyInstalled,
    FirstUsable,
    /// No agent is installed; the scripted agent is used.
    NoneUsable,
}

/// Probes the agents and reports.
pub(crate) async fn run(args: DoctorArgs) -> Result<Code> {
    let (project, config) = config::load_in(args.config, &directory(None)?)?;
    output::warn(&config::ignored_warnings(&config, &project));
    if let Some(agent) = &args.conformance {
        return conformance::run(&config, agent, args.json).await;
    }
    let host = Arc::new(environment::host());
    let subjects = match &args.agent {
        Some(name) => vec![find_agent(&config, name)?],
        None => config
            .agents()
            .iter()
            .map(|agent| ChosenAgent::unaliased(agent.clone()))
            .collect(),
    };
    let findings = examine(&config, &host, subjects, args.workspace_tools.as_deref()).await;
    // The scripted agent is always ready, but does not count as a usable agent.
    let ready = findings
        .iter()
        .any(|f| f.state.is_usable() && !(f.built_in && args.agent.is_none()));
    let choice = match &args.agent {
        Some(_) => None,
        None => Some(choose(&config, &host, &findings)?),
    };
    if args.json {
        let mut report = serde_json::json!({
            "ready": ready,
            "ostler_version": env!("CARGO_PKG_VERSION"),
            "agents": findings,
        });
        if let Some(choice) = choice {
            report["run"] = serde_json::to_value(choice).map_err(Fault::internal)?;
        }
        output::print_json(&report);
    } else {
        let (width, all) = (output::width(), findings.iter());
        let lines = match choice {
            Some(choice) => report::overview(&findings, &choice, width),
            None => all
                .flat_map(|finding| report::details(finding, width))
                .collect(),
        };
        lines.iter().for_each(|line| print_line(line));
    }
    Ok(if ready { exit::OK } else { exit::UNAVAILABLE })
}

/// Probes all agents without showing progress, for the daemon.
pub(crate) async fn agent_views(config: &Config, host: Host) -> Vec<AgentView> {
    let views = agents_with_logins(config, host).await;
    views.into_iter().map(|(view, _)| view).collect()
}

/// Probes the agents, and returns each with the state of its login for people.
pub(crate) async fn agents_with_logins(
    config: &Config,
    host: Host,
) -> Vec<(AgentView, &'static str)> {
    let host = Arc::new(host);
    let agents = config.agents().iter().cloned();
    let subjects: Vec<ChosenAgent> = agents.map(ChosenAgent::unaliased).collect();
    let mut views = Vec::new();
    // A few at a time: each probe starts programs.
    for few in subjects.chunks(MAX_PROBES) {
        let probes: Vec<_> = few
            .iter()
            .map(|subject| tokio::spawn(probe(config, subject, host.clone(), None)))
            .collect();
        for (subject, probe) in few.iter().zip(probes) {
            if let Ok(probed) = probe.await {
                let finding = Finding::new(subject, probed, &[]);
                let capabilities = subject.agent.about().capabilities;
                let login = finding.state.label();
                let view = AgentView {
                    ready: finding.state.is_usable(),
                    reason: finding.hint.filter(|_| !finding.state.is_usable()),
                    name: finding.agent,
                    version: finding.version,
                    models: finding.models.iter().map(|&model| model.into()).collect(),
                    capabilities: serde_json::to_value(capabilities).unwrap_or_default(),
                };
                views.push((view, login));
            }
        }
    }
    views
}

/// Probes agents, several at a time, and reports progress.
async fn examine(
    config: &Config,
    host: &Arc<Host>,
    subjects: Vec<ChosenAgent>,
    helper: Option<&str>,
) -> Vec<Finding> {
    let unknown_messages = drift::unknown_messages();
    let mut waiting = subjects.iter().enumerate();
    let mut probes = JoinSet::new();
    let mut probed: Vec<Option<Probed>> = subjects.iter().map(|_| None).collect();
    let mut status = output::status();
    let mut ticks = tokio::time::interval(TICK);
    let began = tokio::time::interval(TICK).tick().await;
    loop {
        while probes.len() < MAX_PROBES
            && let Some((at, subject)) = waiting.next()
        {
            let probe = probe(config, subject, host.clone(), helper);
            probes.spawn(async move { (at, probe.await) });
        }
        let all = subjects.iter().zip(&probed);
        let busy = all.filter(|(_, probed)| probed.is_none()).take(MAX_PROBES);
        let busy: Vec<&str> = busy.map(|(subject, _)| &*subject.name).collect();
        status.doing(&format!("probing {}", busy.join(", ")));
        tokio::select! {
            done = probes.join_next() => match done {
                Some(Ok((at, found))) => probed[at] = Some(found),
                Some(Err(_)) => {} // a probe that panicked has no result
                None => break,
            },
            now = ticks.tick() => status.show(now - began),
        }
    }
    status.hide();
    let finding = |(subject, probed)| Some(Finding::new(subject, probed?, &unknown_messages));
    subjects.iter().zip(probed).filter_map(finding).collect()
}

/// Probes one agent with its configured defaults.
fn probe(
    config: &Config,
    subject: &ChosenAgent,
    host: Arc<Host>,
    helper: Option<&str>,
) -> impl Future<Output = Probed> + Send + 'static {
    let mut spec = Spec::default();
    let defaults = config.defaults(&subject.name);
    let filled = defaults.map(|defaults| defaults.fill(&mut spec, &lookup));
    let mut wrong = filled.transpose().err().map(|error| error.to_string());
    if let Some(name) = helper
        && let Err(error) = spec.set(keys::WORKSPACE_TOOLS, [name])
    {
        wrong = Some(error.to_string());
    }
    let agent = subject.agent.clone();
    async move {
        match wrong {
            Some(hint) => Probed::NotConfigured { hint },
            None => agent.probe(&host, &spec).await,
        }
    }
}

/// Returns the agent that a run would use.
fn choose(config: &Config, host: &Host, findings: &[Finding]) -> Result<RunChoice> {
    if let Some(entry) = config.default_agent() {
        let (agent, configured_by) = (entry.value.text().to_owned(), Some(entry.from.to_string()));
        let known = config.agent(&agent);
        let behind = known.map_or_else(|| agent.clone(), |known| known.about().name.to_owned());
        return Ok(RunChoice {
            agent,
            behind,
            reason: Reason::Configured,
            configured_by,
        });
    }
    let is_usable = |agent: &dyn Agent| {
        findings
            .iter()
            .any(|f| f.agent == agent.about().name && f.state.is_usable())
    };
    let choice = config.agents().choose_probed(
        host,
        |agent| probe_spec(config, agent.about().name),
        is_usable,
    );
    let choice = choice.ok_or_else(|| Fault::internal("no agents are registered"))?;
    let reason = match choice.reason {
        _ if choice.agent.about().scripted => Reason::NoneUsable,
        ChoiceReason::Only => Reason::OnlyInstalled,
        ChoiceReason::First => Reason::FirstUsable,
    };
    let agent = choice.agent.about().name.to_owned();
    Ok(RunChoice {
        behind: agent.clone(),
        agent,
        reason,
        configured_by: None,
    })
}
