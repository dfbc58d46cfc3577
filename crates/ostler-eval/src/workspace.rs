//! Workspace of a trial: its directories, its isolation, and the environment of its commands.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ostler::Host;
use ostler::dialect::Dialect;
use ostler::host::LoginCopy;
use ostler::sandbox::program::{Program, ProgramError, ProgramOutput, ProgramSandbox, sandbox_gap};

use crate::case::{Case, CommandSpec, Isolation};
use crate::private_root;
use crate::tree;

/// Configuration of Git in a private home, so that an agent can commit.
const GIT_CONFIG: &str = "[user]\n\tname = Agent\n\temail = agent@localhost\n\
                          [init]\n\tdefaultBranch = main\n[safe]\n\tdirectory = *\n";

/// Variables that commands of a case get from the user's environment: none with a credential.
const PASSED: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Variables of a private home that commands get.
const HOME_VARIABLES: &[&str] = &[
    "HOME",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
];

/// The directories of one attempt, removed on drop.
#[derive(Debug)]
pub(crate) struct Scratch {
    root: PathBuf,
    keep: bool,
}

impl Scratch {
    /// Creates the directories below `work`, which only this user can read.
    pub(crate) fn create(work: &Path, name: &str, keep: bool) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        fs::create_dir_all(work)?;
        let root = work.canonicalize()?.join(name);
        tree::remove(&root)?; // of an attempt that was killed
        fs::DirBuilder::new().mode(0o700).create(&root)?;
        let scratch = Self { root, keep };
        fs::create_dir(scratch.part("trial"))?;
        Ok(scratch)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the agent's workspace.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.part("workspace")
    }

    /// Returns the base that the agent cannot change.
    pub(crate) fn base(&self) -> PathBuf {
        self.part("base")
    }

    /// Returns the directory of snapshots.
    pub(crate) fn trial(&self) -> PathBuf {
        self.part("trial")
    }

    pub(crate) fn part(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Creates a private home, as a copy of another if one is given.
    pub(crate) fn home(&self, name: &str, like: Option<&PrivateHome>) -> io::Result<PrivateHome> {
        let home = self.part(&format!("{name}-home"));
        let temp = self.part(&format!("{name}-tmp"));
        fs::create_dir_all(&temp)?;
        match like {
            Some(like) => tree::copy(&like.home, &home, tree::Omit::Nothing)?,
            None => {
                fs::create_dir_all(&home)?;
                fs::write(home.join(".gitconfig"), GIT_CONFIG)?;
            }
        }
        Ok(PrivateHome { home, temp })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            let _ = tree::remove(&self.root); // a leftover in a temporary directory is harmless
        }
    }
}

/// A home directory and a directory for temporary files.
#[derive(Debug, Clone)]
pub struct PrivateHome {
    home: PathBuf,
    temp: PathBuf,
}

impl PrivateHome {
    /// Returns the home beside a workspace, and creates it if necessary.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn beside(workspace: &Path) -> io::Result<Self> {
        let home = workspace.with_file_name("home");
        let temp = workspace.with_file_name("tmp");
        fs::create_dir_all(&temp)?;
        if !home.is_dir() {
            fs::create_dir_all(&home)?;
            fs::write(home.join(".gitconfig"), GIT_CONFIG)?;
        }
        Ok(Self { home, temp })
    }

    /// Returns the home directory.
    pub(crate) fn path(&self) -> &Path {
        &self.home
    }

    /// Returns the directory for temporary files.
    pub(crate) fn temp_path(&self) -> &Path {
        &self.temp
    }

    /// Copies an agent's login from the user's home, until the copy is dropped.
    ///
    /// # Errors
    /// If a login exists and cannot be copied.
    pub fn copy_login(&self, user: &Host, dialect: &dyn Dialect) -> io::Result<LoginCopy> {
        user.copy_login(&self.home, dialect)
    }

    /// Returns the host with this home, and the variables of the user's toolchains.
    pub fn host(&self, host: Host, dialect: Option<&dyn Dialect>) -> (Host, Vec<(String, String)>) {
        host.with_private_home(&self.home, &self.temp, dialect)
    }
}

/// Chooses the isolation of a trial: the requested one, or the sandbox where it holds. A Harbor
/// task always has a private root.
///
/// # Errors
/// Says why the requested isolation is not available on this machine.
pub(crate) fn choose_isolation(
    requested: Option<Isolation>,
    case: &Case,
    host: &Host,
    dir: &Path,
) -> Result<Isolation, IsolationError> {
    let needs_root = case.mounts.is_some();
    match requested {
        Some(tier @ (Isolation::Directory | Isolation::Sandbox)) if needs_root => {
            Err(IsolationError::NeedsPrivateRoot { tier })
        }
        Some(Isolation::PrivateRoot) => require_private_root(host, dir),
        None if needs_root => require_private_root(host, dir),
        Some(Isolation::Directory) => Ok(Isolation::Directory),
        Some(Isolation::Sandbox) => match sandbox_gap(host, dir) {
            None => Ok(Isolation::Sandbox),
            Some(gaps) => Err(IsolationError::NoSandbox { gaps }),
        },
        None => Ok(match sandbox_gap(host, dir) {
            None => Isolation::Sandbox,
            Some(_) => Isolation::Directory,
        }),
    }
}

fn require_private_root(host: &Host, dir: &Path) -> Result<Isolation, IsolationError> {
    let layout = private_root::for_probe(dir.join("probe-root"));
    let gaps = match layout {
        Ok(layout) => sandbox_gap(&host.clone().with_private_root(layout), dir),
        Err(error) => Some(error.to_string()),
    };
    match gaps {
        None => Ok(Isolation::PrivateRoot),
        Some(gaps) => Err(IsolationError::NoPrivateRoot { gaps }),
    }
}

/// An isolation that this machine does not provide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IsolationError {
    /// The sandbox does not hold here.
    #[error(
        "the sandbox is not available here: {gaps}; `--isolation directory` runs trials without it"
    )]
    NoSandbox {
        /// What is missing.
        gaps: String,
    },
    /// The machine provides no private root.
    #[error(
        "a private root is not available here: {gaps}; it needs Linux with Landlock and with mount \
         namespaces for this user"
    )]
    NoPrivateRoot {
        /// What is missing.
        gaps: String,
    },
    /// A Harbor task was requested to run without one.
    #[error(
        "a Harbor task runs in a private root and not with `--isolation {}`; remove the option",
        tier.as_str()
    )]
    NeedsPrivateRoot {
        /// The requested tier.
        tier: Isolation,
    },
}

/// A command that must not use the network, without a sandbox that enforces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "`network: false` needs a sandbox, and the tier of this trial is `directory`; use \
     `--isolation sandbox`, or remove the setting"
)]
pub struct NetworkError;

/// Where and how commands of a case run.
#[derive(Debug, Clone)]
pub struct CommandPlace {
    /// The host, with a private home.
    host: Host,
    toolchains: Vec<(String, String)>,
    dir: PathBuf,
    sandbox: Option<ProgramSandbox>,
}

impl CommandPlace {
    /// Commands run in `dir`, with this home, and in the sandbox unless the isolation is
    /// `directory`.
    #[must_use]
    pub fn new(host: Host, home: &PrivateHome, dir: PathBuf, isolation: Isolation) -> Self {
        let (host, toolchains) = home.host(host, None);
        let sandbox = (isolation != Isolation::Directory).then(|| ProgramSandbox {
            write: Vec::new(),
            network: true,
        });
        Self {
            host,
            toolchains,
            dir,
            sandbox,
        }
    }

    /// Removes access to the network.
    ///
    /// # Errors
    /// If the isolation is `directory`, which cannot enforce it.
    pub fn without_network(mut self) -> Result<Self, NetworkError> {
        let sandbox = self.sandbox.as_mut().ok_or(NetworkError)?;
        sandbox.network = false;
        Ok(self)
    }

    /// Lets commands write to another directory, too.
    #[must_use]
    pub fn with_writable(mut self, dir: &Path) -> Self {
        if let Some(sandbox) = &mut self.sandbox {
            sandbox.write.push(dir.to_owned());
        }
        self
    }

    /// Returns the directory that commands run in by default.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs a command to its end.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn run(&self, command: &CommandSpec) -> Result<ProgramOutput, ProgramError> {
        self.program(command).run().await
    }

    /// Returns the program of a command, for further settings.
    pub fn program(&self, command: &CommandSpec) -> Program {
        let below = command.dir.as_deref().unwrap_or(Path::new(""));
        let dir = self.dir.join(below);
        let named = PASSED.iter().chain(HOME_VARIABLES);
        let inherited =
            named.filter_map(|name| Some((OsString::from(name), self.host.var(name)?.to_owned())));
        let fixed = [("TERM", "dumb"), ("NO_COLOR", "1"), ("CI", "1")];
        Program::new(&self.host, command.argv.iter().cloned(), dir)
            .only_env(inherited)
            .envs(fixed)
            .envs(self.toolchains.iter().cloned())
            .envs([("GIT_CEILING_DIRECTORIES", ceiling(&self.dir))])
            .envs(command.env.iter().map(|(k, v)| (k.clone(), v.clone())))
            .timeout(command.timeout)
            .sandbox(self.sandbox.clone())
    }
}

/// Returns the directory above which Git must not search for a repository.
pub(crate) fn ceiling(dir: &Path) -> PathBuf {
    dir.parent().unwrap_or(dir).to_owned()
}
