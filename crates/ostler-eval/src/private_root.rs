//! Private roots of trials: what an agent and a verifier find at fixed paths.
//!
//! The machine's root is read-only in it. The workspace is the working directory of the task,
//! `/logs` is private, and what `COPY` puts elsewhere is mounted read-only. `/tests` exists only
//! for the verifier, and `/tmp` is private for it.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use ostler::sandbox::{RootLayout, RootLayoutError, RootMount};

use crate::case::PrivateRoot;
use crate::tree::{self, Omit};

/// Working directory of cases that name none.
const WORKDIR: &str = "/workspace";

/// A private root that cannot be created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrivateRootError {
    /// A mount has no place.
    #[error(transparent)]
    Layout(#[from] RootLayoutError),
    /// `COPY` replaces a part of the machine.
    #[error(
        "the task copies files to {}, and this machine's {} cannot be replaced; copy them below \
         the working directory",
        target.display(), top.display()
    )]
    MachineDirectory {
        /// The target of the copy.
        target: PathBuf,
        /// The directory of the machine around it.
        top: PathBuf,
    },
    /// A directory cannot be created or copied.
    #[error("{}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl PrivateRootError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |source| Self::Io {
            path: path.to_owned(),
            source,
        }
    }
}

/// Directories of a private root while it is created, below one directory of the trial.
struct Builder {
    dir: PathBuf,
    mounts: Vec<RootMount>,
}

impl Builder {
    fn new(dir: PathBuf) -> Result<Self, PrivateRootError> {
        tree::remove(&dir).map_err(PrivateRootError::io(&dir))?;
        let mounts = Vec::new();
        let new = Self { dir, mounts };
        new.directory("stage")?;
        Ok(new)
    }

    fn directory(&self, name: &str) -> Result<PathBuf, PrivateRootError> {
        let path = self.dir.join(name);
        fs::create_dir_all(&path).map_err(PrivateRootError::io(&path))?;
        Ok(path)
    }

    fn mount(&mut self, source: &Path, target: impl Into<PathBuf>, writable: bool) {
        self.mounts.push(RootMount {
            source: source.to_owned(),
            target: target.into(),
            writable,
        });
    }

    /// Mounts the files that the task has outside its working directory.
    fn copies(&mut self, root: &PrivateRoot) -> Result<(), PrivateRootError> {
        let mut tops = BTreeSet::new();
        for (source, target) in &root.copies {
            if target.starts_with(&root.workdir) {
                continue;
            }
            let top = top(target);
            if top.symlink_metadata().is_ok() {
                let target = target.clone();
                return Err(PrivateRootError::MachineDirectory { target, top });
            }
            let below = target.strip_prefix("/").unwrap_or(target);
            let copy = self.dir.join("copies").join(below);
            copy_to(source, &copy).map_err(PrivateRootError::io(source))?;
            tops.insert(top);
        }
        for top in tops {
            let below = top.strip_prefix("/").unwrap_or(&top);
            let source = self.dir.join("copies").join(below);
            self.mount(&source, top.clone(), false);
        }
        Ok(())
    }

    fn finish(self, workdir: &Path) -> Result<RootLayout, PrivateRootError> {
        let layout = RootLayout {
            stage: self.dir.join("stage"),
            mounts: self.mounts,
            dir: workdir.to_owned(),
        };
        layout.create_mount_points()?;
        Ok(layout)
    }
}

/// Returns the first component of an absolute path.
fn top(path: &Path) -> PathBuf {
    let first = path.components().find_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    Path::new("/").join(first.unwrap_or_default())
}

/// Copies a file, or the content of a directory.
pub(crate) fn copy_to(source: &Path, target: &Path) -> io::Result<()> {
    if source.is_dir() {
        return tree::copy(source, target, Omit::Nothing);
    }
    fs::create_dir_all(target.parent().unwrap_or(target))?;
    fs::copy(source, target).map(drop)
}

/// Returns the root of a case, with a default for cases that need none.
pub(crate) fn of_case(root: Option<&PrivateRoot>) -> PrivateRoot {
    root.cloned().unwrap_or_else(|| PrivateRoot {
        workdir: PathBuf::from(WORKDIR),
        ..PrivateRoot::default()
    })
}

/// Creates the agent's root below `dir`. Directories in `masked` are empty in it.
pub(crate) fn for_agent(
    root: &PrivateRoot,
    dir: PathBuf,
    workspace: &Path,
    masked: &[PathBuf],
) -> Result<RootLayout, PrivateRootError> {
    let mut builder = Builder::new(dir)?;
    let empty = builder.directory("empty")?;
    for path in masked.iter().filter_map(|path| path.canonicalize().ok()) {
        if path.is_dir() {
            builder.mount(&empty, path, false);
        }
    }
    builder.copies(root)?;
    builder.directory("logs/agent")?;
    builder.directory("logs/artifacts")?;
    let logs = builder.directory("logs")?;
    builder.mount(&logs, "/logs", true);
    builder.mount(workspace, &root.workdir, true);
    builder.finish(&root.workdir)
}

/// Creates the root of a Harbor task's solution below `dir`: the agent's, with `/solution`.
pub(crate) fn for_solution(
    root: &PrivateRoot,
    dir: PathBuf,
    workspace: &Path,
) -> Result<RootLayout, PrivateRootError> {
    let mut builder = Builder::new(dir)?;
    builder.copies(root)?;
    let solution = builder.directory("solution")?;
    let source = root.task_dir.join("solution");
    tree::copy(&source, &solution, Omit::Nothing).map_err(PrivateRootError::io(&source))?;
    builder.mount(&solution, "/solution", false);
    let logs = builder.directory("logs")?;
    builder.directory("logs/agent")?;
    builder.mount(&logs, "/logs", true);
    builder.mount(workspace, &root.workdir, true);
    builder.finish(&root.workdir)
}

/// The root of a verifier, and the directories in which it leaves its reward.
pub(crate) struct VerifierRoot {
    pub(crate) layout: RootLayout,
    /// `/logs/verifier`, which no agent can write.
    pub(crate) verifier_logs: PathBuf,
}

/// Creates the verifier's root beside a copy of the workspace. `private` directories, such as its
/// home, have the same path inside.
pub(crate) fn for_verifier(
    root: &PrivateRoot,
    workspace: &Path,
    private: &[&Path],
) -> Result<VerifierRoot, PrivateRootError> {
    let mut builder = Builder::new(workspace.with_file_name("root"))?;
    let temp = builder.directory("tmp")?;
    builder.mount(&temp, "/tmp", true);
    for path in private {
        builder.mount(path, *path, true);
    }
    builder.copies(root)?;
    let tests = builder.directory("tests")?;
    let source = root.task_dir.join("tests");
    tree::copy(&source, &tests, Omit::Nothing).map_err(PrivateRootError::io(&source))?;
    builder.mount(&tests, "/tests", true);
    for name in ["agent", "artifacts"] {
        builder.directory(&format!("logs/{name}"))?;
    }
    let verifier_logs = builder.directory("logs/verifier")?;
    let logs = builder.directory("logs")?;
    builder.mount(&logs, "/logs", true);
    builder.mount(workspace, &root.workdir, true);
    Ok(VerifierRoot {
        layout: builder.finish(&root.workdir)?,
        verifier_logs,
    })
}

/// Creates a root without private directories, to find out whether the machine provides one.
pub(crate) fn for_probe(dir: PathBuf) -> Result<RootLayout, PrivateRootError> {
    Builder::new(dir)?.finish(Path::new("/"))
}
