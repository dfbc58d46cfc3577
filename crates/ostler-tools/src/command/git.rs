//! Environment for git that prevents a repository's settings from running programs or prompting.

/// Settings that override those of the repository and the user. Identity and aliases remain the
/// user's: an alias cannot replace a built-in sub-command, and no other is allowed.
const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "false"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("protocol.ext.allow", "never"),
    ("protocol.fd.allow", "never"),
    // Fetching from another repository on this machine would run what its settings name.
    ("protocol.file.allow", "never"),
    // Otherwise files of the workspace that look like a repository would be one, with settings
    // written by the model.
    ("safe.bareRepository", "explicit"),
    // Signing needs keys that are hidden from commands.
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    // Otherwise `git clean` without -f would delete.
    ("clean.requireForce", "true"),
    // Would be left running in the background.
    ("gc.autoDetach", "false"),
    ("maintenance.autoDetach", "false"),
    ("maintenance.auto", "false"),
];

const VARIABLES: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_ASKPASS", ""),
    ("SSH_ASKPASS", ""),
    ("GIT_OPTIONAL_LOCKS", "0"),
    // New repositories start without hooks.
    ("GIT_TEMPLATE_DIR", ""),
];

pub(super) fn environment() -> Vec<(String, String)> {
    let to_owned_pair = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    let mut all: Vec<(String, String)> = VARIABLES.iter().map(to_owned_pair).collect();
    all.push(("GIT_CONFIG_COUNT".to_owned(), SETTINGS.len().to_string()));
    for (number, (key, value)) in SETTINGS.iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{number}"), (*key).to_owned()));
        all.push((format!("GIT_CONFIG_VALUE_{number}"), (*value).to_owned()));
    }
    all
}
