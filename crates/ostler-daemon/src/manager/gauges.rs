//! Current numbers of the manager, for the metrics.

use std::collections::BTreeMap;

use ostler_core::event::SessionState;

use super::Manager;
use crate::metrics::Gauges;

impl Manager {
    /// Returns the current numbers.
    pub(crate) fn gauges(&self) -> Gauges {
        let (states, queued, waiting, breakers) = {
            let state = self.state();
            let live = state.live.values();
            let states: Vec<SessionState> = live.map(|it| it.remote.status().state).collect();
            let waiting = state.queue.lengths();
            let waiting = waiting.map(|(agent, count)| (agent.to_owned(), count));
            let waiting: Vec<(String, usize)> = waiting.collect();
            (states, state.queue.len(), waiting, state.breakers.clone())
        };
        let mut sessions: BTreeMap<&'static str, usize> = SessionState::ALL
            .into_iter()
            .filter(|state| *state != SessionState::Ended)
            .map(|state| (state.as_str(), 0))
            .collect();
        for state in &states {
            *sessions.entry(state.as_str()).or_default() += 1;
        }
        *sessions.entry(SessionState::Created.as_str()).or_default() += queued;
        // A breaker may be stored in a file, which is read without the lock.
        let breakers = breakers.iter();
        Gauges {
            running: states.len(),
            waiting,
            sessions,
            open_breakers: breakers
                .map(|(agent, breaker)| (*agent, breaker.rejection().is_some()))
                .collect(),
        }
    }
}
