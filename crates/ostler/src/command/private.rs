//! Directories of agents and of the user's settings that no workspace is granted, including those
//! that variables name.

use std::path::{Path, PathBuf};

use crate::host::Host;

/// Settings, credentials and sessions of agents, relative to the home directory.
const AGENTS: &[&str] = &[
    ".claude",
    ".claude.json",
    ".codex",
    ".copilot",
    ".config/github-copilot",
    ".gemini",
    ".qwen",
    ".openclaw",
    ".config/opencode",
    ".local/share/opencode",
    ".config/goose",
    ".local/share/goose",
    ".local/state/goose",
    ".cursor",
    ".continue",
    ".aider.conf.yml",
];

/// Variables that name such a directory, or one with the user's settings and data.
const VARIABLES: &[&str] = &[
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "QWEN_HOME",
    "OPENCLAW_HOME",
    "OPENCLAW_STATE_DIR",
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
    let below = home
        .into_iter()
        .flat_map(|home| AGENTS.iter().map(move |name| home.join(name)));
    named
        .chain(below)
        .filter(|place| place.is_absolute())
        .collect()
}
