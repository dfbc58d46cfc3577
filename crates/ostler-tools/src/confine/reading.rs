//! What a command may read: the system and its tools, and not what lies beside them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where a confinement is for.
#[derive(Debug, Clone, Copy)]
pub struct Home<'a> {
    /// The workspace.
    pub workspace: &'a Path,
    /// A directory for temporary files, of this command or session alone.
    pub temp: &'a Path,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// The PATH that the command gets.
    pub path: &'a OsStr,
    /// Directories of tools that variables name: `CARGO_HOME` and the like.
    pub tools: &'a [PathBuf],
}

/// Where systems keep programs, libraries and settings.
const SYSTEM: [&str; 16] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/run/current-system",
    "/proc",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
];

/// Where users keep tools, below home.
const TOOLS: [&str; 36] = [
    ".cargo",
    ".rustup",
    ".pyenv",
    ".nvm",
    ".fnm",
    ".volta",
    ".bun",
    ".deno",
    ".asdf",
    ".rbenv",
    ".rvm",
    ".gem/ruby",
    ".sdkman",
    ".jenv",
    ".opam",
    ".ghcup",
    ".stack/programs",
    ".juliaup",
    ".dotnet",
    ".nix-profile",
    ".npm-global",
    ".local/bin",
    ".local/lib",
    ".local/share/mise",
    ".local/share/fnm",
    ".local/share/uv",
    ".local/share/pipx",
    ".local/share/pnpm",
    ".local/share/virtualenvs",
    "go/bin",
    "go/pkg",
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
    ".config/mise",
];

/// What holds keys and passwords, below home.
const SECRETS: [&str; 39] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".config/doctl",
    ".config/git/credentials",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".mozilla",
    ".thunderbird",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".vault-token",
    ".terraform.d",
    ".terraformrc",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".bash_history",
    ".zsh_history",
    ".python_history",
];

/// What holds keys and passwords of the system. Only root could read most of it; but commands may run as root.
const SYSTEM_SECRETS: [&str; 21] = [
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/docker",
    "/etc/wireguard",
    "/etc/NetworkManager/system-connections",
    "/etc/letsencrypt",
    "/etc/krb5.keytab",
    "/run/secrets",
    "/run/credentials",
    "/var/run/secrets",
    "/var/lib/docker",
    "/var/lib/kubelet",
];

/// Everything that a command may read without being told: what is there of it.
pub(super) fn tools(home: &Home<'_>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    all.extend(home.home.iter().flat_map(|home| TOOLS.iter().map(|tool| home.join(tool))));
    // A whole home, or more than one, is no directory of tools, whatever a variable says.
    let is_too_much = |dir: &Path| dir.parent().is_none() || home.home.is_some_and(|home| home.starts_with(dir));
    let named = home.tools.iter().cloned().chain(std::env::split_paths(home.path));
    all.extend(named.filter(|dir| dir.is_absolute() && !is_too_much(dir)));
    all.sort();
    all.dedup();
    all.retain(|path| path.exists());
    all
}

/// What is not read even where all the rest may be: what is there of it.
#[must_use]
pub fn secrets(home: &Home<'_>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SYSTEM_SECRETS.iter().map(PathBuf::from).collect();
    // Root could read those of others.
    let others = std::fs::read_dir("/home").into_iter().flatten().flatten().map(|entry| entry.path());
    let homes = home.home.map(Path::to_owned).into_iter().chain([PathBuf::from("/root")]).chain(others);
    all.extend(homes.flat_map(|home| SECRETS.iter().map(move |secret| home.join(secret))));
    all.retain(|path| path.exists());
    all.sort();
    all.dedup();
    all
}

/// A path of a policy as it is on this machine: below `~`, absolute, or relative to the workspace.
#[must_use]
pub fn expand(path: &Path, home: &Home<'_>) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => home.home.map(|home| home.join(rest)),
        Err(_) => Some(home.workspace.join(path)),
    }
}
