//! Directory trees: walking, copying and removing them without following a link.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Name of Git's directory.
const GIT: &[u8] = b".git";

/// Returns true if a name is that of Git's directory, in any spelling.
fn is_git(name: &std::ffi::OsStr) -> bool {
    name.as_bytes().eq_ignore_ascii_case(GIT)
}

/// Returns the regular files and links below `root`, relative to it, without anything in a
/// directory `.git` at any depth.
pub(crate) fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            if is_git(&entry.file_name()) {
                continue;
            }
            let path = dir.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                make_searchable(&root.join(&path));
                open.push(path);
            } else if kind.is_file() || kind.is_symlink() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the SHA-256 of a file, or of a tree: names, kinds, executable bits and contents, without
/// any directory `.git`. A path that cannot be read has the hash of that fact.
pub(crate) fn hash(path: &Path) -> String {
    let mut hash = Sha256::new();
    if path.is_dir() {
        for name in files(path).unwrap_or_default() {
            hash.update(name.as_os_str().as_bytes());
            hash.update(b"\0");
            hash_file(&mut hash, &path.join(&name));
        }
    } else {
        hash_file(&mut hash, path);
    }
    let digest = hash.finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash_file(hash: &mut Sha256, path: &Path) {
    let target = fs::read_link(path).ok();
    let content = match &target {
        Some(target) => Ok(target.as_os_str().as_bytes().to_vec()),
        None => fs::read(path),
    };
    let is_executable = fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o100 != 0);
    let kind: &[u8] = match (&content, &target) {
        (Err(_), _) => b"unreadable",
        (Ok(_), Some(_)) => b"link",
        (Ok(_), None) if is_executable => b"program",
        (Ok(_), None) => b"file",
    };
    let content = content.unwrap_or_default();
    hash.update(kind);
    hash.update(content.len().to_le_bytes());
    hash.update(&content);
}

/// What is left out of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Omit {
    /// Nothing.
    Nothing,
    /// The directory `.git` at the top.
    Git,
}

/// Copies a tree to a new directory: files with mode and time, and links as they are. Sockets,
/// devices and pipes are left out.
pub(crate) fn copy(from: &Path, to: &Path, omit: Omit) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut open = vec![PathBuf::new()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(from.join(&dir))? {
            let entry = entry?;
            if omit == Omit::Git && dir.as_os_str().is_empty() && is_git(&entry.file_name()) {
                continue;
            }
            let path = dir.join(entry.file_name());
            let (source, target) = (from.join(&path), to.join(&path));
            let meta = fs::symlink_metadata(&source)?;
            if meta.is_dir() {
                make_searchable(&source);
                fs::create_dir_all(&target)?;
                open.push(path);
            } else if meta.is_symlink() {
                symlink(fs::read_link(&source)?, &target)?;
            } else if meta.is_file() {
                copy_file(&source, &target, &meta)?;
            }
        }
    }
    Ok(())
}

fn copy_file(source: &Path, target: &Path, meta: &fs::Metadata) -> io::Result<()> {
    if meta.mode() & 0o400 == 0 {
        fs::set_permissions(source, PermissionsExt::from_mode(meta.mode() | 0o400))?;
    }
    fs::copy(source, target)?;
    // Build tools compare times. Without write permission they cannot be set, which is harmless.
    if let (Ok(file), Ok(time)) = (File::options().append(true).open(target), meta.modified()) {
        let _ = file.set_modified(time);
    }
    Ok(())
}

/// Removes a tree, whatever the permissions in it are.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !meta.is_dir() {
        return fs::remove_file(path);
    }
    let mut open = vec![path.to_owned()];
    while let Some(dir) = open.pop() {
        make_searchable(&dir);
        for entry in fs::read_dir(&dir)?.flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(path)
}

/// Gives the owner access to a directory that an agent made inaccessible.
fn make_searchable(dir: &Path) {
    if let Ok(meta) = fs::symlink_metadata(dir)
        && meta.mode() & 0o700 != 0o700
    {
        let mode = PermissionsExt::from_mode(meta.mode() & 0o7777 | 0o700);
        let _ = fs::set_permissions(dir, mode); // reading it reports a failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_copied_and_removed_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        for name in ["a/.git", "b", ".git/hooks"] {
            fs::create_dir_all(from.join(name)).unwrap();
        }
        let outside = dir.path().join("outside");
        fs::write(&outside, "mine").unwrap();
        for (name, text) in [
            ("a/.git/x", "1"),
            ("a/y", "2"),
            ("b/z", "3"),
            (".git/h", "4"),
        ] {
            fs::write(from.join(name), text).unwrap();
        }
        symlink(&outside, from.join("link")).unwrap();
        fs::set_permissions(from.join("b"), PermissionsExt::from_mode(0o000)).unwrap();
        copy(&from, &to, Omit::Git).unwrap();
        let all = files(&to).unwrap();
        let names: Vec<_> = all.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(names, ["a/y", "b/z", "link"]);
        assert!(to.join("a/.git/x").exists() && !to.join(".git").exists());
        assert!(to.join("link").is_symlink());
        remove(&from).unwrap();
        remove(&from).unwrap();
        assert!(!from.exists() && outside.exists());
    }
}
