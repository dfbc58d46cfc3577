//! What git gets told besides its arguments, so that a repository's own settings do not run programs or ask questions.

/// Settings that beat those of the repository and of the user. Identity and aliases stay the user's: an alias cannot stand in
/// for a sub-command of git's own, and no other is allowed.
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
    // What another repository of this machine has in its settings would be run on the way.
    ("protocol.file.allow", "never"),
    // Else files of the workspace that look like a repository would be one, with settings of the model's making.
    ("safe.bareRepository", "explicit"),
    // Signing needs keys that a command does not see.
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    // Else `git clean` without -f would delete.
    ("clean.requireForce", "true"),
    // What would be left running.
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
    // A new repository begins without hooks.
    ("GIT_TEMPLATE_DIR", ""),
];

pub(super) fn environment() -> Vec<(String, String)> {
    let own = |pair: &(&str, &str)| (pair.0.to_owned(), pair.1.to_owned());
    let mut all: Vec<(String, String)> = VARIABLES.iter().map(own).collect();
    all.push(("GIT_CONFIG_COUNT".to_owned(), SETTINGS.len().to_string()));
    for (number, (key, value)) in SETTINGS.iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{number}"), (*key).to_owned()));
        all.push((format!("GIT_CONFIG_VALUE_{number}"), (*value).to_owned()));
    }
    all
}
