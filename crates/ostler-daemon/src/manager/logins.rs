//! Logins that sessions may be refreshing: a login is in use by at most one session (P27).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Live, Manager};

/// How long a session blocks the start of others with the same login, unless it produces output
/// before: a login is refreshed at the start (P27).
const LOGIN_TIME: Duration = Duration::from_secs(5);

/// How often to look whether a login is free.
const LOGIN_POLL: Duration = Duration::from_millis(20);

/// The logins that are in use.
#[derive(Debug, Default)]
pub(super) struct Logins {
    in_use: Mutex<HashSet<PathBuf>>,
    /// Notified when one is free again.
    freed: Notify,
}

/// Use of a login. Other sessions can use it once this is dropped.
#[derive(Debug)]
pub(super) struct LoginLease {
    logins: Arc<Logins>,
    login: PathBuf,
}

impl Logins {
    fn in_use(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a login, unless it is in use.
    pub(super) fn take(self: &Arc<Self>, login: &Path) -> Option<LoginLease> {
        let is_free = self.in_use().insert(login.to_owned());
        is_free.then(|| LoginLease {
            logins: self.clone(),
            login: login.to_owned(),
        })
    }
}

impl Drop for LoginLease {
    fn drop(&mut self) {
        self.logins.in_use().remove(&self.login);
        self.logins.freed.notify_one();
    }
}

/// Use of a login by one session. Nothing but the session and its requests refers to it strongly,
/// so that a lease ends with them.
#[derive(Debug, Default)]
pub(super) struct LoginUse {
    lease: Mutex<Option<LoginLease>>,
    /// Number of times that the agent was started again with it.
    restarts: AtomicU32,
}

impl LoginUse {
    pub(super) fn new(lease: Option<LoginLease>) -> Arc<Self> {
        Arc::new(Self {
            lease: Mutex::new(lease),
            restarts: AtomicU32::new(0),
        })
    }

    fn lease(&self) -> MutexGuard<'_, Option<LoginLease>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the login, if the session has it.
    pub(super) fn release(&self) {
        *self.lease() = None;
    }

    /// Releases the login after a while, unless the agent is started again before.
    pub(super) fn release_later(self: &Arc<Self>) {
        if self.lease().is_none() {
            return;
        }
        let restarts = self.restarts.load(Ordering::Acquire);
        let login_use = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(LOGIN_TIME).await;
            if let Some(login_use) = login_use.upgrade()
                && login_use.restarts.load(Ordering::Acquire) == restarts
            {
                login_use.release();
            }
        });
    }
}

impl Manager {
    /// Takes the login of a session whose agent is started again by a message, once no other
    /// session may be refreshing it (P27).
    pub(super) async fn take_login(&self, live: &Live) {
        let Some(login) = &live.login else { return };
        loop {
            {
                let mut lease = live.login_use.lease();
                // A second message finds the agent starting.
                if lease.is_some() {
                    return;
                }
                *lease = self.logins.take(login);
                if lease.is_some() {
                    live.login_use.restarts.fetch_add(1, Ordering::AcqRel);
                    break;
                }
            }
            tokio::time::sleep(LOGIN_POLL).await;
        }
        live.login_use.release_later();
    }

    /// Starts what waited for a login, whenever one is free again.
    pub(super) fn follow_logins(self: &Arc<Self>) {
        let (logins, manager) = (self.logins.clone(), Arc::downgrade(self));
        tokio::spawn(async move {
            loop {
                logins.freed.notified().await;
                let Some(manager) = manager.upgrade() else {
                    return;
                };
                manager.pump().await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_free_once_nothing_refers_to_its_use() {
        let logins = Arc::new(Logins::default());
        let login = Path::new("/login");
        let first = LoginUse::new(logins.take(login));
        assert!(first.lease().is_some() && logins.take(login).is_none());
        first.release();
        // As by a message that waited for it while the session was stopped.
        *first.lease() = logins.take(login);
        assert!(first.lease().is_some() && logins.take(login).is_none());
        drop(first);
        assert!(logins.take(login).is_some());
    }
}
