//! Settings files of a project, each read once, with the user's trust decision.

mod memory;

use std::path::{Path, PathBuf};

use ostler::trust::{FileKind, Standing, WorkspaceFile, WorkspaceTrust, within_repository};

pub(crate) use self::memory::{Memory, Remembered};
use crate::args::{ConfigArgs, PolicyArgs};
use crate::fault::Result;
use crate::{environment, user};

/// A project and its settings files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Project {
    /// Real path of the working directory: a symbolic link does not make a directory trusted.
    pub(crate) root: PathBuf,
    /// The settings files that exist.
    pub(crate) files: Vec<WorkspaceFile>,
    /// Whether the whole directory is trusted, by `--trust-project` or `trusted_projects`.
    pub(crate) is_trusted: bool,
    /// The user's sandbox policy.
    pub(crate) sandbox: ostler::sandbox::SandboxPolicy,
}

impl Project {
    /// Reads the project in a directory. If the directory does not exist, the run reports it later.
    pub(crate) fn read(config: ConfigArgs, args: &PolicyArgs, dir: &Path) -> Result<Self> {
        let root = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let own = user::permissions(args)?;
        let trusts = |root: &Path| {
            let root = root.to_string_lossy();
            args.trust_project || own.iter().any(|layer| layer.trusts(&root))
        };
        let mut project = Self {
            is_trusted: trusts(&root),
            root,
            files: Vec::new(),
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

    /// Returns the project's file of this kind.
    pub(crate) fn file(&self, kind: FileKind) -> Option<&WorkspaceFile> {
        self.files.iter().find(|file| file.kind == kind)
    }

    /// Returns the trust decision for the library.
    pub(crate) fn trust(&self) -> WorkspaceTrust {
        let private = [environment::config_dir(), environment::state_dir()];
        let private = private.into_iter().flatten();
        let private = private.filter_map(|dir| std::path::absolute(dir).ok());
        WorkspaceTrust {
            base: self.sandbox.clone(),
            root: Some(self.root.clone()),
            files: self.files.clone(),
            private: private.collect(),
        }
    }
}

/// Explains why requests of a file are ignored.
pub(crate) fn why_ignored(file: &WorkspaceFile) -> &'static str {
    match file.standing {
        Standing::Changed => "has changed since you trusted it",
        _ => "is not trusted",
    }
}

/// Reads the file of this kind; two of them are an error.
fn read(root: &Path, kind: FileKind) -> Result<Option<WorkspaceFile>> {
    let names = kind.names().iter();
    let found: Vec<WorkspaceFile> = names
        .filter_map(|name| WorkspaceFile::read(root, kind, name).transpose())
        .collect::<Result<_, _>>()
        .map_err(|error| {
            let hint = match kind {
                FileKind::Config => "`--no-config` ignores it",
                _ => "remove it, or replace it with a regular file",
            };
            usage!("{}: {}", root.display(), error.message).hint(hint)
        })?;
    if let [first, second] = &found[..] {
        let (first, second) = (first.path(), second.path());
        let (first, second) = (first.display(), second.display());
        let fault = usage!("found two files of the same kind: {first} and {second}");
        return Err(fault.hint("remove one of them"));
    }
    Ok(found.into_iter().next())
}

/// Finds the configuration in a directory or the nearest one above it in the repository. The user's
/// own file is skipped.
fn find_config(root: &Path) -> Result<Option<WorkspaceFile>> {
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
