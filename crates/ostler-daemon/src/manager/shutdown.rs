//! Shutdown: running turns get time to finish, then all sessions are stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ostler_core::event::SessionState;

use super::{Live, Manager, Shutdown};

/// How often to look whether turns have ended.
const POLL: Duration = Duration::from_millis(50);

/// How long an interrupted turn may take to end before its session is stopped.
const INTERRUPT: Duration = Duration::from_secs(5);

impl Manager {
    /// Refuses new sessions, waits for running turns, then interrupts and stops all sessions.
    pub(crate) async fn shut_down(self: &Arc<Self>) {
        self.advance_to(Shutdown::Draining);
        self.wait_until_idle(self.options.drain).await;
        self.advance_to(Shutdown::Stopping);
        for live in self.all_live().iter().filter(|live| is_working(live)) {
            drop(live.remote.interrupt());
        }
        self.wait_until_idle(INTERRUPT).await;
        for live in self.all_live() {
            live.remote.stop();
        }
        // Each session's own grace periods bound this.
        while self.has_sessions() {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends all sessions at once.
    pub(crate) fn kill_all(&self) {
        self.advance_to(Shutdown::Killing);
        for live in self.all_live() {
            live.remote.kill();
        }
    }

    fn advance_to(&self, shutdown: Shutdown) {
        let mut state = self.state();
        state.shutdown = state.shutdown.max(shutdown);
    }

    fn all_live(&self) -> Vec<Live> {
        self.state().live.values().cloned().collect()
    }

    /// Returns true if a session runs or is being started.
    fn has_sessions(&self) -> bool {
        let state = self.state();
        !(state.live.is_empty() && state.starting.is_empty())
    }

    /// Waits until no session is being started and none works, for at most this long.
    async fn wait_until_idle(&self, time: Duration) {
        let is_busy = || {
            let state = self.state();
            !state.starting.is_empty() || state.live.values().any(is_working)
        };
        let idle = async {
            while is_busy() {
                tokio::time::sleep(POLL).await;
            }
        };
        let _ = tokio::time::timeout(time, idle).await;
    }
}

/// Returns true if the session is in a turn, or about to begin one.
fn is_working(live: &Live) -> bool {
    match live.remote.status().state {
        SessionState::Working | SessionState::Starting => true,
        SessionState::Created => live.unstarted.load(Ordering::Acquire) > 0,
        _ => false,
    }
}
