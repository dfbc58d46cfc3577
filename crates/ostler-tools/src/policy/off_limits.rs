//! Places and variables that no workspace is granted, whether it is trusted or not.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::Request;
use crate::confine::{Home, expand, refuse_variable, secrets};
use crate::files::is_sealed;

/// System directories: programs, settings, services, and what they spool or store.
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

/// Directories of homes: another user's home is not a workspace's to have.
const HOMES: [&str; 2] = ["/home", "/Users"];

/// Shared directories that are granted only in part, never as a whole.
const SHARED: [&str; 4] = ["/tmp", "/var/tmp", "/var/cache", "/private/tmp"];

/// Names in a home that do not begin with a dot, but whose files other programs run or obey.
const OF_HOME: [&str; 2] = ["Library", "AppData"];

/// The one hidden directory of a home in which a workspace can have a directory.
const CACHE: &str = ".cache";

/// Parts of names by which variables are known that hold credentials or lead to them, besides those that no policy passes on.
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

/// The places of one machine and one user that no workspace is granted.
#[derive(Debug, Clone, Default)]
pub struct OffLimits {
    home: Option<PathBuf>,
    /// Neither these, nor what is in them, nor what holds them.
    protected: Vec<(PathBuf, &'static str)>,
    /// The same, and they are not read either.
    private: Vec<PathBuf>,
    /// Neither these nor what is in them is read; commands do not see them below a directory that they may read.
    secrets: Vec<PathBuf>,
}

impl OffLimits {
    /// Collects the places of this machine. `private` are directories and files of the caller's: settings, state, and
    /// credentials of agents.
    #[must_use]
    pub fn here(home: &Home<'_>, private: &[PathBuf]) -> Self {
        let both = |path: &Path| {
            [Some(path.to_owned()), path.canonicalize().ok()]
                .into_iter()
                .flatten()
        };
        let system = SYSTEM
            .iter()
            .flat_map(|dir| both(Path::new(dir)))
            .map(|dir| (dir, "it belongs to the system"));
        let on_path = programs(home)
            .into_iter()
            .map(|place| (place, "it is on PATH, or holds a program that is"));
        let private: Vec<PathBuf> = private.iter().flat_map(|place| both(place)).collect();
        let own = private
            .iter()
            .cloned()
            .map(|place| (place, "it holds settings, sessions or credentials"));
        let secrets: Vec<PathBuf> = secrets(home).iter().flat_map(|place| both(place)).collect();
        let keys = secrets
            .iter()
            .cloned()
            .map(|place| (place, "it holds keys or passwords"));
        let user = home
            .home
            .map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        // Root's own home has the rules of any home.
        let root = Path::new("/root");
        let is_root = user.as_ref().is_some_and(|user| user.starts_with(root));
        let system = system.filter(|(place, _)| !is_root || place != root);
        let protected = system.chain(on_path).chain(own).chain(keys).collect();
        Self {
            home: user,
            protected,
            private,
            secrets,
        }
    }

    /// Judges a request of a trusted workspace: returns it with the path resolved, or why it is never granted.
    ///
    /// # Errors
    /// Says why no workspace is granted this.
    pub fn judge(
        &self,
        request: &Request,
        home: &Home<'_>,
        value: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Request, String> {
        let refused = |why: Option<&'static str>| why.map_or(Ok(()), |why| Err(why.to_owned()));
        // A command has all of the workspace anyway.
        let is_inside = |real: &Path| real.starts_with(home.workspace);
        match request {
            Request::Write(asked) => {
                let real = resolve(asked, home)?;
                refused(self.refuse_write(&real).filter(|_| !is_inside(&real)))?;
                Ok(Request::Write(real))
            }
            Request::Read(asked) => {
                let real = resolve(asked, home)?;
                refused(self.refuse_read(&real).filter(|_| !is_inside(&real)))?;
                Ok(Request::Read(real))
            }
            Request::Env(name) => match refuse_env(name, value(name).as_deref()) {
                Some(why) => Err(why),
                None => Ok(request.clone()),
            },
            Request::Files(glob) if is_sealed(glob) => {
                Err("it holds a private key or credentials".to_owned())
            }
            Request::Unconfined => Err("only you can do without the sandbox".to_owned()),
            Request::Network
            | Request::Limit { .. }
            | Request::Files(_)
            | Request::Command(_)
            | Request::Rule(_)
            | Request::Preset(_) => Ok(request.clone()),
        }
    }

    /// Returns why this path is never made writable for a workspace. The path is absolute and resolved.
    #[must_use]
    pub fn refuse_write(&self, real: &Path) -> Option<&'static str> {
        if real.parent().is_none() {
            return Some("it is the whole file system");
        }
        // Of the system's variable data only temporary files and caches are anybody's.
        let is_in = |dir: &str| real.starts_with(dir);
        if is_in("/var") && !is_in("/var/tmp") && !is_in("/var/cache") {
            return Some("it belongs to the system");
        }
        let overlaps = |place: &Path| real.starts_with(place) || place.starts_with(real);
        let protected = self.protected.iter().find(|(place, _)| overlaps(place));
        protected
            .map(|(_, why)| *why)
            .or_else(|| self.refuse_shared(real))
            .or_else(|| self.refuse_in_home(real))
    }

    /// Returns why this path is never made readable for a workspace. The path is absolute and resolved.
    #[must_use]
    pub fn refuse_read(&self, real: &Path) -> Option<&'static str> {
        if real.parent().is_none()
            || self
                .home
                .as_ref()
                .is_some_and(|home| home.starts_with(real))
        {
            return Some("it holds your home as a whole");
        }
        let private = self
            .private
            .iter()
            .any(|place| real.starts_with(place) || place.starts_with(real));
        if private || self.secrets.iter().any(|place| real.starts_with(place)) {
            return Some("it holds settings, sessions or credentials");
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
            .then_some("it is shared by all programs")
    }

    fn refuse_in_home(&self, real: &Path) -> Option<&'static str> {
        let home = self.home.as_ref()?;
        if home.starts_with(real) {
            return Some("it holds your home as a whole");
        }
        let below = real.strip_prefix(home).ok()?;
        let mut names = below.components().map(Component::as_os_str);
        let first = names.next()?;
        if first == CACHE {
            return names
                .next()
                .is_none()
                .then_some("it is the cache of all programs: name a directory in it");
        }
        let is_hidden = first.as_encoded_bytes().starts_with(b".");
        let is_of_home = OF_HOME.iter().any(|name| first == *name);
        (is_hidden || is_of_home)
            .then_some("hidden files of your home are obeyed by other programs")
    }
}

/// Returns why this variable is never passed on for a workspace.
fn refuse_env(name: &str, value: Option<&str>) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    let named = CREDENTIALS.iter().any(|part| upper.contains(part))
        || upper == "PAT"
        || upper.ends_with("_PAT");
    // A connection string has the password in it: scheme://user:password@host.
    let holds = value.is_some_and(|value| {
        value
            .split_once("://")
            .is_some_and(|(_, rest)| rest.contains('@'))
    });
    if named || holds {
        return Some("it may hold credentials".to_owned());
    }
    refuse_variable(name)
}

/// The absolute path that a request means, with links followed as far as the path exists.
fn resolve(asked: &Path, home: &Home<'_>) -> Result<PathBuf, String> {
    let path = expand(asked, home).ok_or("there is no home")?;
    let path = std::path::absolute(&path).map_err(|error| error.to_string())?;
    let (existing, real) = path
        .ancestors()
        .find_map(|part| Some((part, part.canonicalize().ok()?)))
        .ok_or("no part of the path exists")?;
    let rest = path
        .strip_prefix(existing)
        .map_err(|error| error.to_string())?;
    if rest
        .components()
        .any(|part| !matches!(part, Component::Normal(_)))
    {
        return Err("it leads through a directory that does not exist".to_owned());
    }
    Ok(if rest.as_os_str().is_empty() {
        real
    } else {
        real.join(rest)
    })
}

/// The directories of PATH and of tools, and the directories that their programs really are in.
fn programs(home: &Home<'_>) -> BTreeSet<PathBuf> {
    let mut places = BTreeSet::new();
    for dir in std::env::split_paths(home.path).filter(|dir| dir.is_absolute()) {
        places.extend(dir.canonicalize());
        let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        places.extend(links.filter_map(|entry| entry.path().canonicalize().ok()));
        places.insert(dir);
    }
    places.extend(
        home.tools
            .iter()
            .filter(|dir| dir.is_absolute())
            .filter_map(|dir| dir.canonicalize().ok()),
    );
    // What lies in the workspace can be written anyway.
    places.retain(|place| !place.starts_with(home.workspace));
    places
}

#[cfg(test)]
mod tests;
