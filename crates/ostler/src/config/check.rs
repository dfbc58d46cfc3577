//! Checks of the merged layers: names of agents, and settings against the agent's own table.

use ostler_core::dialect::Launching;
use ostler_core::near::suggestion;
use ostler_core::spec::{Spec, SpecError, keys};

use super::entry::Entry;
use super::key::{Field, Key};
use super::{Config, Problem};
use crate::agent::{Agent, Agents};

/// Settings that belong to one run, and their flags.
const RUN_SETTINGS: [(&str, &str); 3] = [
    (keys::RESUME, "--resume"),
    (keys::SESSION_ID, "--session-id"),
    (keys::FORK, "--fork"),
];

impl Config {
    /// Returns the problems with names and settings.
    pub(super) fn find_problems(&self, known: &Agents) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self
            .entries
            .values()
            .filter_map(|entry| self.name_problem(entry, known))
            .collect();
        for name in self.configured() {
            if let Some(agent) = self.agent(name) {
                problems.extend(self.setting_problems(name, &*agent));
            }
        }
        problems.extend(self.webhook_problems());
        problems
    }

    /// Returns the problem with the names in a value, if any.
    fn name_problem(&self, entry: &Entry, known: &Agents) -> Option<Problem> {
        let has = |name: &str, field: Field| self.field(name, field).is_some();
        match &entry.key {
            Key::Agent => {
                let name = entry.value.text();
                (self.agent(name).is_none() && !has(name, Field::Acp)).then(|| {
                    entry.problem(&format!(
                        "unknown agent {name:?}; {}",
                        suggestion(name, &self.names())
                    ))
                })
            }
            Key::Limit(_) | Key::Daemon | Key::Notify | Key::Webhook(..) => None,
            Key::AgentField(name, Field::Like | Field::Acp) if known.get(name).is_some() => {
                Some(entry.problem(&format!("{name} is a built-in agent; choose another name")))
            }
            Key::AgentField(name, Field::Like) if has(name, Field::Acp) => {
                Some(entry.problem("set either like or acp, not both"))
            }
            Key::AgentField(_, Field::Like) => {
                let base = entry.value.text();
                if has(base, Field::Like) {
                    return Some(entry.problem(&format!(
                        "{base} is itself an alternative name; use the name of its agent"
                    )));
                }
                let own: Vec<&str> = self.agents.iter().map(|agent| agent.about().name).collect();
                (self.agents.get(base).is_none() && !has(base, Field::Acp)).then(|| {
                    entry.problem(&format!(
                        "unknown agent {base:?}; {}",
                        suggestion(base, &own)
                    ))
                })
            }
            Key::AgentField(_, Field::Acp) => None,
            Key::AgentField(name, _) => {
                let defines_it = |key: &Key| match key {
                    Key::AgentField(other, Field::Acp | Field::Like) => other == name,
                    _ => false,
                };
                let is_new = self
                    .ignored
                    .iter()
                    .any(|ignored| defines_it(&ignored.entry.key));
                let is_known = self.agent(name).is_some()
                    || has(name, Field::Acp)
                    || has(name, Field::Like)
                    || is_new;
                (!is_known).then(|| {
                    let near = suggestion(name, &self.names());
                    let new = "to define it, set acp = [command] or like = \"agent\"";
                    entry.problem(&format!("unknown agent {name:?}; {near} ({new})"))
                })
            }
        }
    }

    /// Returns the problems with an agent's settings, models and arguments.
    fn setting_problems(&self, name: &str, agent: &dyn Agent) -> Vec<Problem> {
        let (about, mut problems) = (agent.about(), Vec::new());
        let mut spec = Spec::new("x").dir("/");
        let mut checked: Vec<(String, &Entry)> = Vec::new();
        for (field, entry) in self.fields(name) {
            match field {
                Field::Set(key) => match misplaced(key) {
                    Some(why) => problems.push(entry.problem(&why)),
                    None => match spec.set(key, entry.value.list()) {
                        Ok(()) => checked.push((key.clone(), entry)),
                        Err(error) => problems.push(entry.problem(&error.why)),
                    },
                },
                Field::Model => {
                    spec.model = Some(entry.value.text().into());
                    checked.push((keys::MODEL.to_owned(), entry));
                }
                Field::Alias(_) => {
                    let mut alone = Spec::new(spec.prompt.clone());
                    alone.model = Some(entry.value.text().into());
                    problems
                        .extend(launch_error(agent, &alone).map(|error| entry.problem(&error.why)));
                }
                Field::Args => {
                    spec.extra_args = entry.value.list().to_vec();
                    checked.push(("extra args".to_owned(), entry));
                }
                Field::Command
                    if about.probe.is_none() && self.field(about.name, Field::Acp).is_none() =>
                {
                    let why = format!("{} is not an external program", about.name);
                    problems.push(entry.problem(&why));
                }
                Field::Command | Field::Like | Field::Acp | Field::Env(_) => {}
            }
        }
        // Only the first error is reported; without its setting, the next one shows.
        while let Some(error) = launch_error(agent, &spec) {
            let Some(at) = checked.iter().position(|(key, _)| *key == error.key) else {
                break;
            };
            problems.push(checked.remove(at).1.problem(&error.why));
            spec.unset(&error.key);
            if error.key == "extra args" {
                spec.extra_args.clear();
            }
        }
        problems
    }
}

fn launch_error(agent: &dyn Agent, spec: &Spec) -> Option<SpecError> {
    let dialect = agent.dialect();
    dialect
        .select_transport(spec)
        .unwrap_or(dialect)
        .launch(&Launching::new(spec))
        .err()
}

/// Returns where a setting belongs that is in the wrong place.
fn misplaced(key: &str) -> Option<String> {
    if key == keys::MODEL {
        return Some("write it as model = … beside set".into());
    }
    let (_, flag) = RUN_SETTINGS.iter().find(|(own, _)| *own == key)?;
    Some(format!("this setting belongs to one run; use {flag}"))
}
