//! Why a process could not be started. Each reason is its own, and each comes with what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::outcome::{Cause, Outcome};

/// Whether the caller wanted to interrupt a turn whose agent was still being started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interrupted(pub(crate) bool);

/// Why a process could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("{program} was not found in PATH")]
    Missing {
        program: String,
        searched: Vec<PathBuf>,
    },
    #[error("there is no file {}", .0.display())]
    NoSuchFile(PathBuf),
    #[error("{} cannot be executed: permission denied", .0.display())]
    NotExecutable(PathBuf),
    #[error("{} cannot be executed: it is not a program for this machine, or its interpreter or C library is missing", .0.display())]
    BadFormat(PathBuf),
    #[error("{} cannot be the working directory: {why}", .path.display())]
    BadDirectory { path: PathBuf, why: String },
    #[error("the command line or the environment is too long for this system")]
    TooLong,
    #[error("the agent's process was not there after {0:?}")]
    TooSlow(Duration),
    #[error("the start was called off")]
    CalledOff(Interrupted),
    #[error("nothing is run: this machine cannot confine it: {gaps}")]
    Unconfined { gaps: String },
    #[error("{} could not be started: {source}", .program.display())]
    Other { program: PathBuf, source: io::Error },
}

impl SpawnError {
    /// What the kernel's answer to starting `program` means.
    pub(crate) fn of(program: &Path, error: io::Error) -> Self {
        let program = program.to_owned();
        #[cfg(unix)]
        match rustix::io::Errno::from_io_error(&error) {
            // The file was there a moment ago: what is missing is its interpreter or its loader.
            Some(rustix::io::Errno::NOENT | rustix::io::Errno::NOEXEC) => {
                return Self::BadFormat(program);
            }
            Some(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => {
                return Self::NotExecutable(program);
            }
            Some(rustix::io::Errno::TOOBIG) => return Self::TooLong,
            _ => {}
        }
        Self::Other {
            program,
            source: error,
        }
    }

    /// The error of a child that was not executed since a required layer is missing; none if that was not the reason.
    #[cfg(target_os = "linux")]
    pub(crate) fn unconfined(
        confinement: &ostler_tools::confine::Confinement,
        layers: ostler_tools::confine::Layers,
    ) -> Option<Self> {
        let machine = ostler_tools::confine::machine();
        if confinement
            .required
            .is_met(layers, machine.landlock, confinement.network)
        {
            return None;
        }
        let report = ostler_tools::confine::Report::new(confinement, layers, machine);
        Some(Self::Unconfined {
            gaps: report.gaps_line(),
        })
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } | Self::NoSuchFile(_) => "missing",
            Self::NotExecutable(_) => "not_executable",
            Self::BadFormat(_) => "bad_format",
            Self::BadDirectory { .. } => "bad_directory",
            Self::TooLong => "too_long",
            Self::TooSlow(_) => "too_slow",
            Self::CalledOff(_) => "called_off",
            Self::Unconfined { .. } => "unconfined",
            Self::Other { .. } => "other",
        }
    }

    /// The outcome of a session whose agent could not be started.
    pub(crate) fn outcome(&self, install_hint: Option<&str>) -> Outcome {
        let cause = match self {
            Self::BadDirectory { .. } | Self::TooLong => Cause::BadRequest,
            Self::TooSlow(_) => Cause::StartupLimit,
            Self::CalledOff(Interrupted(true)) => Cause::Interrupted,
            Self::CalledOff(Interrupted(false)) => Cause::Stopped,
            _ => Cause::Unavailable,
        };
        let outcome = Outcome::new(cause, format!("{self}."))
            .with(|d| d.spawn = Some(self.code().to_owned()));
        match (self.hint(), install_hint) {
            (Some(hint), Some(install)) if matches!(self, Self::Missing { .. }) => {
                outcome.hint(format!("{install} {hint}"))
            }
            (None, Some(install)) if matches!(self, Self::NoSuchFile(_)) => outcome.hint(install),
            (Some(hint), _) => outcome.hint(hint),
            (None, _) => outcome,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing { searched, .. } if searched.is_empty() => "PATH is empty.".into(),
            Self::Missing { searched, .. } => {
                let places: Vec<String> = searched.iter().map(|p| p.display().to_string()).collect();
                format!("Looked in: {}.", places.join(", "))
            }
            Self::NotExecutable(path) => format!("Make it executable: chmod +x {}", path.display()),
            Self::BadFormat(path) => {
                format!("Install it again for this machine, or look at its first line: head -1 {}", path.display())
            }
            Self::BadDirectory { .. } => "Give an existing directory with --dir.".into(),
            Self::TooLong => "Put long texts into files, or pass fewer variables.".into(),
            Self::TooSlow(_) => {
                "The machine may be overloaded; try again, or allow more time (--startup-timeout).".into()
            }
            Self::Unconfined { .. } => {
                "Run it where the sandbox holds (`ostler sandbox check`), or without one: --sandbox off.".into()
            }
            Self::NoSuchFile(_) | Self::CalledOff(_) | Self::Other { .. } => return None,
        })
    }
}
