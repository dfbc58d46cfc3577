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
    /// Secrets that variables name, see [`super::named_secrets`], and others that only the caller knows.
    pub secrets: &'a [PathBuf],
    /// Places that are not hidden although they hold secrets: the state of the agent that is running.
    pub exempt: &'a [PathBuf],
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

/// Everything that a command may read without being told: what is there of it.
pub(super) fn tools(home: &Home<'_>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    all.extend(
        home.home
            .iter()
            .flat_map(|home| TOOLS.iter().map(|tool| home.join(tool))),
    );
    all.extend(named(home));
    // A whole home, or more than one, is no directory of tools, whatever a variable or a link says.
    let homes: Vec<PathBuf> = home
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

/// Settings that build tools look for in the directories above the project, and fail on if they cannot be read.
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

/// Settings of build tools in the directories above the workspace, up to the root of the repository that it is a part of.
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

/// The directories of tools that variables name.
pub(super) fn named(home: &Home<'_>) -> impl Iterator<Item = PathBuf> {
    home.tools
        .iter()
        .cloned()
        .chain(std::env::split_paths(home.path))
        .filter(|dir| dir.is_absolute())
}

/// Where paths really are, each once and in the same order: what is there of them.
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
        let home = Home {
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
        let made = Confinement::command(&limits, &home);
        assert_eq!(made.write, [at("work"), at("temp"), at("home/.cache/x")]);
        let read: Vec<_> = made
            .read
            .iter()
            .filter(|path| path.starts_with(dir.path().canonicalize().unwrap()))
            .collect();
        assert_eq!(read, [&at("tools"), &at("other")]);
        assert!(made.hidden.contains(&at("tools/credentials.toml")));
    }
}
