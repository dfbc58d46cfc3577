//! The settings files that a project brings along: read once, each with the user's decision about it.

mod memory;

use std::path::{Path, PathBuf};

use ostler::trust::{FileKind, Standing, WorkspaceFile, WorkspaceTrust};

pub(crate) use self::memory::{Memory, Remembered};
use crate::args::{ConfigArgs, PolicyArgs};
use crate::fault::Fault;
use crate::{environment, user};

/// A project and its own files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Project {
    /// The real path of the directory that an agent works in: a link does not make it a trusted one.
    pub(crate) root: PathBuf,
    /// Those of its files that exist, each read once.
    pub(crate) files: Vec<WorkspaceFile>,
    /// Whether the user trusts the directory as a whole, by `--trust-project` or `trusted_projects`.
    pub(crate) is_trusted: bool,
    /// The user's own sandbox policy.
    pub(crate) sandbox: ostler::SandboxPolicy,
}

impl Project {
    /// Reads the files of the project in a directory. If that does not exist, the run is going to say so.
    pub(crate) fn read(config: ConfigArgs, args: &PolicyArgs, dir: &Path) -> Result<Self, Fault> {
        let root = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let own = user::permissions(args)?;
        let trusts = |root: &Path| {
            args.trust_project
                || own
                    .iter()
                    .any(|layer| layer.trusts(&root.to_string_lossy()))
        };
        let is_trusted = trusts(&root);
        let mut project = Self {
            root,
            files: Vec::new(),
            is_trusted,
            sandbox: user::sandbox()?,
        };
        if !project.root.is_dir() {
            return Ok(project);
        }
        for kind in [FileKind::Policy, FileKind::Sandbox, FileKind::Script] {
            project.files.extend(read(&project.root, kind)?);
        }
        if !config.no_config {
            project.files.extend(find_config(&project.root)?);
        }
        if !project.files.is_empty() {
            let memory = Memory::load();
            for file in &mut project.files {
                file.standing = if trusts(&file.root) {
                    Standing::Trusted
                } else {
                    memory.standing(file)
                };
            }
        }
        Ok(project)
    }

    /// The project's file of a kind.
    pub(crate) fn file(&self, kind: FileKind) -> Option<&WorkspaceFile> {
        self.files.iter().find(|file| file.kind == kind)
    }

    /// The decision for the library.
    pub(crate) fn trust(&self) -> WorkspaceTrust {
        let private = [environment::config_dir(), environment::state_dir()]
            .into_iter()
            .flatten();
        WorkspaceTrust {
            base: self.sandbox.clone(),
            root: Some(self.root.clone()),
            files: self.files.clone(),
            private: private
                .filter_map(|dir| std::path::absolute(dir).ok())
                .collect(),
        }
    }
}

/// Reads a file of a kind, of which there may be one.
fn read(root: &Path, kind: FileKind) -> Result<Option<WorkspaceFile>, Fault> {
    let found = kind
        .names()
        .iter()
        .map(|name| WorkspaceFile::read(root, kind, name));
    let found: Vec<WorkspaceFile> = found
        .filter_map(Result::transpose)
        .collect::<Result<_, _>>()
        .map_err(|error| {
            let hint = match kind {
                FileKind::Config => "--no-config leaves it out.",
                _ => "Remove it, or make it a plain file.",
            };
            Fault::usage(format!("{}: {}", root.display(), error.message)).hint(hint)
        })?;
    if let [first, second] = &found[..] {
        let path = |file: &WorkspaceFile| root.join(&file.name).display().to_string();
        let message = format!("there are two files: {} and {}", path(first), path(second));
        return Err(Fault::usage(message).hint("keep one of them"));
    }
    Ok(found.into_iter().next())
}

/// The configuration of a directory or the nearest above it, within the repository. The user's own file is not a project's.
fn find_config(root: &Path) -> Result<Option<WorkspaceFile>, Fault> {
    let own = environment::config_dir().and_then(|dir| dir.canonicalize().ok());
    for root in within_repository(root)
        .into_iter()
        .filter(|root| own.as_deref() != Some(*root))
    {
        if let Some(file) = read(root, FileKind::Config)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// The directory and those above it, up to the root of the repository; outside of one, the directory alone.
pub(crate) fn within_repository(dir: &Path) -> Vec<&Path> {
    let all: Vec<&Path> = dir.ancestors().collect();
    let depth = all
        .iter()
        .position(|dir| dir.join(".git").exists())
        .unwrap_or(0);
    all[..=depth].to_vec()
}
