//! Which session a process belongs to.

use std::collections::HashSet;
use std::time::Duration;

use ostler_core::event::SessionState;

use super::Manager;

/// How long a caller waits until the processes of sessions that are being started are known.
const AGENT_TIME: Duration = Duration::from_secs(10);

/// How often to look whether they are.
const AGENT_POLL: Duration = Duration::from_millis(10);

impl Manager {
    /// Returns the running session whose agent, or whose guard, is one of these processes.
    pub(crate) fn session_of(&self, pids: &[i32]) -> Option<String> {
        let agents: Vec<(String, i32)> = {
            let state = self.state();
            let agents = state.live.iter().filter_map(|(id, live)| {
                let pid = i32::try_from(live.remote.pid()?).ok()?;
                Some((id.clone(), pid))
            });
            agents.collect()
        };
        let is_guard =
            |agent: i32| crate::peer::parent_of(agent).is_some_and(|parent| pids.contains(&parent));
        let by_agent = agents.iter().find(|(_, agent)| pids.contains(agent));
        // What lost its parent was adopted by the guard.
        let found = by_agent.or_else(|| agents.iter().find(|(_, agent)| is_guard(*agent)));
        found.map(|(id, _)| id.clone())
    }

    /// Waits, within a limit, until the processes of all agents that are being started are known.
    pub(crate) async fn wait_for_agents(&self) {
        let starting = self.agents_being_started();
        let all_known = async {
            while self
                .agents_being_started()
                .iter()
                .any(|id| starting.contains(id))
            {
                tokio::time::sleep(AGENT_POLL).await;
            }
        };
        let _ = tokio::time::timeout(AGENT_TIME, all_known).await;
    }

    /// Returns the sessions whose agent may be running although its process is not known yet.
    fn agents_being_started(&self) -> HashSet<String> {
        let state = self.state();
        let live = state.live.iter().filter(|(_, live)| {
            let may_run = matches!(
                live.remote.status().state,
                SessionState::Created | SessionState::Starting | SessionState::Working
            );
            may_run && live.remote.pid().is_none()
        });
        let live = live.map(|(id, _)| id);
        state.starting.keys().chain(live).cloned().collect()
    }
}
