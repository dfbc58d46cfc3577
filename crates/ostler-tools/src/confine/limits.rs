//! The section `[sandbox]` of a policy: limits of a running command.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use super::variables::refusal_reason;
use super::{HostPaths, Network, Required, expand, secrets};
use crate::RuleError;

/// Limits of a running command, as written in a policy file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandLimits {
    /// Paths it may change in addition to the workspace and its temporary files: absolute, below
    /// `~`, or relative to the workspace.
    pub write: Vec<PathBuf>,
    /// Paths it may read in addition to the system and its tools.
    pub read: Vec<PathBuf>,
    /// Network access.
    pub network: Network,
    /// Time limit.
    pub timeout_seconds: u64,
    /// CPU seconds per process.
    pub cpu_seconds: u64,
    /// Maximum file size.
    pub file_size_mb: u64,
    /// Maximum number of concurrent processes.
    pub processes: u64,
    /// Maximum number of open files per process.
    pub open_files: u64,
    /// Maximum memory: of all its processes together where a cgroup counts them, and the private
    /// data of each. Defaults to 4 GiB or half of the machine's, whichever is less.
    pub memory_mb: Option<u64>,
    /// Names of variables it gets in addition to the default ones.
    pub env: Vec<String>,
    /// Layers without which no command runs: `true` for every layer, `false` for none. By default
    /// its files must be confined.
    #[serde(deserialize_with = "required")]
    pub required: Required,
}

impl Default for CommandLimits {
    fn default() -> Self {
        Self {
            write: Vec::new(),
            read: Vec::new(),
            network: Network::None,
            timeout_seconds: 120,
            cpu_seconds: 900,
            file_size_mb: 2048,
            processes: 512,
            open_files: 4096,
            memory_mb: None,
            env: Vec::new(),
            required: Required::default(),
        }
    }
}

fn required<'de, D: Deserializer<'de>>(from: D) -> Result<Required, D::Error> {
    bool::deserialize(from).map(|all| {
        if all {
            Required::Everything
        } else {
            Required::Nothing
        }
    })
}

/// Maximum of the default memory limit.
const MAX_DEFAULT_MEMORY: u64 = 4 * 1024 * 1024 * 1024;

/// Returns the default memory limit: 4 GiB or half of the machine's, whichever is less.
pub(crate) fn default_memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let info = rustix::system::sysinfo();
        let all = info.totalram.saturating_mul(u64::from(info.mem_unit));
        if all > 0 {
            return MAX_DEFAULT_MEMORY.min(all / 2);
        }
    }
    MAX_DEFAULT_MEMORY
}

/// Returns the default memory limit in MiB.
pub(crate) fn default_memory_mb() -> u64 {
    default_memory() / (1024 * 1024)
}

/// Directories that no policy makes writable.
const SYSTEM: [&str; 11] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/boot", "/proc", "/sys", "/dev", "/run",
];

impl CommandLimits {
    /// Checks that the section is valid.
    pub(crate) fn check(&self) -> Result<(), RuleError> {
        self.check_counts()?;
        if let Some(path) = self
            .write
            .iter()
            .find(|path| path.parent().is_none() || path.as_os_str() == "~")
        {
            return Err(RuleError::new(format!(
                "sandbox: write = {path:?}: the whole file system or home cannot be made writable"
            )));
        }
        match self
            .env
            .iter()
            .find_map(|name| Some((name, refusal_reason(name)?)))
        {
            Some((name, why)) => Err(RuleError::new(format!("sandbox: env: {name:?}: {why}"))),
            None => Ok(()),
        }
    }

    /// Returns the limits that always apply, by name.
    fn counts(&self) -> [(&'static str, u64); 5] {
        [
            ("timeout_seconds", self.timeout_seconds),
            ("cpu_seconds", self.cpu_seconds),
            ("file_size_mb", self.file_size_mb),
            ("processes", self.processes),
            ("open_files", self.open_files),
        ]
    }

    /// Checks that every limit is at least 1.
    pub(crate) fn check_counts(&self) -> Result<(), RuleError> {
        let memory = self.memory_mb.map(|count| ("memory_mb", count));
        let mut counts = self.counts().into_iter().chain(memory);
        match counts.find(|(_, count)| *count == 0) {
            Some((name, _)) => Err(RuleError::new(format!(
                "sandbox: {name} = 0: expected a whole number of at least 1"
            ))),
            None => Ok(()),
        }
    }

    /// Checks that no writable path is, or leads by a link to, the system, a home, or a directory
    /// of keys.
    ///
    /// # Errors
    /// Names the path.
    pub fn check_here(&self, host: &HostPaths<'_>) -> Result<(), RuleError> {
        let secrets = secrets(host);
        let real_home = host.home.and_then(|home| home.canonicalize().ok());
        let is_protected = |path: &Path| {
            SYSTEM.iter().any(|dir| path.starts_with(dir))
                || [host.home, real_home.as_deref()]
                    .iter()
                    .flatten()
                    .any(|home| home.starts_with(path))
                || secrets
                    .iter()
                    .any(|secret| secret.starts_with(path) || path.starts_with(secret))
        };
        for requested in &self.write {
            let real = expand(requested, host).and_then(|path| path.canonicalize().ok());
            if real.is_some_and(|real| real.parent().is_none() || is_protected(&real)) {
                let why = "it belongs to the system, or contains a home or keys";
                return Err(RuleError::new(format!(
                    "sandbox: write = {requested:?} cannot be made writable: {why}"
                )));
            }
        }
        Ok(())
    }

    /// Returns everything the section allows beyond the defaults, one sentence each.
    #[must_use]
    pub fn beyond_defaults(&self) -> Vec<String> {
        let list = |paths: &[PathBuf]| {
            paths
                .iter()
                .map(|p| p.display().to_string())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let mut all = Vec::new();
        if !self.write.is_empty() {
            all.push(format!("commands may also write {}", list(&self.write)));
        }
        if !self.read.is_empty() {
            all.push(format!("commands may also read {}", list(&self.read)));
        }
        if self.network == Network::All {
            all.push("commands may use the network".to_owned());
        }
        if !self.env.is_empty() {
            all.push(format!(
                "commands also get the variables {}",
                self.env.join(", ")
            ));
        }
        let limits = self.counts().into_iter().zip(Self::default().counts());
        let raised = limits.filter(|((_, now), (_, default))| now > default);
        all.extend(raised.map(|((name, now), (_, default))| {
            format!("{name} is {now}, more than the default {default}")
        }));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CommandLimits, RuleError> {
        let limits: CommandLimits = toml::from_str(text)?;
        limits.check().map(|()| limits)
    }

    // S2-27
    #[test]
    fn policy_cannot_request_secrets_or_everything() {
        for text in [
            "env = [\"GITHUB_TOKEN\"]",
            "env = [\"my_api_key\"]",
            "env = [\"OSTLER_SESSION\"]",
            "env = [\"LD_PRELOAD\"]",
            "env = [\"PATH\"]",
            "env = [\"A=B\"]",
            "env = [\"*\"]",
            "write = [\"/\"]",
            "write = [\"~\"]",
            "timeout_seconds = 0",
            "network = \"some\"",
            "surprise = 1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("env = [\"JAVA_HOME\"]\nwrite = [\"~/.cache/x\"]\nnetwork = \"all\"").is_ok());
    }

    // A policy may come with an untrusted repository.
    #[test]
    fn policy_cannot_make_homes_keys_or_the_system_writable() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["work", "home/.ssh", "home/.cache/x"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("home/.ssh"), at("work/link")).unwrap();
        let (work, user) = (at("work"), at("home"));
        let home = HostPaths {
            workspace: &work,
            temp: &work,
            home: Some(&user),
            path: std::ffi::OsStr::new(""),
            tools: &[],
            secrets: &[],
            exempt: &[],
        };
        let check_write = |path: &str| {
            CommandLimits {
                write: vec![path.into()],
                ..CommandLimits::default()
            }
            .check_here(&home)
        };
        for bad in [
            "/etc",
            "/usr/local",
            "/etc/ssl",
            "~/",
            "~/.ssh",
            "~/.ssh/..",
            "..",
            "../..",
            "link",
            "../home/.ssh",
            "/proc/self/root",
        ] {
            assert!(check_write(bad).is_err(), "{bad}");
        }
        for good in ["~/.cache/x", ".", "not-there", "/dev/null/x"] {
            assert_eq!(check_write(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn permissions_beyond_the_defaults_are_listed() {
        assert_eq!(read("").unwrap().beyond_defaults(), [""; 0]);
        assert_eq!(
            read("timeout_seconds = 5").unwrap().beyond_defaults(),
            [""; 0]
        );
        let beyond =
            read("network = \"all\"\nwrite = [\"/x\"]\nread = [\"/y\"]\nenv = [\"Z_HOME\"]\nprocesses = 1000").unwrap();
        let beyond = beyond.beyond_defaults().join("; ");
        for word in ["/x", "/y", "network", "Z", "1000"] {
            assert!(beyond.contains(word), "{beyond}");
        }
    }
}
