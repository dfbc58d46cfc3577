//! Private home directory: an environment in which an agent finds none of the user's settings,
//! logins and sessions.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ostler_core::dialect::{Dialect, Launching};
use ostler_core::spec::Spec;
use ostler_tools::confine::{RootLayout, secret_paths};

use super::Host;

/// Directories below the home directory in which version managers store tools, and the variables
/// that name them. Tools stay usable through these variables.
const TOOLCHAINS: &[(&str, &str)] = &[
    ("RUSTUP_HOME", ".rustup"),
    ("NVM_DIR", ".nvm"),
    ("PYENV_ROOT", ".pyenv"),
    ("RBENV_ROOT", ".rbenv"),
    ("VOLTA_HOME", ".volta"),
    ("ASDF_DATA_DIR", ".asdf"),
    ("MISE_DATA_DIR", ".local/share/mise"),
    ("SDKMAN_DIR", ".sdkman"),
];

/// Directories of the XDG specification, below a home directory.
const XDG: &[(&str, &str)] = &[
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("XDG_CACHE_HOME", ".cache"),
];

impl Host {
    /// Returns this host with a variable set, or removed if there is no value.
    pub fn with_variable(mut self, name: &str, value: Option<OsString>) -> Self {
        let env = Arc::make_mut(&mut self.edit().env);
        match value {
            Some(value) => env.insert(name.into(), value),
            None => env.remove(OsStr::new(name)),
        };
        self
    }

    /// Hides these paths from sandboxed agents and programs.
    pub fn with_hidden(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.edit().hidden.extend(paths);
        self
    }

    /// Puts sandboxed agents and programs into a private root. They do not start where the system
    /// provides no mount namespaces. The mount points must have been created.
    pub fn with_private_root(mut self, root: RootLayout) -> Self {
        self.edit().private_root = Some(Arc::new(root));
        self
    }

    pub(crate) fn private_root(&self) -> Option<&RootLayout> {
        self.0.private_root.as_deref()
    }

    pub(crate) fn writable(&self) -> &[PathBuf] {
        &self.0.writable
    }

    /// Returns this host with `home` as home directory: `HOME`, the directories of the XDG
    /// specification, and `temp` for temporary files. Variables that name state of the agent
    /// elsewhere are removed. Variables with keys stay.
    ///
    /// Toolchains of the user's home directory are returned as variables, for the caller to add to
    /// the environment of an agent or a command.
    pub fn with_private_home(
        self,
        home: &Path,
        temp: &Path,
        dialect: Option<&dyn Dialect>,
    ) -> (Self, Vec<(String, String)>) {
        let toolchains = self.toolchains();
        // The user's secrets stay hidden, although the home directory is another one.
        let user_home = self.var("HOME").map(PathBuf::from);
        let secrets = user_home
            .iter()
            .flat_map(|home| secret_paths().map(|path| home.join(path)));
        let secrets: Vec<PathBuf> = secrets.chain(self.named_secrets()).collect();
        let set = |host: Self, name: &str, path: &Path| {
            host.with_variable(name, Some(OsString::from(path)))
        };
        let mut host = set(self, "HOME", home).with_hidden(secrets);
        host.edit()
            .writable
            .extend([home.to_owned(), temp.to_owned()]);
        for (name, below) in XDG {
            host = set(host, name, &home.join(below));
        }
        for name in ["TMPDIR", "TEMP", "TMP"] {
            host = set(host, name, temp);
        }
        for name in ["XDG_RUNTIME_DIR", "ZDOTDIR", "GIT_CONFIG_GLOBAL"] {
            host = host.with_variable(name, None);
        }
        let state = dialect
            .and_then(|dialect| dialect.launch(&Launching::new(&Spec::new("-"))).ok())
            .map_or(&[][..], |launch| launch.state);
        for path in state {
            if let Some(rest) = path.strip_prefix('$') {
                let name = rest.split('/').next().unwrap_or(rest);
                host = host.with_variable(name, None);
            }
        }
        (host, toolchains)
    }

    /// Returns the variables that make toolchains usable with another home directory.
    fn toolchains(&self) -> Vec<(String, String)> {
        let home = self.var("HOME").map(Path::new);
        let found = TOOLCHAINS.iter().filter_map(|(name, below)| {
            let named = self.var(name).map(PathBuf::from);
            let dir = named.or_else(|| Some(home?.join(below)))?;
            let dir = dir.is_dir().then_some(dir)?.into_os_string();
            Some(((*name).to_owned(), dir.into_string().ok()?))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_home_has_neither_the_users_settings_nor_the_agents() {
        let user = tempfile::tempdir().unwrap();
        std::fs::create_dir(user.path().join(".rustup")).unwrap();
        let vars = [
            ("HOME", user.path().to_str().unwrap()),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
            ("CODEX_HOME", "/c"),
            ("OPENAI_API_KEY", "k"),
        ];
        let host = Host::new(vars.map(|(name, value)| (name.into(), value.into())));
        let codex = ostler_dialects::all()
            .iter()
            .find(|dialect| dialect.about().name == "codex")
            .unwrap();
        let (host, toolchains) =
            host.with_private_home(Path::new("/p"), Path::new("/t"), Some(*codex));
        let value = |name: &str| host.var(name).and_then(|value| value.to_str());
        assert_eq!(
            (value("HOME"), value("XDG_CONFIG_HOME"), value("TMPDIR")),
            (Some("/p"), Some("/p/.config"), Some("/t"))
        );
        assert_eq!(
            (value("XDG_RUNTIME_DIR"), value("CODEX_HOME")),
            (None, None)
        );
        assert_eq!(value("OPENAI_API_KEY"), Some("k"));
        let rustup = user.path().join(".rustup").to_str().unwrap().to_owned();
        assert_eq!(toolchains, [("RUSTUP_HOME".to_owned(), rustup)]);
    }
}
