//! Refusal of writes that would decide what git or another program of the user runs, and the
//! approval of those a person may allow.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ostler_core::matching::PathNames;

use super::io_errors::display_path;
use super::limits::WALK_ENTRIES;
use super::root::Root;
use super::rules::{Access, TargetKind, names};
use crate::ToolError;
use crate::repository::directory::{exists, is_git_directory};
use crate::repository::references::{ReferenceReason, ReferenceScan, References};
use crate::tree::or_dot;

/// Maximum number of files named in one approval; a call that changes more is refused.
const MAX_NAMED: usize = 20;

/// Paths in the workspace that git's settings point to, folded.
#[derive(Debug)]
pub(super) struct FoldedReferences(BTreeMap<String, ReferenceReason>);

impl FoldedReferences {
    fn new(references: &References) -> Self {
        let folded = |path: &Path| {
            let names = names(path);
            (!names.is_empty()).then(|| names.whole().folded.to_owned())
        };
        Self(
            references
                .iter()
                .filter_map(|(path, reason)| Some((folded(path)?, *reason)))
                .collect(),
        )
    }

    /// Returns the reason why git follows a path, or a directory above it.
    fn reason(&self, names: &PathNames) -> Option<ReferenceReason> {
        let known = |path: &str| self.0.get(path).copied();
        names
            .prefixes()
            .find_map(|path| known(path.folded).or_else(|| known(path.lenient)))
    }

    /// Returns true if a path that git follows is, or would be, below this one.
    fn is_below(&self, names: &PathNames) -> bool {
        if names.is_empty() {
            return false;
        }
        let own = names.whole();
        let is_in = |path: &String, above: &str| {
            path.strip_prefix(above)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.0
            .keys()
            .any(|path| is_in(path, own.folded) || is_in(path, own.lenient))
    }
}

impl Root {
    /// Refuses accesses that the rules forbid, and writes that would decide what another program
    /// runs.
    pub(super) fn check(
        &self,
        path: &Path,
        access: Access,
        target_kind: TargetKind,
    ) -> Result<(), ToolError> {
        self.rules.check(path, access, target_kind)?;
        if access == Access::Write {
            self.check_git(path)?;
            self.check_approved(&[path])?;
        }
        Ok(())
    }

    /// Refuses a write to a path that git follows: anything in a git directory, included settings,
    /// hooks.
    pub(super) fn check_git(&self, path: &Path) -> Result<(), ToolError> {
        self.check_referenced(path)?;
        let mut inner = Vec::new();
        // The path itself is not a directory yet, or is checked by the caller that moves it.
        for above in path.ancestors().skip(1) {
            if is_git_directory(&self.dir, above) {
                return Err(in_git_directory(path));
            }
            if !above.as_os_str().is_empty() && exists(&self.dir, &above.join(".git")) {
                inner.push(above);
            }
        }
        if inner.is_empty() {
            return Ok(());
        }
        let mut scan = ReferenceScan::new(self.path(), self.user_git());
        inner
            .iter()
            .for_each(|top| scan.working_tree(&self.path().join(top)));
        refuse(
            path,
            FoldedReferences::new(&scan.found()).reason(&names(path)),
        )
    }

    /// Refuses a write by the path alone, for what the workspace's repository and those around it
    /// point to.
    pub(super) fn check_referenced(&self, path: &Path) -> Result<(), ToolError> {
        refuse(path, self.references().reason(&names(path)))
    }

    /// Refuses to place a link where git would follow it to another file.
    pub(super) fn check_link(&self, path: &Path) -> Result<(), ToolError> {
        if self.references().is_below(&names(path)) {
            let message = format!(
                "{} would point git at other files: choose another name",
                display_path(&path.to_string_lossy())
            );
            return Err(ToolError::denied(message));
        }
        Ok(())
    }

    /// Returns the paths that git's settings point to, as of the first write of a call.
    fn references(&self) -> &FoldedReferences {
        self.references_cell().get_or_init(|| {
            let mut scan = ReferenceScan::new(self.path(), self.user_git());
            self.path()
                .ancestors()
                .for_each(|top| scan.working_tree(top));
            FoldedReferences::new(&scan.found())
        })
    }

    /// Refuses writes to guarded files, unless a person has approved them. Names all of them at
    /// once.
    pub(super) fn check_approved(&self, paths: &[&Path]) -> Result<(), ToolError> {
        let links = OnceCell::new();
        let by_link = |path: &Path| {
            let links = links.get_or_init(|| self.guarded_links(paths));
            let link = links
                .iter()
                .find(|(_, target)| path.starts_with(target))
                .map(|(link, _)| link);
            link.and_then(|link| self.rules.guarded(link))
        };
        let reason = |path: &Path| {
            self.rules
                .guarded(path)
                .or_else(|| by_link(path))
                .filter(|_| !self.is_approved(path))
        };
        let guarded: Vec<(&Path, &str)> = paths
            .iter()
            .filter_map(|path| Some((*path, reason(path)?)))
            .collect();
        let Some((first, reason)) = guarded.first() else {
            return Ok(());
        };
        let more = if guarded.len() > 1 {
            format!(" (and {} more)", guarded.len() - 1)
        } else {
            String::new()
        };
        let text = first.to_string_lossy();
        let message = format!(
            "{}{more} contains {reason}: a person has to approve the change. The user can allow it \
             beforehand, in a trusted .ostler/sandbox.toml: `[files] allow = [{:?}]`",
            display_path(&text),
            text
        );
        let mut error = ToolError::denied(message);
        // Names that are not UTF-8 cannot be approved by their text.
        let names: Option<Vec<String>> = guarded
            .iter()
            .map(|(path, _)| path.to_str().map(str::to_owned))
            .collect();
        error.needs_approval = names
            .filter(|names| names.len() <= MAX_NAMED)
            .unwrap_or_default();
        Err(error)
    }
}

impl Root {
    /// Returns links with a guarded name and their targets in the workspace: a write to the target
    /// writes the guarded file. Searches beside the paths, in the directories above them, and one
    /// level below hidden directories of the root.
    fn guarded_links(&self, paths: &[&Path]) -> Vec<(PathBuf, PathBuf)> {
        let mut directories: BTreeSet<PathBuf> = paths
            .iter()
            .flat_map(|path| path.ancestors().skip(1))
            .map(Path::to_owned)
            .collect();
        directories.insert(PathBuf::new());
        let mut found = Vec::new();
        for hidden in self
            .names_in(Path::new(""))
            .filter(|name| name.as_encoded_bytes().starts_with(b"."))
        {
            directories.insert(PathBuf::from(hidden));
        }
        for directory in &directories {
            for name in self.names_in(directory) {
                let link = directory.join(name);
                let is_link = || {
                    self.dir
                        .symlink_metadata(&link)
                        .is_ok_and(|metadata| metadata.is_symlink())
                };
                if self.rules.guarded(&link).is_none() || !is_link() {
                    continue;
                }
                found.extend(self.target(&link).map(|target| (link, target)));
            }
        }
        found
    }

    /// Returns the target of a link in the workspace, even if it does not exist yet.
    fn target(&self, link: &Path) -> Option<PathBuf> {
        let real = self.path().join(link).canonicalize().or_else(|error| {
            let named = self.dir.read_link_contents(link)?;
            let named = self
                .path()
                .join(link.parent().unwrap_or(Path::new("")))
                .join(named);
            let (Some(parent), Some(name)) = (named.parent(), named.file_name()) else {
                return Err(error);
            };
            Ok(parent.canonicalize()?.join(name))
        });
        real.ok()?
            .strip_prefix(self.path())
            .ok()
            .map(Path::to_owned)
    }

    fn names_in(&self, directory: &Path) -> impl Iterator<Item = OsString> {
        let entries = self
            .dir
            .read_dir(or_dot(directory))
            .into_iter()
            .flatten()
            .flatten();
        entries.map(|entry| entry.file_name()).take(WALK_ENTRIES)
    }
}

fn refuse(path: &Path, reason: Option<ReferenceReason>) -> Result<(), ToolError> {
    let Some(reason) = reason else { return Ok(()) };
    let path = display_path(&path.to_string_lossy());
    let message = format!(
        "{path} is read-only, because {}: leave it unchanged",
        reason.clause()
    );
    Err(ToolError::denied(message))
}

/// Returns the error for a path in a git directory.
pub(super) fn in_git_directory(path: &Path) -> ToolError {
    let path = display_path(&path.to_string_lossy());
    ToolError::denied(format!(
        "{path} is in a git directory, which only git changes: leave it unchanged"
    ))
}
