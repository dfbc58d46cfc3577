//! The agents that case files may name.

use std::collections::BTreeSet;

use ostler::config::Config;
use ostler_eval::load::{AgentCatalogue, AgentInfo};
use ostler_eval::run_trial::REFERENCE_AGENTS;

/// Endings of agent names that other tools use: `NAME-code` and `NAME-cli` stand for `NAME`.
const ENDINGS: &[&str] = &["-code", "-cli"];

/// The setting that selects a named agent.
const AGENT_NAME: &str = "agent";

/// Settings whose value is a file. They are named by their key: their kind does not tell.
const FILES: &[&str] = &["script"];

/// The agents of a configuration.
pub(crate) struct Catalogue<'a>(pub(crate) &'a Config);

impl AgentCatalogue for Catalogue<'_> {
    fn find(&self, name: &str) -> Option<AgentInfo> {
        if REFERENCE_AGENTS.contains(&name) {
            return Some(AgentInfo {
                name: name.to_owned(),
                settings: Some(BTreeSet::new()),
                path_settings: BTreeSet::new(),
                agent_name_setting: None,
            });
        }
        let endings = ENDINGS
            .iter()
            .filter_map(|ending| name.strip_suffix(ending));
        let found = std::iter::once(name).chain(endings);
        let (name, agent) = found
            .into_iter()
            .find_map(|it| Some((it, self.0.agent(it)?)))?;
        let keys = agent.about().settings.iter().map(|it| it.key.to_owned());
        let settings: BTreeSet<String> = keys.collect();
        let files = FILES.iter().filter(|key| settings.contains(**key));
        Some(AgentInfo {
            name: name.to_owned(),
            path_settings: files.map(|key| (*key).to_owned()).collect(),
            agent_name_setting: settings.get(AGENT_NAME).cloned(),
            settings: Some(settings),
        })
    }

    fn names(&self) -> Vec<String> {
        let names = self.0.names().into_iter();
        let names = names.chain(REFERENCE_AGENTS.iter().copied());
        names.map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // S4-46: the names of youBencha's agent types stand for Ostler's.
    #[test]
    fn names_of_other_tools_are_known() {
        let config = Config::default();
        let catalogue = Catalogue(&config);
        for (name, expected) in [
            ("claude-code", "claude"),
            ("copilot-cli", "copilot"),
            ("codex-cli", "codex"),
            ("scripted", "scripted"),
        ] {
            let info = catalogue.find(name).unwrap();
            assert_eq!(info.name, expected);
        }
        assert_eq!(catalogue.find("claude-clx"), None);
        let claude = catalogue.find("claude").unwrap();
        assert_eq!(claude.agent_name_setting.as_deref(), Some("agent"));
        let scripted = catalogue.find("scripted").unwrap();
        assert!(scripted.path_settings.contains("script"));
    }

    #[test]
    fn the_example_is_valid() {
        let dir = tempfile::tempdir().unwrap();
        crate::cmd::eval::init::write(dir.path()).unwrap();
        let config = Config::default();
        let options = crate::cmd::eval::validate::Options {
            config: &config,
            variables: &ostler_eval::load::Variables::default(),
            allow_private_hosts: false,
            json: false,
        };
        let problems = crate::cmd::eval::validate::problems(&[dir.path().to_owned()], &options);
        assert_eq!(problems, []);
        // It overwrites nothing.
        assert!(crate::cmd::eval::init::write(dir.path()).is_err());
    }
}
