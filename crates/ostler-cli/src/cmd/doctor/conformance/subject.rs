//! Who is tried: the program that `ostler run` would start here, and how it is made to talk to the stand-in.

use std::path::Path;
use std::sync::Arc;

use ostler::config::Config;
use ostler::{Agent, Capabilities, Spec};
use ostler_standin::{KEY, Offline};

use crate::fault::Fault;
use crate::spec;

/// Settings that say how Ostler talks with an agent. The others, such as a model or a mode, would change what is looked for.
const TRANSPORT_SETTINGS: [&str; 3] = ["transport", "counts", "chunks"];

/// An agent to try.
pub(super) struct Subject {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) offline: &'static Offline,
    /// What is taken from the files: its program, and how Ostler talks with it.
    pub(super) given: Spec,
    /// What the files say besides and is not used. Arguments and variables can lead an agent to another model, and there is no
    /// telling which ones do: here everything is allowed to whoever answers.
    pub(super) unused: Vec<&'static str>,
}

impl Subject {
    /// The agent of that name.
    pub(super) fn named(config: &Config, name: &str) -> Result<Self, Fault> {
        let agent = spec::find_agent(config, name)?.agent;
        let offline = Offline::of(agent.name())
            .or_else(|| by_program(&*agent))
            .ok_or_else(|| unknown(name, &*agent))?;
        let mut all = Spec::default();
        if let Some(defaults) = config.defaults(name) {
            // What a file takes from the caller's environment is not used here, and need not be set.
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

    /// Whether it would be tried by way of a server of the user's own, which asks the model that it was given.
    fn is_behind_a_gateway(&self) -> bool {
        let is_acp = self.is_configured() || self.given.settings.last("transport") == Some("acp");
        self.offline.agent == "openclaw" && is_acp
    }

    /// What it can do, in the language that this spec chooses.
    pub(super) fn capabilities(&self, spec: &Spec) -> Capabilities {
        let dialect = self.agent.dialect();
        dialect
            .select_transport(spec)
            .unwrap_or(dialect)
            .capabilities()
    }

    /// Whether the agent is known to Ostler only by its command: then nothing is known of the variables that it reads.
    pub(super) fn is_configured(&self) -> bool {
        self.agent.name() != self.offline.agent
    }
}

/// An agent that only a file knows may be the program of one that is known.
fn by_program(agent: &dyn Agent) -> Option<&'static Offline> {
    let program = agent.dialect().probe()?.program;
    Offline::of(Path::new(program).file_stem()?.to_str()?)
}

fn behind_a_gateway(name: &str) -> Fault {
    let why = format!(
        "{name} cannot be tried over its gateway: the model that a gateway asks cannot be scripted"
    );
    Fault::usage(why)
        .hint("ostler doctor --conformance openclaw, without transport = \"acp\" in ostler.toml, tries its exec.")
}

fn unknown(name: &str, agent: &dyn Agent) -> Fault {
    let known = Offline::agents().collect::<Vec<_>>().join(", ");
    let why = format!(
        "{name} cannot be tried: nobody has found out how it is made to talk to a model on this machine"
    );
    Fault::usage(why).hint(match agent.dialect().probe() {
        Some(plan) => {
            format!(
                "These can: {known}; and a configured agent whose program is one of these, not {}.",
                plan.program
            )
        }
        None => format!("These can: {known}."),
    })
}
