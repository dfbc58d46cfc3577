//! The store's directory and files: accessible to their owner only, whatever the umask.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use ostler_core::log::older_raw;

use crate::error::StoreError;

/// Maximum length of a session id that is used as a file name.
const MAX_ID_LENGTH: usize = 128;

/// The directory of a store.
#[derive(Debug, Clone)]
pub(crate) struct StoreDir {
    dir: PathBuf,
}

impl StoreDir {
    /// Creates the directory, or checks that it belongs to this user.
    pub(crate) fn prepare(dir: &Path) -> Result<Self, StoreError> {
        for dir in [dir.to_owned(), dir.join("raw")] {
            create_dir(&dir).map_err(|error| StoreError::unusable(&dir, &error))?;
            check_owner(&dir)?;
        }
        let store_dir = Self {
            dir: dir.to_owned(),
        };
        // SQLite creates its -wal and -shm files with the mode of the database.
        let database = store_dir.database();
        private_file(&database).map_err(|error| StoreError::unusable(&database, &error))?;
        Ok(store_dir)
    }

    /// Finds an existing directory, which must belong to this user.
    pub(crate) fn find(dir: &Path) -> Result<Self, StoreError> {
        check_owner(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("sessions.db")
    }

    /// Locks the store against setup by other processes, until the file is dropped.
    pub(crate) fn lock(&self) -> Result<File, StoreError> {
        let path = self.dir.join("setup.lock");
        let taken = private_file(&path).and_then(|file| match file.lock() {
            // A file system without locks: only a race at the very first start is possible then.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            locked => locked.map(|()| file),
        });
        taken.map_err(|error| StoreError::unusable(&path, &error))
    }

    /// Returns the file of a session's raw output, or `None` if the id is not a valid file name.
    pub(crate) fn raw(&self, session: &str) -> Option<PathBuf> {
        is_file_name(session).then(|| self.raw_dir().join(format!("{session}.log")))
    }

    /// Returns every file that a session's raw output may be in.
    pub(crate) fn raw_files(&self, session: &str) -> impl Iterator<Item = PathBuf> {
        self.raw(session)
            .into_iter()
            .flat_map(|path| [older_raw(&path), path])
    }

    pub(crate) fn raw_dir(&self) -> PathBuf {
        self.dir.join("raw")
    }

    /// Creates the file of a session's raw output, so that it is private before it has content.
    pub(crate) fn create_raw(&self, session: &str) -> Result<(), StoreError> {
        let path = self
            .raw(session)
            .ok_or_else(|| StoreError::session(session, &"not a valid session id"))?;
        private_file(&path)
            .map(drop)
            .map_err(|error| StoreError::unusable(&path, &error))
    }
}

/// Returns true if an id is safe as a file name. It may come from another program, and must not
/// lead out of the directory.
fn is_file_name(session: &str) -> bool {
    let fits = (1..=MAX_ID_LENGTH).contains(&session.len()) && !session.starts_with('.');
    fits && session
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(unix)]
fn create_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    if dir.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    // The umask may have removed permissions of the owner.
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn create_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Rejects a directory that other users own or may write to, since they could replace it.
#[cfg(unix)]
fn check_owner(dir: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt;

    let meta = fs::metadata(dir).map_err(|error| StoreError::unusable(dir, &error))?;
    let (owner, uid) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != uid {
        return Err(StoreError::unusable(
            dir,
            &format!("it belongs to another user (uid {owner}, this is uid {uid})"),
        ));
    }
    if meta.mode() & 0o002 != 0 {
        return Err(StoreError::unusable(
            dir,
            &"it is writable by all users: run `chmod o-w` on it",
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Opens or creates a file that only its owner may read and write.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o777 != 0o600 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_ids_become_file_names() {
        assert!(is_file_name("0f8fad5b-d9cb-469f-a165-70867728950e") && is_file_name("a_1.b"));
        for bad in [
            "",
            "..",
            ".a",
            "a/b",
            "../a",
            "a b",
            "é",
            "a\0",
            &"a".repeat(MAX_ID_LENGTH + 1),
        ] {
            assert!(!is_file_name(bad), "{bad}");
        }
    }
}
