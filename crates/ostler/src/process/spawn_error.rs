//! Errors of spawning a process, each with a hint what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::outcome::{Cause, Outcome, SpawnFailure};

/// Whether the caller had interrupted the turn while the agent was starting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interrupted(pub(crate) bool);

/// The reason why a process could not be spawned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("{program} was not found in PATH")]
    Missing {
        program: String,
        searched: Vec<PathBuf>,
    },
    #[error("{} does not exist", .0.display())]
    NoSuchFile(PathBuf),
    #[error("{} cannot be executed: permission denied", .0.display())]
    NotExecutable(PathBuf),
    #[error(
        "{} cannot be executed: it is not a program for this machine, \
         or its interpreter or C library is missing",
        .0.display()
    )]
    BadFormat(PathBuf),
    #[error("cannot use {} as the working directory: {why}", .path.display())]
    BadDirectory { path: PathBuf, why: String },
    #[error("the command line or the environment is too long for this system")]
    TooLong,
    #[error("the agent did not start within {0:?}")]
    TooSlow(Duration),
    #[error("the start was cancelled")]
    Cancelled(Interrupted),
    #[error("refused to run it: this machine cannot enforce the sandbox: {gaps}")]
    Unconfined { gaps: String },
    #[error("{} could not be started: {source}", .program.display())]
    Other { program: PathBuf, source: io::Error },
}

impl SpawnError {
    /// Interprets the kernel's error for spawning `program`.
    pub(crate) fn from_io(program: &Path, error: io::Error) -> Self {
        let program = program.to_owned();
        #[cfg(unix)]
        match rustix::io::Errno::from_io_error(&error) {
            // The file itself was found before, so its interpreter or loader is missing.
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

    /// Returns the error for a child that could not enter a required sandbox layer, or `None` if
    /// all required layers were entered.
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

    fn failure(&self) -> SpawnFailure {
        match self {
            Self::Missing { .. } | Self::NoSuchFile(_) => SpawnFailure::Missing,
            Self::NotExecutable(_) => SpawnFailure::NotExecutable,
            Self::BadFormat(_) => SpawnFailure::BadFormat,
            Self::BadDirectory { .. } => SpawnFailure::BadDirectory,
            Self::TooLong => SpawnFailure::TooLong,
            Self::TooSlow(_) => SpawnFailure::TooSlow,
            Self::Cancelled(_) => SpawnFailure::CalledOff,
            Self::Unconfined { .. } => SpawnFailure::Unconfined,
            Self::Other { .. } => SpawnFailure::SystemError,
        }
    }

    /// Returns the outcome of a session whose agent could not be started.
    pub(crate) fn outcome(&self, install_hint: Option<&str>) -> Outcome {
        let cause = match self {
            Self::BadDirectory { .. } | Self::TooLong => Cause::BadRequest,
            Self::TooSlow(_) => Cause::StartupLimit,
            Self::Cancelled(Interrupted(true)) => Cause::Interrupted,
            Self::Cancelled(Interrupted(false)) => Cause::Stopped,
            _ => Cause::Unavailable,
        };
        let outcome =
            Outcome::new(cause, format!("{self}.")).with(|d| d.spawn = Some(self.failure()));
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
                let dirs: Vec<String> = searched.iter().map(|p| p.display().to_string()).collect();
                format!("Looked in: {}.", dirs.join(", "))
            }
            Self::NotExecutable(path) => format!("Make it executable: chmod +x {}", path.display()),
            Self::BadFormat(path) => {
                let path = path.display();
                format!("Reinstall it for this machine, or check its first line: head -1 {path}")
            }
            Self::BadDirectory { .. } => "Pass an existing directory with --dir.".into(),
            Self::TooLong => "Put long texts into files, or pass fewer variables.".into(),
            Self::TooSlow(_) => {
                "The machine may be overloaded; try again, or allow more time (--startup-timeout)."
                    .into()
            }
            Self::Unconfined { .. } => {
                "Use a machine that supports the sandbox (`ostler sandbox check`), \
                 or run without one: --sandbox off."
                    .into()
            }
            Self::NoSuchFile(_) | Self::Cancelled(_) | Self::Other { .. } => return None,
        })
    }
}
