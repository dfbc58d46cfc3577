//! A lock on a workspace, across processes: while one session's command may have changed protected files, no other session takes
//! them for what they were before.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// How often the lock is tried.
const EVERY: Duration = Duration::from_millis(20);

/// Held until it is dropped. It goes with this process, however that ends.
#[derive(Debug)]
pub(crate) struct WorkspaceLock {
    _directory: Option<File>,
}

impl WorkspaceLock {
    /// Waits for the lock; none if another session holds it for longer than `patience`. A file system without locks gives one that
    /// holds nobody off.
    pub(crate) async fn acquire(root: &Path, patience: Duration) -> Option<Self> {
        let Ok(directory) = File::open(root) else {
            return Some(Self { _directory: None });
        };
        let waiting = async {
            loop {
                match try_lock(&directory) {
                    Tried::Locked => return Some(()),
                    Tried::Impossible => return None,
                    Tried::Busy => tokio::time::sleep(EVERY).await,
                }
            }
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(locked) => Some(Self {
                _directory: locked.map(|()| directory),
            }),
            Err(_) => None,
        }
    }
}

enum Tried {
    Locked,
    Busy,
    Impossible,
}

fn try_lock(directory: &File) -> Tried {
    match directory.try_lock() {
        Ok(()) => Tried::Locked,
        Err(std::fs::TryLockError::WouldBlock) => Tried::Busy,
        Err(std::fs::TryLockError::Error(_)) => Tried::Impossible,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_workspace_is_locked_by_one_at_a_time() {
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
