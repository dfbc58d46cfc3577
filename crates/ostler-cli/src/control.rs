//! Control of a session that is being shown: one of this process, or one of the daemon.

use ostler::Remote;
use ostler::permission::PermissionAnswer;

use crate::daemon::DaemonSession;

/// Control of a session.
#[derive(Clone)]
pub(crate) enum Control {
    Local(Remote),
    Daemon(DaemonSession),
}

impl From<Remote> for Control {
    fn from(remote: Remote) -> Self {
        Self::Local(remote)
    }
}

impl Control {
    pub(crate) fn interrupt(&self) {
        match self {
            Self::Local(remote) => drop(remote.interrupt()),
            Self::Daemon(session) => session.interrupt(),
        }
    }

    /// Stops the session gracefully.
    pub(crate) fn stop(&self) {
        match self {
            Self::Local(remote) => remote.stop(),
            Self::Daemon(session) => session.stop(),
        }
    }

    /// Kills the agent. The daemon stops its sessions gracefully only.
    pub(crate) fn kill(&self) {
        match self {
            Self::Local(remote) => remote.kill(),
            Self::Daemon(session) => session.stop(),
        }
    }

    /// Answers a permission request. An event reports whether the answer arrived in time.
    pub(crate) fn answer(&self, request: &str, answer: PermissionAnswer) {
        match self {
            Self::Local(remote) => {
                let (remote, request) = (remote.clone(), request.to_owned());
                tokio::spawn(async move { drop(remote.answer(&request, answer).await) });
            }
            Self::Daemon(session) => session.answer(request, answer),
        }
    }
}
