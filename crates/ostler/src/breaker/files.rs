//! Breaker files: failures that later processes must know of, so that a shell loop cannot start a
//! broken agent over and over.

use std::io::Write;
use std::path::{Path, PathBuf};

use ostler_core::event::Timestamp;
use ostler_core::outcome::Cause;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Maximum size of a file, which anyone with access to the directory could have written.
const MAX_BYTES: u64 = 4096;

/// A breaker with failures, as it is stored. There is no file for one without.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredBreaker {
    /// Name of the agent, for people.
    pub(super) agent: String,
    /// Number of consecutive failures.
    pub(super) failures: u32,
    /// Cause of the last one.
    pub(super) cause: Cause,
    /// Until when starts are refused, in milliseconds since the Unix epoch.
    pub(super) open_until: Option<i64>,
}

impl StoredBreaker {
    pub(super) fn open_until(&self) -> Option<Timestamp> {
        self.open_until.map(Timestamp)
    }
}

/// A directory with one file per breaker.
#[derive(Debug)]
pub(super) struct BreakerFiles {
    dir: PathBuf,
}

impl BreakerFiles {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns the salt of the fingerprints of accounts, which is the same for all processes.
    /// `fallback` is used if it cannot be stored.
    pub(super) fn salt(&self, fallback: [u8; 16]) -> [u8; 16] {
        let path = self.dir.join("salt");
        let read = || std::fs::read(&path).ok()?.try_into().ok();
        if let Some(salt) = read() {
            return salt;
        }
        // Two processes may create it at the same time: the first one wins.
        let created = create_dir(&self.dir).and_then(|()| {
            let temporary = self.dir.join(format!("salt.{}", std::process::id()));
            write_private(&temporary, &fallback)?;
            let linked = std::fs::hard_link(&temporary, &path);
            std::fs::remove_file(&temporary)?;
            linked
        });
        match created {
            Ok(()) => fallback,
            Err(_) => read().unwrap_or(fallback),
        }
    }

    pub(super) fn path(&self, parts: &[&str]) -> PathBuf {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        let hash = hash.finalize();
        let name: String = hash
            .iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.dir.join(name).with_extension("json")
    }

    /// Reads a breaker. A file that cannot be read counts as none.
    pub(super) fn read(&self, path: &Path) -> Option<StoredBreaker> {
        let file = std::fs::File::open(path).ok()?;
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_BYTES), &mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Stores a breaker, or removes the file of one without failures. A breaker that cannot be
    /// stored works within this process.
    pub(super) fn write(&self, path: &Path, stored: Option<&StoredBreaker>) {
        let result = match stored.map(serde_json::to_vec) {
            Some(Ok(json)) => create_dir(&self.dir).and_then(|()| {
                let temporary = path.with_extension(format!("{}.new", std::process::id()));
                write_private(&temporary, &json)?;
                std::fs::rename(temporary, path)
            }),
            Some(Err(error)) => Err(error.into()),
            None => match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        };
        if let Err(error) = result {
            tracing::debug!(path = %path.display(), %error, "breaker not stored");
        }
    }
}

fn create_dir(dir: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}
