//! Subject of the checks: the program that `ostler run` would start, connected to the stand-in
//! model.

use std::path::Path;
use std::sync::Arc;

use ostler::config::Config;
use ostler::dialect::Capabilities;
use ostler::{Agent, Spec};
use ostler_agents::{KEY, Manifest, Redirection};

use crate::fault::{Fault, Result};
use crate::spec;

/// Settings of the transport to an agent. Others, such as the model or the mode, would change the
/// expected results.
const TRANSPORT_SETTINGS: [&str; 3] = ["transport", "counts", "chunks"];

/// An agent to test.
pub(super) struct Subject {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) manifest: &'static Manifest,
    /// What points the agent at the stand-in model.
    pub(super) redirection: &'static Redirection,
    /// Configured values that are used, the program and the transport, and the settings that the
    /// checks need.
    pub(super) given: Spec,
    /// Configured values that are not used. Arguments and variables could point the agent at
    /// another model, and the checks allow every tool call of whichever model answers.
    pub(super) unused: Vec<&'static str>,
}

impl Subject {
    /// Returns the subject for an agent name.
    pub(super) fn named(config: &Config, name: &str) -> Result<Self> {
        let agent = spec::find_agent(config, name)?.agent;
        let (manifest, redirection) = redirected(agent.about().name)
            .or_else(|| by_program(&*agent))
            .ok_or_else(|| unknown(name, &*agent))?;
        let mut all = Spec::default();
        if let Some(defaults) = config.defaults(name) {
            // Values from the user's environment are not used, so the variables need not be set.
            defaults
                .fill(&mut all, &|_| Some(KEY.to_owned()))
                .map_err(|error| usage!("{error}"))?;
        }
        let env = (!all.env.is_empty()).then_some("env");
        let args = (!all.extra_args.is_empty()).then_some("args");
        let unused = env.into_iter().chain(args).collect();
        let kept = TRANSPORT_SETTINGS
            .iter()
            .filter_map(|key| Some((*key, all.value(key)?)));
        let own = redirection.settings.iter();
        let own = own.map(|(key, value)| (key.as_str(), value.clone()));
        let mut given = Spec::default();
        given
            .apply(&kept.chain(own).collect())
            .map_err(|error| usage!("{error}"))?;
        given.program = all.program;
        let subject = Self {
            agent,
            manifest,
            redirection,
            given,
            unused,
        };
        if subject.is_behind_a_gateway() {
            Err(behind_a_gateway(name, manifest.name))
        } else {
            Ok(subject)
        }
    }

    /// Returns true if requests would go through the user's own gateway, which uses its own model.
    fn is_behind_a_gateway(&self) -> bool {
        let transport = if self.is_configured() {
            Some("acp".to_owned())
        } else {
            self.given.value("transport")
        };
        let gateway = &self.redirection.gateway;
        gateway.is_some() && *gateway == transport
    }

    /// Returns the capabilities of the dialect that this spec selects.
    pub(super) fn capabilities(&self, spec: &Spec) -> Capabilities {
        spec::dialect_for(&*self.agent, spec).about().capabilities
    }

    /// Returns true if the agent is known only by a configured command, so that its environment
    /// variables are unknown.
    pub(super) fn is_configured(&self) -> bool {
        self.agent.about().name != self.manifest.name
    }
}

/// Finds the stand-in setup of a configured agent by its program.
fn by_program(agent: &dyn Agent) -> Option<(&'static Manifest, &'static Redirection)> {
    let program = agent.about().probe?.program;
    redirected(Path::new(program).file_stem()?.to_str()?)
}

/// Returns the manifest of an agent that can be pointed at another model.
fn redirected(agent: &str) -> Option<(&'static Manifest, &'static Redirection)> {
    let manifest = ostler_agents::find(agent)?;
    Some((manifest, manifest.redirection.as_ref()?))
}

fn behind_a_gateway(name: &str, agent: &str) -> Fault {
    usage!("{name} cannot be tested over its gateway: the gateway's model cannot be scripted")
        .hint(format!("remove `transport = \"acp\"` from ostler.toml and run `ostler doctor --conformance {agent}`"))
}

fn unknown(name: &str, agent: &dyn Agent) -> Fault {
    let manifests = ostler_agents::all().iter();
    let known: Vec<&str> = manifests
        .filter(|manifest| manifest.redirection.is_some())
        .map(|manifest| manifest.name)
        .collect();
    let known = known.join(", ");
    let fault = usage!("{name} cannot be tested: connecting it to a local model is not supported");
    fault.hint(match agent.about().probe {
        Some(plan) => {
            format!(
                "supported agents: {known}, and configured agents that run one of these programs, not {}",
                plan.program
            )
        }
        None => format!("supported agents: {known}"),
    })
}
