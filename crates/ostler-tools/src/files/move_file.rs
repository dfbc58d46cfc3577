//! `move_file`: moves or renames a file or directory inside the workspace.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Render;
use super::atomic_write::rename_new;
use super::bare_repository;
use super::given_path::GivenPath;
use super::open::not_a_file;
use super::resolve::{FileKind, LinkMode, ResolvedPath};
use super::root::Root;
use super::rules::{Access, TargetKind};
use super::walk::{Walk, WalkScope};
use super::write_checks::in_git_directory;
use crate::names::quoted;
use crate::repository::directory::is_git_directory;
use crate::{Code, ToolError};

/// Arguments of `move_file`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveFile {
    /// The file or directory, relative to the workspace.
    from: String,
    /// The full new path, relative to the workspace. Missing directories are created.
    to: String,
    /// Whether a file at the new path may be replaced.
    overwrite: Option<bool>,
}

/// Result of `move_file`.
#[derive(Debug, Serialize)]
pub(crate) struct Moved {
    from: String,
    to: String,
    replaced: bool,
}

impl Render for Moved {
    fn text(&self) -> String {
        let replaced = if self.replaced {
            ", replacing the existing file"
        } else {
            ""
        };
        format!(
            "moved {} to {}{replaced}",
            quoted(&self.from),
            quoted(&self.to)
        )
    }
}

/// Moves the entry. A link itself is moved; its target stays.
pub(crate) fn run(root: &Root, args: &MoveFile) -> Result<Moved, ToolError> {
    let from = root.parse_path(&args.from, Access::Write)?;
    let to = root.parse_path(&args.to, Access::Write)?;
    if from.is_root() || to.is_root() {
        return Err(ToolError::bad_arguments(
            "the workspace itself cannot be moved or replaced",
        ));
    }
    to.check_new()?;
    let source = root.resolve(&from, LinkMode::NoFollow)?;
    let kind = source.kind();
    root.rules.check(
        &source.real,
        Access::Write,
        kind.map_or(TargetKind::File, FileKind::target_kind),
    )?;
    root.check_git(&source.real)?;
    let (kind, target_kind) = match kind {
        None => return Err(source.missing()),
        Some(FileKind::Other) => return Err(not_a_file(&source)),
        Some(kind) => (kind, kind.target_kind()),
    };
    let new = root.prospective_entry(&to)?;
    let mut guarded = vec![source.real.clone(), new.clone()];
    if target_kind == TargetKind::Directory {
        guarded.extend(check_tree(root, &from, &new, &source)?);
    } else if kind == FileKind::Link {
        root.check_link(&new)?;
    }
    root.check_approved(&guarded.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let may_replace = args.overwrite == Some(true);
    let (target, created) = root.resolve_or_create(&to, LinkMode::NoFollow, target_kind)?;
    root.check(&target.real, Access::Write, target_kind)?;
    target.check(root, Access::Write)?;
    let replaced = check_target(&target, target_kind, may_replace)?;
    bare_repository::check(&target.dir, &target.name, &target.display)?;
    let renamed = if replaced {
        source.dir.rename(&source.name, &target.dir, &target.name)
    } else {
        rename_new(&source.dir, &source.name, &target.dir, &target.name)
    };
    renamed.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => source.error(
            Code::BadArguments,
            "cannot be moved into itself: give a path outside it",
        ),
        ErrorKind::CrossesDevices => {
            source.error(Code::Io, "and the new path are on different file systems")
        }
        _ => target.io_error(&error),
    })?;
    if let Some(created) = created {
        created.commit();
    }
    let name = |resolved: &ResolvedPath| resolved.real.to_string_lossy().into_owned();
    Ok(Moved {
        from: name(&source),
        to: name(&target),
        replaced,
    })
}

/// Checks that nothing in a directory is denied or read-only, at the old path or the new one: after
/// a move, a rule that names the old path would no longer match. Returns the paths that a person
/// has to approve.
fn check_tree(
    root: &Root,
    from: &GivenPath,
    new: &Path,
    source: &ResolvedPath,
) -> Result<Vec<PathBuf>, ToolError> {
    let directory = root.directory(from)?;
    if directory.real != source.real {
        return Err(source.error(Code::Io, "changed during the check: try again"));
    }
    let cannot_move = |error: ToolError| {
        ToolError::new(
            error.code,
            format!(
                "{} cannot be moved as a whole: {}",
                source.display, error.message
            ),
        )
    };
    let mut guarded: Vec<PathBuf> = Vec::new();
    let mut walk = Walk::new(root, directory, WalkScope::Everything);
    for dir in &mut walk {
        let has_head = dir
            .entries
            .iter()
            .any(|entry| entry.name.eq_ignore_ascii_case("HEAD"));
        if has_head && is_git_directory(&dir.dir, Path::new("")) {
            return Err(cannot_move(in_git_directory(&source.real)));
        }
        for entry in &dir.entries {
            let below = entry.path.strip_prefix(&source.real).unwrap_or(&entry.path);
            let paths = [entry.path.clone(), new.join(below)];
            for path in &paths {
                root.rules
                    .check(path, Access::Write, entry.kind.target_kind())
                    .map_err(cannot_move)?;
                root.check_referenced(path).map_err(cannot_move)?;
            }
            if entry.kind == FileKind::Link {
                root.check_link(&paths[1]).map_err(cannot_move)?;
            }
            let is_known = |path: &PathBuf| guarded.iter().any(|known| path.starts_with(known));
            let more: Vec<PathBuf> = paths
                .into_iter()
                .filter(|path| root.rules.guarded(path).is_some() && !is_known(path))
                .collect();
            guarded.extend(more);
        }
    }
    if walk.is_truncated() || walk.unopened > 0 {
        return Err(source.error(
            Code::DeniedByPolicy,
            "contains more than can be checked against the rules: move parts of it",
        ));
    }
    Ok(guarded)
}

/// Returns whether something is replaced, or an error if it may not be.
fn check_target(
    target: &ResolvedPath,
    target_kind: TargetKind,
    may_replace: bool,
) -> Result<bool, ToolError> {
    match target.kind() {
        None => Ok(false),
        Some(FileKind::Directory) => Err(target.error(
            Code::Exists,
            "is an existing directory: give the full new path, including the name",
        )),
        Some(FileKind::Other) => Err(not_a_file(target)),
        Some(FileKind::File | FileKind::Link) if target_kind == TargetKind::Directory => {
            Err(target.error(Code::Exists, "is a file: a directory cannot take its place"))
        }
        Some(FileKind::File | FileKind::Link) if may_replace => Ok(true),
        Some(FileKind::File | FileKind::Link) => Err(target.error(
            Code::Exists,
            "already exists: set `overwrite` to replace it, or choose another name",
        )),
    }
}
