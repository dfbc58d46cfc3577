//! Fair queue: which waiting session is started next, within limits on parallel sessions.

use std::collections::{HashMap, VecDeque};

/// Limits on sessions that run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParallelLimits {
    /// Maximum number of running sessions.
    pub total: usize,
    /// Maximum number of running sessions of one agent.
    pub per_agent: usize,
}

impl Default for ParallelLimits {
    fn default() -> Self {
        Self {
            total: 1_000,
            per_agent: 1_000,
        }
    }
}

/// Sessions that wait to be started, and the number of those that run.
///
/// Agents take turns, so that many sessions of one agent do not delay those of another. Sessions of
/// one agent are started in the order in which they were added.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    limits: ParallelLimits,
    /// Waiting sessions by agent. The agent whose turn is next comes first.
    waiting: VecDeque<(String, VecDeque<T>)>,
    running: HashMap<String, usize>,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(limits: ParallelLimits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            running: HashMap::new(),
        }
    }

    /// Adds a session of an agent.
    pub(crate) fn push(&mut self, agent: &str, item: T) {
        match self.waiting.iter_mut().find(|(known, _)| known == agent) {
            Some((_, items)) => items.push_back(item),
            None => self
                .waiting
                .push_back((agent.to_owned(), VecDeque::from([item]))),
        }
    }

    /// Returns the number of waiting sessions of each agent that has any.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (&str, usize)> {
        let waiting = self.waiting.iter();
        let lengths = waiting.map(|(agent, items)| (agent.as_str(), items.len()));
        lengths.filter(|(_, length)| *length > 0)
    }

    /// Takes the next session that may be started now, and counts it as running. `is_ready` says
    /// whether a session that the limits allow may be started at the moment: the first one for
    /// which it returns true is taken.
    pub(crate) fn pop(&mut self, mut is_ready: impl FnMut(&T) -> bool) -> Option<T> {
        if self.running.values().sum::<usize>() >= self.limits.total {
            return None;
        }
        let (at, item) = self
            .waiting
            .iter()
            .enumerate()
            .find_map(|(at, (agent, items))| {
                let running = self.running.get(agent).copied().unwrap_or_default();
                if running >= self.limits.per_agent {
                    return None;
                }
                let item = items.iter().position(&mut is_ready)?;
                Some((at, item))
            })?;
        let (agent, mut items) = self.waiting.remove(at)?;
        let item = items.remove(item);
        *self.running.entry(agent.clone()).or_default() += 1;
        if !items.is_empty() {
            self.waiting.push_back((agent, items));
        }
        item
    }

    /// Counts a session of an agent as running that did not wait. Limits do not apply to it.
    pub(crate) fn add_running(&mut self, agent: &str) {
        *self.running.entry(agent.to_owned()).or_default() += 1;
    }

    /// Counts a running session of an agent as ended.
    pub(crate) fn on_ended(&mut self, agent: &str) {
        if let Some(running) = self.running.get_mut(agent) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(agent);
            }
        }
    }

    /// Removes a waiting session.
    pub(crate) fn remove(&mut self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let found = self
            .waiting
            .iter()
            .enumerate()
            .find_map(|(at, (_, items))| items.iter().position(&is_it).map(|item| (at, item)));
        let (at, item) = found?;
        let (_, items) = self.waiting.get_mut(at)?;
        let removed = items.remove(item);
        if items.is_empty() {
            self.waiting.remove(at);
        }
        removed
    }

    /// Returns true if a session waits.
    pub(crate) fn contains(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.waiting
            .iter()
            .any(|(_, items)| items.iter().any(&is_it))
    }

    /// Returns the number of waiting sessions.
    pub(crate) fn len(&self) -> usize {
        self.waiting.iter().map(|(_, items)| items.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue(total: usize, per_agent: usize) -> FairQueue<u32> {
        FairQueue::new(ParallelLimits { total, per_agent })
    }

    #[test]
    fn agents_take_turns() {
        let mut queue = queue(10, 10);
        for n in 0..4 {
            queue.push("many", n);
        }
        queue.push("few", 100);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(|_| true)).collect();
        assert_eq!(order, [0, 100, 1, 2, 3]);
    }

    #[test]
    fn a_session_that_is_not_ready_does_not_block_others() {
        let mut queue = queue(10, 10);
        queue.push("a", 1);
        queue.push("a", 3);
        queue.push("b", 2);
        assert_eq!(
            queue.pop(|n| *n != 1),
            Some(3),
            "not even one of the same agent"
        );
        assert_eq!(queue.pop(|n| *n != 1), Some(2));
        assert_eq!(queue.pop(|n| *n != 1), None);
        assert_eq!(queue.pop(|_| true), Some(1));
    }

    #[test]
    fn a_removed_session_is_never_started() {
        let mut queue = queue(10, 10);
        for n in 0..3 {
            queue.push("a", n);
        }
        assert_eq!(queue.remove(|n| *n == 1), Some(1));
        assert_eq!(queue.remove(|n| *n == 1), None);
        assert_eq!(
            (queue.pop(|_| true), queue.pop(|_| true)),
            (Some(0), Some(2))
        );
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn sessions_that_did_not_wait_count_but_are_not_limited() {
        let mut queue = queue(2, 2);
        for _ in 0..3 {
            queue.add_running("a");
        }
        queue.push("b", 1);
        for _ in 0..2 {
            assert_eq!(queue.pop(|_| true), None);
            queue.on_ended("a");
        }
        assert_eq!(queue.pop(|_| true), Some(1));
    }

    proptest! {
        // However sessions come and go: limits hold, none is lost or started twice, and the order
        // of one agent's sessions is kept.
        #[test]
        fn limits_hold_and_order_is_kept(
            steps in prop::collection::vec((0_u8..3, 0_usize..3), 1..200),
            total in 1_usize..6,
            per_agent in 1_usize..4,
        ) {
            let names = ["a", "b", "c"];
            let mut queue = FairQueue::new(ParallelLimits { total, per_agent });
            let (mut next, mut waiting) = (0_u32, 0);
            let mut running: Vec<&str> = Vec::new();
            let mut last: HashMap<&str, u32> = HashMap::new();
            for (step, which) in steps {
                let agent = names[which];
                match step {
                    0 => {
                        queue.push(agent, (agent, next));
                        next += 1;
                        waiting += 1;
                    }
                    1 => {
                        if let Some((agent, n)) = queue.pop(|_| true) {
                            waiting -= 1;
                            prop_assert!(last.insert(agent, n).is_none_or(|before| before < n));
                            running.push(agent);
                        } else {
                            let blocked = |name: &&str| {
                                running.iter().filter(|it| it == &name).count() == per_agent
                            };
                            prop_assert!(
                                waiting == 0 || running.len() == total || names.iter().any(blocked)
                            );
                        }
                    }
                    _ => {
                        if let Some(at) = running.iter().position(|it| *it == agent) {
                            running.remove(at);
                            queue.on_ended(agent);
                        }
                    }
                }
                prop_assert!(running.len() <= total);
                for name in names {
                    prop_assert!(running.iter().filter(|it| **it == name).count() <= per_agent);
                }
                prop_assert_eq!(queue.len(), waiting);
            }
        }
    }
}
