//! Stored trust decisions: file contents that the user trusts, by directory. The file is private
//! and in the state directory.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use ostler::trust::{Standing, WorkspaceFile};
use serde::{Deserialize, Serialize};

use crate::fault::{Fault, Result};
use crate::{environment, files};

/// The name of the file.
const FILE: &str = "trusted.json";

/// Version of the file format.
const VERSION: u32 = 1;

/// Maximum file size.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Stored trust decisions.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Real path of the directory that contains the file.
    dir: Option<PathBuf>,
    /// The trusted directories.
    pub(crate) projects: BTreeMap<String, Remembered>,
    /// Why the file is not used, if it is invalid.
    pub(crate) fault: Option<String>,
}

/// Trusted files of one directory: the SHA-256 of each file, by relative path.
pub(crate) type Remembered = BTreeMap<String, String>;

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// Trusted files, by real path of the directory.
    projects: BTreeMap<String, Remembered>,
}

impl Memory {
    /// Loads the stored decisions. An invalid file counts as empty.
    pub(crate) fn load() -> Self {
        let Some(dir) = environment::state_dir() else {
            return Self::default();
        };
        let dir = dir.canonicalize().unwrap_or(dir);
        let (projects, fault) = match read(&dir) {
            Ok(stored) => (stored.map(|stored| stored.projects), None),
            Err(why) => (None, Some(why.to_string())),
        };
        Self {
            dir: Some(dir),
            projects: projects.unwrap_or_default(),
            fault,
        }
    }

    /// Returns the decision about a file.
    pub(crate) fn standing(&self, file: &WorkspaceFile) -> Standing {
        // An agent that works in a directory could change decisions stored inside it.
        let dir = self.dir.as_ref();
        if dir.is_none_or(|dir| dir.starts_with(&file.root)) {
            return Standing::Untrusted;
        }
        let root = file.root.to_str();
        match root.and_then(|root| self.projects.get(root)?.get(&file.name)) {
            Some(known) if *known == file.sha256 => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Untrusted,
        }
    }

    /// Stores that these contents are trusted.
    pub(crate) fn remember(files: &[&WorkspaceFile]) -> Result<()> {
        for file in files {
            let inside = environment::state_dir()
                .is_some_and(|dir| dir.canonicalize().unwrap_or(dir).starts_with(&file.root));
            if inside {
                let root = file.root.display();
                return Err(usage!(
                    "the state directory is inside {root}, where an agent could change it"
                )
                .hint("set OSTLER_STATE_DIR to another directory"));
            }
        }
        change(|projects| {
            for file in files {
                let Some(root) = file.root.to_str() else {
                    return Err(usage!(
                        "cannot trust {}: the path is not UTF-8",
                        file.root.display()
                    ));
                };
                let known = projects.entry(root.to_owned()).or_default();
                known.insert(file.name.clone(), file.sha256.clone());
            }
            Ok(())
        })
    }

    /// Removes a directory. Returns false if it was not trusted.
    pub(crate) fn forget(dir: &Path) -> Result<bool> {
        let mut found = false;
        change(|projects| {
            found = dir.to_str().and_then(|dir| projects.remove(dir)).is_some();
            Ok(())
        })?;
        Ok(found)
    }
}

/// Updates the stored decisions atomically, one process at a time.
fn change(work: impl FnOnce(&mut BTreeMap<String, Remembered>) -> Result<()>) -> Result<()> {
    let dir = environment::state_dir().ok_or_else(|| {
        Fault::usage("no directory to store trust decisions in: HOME is not set")
            .hint("set OSTLER_STATE_DIR to a directory")
    })?;
    let failed =
        |error: io::Error| Fault::internal(format!("{}: {error}", dir.join(FILE).display()));
    files::create_private_dir(&dir).map_err(failed)?;
    let _lock = lock(&dir).map_err(failed)?;
    // An invalid file is replaced.
    let mut projects = Memory::load().projects;
    work(&mut projects)?;
    let text = serde_json::to_string_pretty(&Stored {
        version: VERSION,
        projects,
    })
    .map_err(Fault::internal)?;
    let mut file = tempfile::Builder::new()
        .prefix(".trusted-")
        .tempfile_in(&dir)
        .map_err(failed)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.as_file().sync_all())
        .map_err(failed)?;
    file.persist(dir.join(FILE))
        .map_err(|error| failed(error.error))?;
    Ok(())
}

/// A file of decisions that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} is ignored: {why}", path.display())]
struct InvalidFile {
    path: PathBuf,
    why: String,
}

fn read(dir: &Path) -> Result<Option<Stored>, InvalidFile> {
    let path = dir.join(FILE);
    let invalid = |why: &dyn std::fmt::Display| InvalidFile {
        path: path.clone(),
        why: why.to_string(),
    };
    let metadata = match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(invalid(&error)),
        Ok(metadata) => metadata,
    };
    if !metadata.is_file() {
        return Err(invalid(&"it is not a regular file"));
    }
    if !is_private(&metadata) {
        return Err(invalid(
            &"it is writable by others or belongs to another user; run `chmod 600` on it",
        ));
    }
    let mut text = String::new();
    let file = std::fs::File::open(&path).map_err(|error| invalid(&error))?;
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| invalid(&error))?;
    let stored: Stored = serde_json::from_str(&text).map_err(|error| invalid(&error))?;
    if stored.version != VERSION {
        return Err(invalid(&format!("unsupported version {}", stored.version)));
    }
    Ok(Some(stored))
}

#[cfg(unix)]
fn is_private(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    metadata.mode() & 0o022 == 0 && metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_private(_metadata: &std::fs::Metadata) -> bool {
    true
}

/// Locks the file until the result is dropped.
fn lock(dir: &Path) -> io::Result<std::fs::File> {
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join("trusted.lock"))?;
    file.lock()?;
    Ok(file)
}
