//! Directories of agents and of the user's settings that no workspace is granted, including those
//! that variables name.

use std::path::{Path, PathBuf};

use crate::agent_path;
use crate::host::Host;

/// Settings and credentials of agents, relative to the home directory, besides the state that
/// supported agents name themselves.
const OTHERS: &[&str] = &[
    ".config/github-copilot",
    ".cursor",
    ".continue",
    ".aider.conf.yml",
];

/// Variables that name such a directory, or one with the user's settings and data.
const VARIABLES: &[&str] = &[
    "GEMINI_CLI_HOME",
    "QWEN_HOME",
    "OPENCODE_CONFIG_DIR",
    "GOOSE_CONFIG_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "ZDOTDIR",
    "GNUPGHOME",
    "GIT_CONFIG_GLOBAL",
    "DOCKER_CONFIG",
    "KUBECONFIG",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "NPM_CONFIG_USERCONFIG",
    "OSTLER_CONFIG_DIR",
    "OSTLER_STATE_DIR",
];

/// Returns the directories on this machine.
pub(super) fn places(host: &Host) -> Vec<PathBuf> {
    let named = VARIABLES
        .iter()
        .filter_map(|name| host.var(name))
        .map(PathBuf::from);
    let home = host.var("HOME").map(Path::new);
    let others = home
        .into_iter()
        .flat_map(|home| OTHERS.iter().map(move |name| home.join(name)));
    let agents = ostler_dialects::state_paths()
        .filter_map(|path| agent_path::resolve(path, |name| host.var(name)));
    named
        .chain(others)
        .chain(agents)
        .filter(|place| place.is_absolute())
        .collect()
}

#[cfg(test)]
mod tests {
    use ostler_core::dialect::Launching;
    use ostler_core::spec::Spec;

    use super::*;

    #[test]
    fn every_agent_with_a_program_names_its_state() {
        for dialect in ostler_dialects::all() {
            let about = dialect.about();
            let launch = dialect.launch(&Launching::new(&Spec::default()));
            let has_state = launch.is_ok_and(|launch| !launch.state.is_empty());
            assert_eq!(has_state, about.probe.is_some(), "{}", about.name);
        }
    }

    #[test]
    fn places_are_those_of_agents_and_of_the_user() {
        let vars = [("HOME", "/h"), ("CODEX_HOME", "/c"), ("KUBECONFIG", "k")];
        let found = places(&Host::new(vars.map(|(k, v)| (k.into(), v.into()))));
        for path in [
            "/h/.claude",
            "/h/.claude.json",
            "/h/.gemini",
            "/h/.cursor",
            "/c",
        ] {
            assert!(found.iter().any(|it| it == Path::new(path)), "{path}");
        }
        assert!(found.iter().all(|path| path.is_absolute()), "{found:?}");
    }
}
