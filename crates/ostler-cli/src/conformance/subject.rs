//! Who is tried: the agent as `ostler run` would start it here, and how it is made to talk to the stand-in.

use std::path::Path;
use std::sync::Arc;

use ostler::config::Config;
use ostler::{Agent, Capabilities, Spec};
use ostler_standin::{KEY, Offline};

use crate::fault::Fault;
use crate::spec;

/// Settings that say how Ostler talks with an agent. The others, such as a model or a mode, would change what is looked for.
const HOW: [&str; 3] = ["transport", "counts", "chunks"];

/// An agent to try.
pub(super) struct Subject {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) offline: &'static Offline,
    /// What the files say of it: its program, arguments, variables.
    pub(super) given: Spec,
}

impl Subject {
    /// The agent of that name.
    pub(super) fn named(config: &Config, name: &str) -> Result<Self, Fault> {
        let agent = spec::named(config, name)?.agent;
        let offline =
            Offline::of(agent.name()).or_else(|| by_program(&*agent)).ok_or_else(|| unknown(name, &*agent))?;
        let mut all = Spec::default();
        if let Some(defaults) = config.defaults(name) {
            // What a file takes from the caller's environment is a key, and no key of the caller's is used here.
            defaults.fill(&mut all, &|_| Some(KEY.to_owned())).map_err(|error| Fault::usage(error.to_string()))?;
        }
        let mut given = Spec { program: all.program, extra_args: all.extra_args, env: all.env, ..Spec::default() };
        for (key, values) in all.settings.iter().filter(|(key, _)| HOW.contains(key)) {
            values.iter().for_each(|value| given.settings.push(key, value));
        }
        Ok(Self { agent, offline, given })
    }

    /// What it can do, in the language that this spec chooses.
    pub(super) fn capabilities(&self, spec: &Spec) -> Capabilities {
        let dialect = self.agent.dialect();
        dialect.over(spec).unwrap_or(dialect).capabilities()
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

fn unknown(name: &str, agent: &dyn Agent) -> Fault {
    let known = Offline::agents().collect::<Vec<_>>().join(", ");
    let why = format!("{name} cannot be tried: nobody has found out how it is made to talk to a model on this machine");
    Fault::usage(why).hint(match agent.dialect().probe() {
        Some(plan) => {
            format!("These can: {known}; and a configured agent whose program is one of these, not {}.", plan.program)
        }
        None => format!("These can: {known}."),
    })
}
