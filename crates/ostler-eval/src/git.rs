//! Repositories: a cache of mirrors, fresh checkouts at a commit, and the diff that an agent left.
//!
//! An agent's `.git` is never trusted. Ostler's own repository (the *seed*) lies outside the
//! workspace and holds the base commit with its history. Snapshots of the workspace are made with
//! it: every file is read as it is, without filters, attributes, hooks or the agent's index. What
//! the agent committed, staged or did to `.git` makes no difference.
//!
//! Untracked files that the base commit ignores (build output, dependencies) are not part of a
//! snapshot. The agent's own changes to `.gitignore` hide nothing.

mod bundle;
mod seed;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler::Host;
use ostler::sandbox::program::{Capture, Program, ProgramError};

pub use self::bundle::Branch;
pub use self::seed::Seed;
use crate::tree::{self, Omit};

/// Maximum duration of a Git command that uses the network.
const NETWORK_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Maximum duration of any other Git command.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum size of a diff, in bytes.
const MAX_DIFF: usize = 256 * 1024 * 1024;

/// A repository operation that failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git cannot be started.
    #[error("{0}; install Git and make sure that it is on PATH")]
    Start(#[from] ProgramError),
    /// A command failed.
    #[error("`git {command}` failed{}: {message}", if *.timed_out { " (it took too long)" } else { "" })]
    Command {
        /// The subcommand.
        command: String,
        /// What it printed.
        message: String,
        /// Whether it took too long.
        timed_out: bool,
    },
    /// The revision does not exist.
    #[error("{source_name} has no commit, branch or tag {revision:?}; check the case")]
    NoRevision {
        /// The repository.
        source_name: String,
        /// The revision.
        revision: String,
    },
    /// A file operation failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The changes are too large to be stored.
    #[error("the changes exceed {MAX_DIFF} bytes; add build output to .gitignore")]
    TooLarge,
}

impl GitError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Git, with nothing of the user's configuration, and a cache of repositories.
#[derive(Clone)]
pub struct Git {
    host: Host,
    cache: PathBuf,
}

/// Ostler's configuration: no hooks, no filters, no background work.
const CONFIG: &str = "\
[core]
\thooksPath = /dev/null
\tfsmonitor = false
\texcludesFile = /dev/null
\tattributesFile = /dev/null
\tautocrlf = false
\tprotectNTFS = false
\tprotectHFS = false
[user]
\tname = Ostler evaluation
\temail = evaluation@localhost
[init]
\tdefaultBranch = main
[safe]
\tdirectory = *
[uploadpack]
\tallowAnySHA1InWant = true
[protocol \"ext\"]
\tallow = never
[gc]
\tauto = 0
[maintenance]
\tauto = false
[advice]
\tdetachedHead = false
";

/// Attributes of Ostler's repositories, which override those in files: bytes stay as they are.
const ATTRIBUTES: &str =
    "* -text !eol -ident -filter -working-tree-encoding !diff !merge -export-subst\n";

/// A diff between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The patch, in Git's format, with binary files.
    pub patch: Vec<u8>,
    /// The changed files, relative to the workspace.
    pub files: Vec<PathBuf>,
}

/// A snapshot of a workspace: a tree in Ostler's repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Id of the tree.
    pub tree: String,
}

/// A command line of Git.
struct Command<'a> {
    args: &'a [&'a str],
    dir: &'a Path,
    env: Vec<(OsString, OsString)>,
    input: Vec<u8>,
}

impl Git {
    /// Uses Git from the host's PATH, and this directory for mirrors and seeds. It is created if
    /// necessary.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn new(host: &Host, cache: &Path) -> Result<Self, GitError> {
        fs::create_dir_all(cache).map_err(GitError::io(cache))?;
        let cache = cache.canonicalize().map_err(GitError::io(cache))?;
        let git = Self {
            host: host.clone(),
            cache,
        };
        let config = git.config_file();
        if fs::read_to_string(&config).ok().as_deref() != Some(CONFIG) {
            // Several processes may do this at once: each writes the same text.
            let temporary = git.cache.join(format!("gitconfig.{}", std::process::id()));
            fs::write(&temporary, CONFIG).map_err(GitError::io(&temporary))?;
            fs::rename(&temporary, &config).map_err(GitError::io(&config))?;
        }
        Ok(git)
    }

    /// Returns the directory of the cache, which agents must not read.
    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    fn config_file(&self) -> PathBuf {
        self.cache.join("gitconfig")
    }

    /// Returns the environment of a command: nothing of the user's.
    fn env(&self) -> Vec<(OsString, OsString)> {
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.cache.clone().into()),
            ("GIT_CONFIG_GLOBAL".into(), self.config_file().into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_TERMINAL_PROMPT".into(), "0".into()),
            ("GIT_OPTIONAL_LOCKS".into(), "0".into()),
            ("GIT_NO_REPLACE_OBJECTS".into(), "1".into()),
            ("LC_ALL".into(), "C".into()),
            // The same directory gives the same commit.
            ("GIT_AUTHOR_DATE".into(), "2000-01-01T00:00:00Z".into()),
            ("GIT_COMMITTER_DATE".into(), "2000-01-01T00:00:00Z".into()),
        ];
        if let Some(path) = self.host.var("PATH") {
            env.push(("PATH".into(), path.to_owned()));
        }
        env
    }

    async fn run(&self, command: Command<'_>) -> Result<Vec<u8>, GitError> {
        let argv = std::iter::once("git").chain(command.args.iter().copied());
        let program = Program::new(&self.host, argv, command.dir)
            .only_env(self.env().into_iter().chain(command.env))
            .input(command.input)
            .capture(Capture::Head(MAX_DIFF))
            .timeout(TIMEOUT);
        finish(program, command.args).await
    }

    async fn git(&self, dir: &Path, args: &[&str]) -> Result<Vec<u8>, GitError> {
        self.run(Command {
            args,
            dir,
            env: Vec::new(),
            input: Vec::new(),
        })
        .await
    }

    async fn text(&self, dir: &Path, args: &[&str]) -> Result<String, GitError> {
        let output = self.git(dir, args).await?;
        Ok(String::from_utf8_lossy(&output).trim().to_owned())
    }

    /// Runs a command with the user's own configuration and credentials, for the network.
    async fn as_user(&self, dir: &Path, args: &[&str]) -> Result<Vec<u8>, GitError> {
        let argv = ["git", "-c", "core.hooksPath=/dev/null"];
        let argv = argv.into_iter().chain(args.iter().copied());
        let program = Program::new(&self.host, argv, dir)
            .envs([
                ("GIT_TERMINAL_PROMPT", "0"),
                ("GIT_PROTOCOL_FROM_USER", "0"),
            ])
            .timeout(NETWORK_TIMEOUT);
        finish(program, args).await
    }

    /// Creates the base of a trial: the files of the seed's commit, without `.git`.
    ///
    /// # Errors
    /// If Git or the file system fails.
    pub async fn check_out(&self, seed: &Seed, target: &Path) -> Result<(), GitError> {
        fs::create_dir_all(target).map_err(GitError::io(target))?;
        let index = target.with_extension("index");
        let env = seed.env(target, &index, None);
        let args = ["read-tree", "-u", "--reset", seed.commit()];
        let read = self.in_work_tree(target, &args, env, Vec::new()).await;
        let _ = fs::remove_file(&index); // a temporary file
        read.map(drop)
    }

    async fn in_work_tree(
        &self,
        dir: &Path,
        args: &[&str],
        env: Vec<(OsString, OsString)>,
        input: Vec<u8>,
    ) -> Result<Vec<u8>, GitError> {
        let command = Command {
            args,
            dir,
            env,
            input,
        };
        self.run(command).await
    }

    /// Gives a workspace a repository of its own, with the history of the base commit and no
    /// remote, so that an agent can use Git and finds no later commit.
    ///
    /// # Errors
    /// If Git or the file system fails.
    pub async fn give_repository(&self, seed: &Seed, workspace: &Path) -> Result<(), GitError> {
        let target = workspace.join(".git");
        tree::copy(seed.path(), &target, Omit::Nothing).map_err(GitError::io(&target))?;
        let attributes = target.join("info/attributes");
        fs::remove_file(&attributes).map_err(GitError::io(&attributes))?;
        let config = target.join("config");
        let file = config.to_string_lossy().into_owned();
        self.git(
            workspace,
            &["config", "--file", &file, "core.bare", "false"],
        )
        .await?;
        self.git(workspace, &["read-tree", seed.commit()]).await?;
        // Without this, the first `git status` of the agent would look as if files had changed.
        self.git(workspace, &["update-index", "-q", "--refresh"])
            .await
            .map(drop)
            .or_else(|error| match error {
                GitError::Command { .. } => Ok(()), // files that `pre_execution` changed
                other => Err(other),
            })
    }

    /// Records the files of a workspace. `base` is a directory that the agent could not change; its
    /// `.gitignore` files decide which untracked files are left out.
    ///
    /// # Errors
    /// If Git or the file system fails.
    pub async fn snapshot(
        &self,
        seed: &Seed,
        trial: &Path,
        workspace: &Path,
        base: &Path,
    ) -> Result<Snapshot, GitError> {
        let index = trial.join("snapshot.index");
        let objects = trial.join("objects");
        fs::create_dir_all(&objects).map_err(GitError::io(&objects))?;
        let _ = fs::remove_file(&index); // of an earlier snapshot
        let env = || seed.env(workspace, &index, Some(&objects));
        let run = |args: &'static [&'static str], input: Vec<u8>| {
            self.in_work_tree(workspace, args, env(), input)
        };
        let args = ["read-tree", seed.commit()];
        self.in_work_tree(workspace, &args, env(), Vec::new())
            .await?;
        let listed = run(&["ls-files", "-z", "--cached", "--stage"], Vec::new()).await?;
        let tracked = tracked(&listed);
        let found = tree::files(workspace).map_err(GitError::io(workspace))?;
        let found: std::collections::BTreeSet<Vec<u8>> = found
            .iter()
            .map(|path| path.as_os_str().as_bytes().to_owned())
            .collect();
        let removed = tracked.iter().filter(|path| !found.contains(*path));
        run(
            &["update-index", "--force-remove", "-z", "--stdin"],
            lines(removed),
        )
        .await?;
        let untracked = found.iter().filter(|path| !tracked.contains(*path));
        let ignored = self.ignored(seed, base, lines(untracked)).await?;
        let present = found.iter().filter(|path| !ignored.contains(*path));
        let add = ["update-index", "--add", "--replace", "-z", "--stdin"];
        self.in_work_tree(workspace, &add, env(), lines(present))
            .await?;
        let tree = run(&["write-tree"], Vec::new()).await?;
        let _ = fs::remove_file(&index); // a temporary file
        Ok(Snapshot {
            tree: String::from_utf8_lossy(&tree).trim().to_owned(),
        })
    }

    /// Returns the paths that the base commit ignores.
    async fn ignored(
        &self,
        seed: &Seed,
        base: &Path,
        paths: Vec<u8>,
    ) -> Result<std::collections::BTreeSet<Vec<u8>>, GitError> {
        if paths.is_empty() {
            return Ok(std::collections::BTreeSet::new());
        }
        let index = base.with_extension("ignore-index");
        let args = ["check-ignore", "-z", "--stdin", "--no-index"];
        let env = seed.env(base, &index, None);
        // Exit code 1 means that none is ignored.
        let output = match self.in_work_tree(base, &args, env, paths).await {
            Ok(output) => output,
            Err(GitError::Command {
                message, timed_out, ..
            }) if message.is_empty() && !timed_out => Vec::new(),
            Err(error) => return Err(error),
        };
        let names = output.split(|byte| *byte == 0);
        Ok(names
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_owned)
            .collect())
    }

    /// Returns the difference between two snapshots of a trial.
    ///
    /// # Errors
    /// If Git fails, or the diff is too large.
    pub async fn diff(
        &self,
        seed: &Seed,
        trial: &Path,
        from: &Snapshot,
        to: &Snapshot,
    ) -> Result<Diff, GitError> {
        let env = || seed.env(trial, &trial.join("no-index"), Some(&trial.join("objects")));
        let trees = [from.tree.as_str(), to.tree.as_str()];
        let patch: &[&str] = &[
            "diff-tree",
            "-r",
            "-p",
            "--binary",
            "--full-index",
            "--no-ext-diff",
            "--no-textconv",
            "--find-renames",
            "--no-color",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        ];
        let patch = [patch, &trees].concat();
        let patch = self.in_work_tree(trial, &patch, env(), Vec::new()).await?;
        let names = ["diff-tree", "-r", "-z", "--name-only", "--no-renames"];
        let names = [&names[..], &trees].concat();
        let names = self.in_work_tree(trial, &names, env(), Vec::new()).await?;
        let files = names
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name)))
            .collect();
        Ok(Diff { patch, files })
    }

    /// Changes the files of `target`, a copy of `base`, to those of a snapshot. Files that the base
    /// commit ignores stay.
    ///
    /// # Errors
    /// If Git or the file system fails.
    pub async fn apply(
        &self,
        seed: &Seed,
        trial: &Path,
        (from, to): (&Snapshot, &Snapshot),
        target: &Path,
    ) -> Result<(), GitError> {
        let index = target.with_extension("index");
        let env = || seed.env(target, &index, Some(&trial.join("objects")));
        let steps: [&[&str]; 3] = [
            &["read-tree", &from.tree],
            &["update-index", "-q", "--refresh"],
            &["read-tree", "-u", "--reset", &to.tree],
        ];
        for (number, args) in steps.iter().enumerate() {
            let ran = self.in_work_tree(target, args, env(), Vec::new()).await;
            if number != 1 {
                ran?; // a refresh reports differences as a failure
            }
        }
        let _ = fs::remove_file(&index); // a temporary file
        Ok(())
    }
}

impl Git {
    /// Applies a patch to a directory without `.git`.
    ///
    /// # Errors
    /// If it does not apply.
    pub async fn apply_patch(&self, target: &Path, patch: &Path) -> Result<(), GitError> {
        let patch = std::path::absolute(patch).map_err(GitError::io(patch))?;
        let patch = patch.to_string_lossy().into_owned();
        // Without a repository, `git apply` works on plain files below the current directory.
        let nowhere = [("GIT_DIR".into(), target.join(".no-repository").into())];
        let args = ["apply", "--binary", "--whitespace=nowarn", "--", &patch];
        self.in_work_tree(target, &args, nowhere.into(), Vec::new())
            .await
            .map(drop)
    }
}

/// Runs Git and checks its exit code.
async fn finish(program: Program, args: &[&str]) -> Result<Vec<u8>, GitError> {
    let output = program.run().await?;
    if output.succeeded() {
        return if output.truncated {
            Err(GitError::TooLarge)
        } else {
            Ok(output.stdout)
        };
    }
    Err(GitError::Command {
        command: args.first().copied().unwrap_or_default().to_owned(),
        message: output.stderr_text().trim().to_owned(),
        timed_out: output.timed_out,
    })
}

/// Returns the tracked paths that are files. Submodules stay as they are.
fn tracked(listed: &[u8]) -> std::collections::BTreeSet<Vec<u8>> {
    let entries = listed.split(|byte| *byte == 0);
    let files = entries.filter(|entry| !entry.is_empty() && !entry.starts_with(b"160000"));
    let paths = files.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
    paths.map(<[u8]>::to_owned).collect()
}

/// Joins paths for the standard input of a command.
fn lines<'a>(paths: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut joined = Vec::new();
    for path in paths {
        joined.extend_from_slice(path);
        joined.push(0);
    }
    joined
}
