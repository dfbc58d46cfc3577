//! Window: a contiguous range of a session's events in memory, extended on request.

use std::collections::VecDeque;

use ostler_core::event::Event;

use super::EventSource;

pub(super) struct Window<'a, S> {
    source: &'a S,
    events: VecDeque<Event>,
    /// The events that were read: from the first to the second, inclusive.
    covered: Option<(u64, u64)>,
}

impl<'a, S: EventSource> Window<'a, S> {
    pub(super) fn new(source: &'a S) -> Self {
        Self {
            source,
            events: VecDeque::new(),
            covered: None,
        }
    }

    /// Reads the events from `from` to `to`, and any between them and those read before.
    pub(super) fn cover(&mut self, from: u64, to: u64) -> Result<(), S::Error> {
        let (from, to) = (from.max(1), to.min(self.source.last_seq()));
        if from > to {
            return Ok(());
        }
        let Some((first, last)) = self.covered else {
            self.events = self.read(from, to)?.into();
            self.covered = Some((from, to));
            return Ok(());
        };
        if from < first {
            for event in self.read(from, first - 1)?.into_iter().rev() {
                self.events.push_front(event);
            }
        }
        if to > last {
            let more = self.read(last + 1, to)?;
            self.events.extend(more);
        }
        self.covered = Some((first.min(from), last.max(to)));
        Ok(())
    }

    /// Returns the events from `from` to `to` that were read.
    pub(super) fn range(&self, from: u64, to: u64) -> impl Iterator<Item = &Event> {
        let start = self.events.partition_point(|event| event.seq < from);
        let end = self.events.partition_point(|event| event.seq <= to);
        self.events.range(start..end.max(start))
    }

    fn read(&self, from: u64, to: u64) -> Result<Vec<Event>, S::Error> {
        let (mut events, mut next): (Vec<Event>, u64) = (Vec::new(), from);
        while next <= to {
            let most = usize::try_from(to - next + 1).unwrap_or(usize::MAX);
            let page = self.source.read(next, most)?;
            let Some(last) = page.last().map(|event| event.seq) else {
                break; // removed meanwhile
            };
            events.extend(page.into_iter().filter(|event| event.seq <= to));
            next = last + 1;
        }
        Ok(events)
    }
}
