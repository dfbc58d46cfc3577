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
const TOOLS: [&str; 35] = [
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
];

/// What holds keys and passwords, below home.
const SECRETS: [&str; 40] = [
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
    ".local/share/uv/credentials",
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

/// What holds keys and passwords directly below a directory of tools, wherever that is.
const BESIDE_TOOLS: [&str; 5] = ["credentials", "credentials.toml", ".npmrc", ".pypirc", ".netrc"];

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
    all.extend(named(home));
    // A whole home, or more than one, is no directory of tools, whatever a variable or a link says.
    let homes: Vec<PathBuf> =
        home.home.into_iter().flat_map(|at| [Some(at.to_owned()), at.canonicalize().ok()]).flatten().collect();
    let mut all = real(all);
    all.retain(|dir| dir.parent().is_some() && !homes.iter().any(|home| home.starts_with(dir)));
    all.sort();
    all
}

/// The directories of tools that variables name.
fn named(home: &Home<'_>) -> impl Iterator<Item = PathBuf> {
    home.tools.iter().cloned().chain(std::env::split_paths(home.path)).filter(|dir| dir.is_absolute())
}

/// Where paths really are, each once and in the same order: what is there of them.
pub(super) fn real(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for path in paths.into_iter().filter_map(|path| path.canonicalize().ok()) {
        if !all.contains(&path) {
            all.push(path);
        }
    }
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
    all.extend(named(home).flat_map(|dir| BESIDE_TOOLS.iter().map(move |secret| dir.join(secret))));
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::{CommandLimits, Confinement};
    use super::*;

    // A link that a command makes must not widen what the next one may do.
    #[test]
    fn places_are_the_real_ones_and_none_lies_where_a_command_can_change_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["work/sub", "work/tools", "home/.cache/x/y", "tools", "other", "temp"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("tools/credentials.toml"), "").unwrap();
        symlink(at("other"), at("work/link")).unwrap();
        symlink(at("home"), at("all")).unwrap();
        let (work, user, temp) = (at("work"), at("home"), at("temp"));
        let tools = [at("work/tools"), at("tools"), at("all"), at("none")];
        let path = std::ffi::OsStr::new("");
        let home = Home { workspace: &work, temp: &temp, home: Some(&user), path, tools: &tools };
        let write = ["sub", "~/.cache/x", "~/.cache/x/y", "later"].map(PathBuf::from).to_vec();
        let limits = CommandLimits { write, read: vec!["link".into(), "sub".into()], ..CommandLimits::default() };
        let made = Confinement::command(&limits, &home);
        assert_eq!(made.write, [at("work"), at("temp"), at("home/.cache/x")]);
        let read: Vec<_> =
            made.read.iter().filter(|path| path.starts_with(dir.path().canonicalize().unwrap())).collect();
        assert_eq!(read, [&at("tools"), &at("other")]);
        assert!(made.hidden.contains(&at("tools/credentials.toml")));
    }
}
