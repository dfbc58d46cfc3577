//! One instance per state directory: a lock that the kernel releases, with the identity of its
//! holder for people.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::MissedTickBehavior;

/// Maximum length of a socket's path on Linux, without the final NUL.
const MAX_SOCKET_PATH: usize = 107;

/// Why a daemon cannot start.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// Another daemon uses the directory.
    #[error("a daemon is running for this state directory{}", .0.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Running(Option<u32>),
    /// The path of the socket is too long for the system.
    #[error("{}: the path of the socket exceeds {MAX_SOCKET_PATH} bytes", .0.display())]
    PathTooLong(PathBuf),
    /// The directory of the socket cannot be used.
    #[error("{}: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

/// The lock of a state directory, held until it is dropped or the process ends in any way.
#[derive(Debug)]
pub(crate) struct InstanceLock(#[expect(dead_code, reason = "held, not read")] File);

impl InstanceLock {
    /// Takes the lock. A file that a dead process left behind does not matter: only the kernel's
    /// lock counts, and it ends with its holder (P12).
    pub(crate) fn take(state_dir: &Path) -> Result<Self, InstanceError> {
        let path = state_dir.join("daemon.lock");
        let fail = |error: io::Error| InstanceError::Directory {
            path: path.clone(),
            why: error.to_string(),
        };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.mode(0o600).open(&path).map_err(fail)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            return Err(InstanceError::Running(text.trim().parse().ok()));
        }
        file.set_len(0).map_err(fail)?;
        file.rewind().map_err(fail)?;
        writeln!(file, "{}", std::process::id()).map_err(fail)?;
        Ok(Self(file))
    }
}

/// Creates the directory of the socket for its owner only, and checks an existing one.
pub(crate) fn prepare_runtime_dir(dir: &Path) -> Result<(), InstanceError> {
    let fail = |why: String| InstanceError::Directory {
        path: dir.to_owned(),
        why,
    };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(dir)
        .map_err(|error| fail(error.to_string()))?;
    let meta = dir
        .symlink_metadata()
        .map_err(|error| fail(error.to_string()))?;
    if !meta.is_dir() {
        return Err(fail("it is not a directory".to_owned()));
    }
    if meta.uid() != rustix::process::getuid().as_raw() {
        return Err(fail("it belongs to another user".to_owned()));
    }
    if meta.mode() & 0o077 != 0 {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))
            .map_err(|error| fail(error.to_string()))?;
    }
    Ok(())
}

/// How often to check that the socket is still the daemon's.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The daemon's socket. If it is removed or replaced, which any process of the same user can do, it
/// is bound again.
#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) path: PathBuf,
    listener: UnixListener,
    /// Device and inode of the socket's file.
    identity: Option<(u64, u64)>,
    checks: tokio::time::Interval,
}

impl Socket {
    pub(crate) fn bind(path: PathBuf) -> Result<Self, InstanceError> {
        let listener = bind(&path)?;
        let mut checks = tokio::time::interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            identity: identity(&path),
            path,
            listener,
            checks,
        })
    }

    /// Accepts a connection.
    pub(crate) async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            tokio::select! {
                accepted = self.listener.accept() => return accepted.map(|(stream, _)| stream),
                _ = self.checks.tick() => self.check(),
            }
        }
    }

    fn check(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            return;
        }
        let path = self.path.display();
        let again = self
            .path
            .parent()
            .map_or(Ok(()), prepare_runtime_dir)
            .and_then(|()| bind(&self.path));
        match again {
            Ok(listener) => {
                tracing::warn!(%path, "the socket was replaced or removed, and is bound again");
                self.identity = identity(&self.path);
                self.listener = listener;
            }
            Err(error) => {
                tracing::warn!(%path, %error, "the socket was replaced, and cannot be bound");
            }
        }
    }
}

/// Returns the device and inode of a file, not of what a link leads to.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let meta = path.symlink_metadata().ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Binds the socket. Called with the lock held, so an existing socket has no listener.
fn bind(path: &Path) -> Result<UnixListener, InstanceError> {
    if path.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(InstanceError::PathTooLong(path.to_owned()));
    }
    let fail = |error: io::Error| InstanceError::Directory {
        path: path.to_owned(),
        why: error.to_string(),
    };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
        _ => {}
    }
    // The directory is private, so nobody can connect before the mode is set.
    let listener = UnixListener::bind(path).map_err(fail)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(fail)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    // P12: a lock file with the id of a live, foreign process is not a running daemon.
    #[test]
    fn a_stale_lock_file_is_recognised() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("daemon.lock"), "1\n").unwrap();
        let lock = InstanceLock::take(dir.path()).unwrap();
        match InstanceLock::take(dir.path()) {
            Err(InstanceError::Running(pid)) => assert_eq!(pid, Some(std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(lock);
        InstanceLock::take(dir.path()).unwrap();
    }

    #[test]
    fn the_runtime_directory_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/ostler");
        prepare_runtime_dir(&path).unwrap();
        let mode = || path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o700);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        prepare_runtime_dir(&path).unwrap();
        assert_eq!(mode(), 0o700);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert!(prepare_runtime_dir(&dir.path().join("file")).is_err());
    }
}
