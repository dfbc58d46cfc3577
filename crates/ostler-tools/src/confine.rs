//! Confinement of commands and agents by the operating system.
//!
//! A [`Confinement`] is data: what a process may write, read and reach, and its resource limits. It
//! is [`prepare`]d in the parent, where files can be opened and memory allocated. The child enters
//! it between fork and exec, where only system calls are safe. The child reports the [`Layers`]
//! that it really entered, and does not exec without those that are [`Required`]; a [`Report`]
//! names the missing ones.

mod layers;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
mod private_root;
mod readable_paths;
mod report;
mod secrets;
mod variables;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use layers::{Layers, Required};
pub use limits::CommandLimits;
pub(crate) use limits::default_memory_mb;
#[cfg(target_os = "linux")]
pub use linux::{
    ChildReport, ConfinementHandle, PreparedConfinement, ProcessTree, attempts, machine, prepare,
};
#[cfg(not(target_os = "linux"))]
pub use other::machine;
pub use private_root::{RootLayout, RootLayoutError, RootMount};
pub use readable_paths::{HostPaths, expand};
pub use report::{Layer, Machine, Report};
pub use secrets::{named_secrets, secret_paths, secrets};
pub use variables::looks_secret;
pub(crate) use variables::refusal_reason as refuse_variable;

/// What a process and its descendants may do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Paths it may change, with everything below them.
    pub write: Vec<PathBuf>,
    /// Paths it may not change although they are below a writable one: mounted read-only where
    /// there is a mount namespace.
    pub protected: Vec<PathBuf>,
    /// Paths it may read and execute, with everything below them.
    pub read: Vec<PathBuf>,
    /// Paths it may not read although they are below a readable one; their names remain visible.
    pub hidden: Vec<PathBuf>,
    /// Network access.
    pub network: Network,
    /// Resource limits.
    pub limits: Rlimits,
    /// Layers it must have entered before exec.
    pub required: Required,
    /// Whether namespaces are entered. Off where an attempt has shown that they cannot be.
    pub namespaces: Namespaces,
    /// A root of its own. A process that cannot enter it does not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<RootLayout>,
}

/// Whether a confinement enters namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespaces {
    /// Enters the namespaces that the system provides.
    #[default]
    Enter,
    /// Enters none.
    Skip,
}

/// Network access of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None: no socket can be created, not even a local one.
    #[default]
    None,
    /// Everything reachable over IP. Local sockets stay closed, because the service behind one may
    /// do anything.
    All,
}

/// Resource limits of a process; `None` sets no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimits {
    /// CPU seconds per process.
    pub cpu_seconds: Option<u64>,
    /// Maximum file size in bytes.
    pub file_size: Option<u64>,
    /// Maximum number of concurrent processes.
    pub processes: Option<u64>,
    /// Maximum number of open files per process.
    pub open_files: Option<u64>,
    /// Maximum memory in bytes: of all processes together where a cgroup counts them, and of each
    /// one's private data.
    pub memory: Option<u64>,
}

impl Confinement {
    /// Returns the confinement of a model's command. It may write the workspace and a temporary
    /// directory, read the system and its tools, and access what `limits` adds. Paths are resolved
    /// now; missing ones are left out.
    #[must_use]
    pub fn command(limits: &CommandLimits, host: &HostPaths<'_>) -> Self {
        let workspace_paths = [host.workspace, host.temp].into_iter().map(Path::to_owned);
        let write = readable_paths::real(
            workspace_paths.chain(limits.write.iter().filter_map(|path| expand(path, host))),
        );
        // A command could replace a path inside a writable one by a link, and the next command
        // would follow it.
        let is_below =
            |path: &PathBuf| write.iter().any(|dir| path.starts_with(dir) && path != dir);
        let write: Vec<PathBuf> = write
            .iter()
            .filter(|path| !is_below(path))
            .cloned()
            .collect();
        let mut read = readable_paths::tools(host);
        read.extend(readable_paths::settings_above(host.workspace));
        read.extend(readable_paths::real(
            limits.read.iter().filter_map(|path| expand(path, host)),
        ));
        read.retain(|path| !write.iter().any(|dir| path.starts_with(dir)));
        let mega = |count: u64| count.saturating_mul(1024 * 1024);
        Self {
            write,
            protected: Vec::new(),
            read,
            hidden: secrets(host),
            network: limits.network,
            limits: Rlimits {
                cpu_seconds: Some(limits.cpu_seconds),
                file_size: Some(mega(limits.file_size_mb)),
                processes: Some(limits.processes),
                open_files: Some(limits.open_files),
                memory: Some(limits.memory_mb.map_or_else(limits::default_memory, mega)),
            },
            required: limits.required,
            namespaces: Namespaces::Enter,
            root: None,
        }
    }

    /// Returns the confinement of an agent with its own tools. It may read everything but secrets,
    /// write `write` and temporary files, and use the network, since it has a model to call.
    #[must_use]
    pub fn agent(write: Vec<PathBuf>, host: &HostPaths<'_>) -> Self {
        let mut hidden = secrets(host);
        hidden.push(PathBuf::from("/dev")); // a disk device exposes every file on it
        Self {
            write,
            read: vec![PathBuf::from("/")],
            hidden,
            network: Network::All,
            ..Self::default()
        }
    }
}
