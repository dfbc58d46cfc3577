//! The directory and the files in it: made for their owner alone, whatever the umask.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use ostler_core::log::older_raw;

use crate::error::StoreError;

/// The longest session id that becomes a file's name.
const LONGEST_ID: usize = 128;

/// The directory of a store, ready for use.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    dir: PathBuf,
}

impl Place {
    /// Makes the directory, or makes sure that it is ours.
    pub(crate) fn prepare(dir: &Path) -> Result<Self, StoreError> {
        for dir in [dir.to_owned(), dir.join("raw")] {
            make_dir(&dir).map_err(|error| StoreError::place(&dir, &error))?;
            check_owner(&dir)?;
        }
        let place = Self {
            dir: dir.to_owned(),
        };
        // SQLite gives its -wal and -shm the mode of the database.
        let database = place.database();
        private_file(&database).map_err(|error| StoreError::place(&database, &error))?;
        Ok(place)
    }

    /// The directory as it is, which must be ours all the same.
    pub(crate) fn find(dir: &Path) -> Result<Self, StoreError> {
        check_owner(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
        })
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("sessions.db")
    }

    /// Waits until no other process sets up the same store. It is let go when the file is dropped.
    pub(crate) fn lock(&self) -> Result<File, StoreError> {
        let path = self.dir.join("setup.lock");
        let taken = private_file(&path).and_then(|file| match file.lock() {
            // A file system without locks: SQLite has its own, and a race at the very first start is all there is to lose.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            locked => locked.map(|()| file),
        });
        taken.map_err(|error| StoreError::place(&path, &error))
    }

    /// The file of a session's raw output; none when the id cannot be a file's name.
    pub(crate) fn raw(&self, session: &str) -> Option<PathBuf> {
        is_file_name(session).then(|| self.raw_dir().join(format!("{session}.log")))
    }

    /// Every file that a session's raw output may be in.
    pub(crate) fn raw_files(&self, session: &str) -> impl Iterator<Item = PathBuf> {
        self.raw(session)
            .into_iter()
            .flat_map(|path| [older_raw(&path), path])
    }

    pub(crate) fn raw_dir(&self) -> PathBuf {
        self.dir.join("raw")
    }

    /// Makes the file of a session's raw output, so that it is private before anything is in it.
    pub(crate) fn make_raw(&self, session: &str) -> Result<(), StoreError> {
        let path = self
            .raw(session)
            .ok_or_else(|| StoreError::session(session, &"this cannot be a session's id"))?;
        private_file(&path)
            .map(drop)
            .map_err(|error| StoreError::place(&path, &error))
    }
}

/// An id may come from another program: it must not lead out of the directory.
fn is_file_name(session: &str) -> bool {
    let fits = (1..=LONGEST_ID).contains(&session.len()) && !session.starts_with('.');
    fits && session
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(unix)]
fn make_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    if dir.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    // A umask can have taken the owner's own rights away.
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_dir(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// A directory of somebody else, or one that everybody may write to, could be exchanged under our hands.
#[cfg(unix)]
fn check_owner(dir: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::MetadataExt;

    let meta = fs::metadata(dir).map_err(|error| StoreError::place(dir, &error))?;
    let (owner, we) = (meta.uid(), rustix::process::geteuid().as_raw());
    if owner != we {
        return Err(StoreError::place(
            dir,
            &format!("it belongs to another user (uid {owner}, this is uid {we})"),
        ));
    }
    if meta.mode() & 0o002 != 0 {
        return Err(StoreError::place(
            dir,
            &"everybody may write to it (chmod o-w makes it usable)",
        ));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_owner(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Opens a file, made if need be, that only its owner may read and write.
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
            &"a".repeat(LONGEST_ID + 1),
        ] {
            assert!(!is_file_name(bad), "{bad}");
        }
    }
}
