//! Paths and variables that no workspace is granted, trusted or not.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{NotGranted, Request};
use crate::confine::{HostPaths, expand, refuse_variable, secrets};
use crate::files::is_sealed;

/// System directories: programs, settings, services, and their spool and state.
const SYSTEM: [&str; 36] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/boot",
    "/efi",
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/root",
    "/var/spool",
    "/var/lib",
    "/var/log",
    "/var/mail",
    "/var/run",
    "/var/lock",
    "/var/db",
    "/var/cron",
    "/var/at",
    "/var/backups",
    "/var/www",
    "/var/opt",
    "/var/local",
    "/System",
    "/Library",
    "/Applications",
    "/private/etc",
];

/// Parents of home directories. A workspace is never granted another user's home.
const HOMES: [&str; 2] = ["/home", "/Users"];

/// Shared directories of which only parts are granted, never the whole.
const SHARED: [&str; 4] = ["/tmp", "/var/tmp", "/var/cache", "/private/tmp"];

/// Directories in a home that do not start with a dot, but whose files other programs run or load.
const HOME_DIRECTORIES: [&str; 2] = ["Library", "AppData"];

/// The only hidden directory of a home in which a workspace can be granted a directory.
const CACHE: &str = ".cache";

/// Substrings of variable names that indicate credentials, in addition to the variables that no
/// policy passes on.
const CREDENTIALS: [&str; 22] = [
    "URL",
    "URI",
    "DSN",
    "CONN",
    "PASS",
    "PWD",
    "JWT",
    "COOKIE",
    "SESSION",
    "PRIVATE",
    "CERT",
    "SIGN",
    "SALT",
    "WEBHOOK",
    "BEARER",
    "SOCK",
    "KUBECONFIG",
    "LOGIN",
    "ACCOUNT",
    "AWS_",
    "AZURE_",
    "GOOGLE_",
];

/// Paths of one machine and one user that no workspace is granted.
#[derive(Debug, Clone, Default)]
pub struct OffLimits {
    home: Option<PathBuf>,
    /// Not writable: these paths, anything inside them, and anything that contains them.
    protected: Vec<(PathBuf, &'static str)>,
    /// As `protected`, and not readable either.
    private: Vec<PathBuf>,
    /// Not readable, nor is anything inside them. They are hidden from commands that may read a
    /// directory above them.
    secrets: Vec<PathBuf>,
}

impl OffLimits {
    /// Collects the paths of this machine. `private` lists the caller's own files and directories:
    /// settings, state, and credentials of agents.
    #[must_use]
    pub fn here(host: &HostPaths<'_>, private: &[PathBuf]) -> Self {
        let with_real_path = |path: &Path| {
            [Some(path.to_owned()), path.canonicalize().ok()]
                .into_iter()
                .flatten()
        };
        let system = SYSTEM
            .iter()
            .flat_map(|dir| with_real_path(Path::new(dir)))
            .map(|dir| (dir, "it belongs to the system"));
        let on_path = programs(host)
            .into_iter()
            .map(|path| (path, "it is on PATH, or contains a program that is"));
        let private: Vec<PathBuf> = private
            .iter()
            .flat_map(|path| with_real_path(path))
            .collect();
        let private_paths = private
            .iter()
            .cloned()
            .map(|path| (path, "it contains settings, sessions or credentials"));
        let secrets: Vec<PathBuf> = secrets(host)
            .iter()
            .flat_map(|path| with_real_path(path))
            .collect();
        let secret_paths = secrets
            .iter()
            .cloned()
            .map(|path| (path, "it contains keys or passwords"));
        let user = host
            .home
            .map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        // Root's home follows the rules of any home.
        let root = Path::new("/root");
        let is_root = user.as_ref().is_some_and(|user| user.starts_with(root));
        let system = system.filter(|(path, _)| !is_root || path != root);
        let protected = system
            .chain(on_path)
            .chain(private_paths)
            .chain(secret_paths)
            .collect();
        Self {
            home: user,
            protected,
            private,
            secrets,
        }
    }

    /// Evaluates a request of a trusted workspace. Returns the request with its path resolved.
    ///
    /// # Errors
    /// Returns the reason why no workspace is granted this.
    pub fn judge(
        &self,
        request: &Request,
        host: &HostPaths<'_>,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Request, NotGranted> {
        let refused =
            |why: Option<&'static str>| why.map_or(Ok(()), |why| Err(NotGranted::new(why)));
        // Commands may access everything in the workspace anyway.
        let is_inside = |real: &Path| real.starts_with(host.workspace);
        match request {
            Request::Write(requested) => {
                let real = resolve(requested, host)?;
                refused(self.refuse_write(&real).filter(|_| !is_inside(&real)))?;
                Ok(Request::Write(real))
            }
            Request::Read(requested) => {
                let real = resolve(requested, host)?;
                refused(self.refuse_read(&real).filter(|_| !is_inside(&real)))?;
                Ok(Request::Read(real))
            }
            Request::Env(name) => match refuse_env(name, value(name).as_deref()) {
                Some(why) => Err(NotGranted::new(why)),
                None => Ok(request.clone()),
            },
            Request::Files(glob) if is_sealed(glob) => {
                Err(NotGranted::new("it contains a private key or credentials"))
            }
            Request::Unconfined => Err(NotGranted::new("only the user can turn the sandbox off")),
            Request::Network
            | Request::Limit { .. }
            | Request::Files(_)
            | Request::Command(_)
            | Request::Rule(_)
            | Request::Preset(_) => Ok(request.clone()),
        }
    }

    /// Returns the reason why this path is never made writable for a workspace, if any. The path is
    /// absolute and resolved.
    #[must_use]
    pub fn refuse_write(&self, real: &Path) -> Option<&'static str> {
        if real.parent().is_none() {
            return Some("it is the whole file system");
        }
        // In the system's variable data, only temporary files and caches may be granted.
        let is_in = |dir: &str| real.starts_with(dir);
        if is_in("/var") && !is_in("/var/tmp") && !is_in("/var/cache") {
            return Some("it belongs to the system");
        }
        let overlaps = |path: &Path| real.starts_with(path) || path.starts_with(real);
        let protected = self.protected.iter().find(|(path, _)| overlaps(path));
        protected
            .map(|(_, why)| *why)
            .or_else(|| self.refuse_shared(real))
            .or_else(|| self.refuse_in_home(real))
    }

    /// Returns the reason why this path is never made readable for a workspace, if any. The path is
    /// absolute and resolved.
    #[must_use]
    pub fn refuse_read(&self, real: &Path) -> Option<&'static str> {
        if real.parent().is_none()
            || self
                .home
                .as_ref()
                .is_some_and(|home| home.starts_with(real))
        {
            return Some("it contains your whole home directory");
        }
        let private = self
            .private
            .iter()
            .any(|path| real.starts_with(path) || path.starts_with(real));
        if private || self.secrets.iter().any(|path| real.starts_with(path)) {
            return Some("it contains settings, sessions or credentials");
        }
        self.refuse_shared(real)
    }

    fn refuse_shared(&self, real: &Path) -> Option<&'static str> {
        let is_own = self
            .home
            .as_ref()
            .is_some_and(|home| real.starts_with(home));
        if HOMES.iter().any(|homes| real.starts_with(homes)) && !is_own {
            return Some("it belongs to another user");
        }
        SHARED
            .iter()
            .any(|shared| Path::new(shared).starts_with(real))
            .then_some("all programs share it")
    }

    fn refuse_in_home(&self, real: &Path) -> Option<&'static str> {
        let home = self.home.as_ref()?;
        if home.starts_with(real) {
            return Some("it contains your whole home directory");
        }
        let below = real.strip_prefix(home).ok()?;
        let mut names = below.components().map(Component::as_os_str);
        let first = names.next()?;
        if first == CACHE {
            return names
                .next()
                .is_none()
                .then_some("all programs share this cache: name a directory inside it");
        }
        let is_hidden = first.as_encoded_bytes().starts_with(b".");
        let is_home_directory = HOME_DIRECTORIES.iter().any(|name| first == *name);
        (is_hidden || is_home_directory)
            .then_some("other programs load hidden files in your home directory")
    }
}

/// Returns the reason why this variable is never passed on for a workspace, if any.
fn refuse_env(name: &str, value: Option<&str>) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    let has_credential_name = CREDENTIALS.iter().any(|part| upper.contains(part))
        || upper == "PAT"
        || upper.ends_with("_PAT");
    // A connection string contains the password: scheme://user:password@host.
    let has_credential_value = value.is_some_and(|value| {
        value
            .split_once("://")
            .is_some_and(|(_, rest)| rest.contains('@'))
    });
    if has_credential_name || has_credential_value {
        return Some("it may contain credentials".to_owned());
    }
    refuse_variable(name)
}

/// Returns the absolute path of a request, with links followed as far as the path exists.
fn resolve(requested: &Path, host: &HostPaths<'_>) -> Result<PathBuf, NotGranted> {
    let not_granted = |why: &str| NotGranted::new(why);
    let path = expand(requested, host).ok_or_else(|| not_granted("no home directory is set"))?;
    let path = std::path::absolute(&path).map_err(|error| not_granted(&error.to_string()))?;
    let (existing, real) = path
        .ancestors()
        .find_map(|part| Some((part, part.canonicalize().ok()?)))
        .ok_or_else(|| not_granted("no part of the path exists"))?;
    let rest = path
        .strip_prefix(existing)
        .map_err(|error| not_granted(&error.to_string()))?;
    if rest
        .components()
        .any(|part| !matches!(part, Component::Normal(_)))
    {
        return Err(not_granted(
            "it leads through a directory that does not exist",
        ));
    }
    Ok(if rest.as_os_str().is_empty() {
        real
    } else {
        real.join(rest)
    })
}

/// Returns the directories on PATH and of tools, and the real locations of their programs.
fn programs(host: &HostPaths<'_>) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    for dir in std::env::split_paths(host.path).filter(|dir| dir.is_absolute()) {
        paths.extend(dir.canonicalize());
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        paths.extend(links.filter_map(|entry| entry.path().canonicalize().ok()));
        paths.insert(dir);
    }
    paths.extend(
        host.tools
            .iter()
            .filter(|dir| dir.is_absolute())
            .filter_map(|dir| dir.canonicalize().ok()),
    );
    // Paths in the workspace can be written anyway.
    paths.retain(|path| !path.starts_with(host.workspace));
    paths
}

#[cfg(test)]
mod tests;
