//! `move_file`: another name for a file or directory, inside the workspace.

use std::io::ErrorKind;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Answer;
use super::bare;
use super::given::Given;
use super::open::not_a_file;
use super::place::{Kind, Links, Made, Place};
use super::root::Root;
use super::rules::{Access, Sort};
use super::store::rename_new;
use super::walk::{Walk, Walked};
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
        let replaced = if self.replaced { ", replacing what was there" } else { "" };
        format!("moved {} to {}{replaced}", self.from, self.to)
    }
}

/// Moves. A link is moved itself; what it points to stays.
pub(crate) fn run(root: &Root, args: &MoveFile) -> Result<Moved, ToolError> {
    let from = root.given(&args.from, Access::Write)?;
    let to = root.given(&args.to, Access::Write)?;
    if from.is_root() || to.is_root() {
        return Err(ToolError::new(Code::BadArguments, "the workspace itself is neither moved nor replaced"));
    }
    to.check_new()?;
    let source = root.place(&from, Links::Keep)?;
    source.check(root, Access::Write)?;
    let sort = match source.kind() {
        None => return Err(source.missing()),
        Some(Kind::Other) => return Err(not_a_file(&source)),
        Some(kind) => kind.sort(),
    };
    if sort == Sort::Directory {
        check_tree(root, (&from, &to), &source)?;
    }
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
        ErrorKind::InvalidInput => {
            source.error(Code::BadArguments, "cannot be moved into itself: give a path outside of it")
        }
        ErrorKind::CrossesDevices => source.error(Code::Io, "and the new path are on different file systems"),
        _ => target.told(&error),
    })?;
    if let Some(made) = made {
        made.keep();
    }
    let name = |place: &Place| place.real.to_string_lossy().into_owned();
    Ok(Moved { from: name(&source), to: name(&target), replaced })
}

/// A directory is only moved if nothing in it is kept from a model or from being changed: under a new name, a rule that
/// names its path would no longer find it. Nor may anything in it be that at the new path.
fn check_tree(root: &Root, (from, to): (&Given, &Given), source: &Place) -> Result<(), ToolError> {
    let new = root.would_be(to)?;
    let directory = root.directory(from)?;
    if directory.real != source.real {
        return Err(source.error(Code::Io, "changed while it was looked at: try again"));
    }
    let mut walk = Walk::new(root, directory, Walked::Everything);
    for met in &mut walk {
        for entry in &met.entries {
            let check = |path: &Path| root.rules.check(path, Access::Write, entry.kind.sort());
            let below = entry.path.strip_prefix(&source.real).unwrap_or(&entry.path);
            check(&entry.path).and_then(|()| check(&new.join(below))).map_err(|error| {
                ToolError::new(error.code, format!("{} cannot be moved as a whole: {}", source.shown, error.message))
            })?;
        }
    }
    if walk.is_cut_short() || walk.unopened > 0 {
        return Err(source.error(Code::DeniedByPolicy, "holds more than can be checked against the rules: move parts"));
    }
    Ok(())
}

/// Where it goes, once the directories are made. The rules are asked before anything is made.
fn target(root: &Root, to: &Given, sort: Sort) -> Result<(Place, Option<Made>), ToolError> {
    let (place, made) = match root.place(to, Links::Keep) {
        Err(error) if error.code == Code::FileNotFound => {
            root.rules.check(&root.would_be(to)?, Access::Write, sort)?;
            let Some(parent) = to.path.parent() else { return Err(error) };
            let made = root.make_directories(parent, &to.shown)?;
            (root.place(to, Links::Keep)?, Some(made))
        }
        place => (place?, None),
    };
    root.rules.check(&place.real, Access::Write, sort)?;
    place.check(root, Access::Write)?;
    Ok((place, made))
}

/// Whether something is replaced, if it may be.
fn check_target(target: &Place, sort: Sort, may_replace: bool) -> Result<bool, ToolError> {
    match target.kind() {
        None => Ok(false),
        Some(Kind::Directory) => {
            Err(target.error(Code::Exists, "is a directory that exists: give the whole new path, with the name"))
        }
        Some(Kind::Other) => Err(not_a_file(target)),
        Some(Kind::File | Kind::Link) if sort == Sort::Directory => {
            Err(target.error(Code::Exists, "is a file: a directory cannot take its place"))
        }
        Some(Kind::File | Kind::Link) if may_replace => Ok(true),
        Some(Kind::File | Kind::Link) => {
            Err(target.error(Code::Exists, "exists already: set `overwrite` to replace it, or take another name"))
        }
    }
}
