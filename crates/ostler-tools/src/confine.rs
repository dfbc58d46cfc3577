//! Confinement of commands and agents by the operating system.
//!
//! A [`Confinement`] is data: what a process may write, read and reach, and how much of the machine it gets. It is [`prepare`]d
//! in the parent, where files can be opened and memory allocated, and entered by the child between fork and exec, where only
//! system calls are safe. The child reports the [`Layers`] that it really entered, and is not executed without those that are
//! [`Required`]; a [`Report`] names the ones that are missing.

mod layers;
mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
mod reading;
mod report;
mod secrets;
mod variables;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use layers::{Layers, Required};
pub use limits::CommandLimits;
pub(crate) use limits::default_memory_mb;
#[cfg(target_os = "linux")]
pub use linux::{Held, ProcessTree, Ready, Reported, attempts, machine, prepare};
#[cfg(not(target_os = "linux"))]
pub use other::machine;
pub use reading::{Home, expand};
pub use report::{Layer, Machine, Report};
pub use secrets::{named_secrets, secret_places, secrets};
pub(crate) use variables::fault as refuse_variable;
pub use variables::looks_secret;

/// What a process may do, and all that it starts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// What it may change, with everything below.
    pub write: Vec<PathBuf>,
    /// What it may not change although it lies below one of those: mounted read-only where there is a mount namespace.
    pub protected: Vec<PathBuf>,
    /// What it may read and run, with everything below.
    pub read: Vec<PathBuf>,
    /// What it may not read although it lies below one of those; names can still be seen.
    pub hidden: Vec<PathBuf>,
    /// Whom it may talk to.
    pub network: Network,
    /// How much of the machine it gets.
    pub limits: Rlimits,
    /// Which layers it must have entered before it is executed.
    pub required: Required,
    /// Whether namespaces are entered. Off where an attempt has shown that they cannot be.
    pub namespaces: Namespaces,
}

/// Whether a confinement enters namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespaces {
    /// Those that the system gives.
    #[default]
    Enter,
    /// None.
    Skip,
}

/// Whom a process may talk to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// Nobody: no socket can be made, not even a local one.
    #[default]
    None,
    /// Everybody that can be reached over IP. Local sockets stay closed: behind some of them sits a service that does anything.
    All,
}

/// How much of the machine a process gets; none means no limit of ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rlimits {
    /// Seconds of computing, for each process.
    pub cpu_seconds: Option<u64>,
    /// Bytes of one file.
    pub file_size: Option<u64>,
    /// Processes at once.
    pub processes: Option<u64>,
    /// Open files, for each process.
    pub open_files: Option<u64>,
    /// Bytes of memory: of all processes together where a cgroup counts them, and of each one's private data.
    pub memory: Option<u64>,
}

impl Confinement {
    /// What a command of a model gets: the workspace and a directory for temporary files to write, the system and its tools to
    /// read, and what `limits` adds to that. All by where it really is now; what is not there now is left out.
    #[must_use]
    pub fn command(limits: &CommandLimits, home: &Home<'_>) -> Self {
        let own = [home.workspace, home.temp].into_iter().map(Path::to_owned);
        let write =
            reading::real(own.chain(limits.write.iter().filter_map(|path| expand(path, home))));
        // What lies in a place that a command can write it could replace by a link, and the next command would follow.
        let is_below =
            |path: &PathBuf| write.iter().any(|dir| path.starts_with(dir) && path != dir);
        let write: Vec<PathBuf> = write
            .iter()
            .filter(|path| !is_below(path))
            .cloned()
            .collect();
        let mut read = reading::tools(home);
        read.extend(reading::settings_above(home.workspace));
        read.extend(reading::real(
            limits.read.iter().filter_map(|path| expand(path, home)),
        ));
        read.retain(|path| !write.iter().any(|dir| path.starts_with(dir)));
        let mega = |count: u64| count.saturating_mul(1024 * 1024);
        Self {
            write,
            protected: Vec::new(),
            read,
            hidden: secrets(home),
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
        }
    }

    /// What an agent gets that brings its own tools: everything to read but secrets, `write` and temporary files to write, and the
    /// network, since it has a model to call.
    #[must_use]
    pub fn agent(write: Vec<PathBuf>, home: &Home<'_>) -> Self {
        let mut hidden = secrets(home);
        hidden.push(PathBuf::from("/dev")); // a disk as a whole is every file on it
        Self {
            write,
            read: vec![PathBuf::from("/")],
            hidden,
            network: Network::All,
            ..Self::default()
        }
    }
}
