//! Answers that are expensive to compute, or that must not change: probed agents, timelines of
//! sessions, and files that a request replaces.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ostler_core::event::Timestamp;
use ostler_page::timeline::{Timeline, TimelineLog};
use ostler_page::tools::ToolContext;
use ostler_store::{Store, StoreError};

use super::Manager;
use crate::api::AgentView;
use crate::replaced::RecentlyReplaced;

/// How long the result of a probe is valid, in milliseconds. A probe starts programs.
const PROBE_VALID_MS: i64 = 60_000;

/// Number of timelines in memory.
const MAX_TIMELINES: usize = 8;

/// Number of events that are read at once.
const READ: usize = 1_000;

/// Answers that were computed before.
#[derive(Default)]
pub(crate) struct Cached {
    agents: ProbedAgents,
    pub(crate) timelines: Arc<Timelines>,
    pub(super) replaced: RecentlyReplaced,
}

/// Agents as they were probed last, and when.
type ProbedAgents = tokio::sync::Mutex<Option<(Timestamp, Vec<AgentView>)>>;

impl Manager {
    /// Returns all agents, probed within the last minute, or now if `fresh`. Callers that ask at
    /// the same time share one probe.
    pub(crate) async fn agents(&self, fresh: bool) -> Vec<AgentView> {
        let mut probed = self.cached.agents.lock().await;
        let now = self.embedder.now();
        if let Some((at, agents)) = &*probed
            && !fresh
            && (0..PROBE_VALID_MS).contains(&now.0.saturating_sub(at.0))
        {
            return agents.clone();
        }
        let agents = self.embedder.agents().await;
        *probed = Some((self.embedder.now(), agents.clone()));
        agents
    }
}

/// Timelines of the sessions that were shown last. Each continues after its last event.
#[derive(Default)]
pub(crate) struct Timelines(Mutex<VecDeque<(String, SharedTimeline)>>);

type SharedTimeline = Arc<Mutex<StoredTimeline>>;

#[derive(Default)]
struct StoredTimeline {
    log: Option<TimelineLog>,
    /// Last event that it has.
    last: u64,
}

impl Timelines {
    /// Returns the timeline of a session. Blocks while another caller reads the same session.
    pub(crate) fn read(
        &self,
        store: &Store,
        session: &str,
        tools: impl FnOnce() -> ToolContext,
    ) -> Result<Timeline, StoreError> {
        let shared = self.get(session);
        let mut stored = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let StoredTimeline { log, last } = &mut *stored;
        let log = log.get_or_insert_with(|| TimelineLog::new(tools()));
        loop {
            let events = store.events(session, *last + 1, READ)?;
            let Some(event) = events.last() else {
                return Ok(log.timeline());
            };
            *last = event.seq;
            events.iter().for_each(|event| log.push(event));
        }
    }

    /// Returns the entry of a session, as the newest. The oldest is dropped if there are too many.
    fn get(&self, session: &str) -> SharedTimeline {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().position(|(id, _)| id == session);
        let entry = known
            .and_then(|at| all.remove(at))
            .unwrap_or_else(|| (session.to_owned(), SharedTimeline::default()));
        all.truncate(MAX_TIMELINES - 1);
        all.push_front(entry.clone());
        entry.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timelines_that_were_read_last_stay() {
        let timelines = Timelines::default();
        let first = timelines.get("0");
        for n in 1..MAX_TIMELINES {
            timelines.get(&n.to_string());
            assert!(Arc::ptr_eq(&first, &timelines.get("0")), "{n}");
        }
        timelines.get("another");
        assert!(Arc::ptr_eq(&first, &timelines.get("0")));
        let second = timelines.get("1");
        for n in 0..MAX_TIMELINES {
            timelines.get(&format!("x{n}"));
        }
        assert!(!Arc::ptr_eq(&second, &timelines.get("1")));
        assert_eq!(timelines.0.lock().unwrap().len(), MAX_TIMELINES);
    }
}
