//! Shutdown: running turns get time to finish, then all sessions are stopped.

use std::sync::Arc;
use std::time::Duration;

use ostler_core::event::SessionState;

use super::{Live, Manager};

/// How often to look whether turns have ended.
const POLL: Duration = Duration::from_millis(50);

/// How long an interrupted turn may take to end before its session is stopped.
const INTERRUPT: Duration = Duration::from_secs(5);

impl Manager {
    /// Refuses new sessions, waits for running turns, then interrupts and stops all sessions.
    pub(crate) async fn shut_down(self: &Arc<Self>) {
        self.state().is_shutting_down = true;
        self.wait_until(self.options.drain, |live| !is_working(live))
            .await;
        for live in self.all_live().iter().filter(|live| is_working(live)) {
            drop(live.remote.interrupt());
        }
        self.wait_until(INTERRUPT, |live| !is_working(live)).await;
        for live in self.all_live() {
            live.remote.stop();
        }
        // Each session's own grace periods bound this.
        while !self.state().live.is_empty() {
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends all sessions at once.
    pub(crate) fn kill_all(&self) {
        self.state().is_shutting_down = true;
        for live in self.all_live() {
            live.remote.kill();
        }
    }

    fn all_live(&self) -> Vec<Live> {
        self.state().live.values().cloned().collect()
    }

    async fn wait_until(&self, time: Duration, is_done: impl Fn(&Live) -> bool) {
        let all_done = async {
            while !self.all_live().iter().all(&is_done) {
                tokio::time::sleep(POLL).await;
            }
        };
        let _ = tokio::time::timeout(time, all_done).await;
    }
}

fn is_working(live: &Live) -> bool {
    matches!(
        live.remote.status().state,
        SessionState::Working | SessionState::Starting
    )
}
