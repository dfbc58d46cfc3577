//! Workspace lock, across processes: prevents a session from taking a snapshot of protected files
//! that a command of another session may have changed.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// Interval between attempts to take the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A lock that is released on drop, or when this process ends.
#[derive(Debug)]
pub(crate) struct WorkspaceLock {
    _directory: Option<File>,
}

impl WorkspaceLock {
    /// Waits for the lock. Returns `None` if another session holds it for longer than `timeout`. On
    /// a file system without locks, it succeeds without excluding others.
    pub(crate) async fn acquire(root: &Path, timeout: Duration) -> Option<Self> {
        let Ok(directory) = File::open(root) else {
            return Some(Self { _directory: None });
        };
        let waiting = async {
            loop {
                match try_lock(&directory) {
                    LockAttempt::Locked => return Some(()),
                    LockAttempt::Unsupported => return None,
                    LockAttempt::Busy => tokio::time::sleep(RETRY_INTERVAL).await,
                }
            }
        };
        match tokio::time::timeout(timeout, waiting).await {
            Ok(locked) => Some(Self {
                _directory: locked.map(|()| directory),
            }),
            Err(_) => None,
        }
    }
}

enum LockAttempt {
    Locked,
    Busy,
    Unsupported,
}

fn try_lock(directory: &File) -> LockAttempt {
    match directory.try_lock() {
        Ok(()) => LockAttempt::Locked,
        Err(std::fs::TryLockError::WouldBlock) => LockAttempt::Busy,
        Err(std::fs::TryLockError::Error(_)) => LockAttempt::Unsupported,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn workspace_lock_is_exclusive() {
        let dir = tempfile::tempdir().unwrap();
        let first = WorkspaceLock::acquire(dir.path(), Duration::ZERO)
            .await
            .unwrap();
        assert!(
            WorkspaceLock::acquire(dir.path(), Duration::from_millis(50))
                .await
                .is_none()
        );
        drop(first);
        assert!(
            WorkspaceLock::acquire(dir.path(), Duration::from_secs(60))
                .await
                .is_some()
        );
        assert!(
            WorkspaceLock::acquire(&dir.path().join("none"), Duration::ZERO)
                .await
                .is_some()
        );
    }
}
