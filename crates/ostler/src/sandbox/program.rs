//! Programs that a caller runs besides agents, such as Git or the commands of an evaluation.
//!
//! ```
//! use ostler::Host;
//! use ostler::sandbox::program::Program;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let host = Host::new(std::env::vars_os());
//! let output = Program::new(&host, ["echo", "hi"], "/").run().await?;
//! assert!(output.succeeded());
//! assert_eq!(output.stdout_text(), "hi");
//! # Ok::<(), ostler::sandbox::program::ProgramError>(())
//! # }).unwrap();
//! ```
//!
//! There is no shell. When a program ends, everything it started is killed too.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler_core::clip::HeadTail;
use ostler_core::spec::Sandbox;
use ostler_tools::confine::{Network, Required};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use crate::host::{Host, RESERVED_PREFIX, SESSION_VARIABLE};
use crate::process::{self, Child, PreparedCommand, SandboxRequest};

/// A program with its arguments, environment and limits.
#[must_use]
pub struct Program {
    host: Host,
    argv: Vec<String>,
    dir: PathBuf,
    /// The whole environment, or `None` for the caller's without keys.
    env: Option<BTreeMap<OsString, OsString>>,
    added: BTreeMap<OsString, OsString>,
    input: Vec<u8>,
    timeout: Duration,
    capture: Capture,
    sandbox: Option<ProgramSandbox>,
}

/// How much of a program's output is retained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// The first bytes of each stream, exactly as they came.
    Head(usize),
    /// The head and the tail of each stream, as text without control sequences.
    Ends(usize),
}

/// Restrictions that the system enforces on a program.
#[derive(Debug, Clone, Default)]
pub struct ProgramSandbox {
    /// Directories that it may write, besides its working directory and temporary files.
    pub write: Vec<PathBuf>,
    /// Whether it can use the network.
    pub network: bool,
}

/// Result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Exit code; `None` if a signal or the time limit ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Whether some output is missing.
    pub truncated: bool,
    /// Whether the time limit ended it.
    pub timed_out: bool,
}

impl ProgramOutput {
    /// Returns true if it exited with code 0.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// Returns the standard output as text.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns the standard error as text.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A program that could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot start {program}: {why}")]
pub struct ProgramError {
    /// The program.
    pub program: String,
    /// The reason.
    pub why: String,
}

impl Program {
    /// Creates a program from its name or path and its arguments, run in `dir` with the caller's
    /// environment. Variables that look like API keys are left out, because it may run code that a
    /// model wrote.
    pub fn new<S: Into<String>>(
        host: &Host,
        argv: impl IntoIterator<Item = S>,
        dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            host: host.clone(),
            argv: argv.into_iter().map(Into::into).collect(),
            dir: dir.into(),
            env: None,
            added: BTreeMap::new(),
            input: Vec::new(),
            timeout: Duration::from_secs(30 * 60),
            capture: Capture::Ends(1024 * 1024),
            sandbox: None,
        }
    }

    /// Replaces the environment by these variables.
    pub fn only_env<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        env: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let env = env.into_iter();
        self.env = Some(
            env.map(|(name, value)| (name.into(), value.into()))
                .collect(),
        );
        self
    }

    /// Adds variables.
    pub fn envs<N: Into<OsString>, V: Into<OsString>>(
        mut self,
        env: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let env = env.into_iter();
        self.added
            .extend(env.map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets its standard input; empty by default.
    pub fn input(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// Sets its maximum duration; 30 minutes by default.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how much of its output is retained; the ends of each stream by default.
    pub fn capture(mut self, capture: Capture) -> Self {
        self.capture = capture;
        self
    }

    /// Confines it. It does not start if the system cannot enforce file access.
    pub fn sandbox(mut self, sandbox: impl Into<Option<ProgramSandbox>>) -> Self {
        self.sandbox = sandbox.into();
        self
    }

    /// Checks that it could be started, without starting it.
    ///
    /// # Errors
    /// Says what is missing: the program, the directory, or a layer of the sandbox.
    pub fn check(&self) -> Result<(), ProgramError> {
        self.prepare().map(drop)
    }

    /// Runs it to its end. Dropping the future ends it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn run(self) -> Result<ProgramOutput, ProgramError> {
        let prepared = self.prepare()?;
        let child = process::spawn(Box::new(prepared)).await;
        let child = child.map_err(|error| self.error(&error))?;
        Ok(drive(child, &self.input, self.timeout, self.capture).await)
    }

    fn error(&self, error: &impl ToString) -> ProgramError {
        ProgramError {
            program: self.argv.first().cloned().unwrap_or_default(),
            why: error.to_string(),
        }
    }

    fn prepare(&self) -> Result<PreparedCommand, ProgramError> {
        let mut prepared = PreparedCommand::user_command(&self.lookup(), &self.argv, &self.dir)
            .map_err(|error| self.error(&error))?;
        if let Some(env) = &self.env {
            prepared
                .env
                .retain(|name, _| name.as_os_str() == SESSION_VARIABLE);
            prepared.env.extend(not_reserved(env));
        }
        prepared.env.extend(not_reserved(&self.added));
        let Some(sandbox) = &self.sandbox else {
            return Ok(prepared);
        };
        let request = SandboxRequest {
            sandbox: Sandbox::WorkspaceWrite,
            dir: &self.dir,
            added: &sandbox.write,
            state: &[],
            required: Required::Files,
        };
        process::confine_agent(&mut prepared, &self.host, &request)
            .map_err(|error| self.error(&error))?;
        if let Some(confinement) = &mut prepared.confinement
            && !sandbox.network
        {
            confinement.network = Network::None;
        }
        Ok(prepared)
    }

    /// Returns the host in whose PATH the program is looked up.
    fn lookup(&self) -> Host {
        let name = OsString::from("PATH");
        let path = self
            .added
            .get(&name)
            .or_else(|| self.env.as_ref()?.get(&name));
        match path {
            Some(path) => self.host.clone().with_variable("PATH", Some(path.clone())),
            None => self.host.clone(),
        }
    }
}

/// Returns the variables without those that are reserved for Ostler.
fn not_reserved(
    env: &BTreeMap<OsString, OsString>,
) -> impl Iterator<Item = (OsString, OsString)> + '_ {
    let is_reserved = |name: &OsString| {
        name.to_str()
            .is_some_and(|name| name.starts_with(RESERVED_PREFIX))
    };
    env.iter()
        .filter(move |(name, _)| !is_reserved(name))
        .map(|(name, value)| (name.clone(), value.clone()))
}

async fn drive(child: Child, input: &[u8], limit: Duration, capture: Capture) -> ProgramOutput {
    let Child {
        stdin,
        mut stdout,
        stderr,
        mut control,
        ..
    } = child;
    let (mut out, mut err) = (Captured::new(capture), Captured::new(capture));
    let work = async {
        let stdin = async {
            if let Some(mut stdin) = stdin {
                // If it exits without reading its input, its output says why.
                let _ = stdin.write_all(input).await;
                let _ = stdin.shutdown().await;
            }
        };
        let stderr = async {
            if let Some(mut stderr) = stderr {
                err.read(&mut stderr).await;
            }
        };
        // `wait` also kills leftover processes that hold the pipes open.
        let ((), (), (), status) =
            tokio::join!(stdin, out.read(&mut stdout), stderr, control.wait());
        status
    };
    let status = tokio::time::timeout(limit, work).await;
    if status.is_err() {
        control.kill();
        let _ = tokio::time::timeout(Duration::from_secs(10), control.wait()).await;
    }
    let timed_out = status.is_err();
    let status = status.unwrap_or_default();
    let ((stdout, more_out), (stderr, more_err)) = (out.finish(), err.finish());
    ProgramOutput {
        exit_code: status.code,
        signal: status.signal,
        stdout,
        stderr,
        truncated: more_out || more_err,
        timed_out,
    }
}

/// The retained part of a stream.
enum Captured {
    Head {
        cap: usize,
        bytes: Vec<u8>,
        truncated: bool,
    },
    Ends {
        ends: HeadTail,
        left: usize,
    },
}

impl Captured {
    fn new(capture: Capture) -> Self {
        match capture {
            Capture::Head(cap) => Self::Head {
                cap,
                bytes: Vec::new(),
                truncated: false,
            },
            Capture::Ends(cap) => Self::Ends {
                ends: HeadTail::new(cap / 2),
                left: cap,
            },
        }
    }

    async fn read(&mut self, stream: &mut (impl AsyncRead + Unpin)) {
        let mut buffer = vec![0; 16 * 1024];
        while let Ok(length @ 1..) = stream.read(&mut buffer).await {
            self.push(&buffer[..length]);
        }
    }

    fn push(&mut self, piece: &[u8]) {
        match self {
            Self::Head {
                cap,
                bytes,
                truncated,
            } => {
                let room = cap.saturating_sub(bytes.len());
                *truncated |= piece.len() > room;
                bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            Self::Ends { ends, left } => {
                ends.push(piece);
                *left = left.saturating_sub(piece.len());
            }
        }
    }

    /// Returns the retained bytes, and whether some are missing.
    fn finish(self) -> (Vec<u8>, bool) {
        match self {
            Self::Head {
                bytes, truncated, ..
            } => (bytes, truncated),
            Self::Ends { ends, left } => (ends.text().into_bytes(), left == 0),
        }
    }
}

/// Returns why programs cannot be confined in `dir`, or `None` if they can.
#[must_use]
pub fn sandbox_gap(host: &Host, dir: &Path) -> Option<String> {
    let probe = Program::new(host, ["sh"], dir).sandbox(ProgramSandbox::default());
    probe.check().err().map(|error| error.why)
}
