//! The agent under test: everything a scenario needs to know so that it can be written once for
//! all agents, read from the agent's manifest.

mod facts;

use std::path::{Path, PathBuf};

use ostler_agents::{Group, Manifest, fill};
use serde_json::Value;

use super::SECRET;
use crate::model::{Answer, Request, Usage};
use crate::real::{self, Pinned};

use facts::{Call, Counts};
pub use facts::{
    ExpectedHints, LongPrompts, Numbers, Pairs, Quirks, Subject, SubjectSettings, Tools, Variables,
};

/// The command that is denied to a task without trust.
const FORBIDDEN: &str = "cat .env; touch made";

impl Subject {
    /// Reads the subject with this name in the suite.
    ///
    /// # Panics
    /// If no manifest has such a transport, or it is invalid; the message says where.
    #[must_use]
    pub fn load(id: &'static str) -> Self {
        let manifests = ostler_agents::all().iter();
        let (manifest, transport) = manifests
            .filter_map(|manifest| Some((manifest, manifest.transports.get(id)?)))
            .next()
            .unwrap_or_else(|| panic!("no manifest has a transport {id:?}"));
        let mut facts = manifest.subject.clone();
        merge(&mut facts, transport);
        let subject: Self = facts
            .try_into()
            .unwrap_or_else(|error| panic!("[transports.{id}] of {}: {error}", manifest.name));
        Self {
            id,
            name: manifest.name,
            ..subject
        }
    }

    /// Returns the agent's manifest.
    ///
    /// # Panics
    /// Never: the subject was read from it.
    #[must_use]
    pub fn manifest(&self) -> &'static Manifest {
        ostler_agents::find(self.name).expect("the manifest of a subject")
    }

    /// Returns when it is tested.
    #[must_use]
    pub fn group(&self) -> Group {
        self.manifest().group
    }

    /// Returns its pinned installation; `None` for an agent that is part of Ostler.
    #[must_use]
    pub fn pinned(&self) -> Option<Pinned> {
        self.manifest()
            .install
            .is_some()
            .then(|| real::pinned(self.name))
    }

    /// Returns its program; `None` for an agent that is part of Ostler.
    #[must_use]
    pub fn program(&self) -> Option<PathBuf> {
        self.pinned().map(|pinned| pinned.program())
    }

    /// Returns the version that `started` reports, if it reports one.
    #[must_use]
    pub fn version(&self) -> Option<&'static str> {
        self.pinned()
            .filter(|_| self.reports_version)
            .map(|pinned| pinned.version())
    }

    /// Returns the environment in which Ostler runs, for a home and the model's address, and writes
    /// the agent's files into the home.
    #[must_use]
    pub fn host(&self, home: &Path, url: &str) -> Vec<(String, String)> {
        let mut host = real::offline_env(self.manifest(), home, url);
        write_files(&self.home, home);
        for (name, value) in &self.env {
            let value = value
                .replace("{url}", url)
                .replace("{key}", ostler_agents::KEY);
            host.retain(|(known, _)| known != name);
            host.push((name.clone(), value));
        }
        host
    }

    /// Prepares a working directory.
    pub fn prepare(&self, work: &Path) {
        write_files(&self.work, work);
    }

    /// Returns the tool that runs a command.
    #[must_use]
    pub fn command(&self) -> &'static str {
        &self.manifest().shell.tool
    }

    /// Returns the arguments of [`Subject::command`] for a shell command.
    #[must_use]
    pub fn shell_arguments(&self, line: &str) -> Value {
        self.manifest().shell.call(line).1
    }

    /// Returns what the caller gets when a command has printed this. The model gets the same,
    /// after a prefix of the agent.
    fn printed(&self, text: &str) -> String {
        self.tools.printed.replace("{text}", text)
    }

    /// Returns true if this is the output of a command, as the model and the caller get it.
    #[must_use]
    pub fn is_printed(&self, found: &str, text: &str) -> bool {
        found.ends_with(&self.printed(text)) || (self.quirks.wraps_outputs && found.contains(text))
    }

    /// Returns true if the model got this prompt.
    #[must_use]
    pub fn prompt_arrived(&self, arrived: &str, prompt: &str) -> bool {
        arrived == prompt || (self.quirks.wraps_prompts && arrived.contains(prompt))
    }

    /// The model runs a shell command.
    pub fn shell(&self, line: &str) -> Answer {
        let (tool, input) = self.manifest().shell.call(line);
        Answer::tool(tool, input)
    }

    /// The model runs a shell command that requires permission.
    pub fn shell_with_permission(&self, line: &str) -> Answer {
        let (tool, input) = self.manifest().shell.asking_call(line);
        Answer::tool(tool, input)
    }

    /// Returns a call that is denied to a task without trust: the tool and its arguments.
    #[must_use]
    pub fn forbidden_call(&self) -> (&str, Value) {
        let forbidden = self.tools.forbidden.as_ref();
        forbidden.map_or_else(
            || self.manifest().shell.call(FORBIDDEN),
            |call| call.with("command", FORBIDDEN),
        )
    }

    /// The model tries a forbidden call.
    pub fn forbidden(&self) -> Answer {
        let (tool, input) = self.forbidden_call();
        Answer::tool(tool, input)
    }

    /// Returns a call that fails, and a part of its error.
    #[must_use]
    pub fn failing_call(&self) -> (&str, Value, &str) {
        match &self.quirks.failing {
            Some(failing) => (&failing.tool, failing.arguments.clone(), &failing.error),
            None => {
                let (tool, input) = self.manifest().shell.call("echo two >&2; exit 3");
                (tool, input, "two")
            }
        }
    }

    /// Returns the model's answer to a schema.
    pub fn structured_answer(&self, value: &Value) -> Answer {
        match &self.settings.structured_tool {
            Some(tool) => Answer::tool(tool, value.clone()),
            None => Answer::text(value.to_string()),
        }
    }

    /// Returns the schema as the model gets it.
    #[must_use]
    pub fn schema(&self, request: &Request) -> Option<Value> {
        if let Some(tool) = &self.settings.structured_tool {
            let tools = request.body["tools"].as_array()?;
            let found = tools.iter().find(|offered| offered["name"] == *tool)?;
            return Some(found["input_schema"].clone());
        }
        request
            .body
            .pointer(self.settings.schema.as_ref()?)
            .cloned()
    }
}

impl Call {
    /// Returns the tool and its arguments, with a placeholder filled in.
    fn with(&self, name: &str, value: &str) -> (&str, Value) {
        (&self.tool, fill(&self.arguments, name, value))
    }
}

impl Tools {
    /// Returns the call that reads a file.
    #[must_use]
    pub fn read(&self, path: &str) -> (&str, Value) {
        self.read.with("path", path)
    }

    /// Returns the call that writes a line to a file.
    #[must_use]
    pub fn write(&self, path: &str) -> (&str, Value) {
        self.write.with("path", path)
    }
}

impl Quirks {
    /// Returns what `started` reports for a model with this provider name, if anything.
    #[must_use]
    pub fn reported_model(&self, name: &str) -> Option<String> {
        (!self.model.is_empty()).then(|| self.model.replace("{model}", name))
    }

    /// Returns the message of the provider's error with this status.
    #[must_use]
    pub fn provider_message(&self, status: u16) -> &str {
        let known = self.provider.get(&status.to_string());
        known
            .or_else(|| self.provider.get("other"))
            .map_or("the provider's words", String::as_str)
    }

    /// Returns the name in events of one of the model's tools.
    #[must_use]
    pub fn reported_tool<'a>(&'a self, name: &'a str) -> &'a str {
        self.tool.as_deref().unwrap_or(name)
    }
}

impl Numbers {
    /// Returns what it reports of one answer's counts: input, cache writes, cache reads, output.
    #[must_use]
    pub fn reported(&self, of: Usage) -> [u64; 4] {
        let together = of.input + of.cache_creation + of.cache_read;
        match self.tokens {
            Counts::Apart => [of.input, of.cache_creation, of.cache_read, of.output],
            Counts::ReadsApart => [of.input + of.cache_creation, 0, of.cache_read, of.output],
            Counts::Together => [together, 0, 0, of.output],
            Counts::TogetherWithoutThoughts => [together, 0, 0, of.output - of.reasoning],
        }
    }

    /// Returns the sum of what it reports for some answers.
    #[must_use]
    pub fn sum(&self, answers: &[Usage]) -> [u64; 4] {
        let counts = answers.iter().map(|of| self.reported(*of));
        counts.fold([0; 4], |sum, of| std::array::from_fn(|i| sum[i] + of[i]))
    }

    /// Returns the cost that it reports for these tokens, if any.
    #[must_use]
    pub fn cost(&self, tokens: [u64; 4]) -> Option<f64> {
        let price = self.price?;
        let costs = tokens
            .iter()
            .zip(price)
            .map(|(count, price)| *count as f64 * price);
        Some(costs.sum::<f64>() / 1e6)
    }
}

/// Adds the entries of `over` to a table; where both have a table, the two are merged.
fn merge(table: &mut toml::Table, over: &toml::Table) {
    for (key, value) in over {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(inner)), toml::Value::Table(over)) => merge(inner, over),
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}

fn write_files(files: &Pairs, directory: &Path) {
    for (path, text) in files {
        let path = directory.join(path);
        std::fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .expect("create a directory");
        std::fs::write(path, text.replace("{secret}", SECRET)).expect("write a file");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SUBJECTS;

    #[test]
    fn every_transport_of_every_manifest_is_a_subject() {
        let transports = ostler_agents::all()
            .iter()
            .flat_map(|manifest| manifest.transports.keys());
        let ids: Vec<&str> = SUBJECTS.iter().map(|subject| subject.id).collect();
        assert_eq!(ids, transports.collect::<Vec<_>>());
    }

    #[test]
    fn a_transport_overrides_single_facts() {
        let mut table = toml::toml! { a = { b = 1, c = [2] } d = 3 };
        merge(&mut table, &toml::toml! { a = { c = [] } e = 4 });
        assert_eq!(table, toml::toml! { a = { b = 1, c = [] } d = 3 e = 4 });
    }
}
