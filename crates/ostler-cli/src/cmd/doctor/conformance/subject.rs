//! Subject of the checks: the program that `ostler run` would start, connected to the stand-in
//! model.

use std::path::Path;
use std::sync::Arc;

use ostler::config::Config;
use ostler::{Agent, Capabilities, Spec};
use ostler_standin::{KEY, Offline};

use crate::fault::Fault;
use crate::spec;

/// Settings of the transport to an agent. Others, such as the model or the mode, would change the
/// expected results.
const TRANSPORT_SETTINGS: [&str; 3] = ["transport", "counts", "chunks"];

/// An agent to test.
pub(super) struct Subject {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) offline: &'static Offline,
    /// Configured values that are used: the program and the transport.
    pub(super) given: Spec,
    /// Configured values that are not used. Arguments and variables could point the agent at
    /// another model, and the checks allow every tool call of whichever model answers.
    pub(super) unused: Vec<&'static str>,
}

impl Subject {
    /// Returns the subject for an agent name.
    pub(super) fn named(config: &Config, name: &str) -> Result<Self, Fault> {
        let agent = spec::find_agent(config, name)?.agent;
        let offline = Offline::of(agent.name())
            .or_else(|| by_program(&*agent))
            .ok_or_else(|| unknown(name, &*agent))?;
        let mut all = Spec::default();
        if let Some(defaults) = config.defaults(name) {
            // Values from the user's environment are not used, so the variables need not be set.
            defaults
                .fill(&mut all, &|_| Some(KEY.to_owned()))
                .map_err(|error| Fault::usage(error.to_string()))?;
        }
        let given = [
            ("env", !all.env.is_empty()),
            ("args", !all.extra_args.is_empty()),
        ];
        let unused = given
            .into_iter()
            .filter_map(|(name, is_there)| is_there.then_some(name))
            .collect();
        let mut given = Spec {
            program: all.program,
            ..Spec::default()
        };
        for (key, values) in all
            .settings
            .iter()
            .filter(|(key, _)| TRANSPORT_SETTINGS.contains(key))
        {
            values
                .iter()
                .for_each(|value| given.settings.push(key, value));
        }
        let subject = Self {
            agent,
            offline,
            given,
            unused,
        };
        if subject.is_behind_a_gateway() {
            Err(behind_a_gateway(name))
        } else {
            Ok(subject)
        }
    }

    /// Returns true if requests would go through the user's own gateway, which uses its own model.
    fn is_behind_a_gateway(&self) -> bool {
        let is_acp = self.is_configured() || self.given.settings.last("transport") == Some("acp");
        self.offline.agent == "openclaw" && is_acp
    }

    /// Returns the capabilities of the dialect that this spec selects.
    pub(super) fn capabilities(&self, spec: &Spec) -> Capabilities {
        let dialect = self.agent.dialect();
        dialect
            .select_transport(spec)
            .unwrap_or(dialect)
            .capabilities()
    }

    /// Returns true if the agent is known only by a configured command, so that its environment
    /// variables are unknown.
    pub(super) fn is_configured(&self) -> bool {
        self.agent.name() != self.offline.agent
    }
}

/// Finds the stand-in setup of a configured agent by its program.
fn by_program(agent: &dyn Agent) -> Option<&'static Offline> {
    let program = agent.dialect().probe()?.program;
    Offline::of(Path::new(program).file_stem()?.to_str()?)
}

fn behind_a_gateway(name: &str) -> Fault {
    let why =
        format!("{name} cannot be tested over its gateway: the gateway's model cannot be scripted");
    Fault::usage(why)
        .hint("remove `transport = \"acp\"` from ostler.toml and run `ostler doctor --conformance openclaw`")
}

fn unknown(name: &str, agent: &dyn Agent) -> Fault {
    let known = Offline::agents().collect::<Vec<_>>().join(", ");
    let why = format!("{name} cannot be tested: connecting it to a local model is not supported");
    Fault::usage(why).hint(match agent.dialect().probe() {
        Some(plan) => {
            format!(
                "supported agents: {known}, and configured agents that run one of these programs, not {}",
                plan.program
            )
        }
        None => format!("supported agents: {known}"),
    })
}
