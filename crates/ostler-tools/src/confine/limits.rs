//! The section `[sandbox]` of a policy: what a command may do while it runs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};

use super::variables::fault;
use super::{Home, Network, Required, expand, secrets};

/// What a command may do while it runs, as a policy file says it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandLimits {
    /// Paths that it may change besides the workspace and its temporary files: absolute, below `~`, or relative to the workspace.
    pub write: Vec<PathBuf>,
    /// Paths that it may read besides the system and its tools.
    pub read: Vec<PathBuf>,
    /// Whom it may talk to.
    pub network: Network,
    /// The longest it may take.
    pub timeout_seconds: u64,
    /// Seconds of computing, for each process.
    pub cpu_seconds: u64,
    /// The longest file it may write.
    pub file_size_mb: u64,
    /// Processes at once.
    pub processes: u64,
    /// Open files, for each process.
    pub open_files: u64,
    /// Memory: of all its processes together where a cgroup counts them, and the private data of each; when absent, 4 GiB or
    /// half of the machine's, whichever is less.
    pub memory_mb: Option<u64>,
    /// Names of variables that it gets besides the usual ones.
    pub env: Vec<String>,
    /// What must hold for a command to run: `true` for every layer, `false` for none; when absent, its files must be confined.
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

/// The most memory that commands get without a word about it.
const MEMORY: u64 = 4 * 1024 * 1024 * 1024;

/// The memory that commands get when the policy does not say: 4 GiB or half of the machine's, whichever is less.
pub(crate) fn default_memory() -> u64 {
    #[cfg(target_os = "linux")]
    {
        let about = rustix::system::sysinfo();
        let all = about.totalram.saturating_mul(u64::from(about.mem_unit));
        if all > 0 {
            return MEMORY.min(all / 2);
        }
    }
    MEMORY
}

/// The same in MiB.
pub(crate) fn default_memory_mb() -> u64 {
    default_memory() / (1024 * 1024)
}

/// What no policy makes writable.
const SYSTEM: [&str; 11] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/boot", "/proc", "/sys", "/dev", "/run",
];

impl CommandLimits {
    /// Whether the section makes sense.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.check_counts()?;
        if let Some(path) = self
            .write
            .iter()
            .find(|path| path.parent().is_none() || path.as_os_str() == "~")
        {
            return Err(format!(
                "sandbox: write = {path:?}: the whole file system or home cannot be made writable"
            ));
        }
        match self.env.iter().find_map(|name| Some((name, fault(name)?))) {
            Some((name, why)) => Err(format!("sandbox: env: {name:?}: {why}")),
            None => Ok(()),
        }
    }

    /// Checks that every limit is at least 1.
    pub(crate) fn check_counts(&self) -> Result<(), String> {
        let counts = [
            ("timeout_seconds", self.timeout_seconds),
            ("cpu_seconds", self.cpu_seconds),
            ("file_size_mb", self.file_size_mb),
            ("processes", self.processes),
            ("open_files", self.open_files),
            ("memory_mb", self.memory_mb.unwrap_or(1)),
        ];
        match counts.iter().find(|(_, count)| *count == 0) {
            Some((name, _)) => Err(format!(
                "sandbox: {name} = 0: expected a whole number of at least 1"
            )),
            None => Ok(()),
        }
    }

    /// Whether what it makes writable is neither the system, nor a home, nor where keys are kept, wherever links lead.
    ///
    /// # Errors
    /// Names the path.
    pub fn check_here(&self, home: &Home<'_>) -> Result<(), String> {
        let secrets = secrets(home);
        let real_home = home.home.and_then(|home| home.canonicalize().ok());
        let is_precious = |path: &Path| {
            SYSTEM.iter().any(|dir| path.starts_with(dir))
                || [home.home, real_home.as_deref()]
                    .iter()
                    .flatten()
                    .any(|home| home.starts_with(path))
                || secrets
                    .iter()
                    .any(|secret| secret.starts_with(path) || path.starts_with(secret))
        };
        for asked in &self.write {
            let real = expand(asked, home).and_then(|path| path.canonicalize().ok());
            if real.is_some_and(|real| real.parent().is_none() || is_precious(&real)) {
                let why = "it is the system's, or holds a home or keys";
                return Err(format!(
                    "sandbox: write = {asked:?} cannot be made writable: {why}"
                ));
            }
        }
        Ok(())
    }

    /// What the section allows that the defaults do not, one sentence each.
    #[must_use]
    pub fn beyond_defaults(&self) -> Vec<String> {
        let usual = Self::default();
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
        let raised = [
            (
                "timeout_seconds",
                self.timeout_seconds,
                usual.timeout_seconds,
            ),
            ("cpu_seconds", self.cpu_seconds, usual.cpu_seconds),
            ("file_size_mb", self.file_size_mb, usual.file_size_mb),
            ("processes", self.processes, usual.processes),
            ("open_files", self.open_files, usual.open_files),
        ];
        let raised = raised.iter().filter(|(_, now, usual)| now > usual);
        all.extend(
            raised
                .map(|(name, now, usual)| format!("{name} is {now}, more than the usual {usual}")),
        );
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<CommandLimits, String> {
        let limits: CommandLimits = toml::from_str(text).map_err(|error| error.to_string())?;
        limits.check().map(|()| limits)
    }

    // S2-27
    #[test]
    fn a_policy_cannot_ask_for_secrets_or_for_everything() {
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

    // A policy may come with somebody else's repository.
    #[test]
    fn a_policy_cannot_open_homes_keys_or_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["work", "home/.ssh", "home/.cache/x"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("home/.ssh"), at("work/link")).unwrap();
        let (work, user) = (at("work"), at("home"));
        let home = Home {
            workspace: &work,
            temp: &work,
            home: Some(&user),
            path: std::ffi::OsStr::new(""),
            tools: &[],
            secrets: &[],
            exempt: &[],
        };
        let ask = |path: &str| {
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
            assert!(ask(bad).is_err(), "{bad}");
        }
        for good in ["~/.cache/x", ".", "not-there", "/dev/null/x"] {
            assert_eq!(ask(good), Ok(()), "{good}");
        }
    }

    #[test]
    fn what_goes_beyond_the_defaults_is_told() {
        assert_eq!(read("").unwrap().beyond_defaults(), [""; 0]);
        assert_eq!(
            read("timeout_seconds = 5").unwrap().beyond_defaults(),
            [""; 0]
        );
        let told =
            read("network = \"all\"\nwrite = [\"/x\"]\nread = [\"/y\"]\nenv = [\"Z_HOME\"]\nprocesses = 1000").unwrap();
        let told = told.beyond_defaults().join("; ");
        for word in ["/x", "/y", "network", "Z", "1000"] {
            assert!(told.contains(word), "{told}");
        }
    }
}
