//! Readable paths of a command: the system and its tools, but not what is beside them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Paths on this machine that a confinement is built from.
#[derive(Debug, Clone, Copy)]
pub struct HostPaths<'a> {
    /// The workspace.
    pub workspace: &'a Path,
    /// Directory for temporary files, of this command or session alone.
    pub temp: &'a Path,
    /// The user's home directory.
    pub home: Option<&'a Path>,
    /// PATH of the command.
    pub path: &'a OsStr,
    /// Directories of tools from variables such as `CARGO_HOME`.
    pub tools: &'a [PathBuf],
    /// Secrets from variables, see [`super::named_secrets`], and others that only the caller knows.
    pub secrets: &'a [PathBuf],
    /// Paths that are not hidden although they contain secrets: the state of the running agent.
    pub exempt: &'a [PathBuf],
}

/// Directories of programs, libraries and settings of the system.
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

/// Directories of tools below a home.
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

/// Returns the existing paths that a command may read by default.
pub(super) fn tools(host: &HostPaths<'_>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    all.extend(
        host.home
            .iter()
            .flat_map(|home| TOOLS.iter().map(|tool| home.join(tool))),
    );
    all.extend(named(host));
    // A whole home, or more than one, is never a directory of tools, whatever a variable or a link
    // says.
    let homes: Vec<PathBuf> = host
        .home
        .into_iter()
        .flat_map(|at| [Some(at.to_owned()), at.canonicalize().ok()])
        .flatten()
        .collect();
    let mut all = real(all);
    all.retain(|dir| dir.parent().is_some() && !homes.iter().any(|home| home.starts_with(dir)));
    all.sort();
    all
}

/// Settings that build tools look for in the directories above the project, and fail on if they
/// cannot be read.
const SETTINGS_ABOVE: [&str; 12] = [
    ".cargo/config.toml",
    ".cargo/config",
    "rust-toolchain.toml",
    "rust-toolchain",
    "rustfmt.toml",
    "clippy.toml",
    "package.json",
    "tsconfig.json",
    "pyproject.toml",
    "setup.cfg",
    "go.work",
    ".python-version",
];

/// Returns the settings of build tools in the directories above the workspace, up to the root of
/// its repository.
pub(super) fn settings_above(workspace: &Path) -> Vec<PathBuf> {
    let above: Vec<&Path> = workspace.ancestors().skip(1).collect();
    let Some(top) = above.iter().position(|dir| dir.join(".git").exists()) else {
        return Vec::new();
    };
    let above = &above[..=top];
    let named = above
        .iter()
        .flat_map(|dir| SETTINGS_ABOVE.iter().map(|name| dir.join(name)));
    // A link could lead anywhere.
    real(named)
        .into_iter()
        .filter(|file| file.is_file() && file.starts_with(above[top]))
        .collect()
}

/// Returns the directories of tools from variables.
pub(super) fn named(host: &HostPaths<'_>) -> impl Iterator<Item = PathBuf> {
    host.tools
        .iter()
        .cloned()
        .chain(std::env::split_paths(host.path))
        .filter(|dir| dir.is_absolute())
}

/// Returns the real paths, without duplicates and in the same order. Missing paths are left out.
pub(super) fn real(paths: impl IntoIterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for path in paths
        .into_iter()
        .filter_map(|path| path.canonicalize().ok())
    {
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// Expands a path of a policy: below `~`, absolute, or relative to the workspace.
#[must_use]
pub fn expand(path: &Path, host: &HostPaths<'_>) -> Option<PathBuf> {
    match path.strip_prefix("~") {
        Ok(rest) => host.home.map(|home| home.join(rest)),
        Err(_) => Some(host.workspace.join(path)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::{CommandLimits, Confinement};
    use super::*;

    // A link created by a command must not widen what the next one may do.
    #[test]
    fn paths_are_real_and_not_inside_writable_ones() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in [
            "work/sub",
            "work/tools",
            "home/.cache/x/y",
            "tools",
            "other",
            "temp",
        ] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("tools/credentials.toml"), "").unwrap();
        symlink(at("other"), at("work/link")).unwrap();
        symlink(at("home"), at("all")).unwrap();
        let (work, user, temp) = (at("work"), at("home"), at("temp"));
        let tools = [at("work/tools"), at("tools"), at("all"), at("none")];
        let path = std::ffi::OsStr::new("");
        let home = HostPaths {
            workspace: &work,
            temp: &temp,
            home: Some(&user),
            path,
            tools: &tools,
            secrets: &[],
            exempt: &[],
        };
        let write = ["sub", "~/.cache/x", "~/.cache/x/y", "later"]
            .map(PathBuf::from)
            .to_vec();
        let limits = CommandLimits {
            write,
            read: vec!["link".into(), "sub".into()],
            ..CommandLimits::default()
        };
        let confinement = Confinement::command(&limits, &home);
        assert_eq!(
            confinement.write,
            [at("work"), at("temp"), at("home/.cache/x")]
        );
        let read: Vec<_> = confinement
            .read
            .iter()
            .filter(|path| path.starts_with(dir.path().canonicalize().unwrap()))
            .collect();
        assert_eq!(read, [&at("tools"), &at("other")]);
        assert!(confinement.hidden.contains(&at("tools/credentials.toml")));
    }
}
