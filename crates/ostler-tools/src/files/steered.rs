//! Writes that would decide what git or another program of the user runs: refused, or left to a person to approve.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::limits::WALK_ENTRIES;
use super::root::Root;
use super::rules::{Access, Names, Sort};
use super::system::shown;
use crate::repository::directory::{exists, is_git_directory};
use crate::repository::steering::{Look, Reason, Steering};
use crate::{Code, ToolError};

/// How many files one question names; a call that changes more is refused.
const MOST_NAMED: usize = 20;

/// What git's settings lead to in the workspace, by folded paths.
#[derive(Debug, Default)]
pub(super) struct Steered(BTreeMap<String, Reason>);

impl Steered {
    fn new(steering: &Steering) -> Self {
        let folded = |path: &Path| {
            Names::new(path)
                .pairs()
                .last()
                .map(|(plain, _)| plain.to_owned())
        };
        Self(
            steering
                .iter()
                .filter_map(|(path, reason)| Some((folded(path)?, *reason)))
                .collect(),
        )
    }

    /// Why a path is followed by git: itself, or because of a directory that it is in.
    fn reason(&self, names: &Names) -> Option<Reason> {
        let known = |path: &str| self.0.get(path).copied();
        names
            .pairs()
            .find_map(|(plain, bare)| known(plain).or_else(|| known(bare)))
    }

    /// Whether something that git follows is, or would be, below a path.
    fn is_below(&self, names: &Names) -> bool {
        let Some((plain, bare)) = names.pairs().last() else {
            return false;
        };
        let is_in = |path: &String, above: &str| {
            path.strip_prefix(above)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        self.0
            .keys()
            .any(|path| is_in(path, plain) || is_in(path, bare))
    }
}

impl Root {
    /// Refuses what the rules forbid, and a write that would decide what another program runs.
    pub(super) fn check(&self, path: &Path, access: Access, sort: Sort) -> Result<(), ToolError> {
        self.rules.check(path, access, sort)?;
        if access == Access::Write {
            self.check_git(path)?;
            self.check_approved(&[path])?;
        }
        Ok(())
    }

    /// Refuses a write to what git follows: anything in a git directory, what settings include, hooks.
    pub(super) fn check_git(&self, path: &Path) -> Result<(), ToolError> {
        self.check_steered(path)?;
        let mut inner = Vec::new();
        // The path itself is no directory yet, or is looked into by whoever moves it.
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
        let mut look = Look::new(self.path(), self.user_git());
        inner
            .iter()
            .for_each(|top| look.working_tree(&self.path().join(top)));
        refuse(path, Steered::new(&look.found()).reason(&Names::new(path)))
    }

    /// The same by the path alone, for what the repository of the workspace and those around it lead to.
    pub(super) fn check_steered(&self, path: &Path) -> Result<(), ToolError> {
        refuse(path, self.steered().reason(&Names::new(path)))
    }

    /// Refuses to put a link where git would follow it to something else.
    pub(super) fn check_link(&self, path: &Path) -> Result<(), ToolError> {
        if self.steered().is_below(&Names::new(path)) {
            let message = format!(
                "{} would lead git to other files: take another name",
                shown(&path.to_string_lossy())
            );
            return Err(ToolError::new(Code::DeniedByPolicy, message));
        }
        Ok(())
    }

    /// What git's settings lead to, as they are at the first write of a call.
    fn steered(&self) -> &Steered {
        self.steered_cell().get_or_init(|| {
            let mut look = Look::new(self.path(), self.user_git());
            self.path()
                .ancestors()
                .for_each(|top| look.working_tree(top));
            Steered::new(&look.found())
        })
    }

    /// Refuses writes to files that other programs act on, unless a person has approved them; names all of them at once.
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
            "{}{more} holds {reason}: a person has to approve the change. The user can allow it beforehand, in a trusted \
             .ostler/sandbox.toml: `[files] allow = [{:?}]`",
            shown(&text),
            text
        );
        let mut error = ToolError::new(Code::DeniedByPolicy, message);
        // Names that are no text cannot be approved by their text.
        let names: Option<Vec<String>> = guarded
            .iter()
            .map(|(path, _)| path.to_str().map(str::to_owned))
            .collect();
        error.needs_approval = names
            .filter(|names| names.len() <= MOST_NAMED)
            .unwrap_or_default();
        Err(error)
    }
}

impl Root {
    /// Links with a guarded name, and where in the workspace they lead: whoever writes there writes the guarded file. Looked for
    /// beside the paths, in the directories above them, and one level below hidden directories of the root.
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
                        .is_ok_and(|about| about.is_symlink())
                };
                if self.rules.guarded(&link).is_none() || !is_link() {
                    continue;
                }
                found.extend(self.target(&link).map(|target| (link, target)));
            }
        }
        found
    }

    /// Where a link leads in the workspace, also if nothing is there yet.
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
        let directory = if directory.as_os_str().is_empty() {
            Path::new(".")
        } else {
            directory
        };
        let entries = self.dir.read_dir(directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name()).take(WALK_ENTRIES)
    }
}

fn refuse(path: &Path, reason: Option<Reason>) -> Result<(), ToolError> {
    let Some(reason) = reason else { return Ok(()) };
    let path = shown(&path.to_string_lossy());
    let message = format!(
        "{path} can be read but not changed, since {}: leave it as it is",
        reason.sentence()
    );
    Err(ToolError::new(Code::DeniedByPolicy, message))
}

/// The refusal of a path in a git directory.
pub(super) fn in_git_directory(path: &Path) -> ToolError {
    let path = shown(&path.to_string_lossy());
    ToolError::new(
        Code::DeniedByPolicy,
        format!("{path} is in a git directory, which only git changes: leave it as it is"),
    )
}
