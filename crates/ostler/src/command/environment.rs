//! Environment passed to commands: where tools are installed, and no credentials.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use ostler_core::dialect::Inherits;
use ostler_tools::UserGitConfig;
use ostler_tools::confine::looks_secret;

use crate::host::{Host, SESSION_VARIABLE};

/// Marks every process of one command, so that all of them can be found.
pub(super) const COMMAND_VARIABLE: &str = "OSTLER_COMMAND";

/// Variables passed to agents that commands get too.
const USUAL: &[&str] = &[
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Variables that name unusual installation directories of tools.
const TOOL_HOMES: &[&str] = &[
    "CARGO_HOME",
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "NVM_DIR",
    "GOROOT",
    "JAVA_HOME",
    "VOLTA_HOME",
    "MISE_DATA_DIR",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "BUN_INSTALL",
    "DENO_INSTALL",
    "RBENV_ROOT",
    "GEM_HOME",
    "DOTNET_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
];

/// Settings that make tools work offline: use their caches, and do not wait for the network.
const OFFLINE: &[(&str, &str)] = &[
    ("CARGO_NET_OFFLINE", "true"),
    ("npm_config_offline", "true"),
    ("npm_config_update_notifier", "false"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("UV_OFFLINE", "1"),
    ("PIP_DISABLE_PIP_VERSION_CHECK", "1"),
];

/// Returns the tool directories that variables name.
pub(super) fn tool_homes(host: &Host) -> Vec<PathBuf> {
    TOOL_HOMES
        .iter()
        .filter_map(|name| host.var(name))
        .map(PathBuf::from)
        .collect()
}

/// Returns the PATH of a command. It excludes relative entries and everything inside the workspace,
/// where a model could put a program.
pub(super) fn path(host: &Host, root: &Path) -> OsString {
    let dirs = std::env::split_paths(host.var("PATH").unwrap_or_default());
    let is_outside = |dir: &PathBuf| {
        let real = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        dir.is_absolute() && !real.starts_with(root) && !dir.starts_with(root)
    };
    std::env::join_paths(dirs.filter(is_outside)).unwrap_or_default()
}

/// Variables added to a command's environment.
pub(super) struct Added<'a> {
    /// Names of host variables, from the policy.
    pub(super) named: &'a [String],
    /// Whether commands have no network. Tools get settings for offline use.
    pub(super) offline: bool,
    /// The caller's variables.
    pub(super) given: &'a BTreeMap<String, String>,
}

/// Returns the environment of a command.
pub(super) fn variables(
    host: &Host,
    marks: [&str; 2],
    added: &Added<'_>,
) -> BTreeMap<OsString, OsString> {
    let inherits = Inherits {
        always: TOOL_HOMES,
        ..Inherits::default()
    };
    let mut env = host.environment(&inherits, &BTreeMap::new());
    let is_usual = |name: &OsStr| {
        let Some(name) = name.to_str() else {
            return false;
        };
        USUAL.contains(&name) || TOOL_HOMES.contains(&name) || name.starts_with("LC_")
    };
    env.retain(|name, _| is_usual(name));
    let set = |env: &mut BTreeMap<OsString, OsString>, name: &str, value: &str| {
        env.insert(name.into(), value.into())
    };
    let named = added.named.iter().filter(|name| !is_withheld(host, name));
    env.extend(named.filter_map(|name| Some((name.into(), host.var(name)?.to_owned()))));
    for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        set(&mut env, name, value);
    }
    for (name, value) in OFFLINE.iter().filter(|_| added.offline) {
        set(&mut env, name, value);
    }
    for (name, value) in added.given {
        set(&mut env, name, value);
    }
    // The processes of the command are found by these variables, so nothing may override them.
    for (name, value) in [(SESSION_VARIABLE, marks[0]), (COMMAND_VARIABLE, marks[1])] {
        set(&mut env, name, value);
    }
    env
}

/// Returns true if a variable named by a policy is withheld because its value looks like a
/// credential.
pub(super) fn is_withheld(host: &Host, name: &str) -> bool {
    host.var(name)
        .is_some_and(|value| value.to_str().is_none_or(looks_secret))
}

/// Points every variable for temporary files to `temp`.
pub(super) fn set_temp(env: &mut BTreeMap<OsString, OsString>, temp: &Path) {
    for name in ["TMPDIR", "TEMP", "TMP"] {
        env.insert(name.into(), temp.into());
    }
    env.insert("XDG_CACHE_HOME".into(), temp.join(".cache").into());
    env.entry("npm_config_cache".into())
        .or_insert_with(|| temp.join(".npm").into());
}

/// Returns the location of the user's git configuration, from the variables that git uses.
pub(crate) fn user_git(host: &Host) -> UserGitConfig {
    let set = |name: &str| {
        host.var(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = set("HOME");
    let xdg = set("XDG_CONFIG_HOME").or_else(|| home.as_ref().map(|home| home.join(".config")));
    let usual = [
        xdg.map(|xdg| xdg.join("git/config")),
        home.as_ref().map(|home| home.join(".gitconfig")),
    ];
    let global = set("GIT_CONFIG_GLOBAL")
        .map_or_else(|| usual.into_iter().flatten().collect(), |file| vec![file]);
    let system = set("GIT_CONFIG_SYSTEM").unwrap_or_else(|| PathBuf::from("/etc/gitconfig"));
    UserGitConfig {
        files: [vec![system], global].concat(),
        home,
    }
}
