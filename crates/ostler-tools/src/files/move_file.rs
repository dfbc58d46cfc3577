//! `move_file`: another name for a file or directory, inside the workspace.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::bare;
use super::given::Given;
use super::open::not_a_file;
use super::resolve::{Kind, Links, Made, Place};
use super::root::Root;
use super::rules::{Access, Sort};
use super::steered::in_git_directory;
use super::store::rename_new;
use super::walk::{Walk, Walked};
use crate::names::quoted;
use crate::repository::directory::is_git_directory;
use crate::{Code, ToolError};

/// What to move.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveFile {
    /// The file or directory, relative to the workspace.
    from: String,
    /// Its new path, with the name, relative to the workspace. Directories that are missing are made.
    to: String,
    /// Whether a file at the new path may be replaced.
    overwrite: Option<bool>,
}

/// What was moved.
#[derive(Debug, Serialize)]
pub(crate) struct Moved {
    from: String,
    to: String,
    replaced: bool,
}

impl Answer for Moved {
    fn text(&self) -> String {
        let replaced = if self.replaced {
            ", replacing what was there"
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

/// Moves. A link is moved itself; what it points to stays.
pub(crate) fn run(root: &Root, args: &MoveFile) -> Result<Moved, ToolError> {
    let from = root.given(&args.from, Access::Write)?;
    let to = root.given(&args.to, Access::Write)?;
    if from.is_root() || to.is_root() {
        return Err(ToolError::new(
            Code::BadArguments,
            "the workspace itself is neither moved nor replaced",
        ));
    }
    to.check_new()?;
    let source = root.place(&from, Links::Keep)?;
    let kind = source.kind();
    root.rules.check(
        &source.real,
        Access::Write,
        kind.map_or(Sort::File, Kind::sort),
    )?;
    root.check_git(&source.real)?;
    let (kind, sort) = match kind {
        None => return Err(source.missing()),
        Some(Kind::Other) => return Err(not_a_file(&source)),
        Some(kind) => (kind, kind.sort()),
    };
    let new = root.would_be_named(&to)?;
    let mut guarded = vec![source.real.clone(), new.clone()];
    if sort == Sort::Directory {
        guarded.extend(check_tree(root, (&from, &new), &source)?);
    } else if kind == Kind::Link {
        root.check_link(&new)?;
    }
    root.check_approved(&guarded.iter().map(PathBuf::as_path).collect::<Vec<_>>())?;
    let may_replace = args.overwrite == Some(true);
    let (target, made) = target(root, &to, sort)?;
    let replaced = check_target(&target, sort, may_replace)?;
    bare::check(&target.dir, &target.name, &target.shown)?;
    let renamed = if replaced {
        source.dir.rename(&source.name, &target.dir, &target.name)
    } else {
        rename_new(&source.dir, &source.name, &target.dir, &target.name)
    };
    renamed.map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => source.error(
            Code::BadArguments,
            "cannot be moved into itself: give a path outside of it",
        ),
        ErrorKind::CrossesDevices => {
            source.error(Code::Io, "and the new path are on different file systems")
        }
        _ => target.told(&error),
    })?;
    if let Some(made) = made {
        made.keep();
    }
    let name = |place: &Place| place.real.to_string_lossy().into_owned();
    Ok(Moved {
        from: name(&source),
        to: name(&target),
        replaced,
    })
}

/// A directory is only moved if nothing in it is kept from a model or from being changed: under a new name, a rule that
/// names its path would no longer find it. Nor may anything in it be that at the new path. Returns what a person has to approve.
fn check_tree(
    root: &Root,
    (from, new): (&Given, &Path),
    source: &Place,
) -> Result<Vec<PathBuf>, ToolError> {
    let directory = root.directory(from)?;
    if directory.real != source.real {
        return Err(source.error(Code::Io, "changed while it was looked at: try again"));
    }
    let as_a_whole = |error: ToolError| {
        ToolError::new(
            error.code,
            format!(
                "{} cannot be moved as a whole: {}",
                source.shown, error.message
            ),
        )
    };
    let mut guarded: Vec<PathBuf> = Vec::new();
    let mut walk = Walk::new(root, directory, Walked::Everything);
    for met in &mut walk {
        let has_head = met
            .entries
            .iter()
            .any(|entry| entry.name.eq_ignore_ascii_case("HEAD"));
        if has_head && is_git_directory(&met.dir, Path::new("")) {
            return Err(as_a_whole(in_git_directory(&source.real)));
        }
        for entry in &met.entries {
            let below = entry.path.strip_prefix(&source.real).unwrap_or(&entry.path);
            let paths = [entry.path.clone(), new.join(below)];
            for path in &paths {
                root.rules
                    .check(path, Access::Write, entry.kind.sort())
                    .map_err(as_a_whole)?;
                root.check_steered(path).map_err(as_a_whole)?;
            }
            if entry.kind == Kind::Link {
                root.check_link(&paths[1]).map_err(as_a_whole)?;
            }
            let is_known = |path: &PathBuf| guarded.iter().any(|known| path.starts_with(known));
            let more: Vec<PathBuf> = paths
                .into_iter()
                .filter(|path| root.rules.guarded(path).is_some() && !is_known(path))
                .collect();
            guarded.extend(more);
        }
    }
    if walk.is_cut_short() || walk.unopened > 0 {
        return Err(source.error(
            Code::DeniedByPolicy,
            "holds more than can be checked against the rules: move parts",
        ));
    }
    Ok(guarded)
}

/// Where it goes, once the directories are made. The rules are asked before anything is made.
fn target(root: &Root, to: &Given, sort: Sort) -> Result<(Place, Option<Made>), ToolError> {
    let (place, made) = match root.place(to, Links::Keep) {
        Err(error) if error.code == Code::FileNotFound => {
            root.check(&root.would_be_named(to)?, Access::Write, sort)?;
            let Some(parent) = to.path.parent() else {
                return Err(error);
            };
            let made = root.make_directories(parent, &to.shown)?;
            (root.place(to, Links::Keep)?, Some(made))
        }
        place => (place?, None),
    };
    root.check(&place.real, Access::Write, sort)?;
    place.check(root, Access::Write)?;
    Ok((place, made))
}

/// Whether something is replaced, if it may be.
fn check_target(target: &Place, sort: Sort, may_replace: bool) -> Result<bool, ToolError> {
    match target.kind() {
        None => Ok(false),
        Some(Kind::Directory) => Err(target.error(
            Code::Exists,
            "is a directory that exists: give the whole new path, with the name",
        )),
        Some(Kind::Other) => Err(not_a_file(target)),
        Some(Kind::File | Kind::Link) if sort == Sort::Directory => {
            Err(target.error(Code::Exists, "is a file: a directory cannot take its place"))
        }
        Some(Kind::File | Kind::Link) if may_replace => Ok(true),
        Some(Kind::File | Kind::Link) => Err(target.error(
            Code::Exists,
            "exists already: set `overwrite` to replace it, or take another name",
        )),
    }
}
