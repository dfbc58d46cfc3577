//! The contents that the user trusts, by directory: a private file in the state directory.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use ostler::trust::{Standing, WorkspaceFile};
use serde::{Deserialize, Serialize};

use crate::environment;
use crate::fault::Fault;

/// The name of the file.
const FILE: &str = "trusted.json";

/// The version of its form.
const VERSION: u32 = 1;

/// The largest file that is read.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// What the user trusts.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// The real path of the directory that the file is in.
    dir: Option<PathBuf>,
    projects: BTreeMap<String, Remembered>,
    /// Why nothing is remembered, if something is wrong with the file.
    fault: Option<String>,
}

/// What the user trusts in one directory: the SHA-256 of each file, by its path below the directory.
pub(crate) type Remembered = BTreeMap<String, String>;

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    version: u32,
    /// By the real path of the directory.
    projects: BTreeMap<String, Remembered>,
}

impl Memory {
    /// Loads what is remembered. A file that cannot be relied on is as good as none.
    pub(crate) fn load() -> Self {
        let Some(dir) = environment::state_dir() else {
            return Self::default();
        };
        let dir = Some(dir.canonicalize().unwrap_or(dir));
        match dir.as_deref().map(read) {
            None | Some(Ok(None)) => Self {
                dir,
                ..Self::default()
            },
            Some(Ok(Some(stored))) => Self {
                dir,
                projects: stored.projects,
                fault: None,
            },
            Some(Err(why)) => Self {
                dir,
                fault: Some(why),
                ..Self::default()
            },
        }
    }

    /// The directories that are remembered.
    pub(crate) fn projects(&self) -> &BTreeMap<String, Remembered> {
        &self.projects
    }

    /// The decision about a file.
    pub(crate) fn standing(&self, file: &WorkspaceFile) -> Standing {
        // Whatever works in a directory could write a memory that lies in it.
        if self
            .dir
            .as_ref()
            .is_none_or(|dir| dir.starts_with(&file.root))
        {
            return Standing::Untrusted;
        }
        let known = file
            .root
            .to_str()
            .and_then(|root| self.projects.get(root)?.get(&file.name));
        match known {
            Some(known) if *known == file.sha256 => Standing::Trusted,
            Some(_) => Standing::Changed,
            None => Standing::Untrusted,
        }
    }

    /// Remembers that these contents are trusted.
    pub(crate) fn remember(files: &[&WorkspaceFile]) -> Result<(), Fault> {
        for file in files {
            let inside = environment::state_dir()
                .is_some_and(|dir| dir.canonicalize().unwrap_or(dir).starts_with(&file.root));
            if inside {
                let message = format!(
                    "the state directory lies inside {}, where a model could change it",
                    file.root.display()
                );
                return Err(Fault::usage(message).hint("OSTLER_STATE_DIR names another directory"));
            }
        }
        change(|projects| {
            for file in files {
                let Some(root) = file.root.to_str() else {
                    return Err(Fault::usage(format!(
                        "{} is not UTF-8 and cannot be remembered",
                        file.root.display()
                    )));
                };
                let known = projects.entry(root.to_owned()).or_default();
                known.insert(file.name.clone(), file.sha256.clone());
            }
            Ok(())
        })
    }

    /// Forgets a directory. Returns false if it was not remembered.
    pub(crate) fn forget(dir: &Path) -> Result<bool, Fault> {
        let mut found = false;
        change(|projects| {
            found = dir
                .to_str()
                .is_some_and(|dir| projects.remove(dir).is_some());
            Ok(())
        })?;
        Ok(found)
    }
}

/// Changes what is remembered, one process at a time, and never halfway.
fn change(
    work: impl FnOnce(&mut BTreeMap<String, Remembered>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let dir = environment::state_dir().ok_or_else(|| {
        Fault::usage("there is no place to remember it: HOME is not set")
            .hint("OSTLER_STATE_DIR names a directory")
    })?;
    let failed =
        |error: io::Error| Fault::internal(format!("{}: {error}", dir.join(FILE).display()));
    make_private(&dir).map_err(failed)?;
    let _lock = lock(&dir).map_err(failed)?;
    // What cannot be relied on is replaced as a whole.
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

fn read(dir: &Path) -> Result<Option<Stored>, String> {
    let path = dir.join(FILE);
    let wrong = |why: &dyn std::fmt::Display| format!("{} is not used: {why}", path.display());
    let about = match std::fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&error)),
        Ok(about) => about,
    };
    if !about.is_file() {
        return Err(wrong(&"it is not a regular file"));
    }
    if !is_private(&about) {
        return Err(wrong(
            &"others can write it, or it is another user's; run `chmod 600` on it",
        ));
    }
    let mut text = String::new();
    let file = std::fs::File::open(&path).map_err(|error| wrong(&error))?;
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|error| wrong(&error))?;
    let stored: Stored = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if stored.version != VERSION {
        return Err(wrong(&format!("its version is {}", stored.version)));
    }
    Ok(Some(stored))
}

#[cfg(unix)]
fn is_private(about: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    about.mode() & 0o022 == 0 && about.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_private(_about: &std::fs::Metadata) -> bool {
    true
}

#[cfg(unix)]
fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

#[cfg(not(unix))]
fn make_private(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}

/// Held until it is dropped.
fn lock(dir: &Path) -> io::Result<std::fs::File> {
    let file = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(dir.join("trusted.lock"))?;
    file.lock()?;
    Ok(file)
}

impl Memory {
    /// What is wrong with the file, if something is.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
