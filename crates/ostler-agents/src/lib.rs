//! Manifests of agents: one file per agent with everything that Ostler and its tests know about the
//! program, apart from its dialect.
//!
//! A manifest is `agents/<name>/manifest.toml`. Beside it lies the lock file that npm installs the
//! program from. The checks of `ostler doctor --conformance`, the installer of real agents, the
//! conformance suite and `cargo xtask tidy` read it; adding a folder adds the agent to all of them.
//!
//! ```
//! let manifest = ostler_agents::find("claude").expect("a known agent");
//! let (tool, arguments) = manifest.shell.call("ls");
//! assert_eq!((tool, &arguments["command"]), ("Bash", &"ls".into()));
//! ```

mod redirection;
mod template;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

pub use redirection::{KEY, Redirection};
pub use template::fill;

/// Everything known about an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The agent's name in Ostler, which is the name of its folder.
    #[serde(skip)]
    pub name: &'static str,
    /// Name of its documentation page, if it shares one.
    docs: Option<String>,
    /// When tests run it.
    pub group: Group,
    /// Its installation for tests; `None` for an agent that is part of Ostler.
    pub install: Option<Install>,
    /// What points it at a local model; `None` for an agent that is part of Ostler.
    pub redirection: Option<Redirection>,
    /// Its tool that runs shell commands.
    pub shell: Shell,
    /// What tests expect of it, whichever transport is used. The testkit knows the fields.
    pub subject: toml::Table,
    /// Its transports by their names in the conformance suite, with what differs from
    /// [`Manifest::subject`].
    pub transports: BTreeMap<String, toml::Table>,
}

/// When tests run an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Part of Ostler: always.
    Own,
    /// A real program that is quick to install and start: with the real agents.
    Real,
    /// Any other program: only with `--all-agents`.
    Heavy,
}

/// Installation of an agent with npm.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Install {
    /// The version of the npm package.
    pub version: String,
    /// The version that the program reports, if it is another one.
    reported_version: Option<String>,
    /// Possible paths of its program below `node_modules`, one per platform.
    pub programs: Vec<String>,
    /// Possible directories below `node_modules` that come first in its `PATH`.
    #[serde(default)]
    pub path: Vec<String>,
    /// Dependencies as in `package.json`. `{version}` stands for the version.
    package: Value,
}

/// A tool that runs shell commands. `{command}` stands for the command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shell {
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// Arguments with which it always asks for permission, if they differ.
    asking: Option<Value>,
}

/// Returns all manifests, in the order of their names.
#[must_use]
pub fn all() -> &'static [Manifest] {
    static ALL: LazyLock<Vec<Manifest>> = LazyLock::new(|| {
        // A test reads every manifest, so none is left out here.
        TEXTS
            .iter()
            .filter_map(|(name, text)| read(name, text).ok())
            .collect()
    });
    &ALL
}

/// Returns the manifest of an agent.
#[must_use]
pub fn find(name: &str) -> Option<&'static Manifest> {
    all().iter().find(|manifest| manifest.name == name)
}

/// The manifests by name, as text.
const TEXTS: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/manifests.rs"));

fn read(name: &'static str, text: &str) -> Result<Manifest, toml::de::Error> {
    Ok(Manifest {
        name,
        ..toml::from_str(text)?
    })
}

impl Manifest {
    /// Returns the path of its documentation page.
    #[must_use]
    pub fn docs_page(&self) -> String {
        format!(
            "docs/agents/{}.md",
            self.docs.as_deref().unwrap_or(self.name)
        )
    }
}

impl Install {
    /// Returns the version that the program reports.
    #[must_use]
    pub fn reported_version(&self) -> &str {
        self.reported_version.as_ref().unwrap_or(&self.version)
    }

    /// Returns the `package.json` to install, for an agent with this name.
    #[must_use]
    pub fn package(&self, name: &str) -> Value {
        let mut package = fill(&self.package, "version", &self.version);
        package["name"] = format!("ostler-test-agent-{name}").into();
        package["private"] = true.into();
        package
    }
}

impl Shell {
    /// Returns the call that runs a command: the tool and its arguments.
    #[must_use]
    pub fn call(&self, command: &str) -> (&str, Value) {
        (&self.tool, fill(&self.arguments, "command", command))
    }

    /// Returns the call that runs a command after the agent has asked for permission.
    #[must_use]
    pub fn asking_call(&self, command: &str) -> (&str, Value) {
        let arguments = self.asking.as_ref().unwrap_or(&self.arguments);
        (&self.tool, fill(arguments, "command", command))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manifest_is_read() {
        for (name, text) in TEXTS {
            read(name, text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert_eq!(all().len(), TEXTS.len());
    }

    #[test]
    fn an_agent_has_a_program_to_redirect_or_is_part_of_ostler() {
        for manifest in all() {
            let own = manifest.group == Group::Own;
            assert_eq!(manifest.install.is_none(), own, "{}", manifest.name);
            assert_eq!(manifest.redirection.is_none(), own, "{}", manifest.name);
        }
    }

    #[test]
    fn a_shell_call_contains_the_command_once() {
        for Manifest { name, shell, .. } in all() {
            for (_, arguments) in [shell.call("echo hello"), shell.asking_call("echo hello")] {
                let count = arguments.to_string().matches("echo hello").count();
                assert_eq!(count, 1, "{name}: {arguments}");
            }
        }
    }
}
