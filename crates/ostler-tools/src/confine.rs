//! What the operating system keeps a command from doing.
//!
//! A [`Confinement`] is data: what a process may write, read and reach, and how much of the machine it gets. It is [`prepare`]d
//! in the parent, where files can be opened and memory had, and entered by the child between fork and exec, where only system
//! calls are safe. Layers that a kernel lacks are named in a [`Report`], never passed over in silence.

mod limits;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
mod reading;
mod report;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use limits::CommandLimits;
#[cfg(target_os = "linux")]
pub use linux::{Kept, Ready, attempts, prepare, report};
#[cfg(not(target_os = "linux"))]
pub use other::report;
pub use reading::{Home, expand, secrets};
pub use report::{Layer, Report};

/// What a process may do, and all that it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// What it may change, with everything below.
    pub write: Vec<PathBuf>,
    /// What it may read and run, with everything below.
    pub read: Vec<PathBuf>,
    /// What it may not read although it lies below one of those; names can still be seen.
    pub hidden: Vec<PathBuf>,
    /// Whom it may talk to.
    pub network: Network,
    /// How much of the machine it gets.
    pub limits: Rlimits,
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
    /// Bytes of address space, for each process.
    pub memory: Option<u64>,
}

/// Devices that do nothing to anybody.
const HARMLESS_DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

impl Confinement {
    /// What a command of a model gets: the workspace and a directory for temporary files to write, the system and its tools to
    /// read, and what `limits` adds to that. All by where it really is now; what is not there now is left out.
    #[must_use]
    pub fn command(limits: &CommandLimits, home: &Home<'_>) -> Self {
        let own = [home.workspace, home.temp].into_iter().map(Path::to_owned);
        let write = reading::real(own.chain(limits.write.iter().filter_map(|path| expand(path, home))));
        // What lies in a place that a command can write it could replace by a link, and the next command would follow.
        let is_below = |path: &PathBuf| write.iter().any(|dir| path.starts_with(dir) && path != dir);
        let write: Vec<PathBuf> = write.iter().filter(|path| !is_below(path)).cloned().collect();
        let mut read = reading::tools(home);
        read.extend(reading::real(limits.read.iter().filter_map(|path| expand(path, home))));
        read.retain(|path| !write.iter().any(|dir| path.starts_with(dir)));
        let mega = |count: u64| count.saturating_mul(1024 * 1024);
        Self {
            write,
            read,
            hidden: secrets(home),
            network: limits.network,
            limits: Rlimits {
                cpu_seconds: Some(limits.cpu_seconds),
                file_size: Some(mega(limits.file_size_mb)),
                processes: Some(limits.processes),
                open_files: Some(limits.open_files),
                memory: limits.memory_mb.map(mega),
            },
        }
    }

    /// What an agent gets that brings its own tools: everything to read but secrets, `write` and temporary files to write, and the
    /// network, since it has a model to call.
    #[must_use]
    pub fn agent(write: Vec<PathBuf>, home: &Home<'_>) -> Self {
        let mut hidden = secrets(home);
        hidden.push(PathBuf::from("/dev")); // a disk as a whole is every file on it
        Self { write, read: vec![PathBuf::from("/")], hidden, network: Network::All, limits: Rlimits::default() }
    }
}
