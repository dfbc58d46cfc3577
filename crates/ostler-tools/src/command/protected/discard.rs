//! Removal of anything a command left at a protected path, whatever it contains: first renamed,
//! then deleted.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Dir;

/// Maximum number of entries deleted; the rest stays, under an unused name.
const MAX_STEPS: usize = 200_000;

/// Mode bits an owner needs to work in a directory.
const OWNER_MODE: u32 = 0o700;

/// Renames `path` within its directory. Only the name and its directory matter for that, never the
/// content.
pub(super) fn move_away(root: &Dir, path: &Path) -> io::Result<Option<PathBuf>> {
    if let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        restore_access(root, parent);
    }
    let meta = match root.symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if super::is_absent(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    if meta.is_dir() {
        restore_access(root, path);
    }
    // Random, so that nothing can be placed at this name beforehand.
    let number = RandomState::new().hash_one(path);
    let away = path.with_file_name(format!("ostler-discarded-{number:016x}"));
    root.rename(path, root, &away)?;
    Ok(Some(away))
}

/// Removes a directory and its content, whatever modes a command gave it. No link is followed.
///
/// # Errors
/// Something could not be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let parent = Dir::open_ambient_dir(parent, cap_std::ambient_authority())?;
    let name = Path::new(name);
    restore_access(&parent, name);
    delete(&parent, name);
    match parent.symlink_metadata(name) {
        Ok(_) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        Err(_) => Ok(()),
    }
}

/// Deletes something that was moved away, as far as possible. No link is followed and nothing
/// recurses: the content of a directory is moved up before the directory is removed, so no depth is
/// too deep.
pub(super) fn delete(root: &Dir, path: &Path) {
    if root.symlink_metadata(path).is_ok_and(|meta| !meta.is_dir()) {
        let _ = root.remove_file(path);
        return;
    }
    if let Ok(dir) = root.open_dir(path) {
        let _ = empty(&dir);
    }
    let _ = root.remove_dir(path);
}

fn empty(dir: &Dir) -> io::Result<()> {
    let mut steps = 0;
    loop {
        let names: Vec<_> = dir
            .entries()?
            .flatten()
            .map(|entry| entry.file_name())
            .take(MAX_STEPS)
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            let name = Path::new(&name);
            if !dir.symlink_metadata(name)?.is_dir() {
                dir.remove_file(name)?;
                continue;
            }
            restore_access(dir, name);
            let below = dir.open_dir(name)?;
            for child in below.entries()?.flatten() {
                steps += 1;
                if steps > MAX_STEPS {
                    return Err(io::ErrorKind::QuotaExceeded.into());
                }
                let child = child.file_name();
                if !below.symlink_metadata(&child)?.is_dir() {
                    below.remove_file(&child)?;
                    continue;
                }
                restore_access(&below, Path::new(&child));
                below.rename(
                    &child,
                    dir,
                    format!("{:016x}-{steps}", RandomState::new().hash_one(steps)),
                )?;
            }
            drop(below);
            dir.remove_dir(name)?;
        }
    }
}

/// Restores the owner's access to the workspace's root. Its path is outside what a command can
/// change.
pub(super) fn restore_access_to_root(at: &Path, root: &Dir) {
    #[cfg(unix)]
    if root
        .dir_metadata()
        .is_ok_and(|meta| super::mode(&meta) & OWNER_MODE != OWNER_MODE)
    {
        use std::os::unix::fs::PermissionsExt;
        if let Ok(meta) = root.dir_metadata() {
            let _ = std::fs::set_permissions(
                at,
                std::fs::Permissions::from_mode(super::mode(&meta) | OWNER_MODE),
            );
        }
    }
    #[cfg(not(unix))]
    let _ = (at, root);
}

/// Restores the owner's access to a directory; does nothing for anything else. A failure shows at
/// the next step.
pub(super) fn restore_access(dir: &Dir, path: &Path) {
    if let Ok(meta) = dir.symlink_metadata(path)
        && meta.is_dir()
        && super::mode(&meta) & OWNER_MODE != OWNER_MODE
    {
        let _ = set_mode(dir, path, super::mode(&meta) | OWNER_MODE);
    }
}

#[cfg(unix)]
pub(super) fn set_mode(dir: &Dir, path: &Path, mode: u32) -> io::Result<()> {
    if super::mode(&dir.symlink_metadata(path)?) == mode {
        return Ok(());
    }
    dir.set_permissions(path, cap_std::fs::PermissionsExt::from_mode(mode))
}

#[cfg(not(unix))]
pub(super) fn set_mode(_dir: &Dir, _path: &Path, _mode: u32) -> io::Result<()> {
    Ok(())
}
