//! Pages of a transcript. The cost of a page depends on the page, not on the session.
//!
//! A page covers a range of events, and starts and ends between messages if possible. Where it is
//! not (a message of tens of thousands of deltas), the message is split: its first part is `open`,
//! and the part on the next page is `continued`. Nothing is lost or repeated between pages.
//!
//! A tool call belongs to the page that contains the call, with its result if that follows within
//! 20,000 events and 64 MiB of results and permission requests.

mod window;

use ostler_core::event::{Event, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;

use self::window::Window;
use crate::item::Item;
use crate::tools::ToolContext;
use crate::transcript::Transcript;

/// Default number of items of a page.
pub const DEFAULT_ITEMS: usize = 200;

/// Maximum number of items of a page.
pub const MAX_ITEMS: usize = 500;

/// Limits on the work for one page.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Maximum number of events that a page is condensed from.
    events: u64,
    /// Maximum size of these events, in bytes.
    bytes: usize,
    /// Number of events before a page that show what continues on it.
    look_back: u64,
    /// Number of events after a page that show whether its last message is complete.
    peek: u64,
    /// Number of events after a page in which results of its tool calls are found.
    look_ahead: u64,
    /// Maximum size of the events that are read for that, in bytes.
    late_bytes: usize,
}

const LIMITS: Limits = Limits {
    events: 10_000,
    bytes: 8 * 1024 * 1024,
    look_back: 400,
    peek: 50,
    look_ahead: 20_000,
    late_bytes: 64 * 1024 * 1024,
};

/// Types of the events that are read from there.
pub const LATE_TYPES: &[&str] = &["tool_result", "permission"];

/// Stored events of one session.
pub trait EventSource {
    /// Why events cannot be read.
    type Error;

    /// Returns events from `from` on, at most `most`, and at least one if there is one.
    ///
    /// # Errors
    /// If events cannot be read.
    fn read(&self, from: u64, most: usize) -> Result<Vec<Event>, Self::Error>;

    /// Returns events of these types from `from` to `to`, in order: the first, and at least one if
    /// there is one.
    ///
    /// # Errors
    /// If events cannot be read.
    fn read_types(&self, from: u64, to: u64, types: &[&str]) -> Result<Vec<Event>, Self::Error>;

    /// Returns when a turn started.
    ///
    /// # Errors
    /// If it cannot be read.
    fn turn_start(&self, turn: u32) -> Result<Option<Timestamp>, Self::Error>;

    /// Number of the last event; 0 if there is none.
    fn last_seq(&self) -> u64;

    /// True if no event will be added.
    fn is_over(&self) -> bool;
}

/// Which page of a transcript is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageQuery {
    /// Where it is.
    pub position: PagePosition,
    /// Maximum number of items.
    pub limit: usize,
}

/// Position of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePosition {
    /// It starts after this event.
    After(u64),
    /// It ends before this event.
    Before(u64),
    /// It contains this event.
    Around(u64),
}

/// A page of a transcript.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TranscriptPage {
    /// The items, in the order of their first events.
    pub items: Vec<Item>,
    /// First event of the page: `before` of the previous page.
    pub first_seq: u64,
    /// Last event of the page: `after` of the next page.
    pub last_seq: u64,
    /// Last event up to which all items are complete. To update a page, read again after it.
    pub complete_to: u64,
    /// True if there are events before the page.
    pub has_before: bool,
    /// True if there are events after the page.
    pub has_after: bool,
    /// Number of events of the session.
    pub total_events: u64,
}

/// Returns a page of a transcript.
///
/// # Errors
/// If events cannot be read.
pub fn page<S: EventSource>(
    source: &S,
    tools: &ToolContext,
    query: PageQuery,
) -> Result<TranscriptPage, S::Error> {
    page_within(source, tools, query, LIMITS)
}

fn page_within<S: EventSource>(
    source: &S,
    tools: &ToolContext,
    query: PageQuery,
    limits: Limits,
) -> Result<TranscriptPage, S::Error> {
    let limit = query.limit.clamp(1, MAX_ITEMS);
    let mut pager = Pager {
        window: Window::new(source),
        source,
        tools,
        limit,
        limits,
    };
    let last = source.last_seq();
    let (first, end) = match query.position {
        PagePosition::After(seq) => {
            let first = seq.saturating_add(1).min(last + 1);
            (first, pager.find_end(first, 0)?)
        }
        PagePosition::Before(seq) => {
            let end = seq.saturating_sub(1).min(last);
            (pager.find_start(end, limit, limits.events)?, end)
        }
        PagePosition::Around(seq) => {
            let seq = seq.clamp(1, last.max(1)).min(last);
            let first = pager.find_start(seq, limit.div_ceil(2), limits.events / 2)?;
            (first, pager.find_end(first, seq)?)
        }
    };
    pager.build(first, end)
}

struct Pager<'a, S: EventSource> {
    source: &'a S,
    window: Window<'a, S>,
    tools: &'a ToolContext,
    limit: usize,
    limits: Limits,
}

impl<S: EventSource> Pager<'_, S> {
    /// Returns a transcript that knows what continues at an event.
    fn transcript(&mut self, first: u64) -> Result<Transcript, S::Error> {
        let mut transcript = Transcript::new(self.tools.clone());
        let from = first.saturating_sub(self.limits.look_back).max(1);
        if from < first {
            self.window.cover(from, first - 1)?;
            for event in self.window.range(from, first - 1) {
                transcript.push(event);
            }
        }
        transcript.cut();
        Ok(transcript)
    }

    /// Returns the last event of a page that starts at `first` and contains the event `reach`.
    fn find_end(&mut self, first: u64, reach: u64) -> Result<u64, S::Error> {
        let last = self.source.last_seq();
        let mut transcript = self.transcript(first)?;
        let (mut next, mut bytes) = (first, 0);
        while next <= last && (transcript.len() <= self.limit || next <= reach) {
            if next - first >= self.limits.events || bytes >= self.limits.bytes {
                break;
            }
            let to = next.saturating_add(255).min(last);
            self.window.cover(next, to)?;
            let mut pushed = next;
            for event in self.window.range(next, to) {
                transcript.push(event);
                bytes += event.weight();
                pushed = event.seq + 1;
            }
            next = pushed.max(to + 1);
        }
        if next > last && transcript.len() <= self.limit {
            return Ok(last);
        }
        let most = transcript.len().saturating_sub(1).min(self.limit);
        let ends = (1..=most)
            .rev()
            .filter(|at| transcript.is_clean_before(*at));
        let mut ends = ends.filter_map(|at| transcript.start(at));
        let clean = ends.find(|start| *start > reach).map(|start| start - 1);
        // Without a boundary, the page ends inside a message.
        let cut = || {
            let start = transcript
                .start(self.limit)
                .filter(|start| *start > reach.max(first));
            start.map_or(next - 1, |start| start - 1)
        };
        Ok(clean.unwrap_or_else(cut).min(last))
    }

    /// Returns the first event of a page of at most `limit` items that ends with `end`.
    fn find_start(&mut self, end: u64, limit: usize, most: u64) -> Result<u64, S::Error> {
        let mut step = (limit as u64 * 2).max(64).min(most.max(1));
        loop {
            let from = end.saturating_add(1).saturating_sub(step).max(1);
            self.window.cover(from, end)?;
            let mut transcript = Transcript::new(self.tools.clone());
            let mut bytes = 0;
            for event in self.window.range(from, end) {
                transcript.push(event);
                bytes += event.weight();
            }
            let count = transcript.len();
            if from == 1 && count <= limit {
                return Ok(1);
            }
            // The first item may continue what is before it.
            let least = count.saturating_sub(limit).max(1);
            let mut starts = (least..count).filter(|at| transcript.is_clean_before(*at));
            let start = starts.next().and_then(|at| transcript.start(at));
            let is_enough = count > limit || from == 1;
            let is_all = step >= most || bytes >= self.limits.bytes;
            match start {
                Some(start) if is_enough || is_all => return Ok(start),
                // Without a boundary, the page starts inside a message.
                None if count > limit => {
                    let fits = |at: &usize| count - at + transcript.spanning(*at) <= limit;
                    let start = (least..count)
                        .find(fits)
                        .and_then(|at| transcript.start(at));
                    return Ok(start.unwrap_or(end));
                }
                None if from == 1 || is_all => return Ok(from),
                _ => step = (step * 4).min(most),
            }
        }
    }

    /// Builds the page of these events.
    fn build(&mut self, first: u64, end: u64) -> Result<TranscriptPage, S::Error> {
        let last = self.source.last_seq();
        let mut transcript = self.transcript(first)?;
        self.window.cover(first, end)?;
        let turn = self.window.range(first, end).next().map(|it| it.turn);
        if let Some(turn) = turn.filter(|turn| *turn > 0)
            && let Some(at) = self.source.turn_start(turn)?
        {
            transcript.set_turn_start(turn, at);
        }
        for event in self.window.range(first, end) {
            transcript.push(event);
        }
        let count = transcript.len();
        if end == last {
            if self.source.is_over() {
                transcript.finish();
            }
        } else {
            transcript = self.with_peek(transcript, count, end)?;
        }
        let items = transcript.first_items(count);
        let complete_to = match transcript.first_open(count) {
            Some(seq) => seq - 1,
            None => end,
        };
        Ok(TranscriptPage {
            items,
            first_seq: first,
            last_seq: end,
            complete_to: complete_to.max(first.saturating_sub(1)),
            has_before: first > 1 && last > 0,
            has_after: end < last,
            total_events: last,
        })
    }

    /// Adds what later events say about the items of a page: whether the last message is complete,
    /// results, decisions.
    fn with_peek(
        &mut self,
        transcript: Transcript,
        count: usize,
        end: u64,
    ) -> Result<Transcript, S::Error> {
        let last = self.source.last_seq();
        let (from, to) = (end + 1, end.saturating_add(self.limits.peek).min(last));
        self.window.cover(from, to)?;
        let mut peeked = transcript.clone();
        for event in self.window.range(from, to) {
            peeked.push(event);
        }
        let mut transcript = if peeked.spans(count, end) {
            transcript // split: the rest of the message is on the next page
        } else {
            peeked
        };
        let to = end.saturating_add(self.limits.look_ahead).min(last);
        let (mut next, mut bytes) = (from, 0);
        while transcript.is_waiting() && next <= to && bytes < self.limits.late_bytes {
            let events = self.source.read_types(next, to, LATE_TYPES)?;
            let Some(read) = events.last() else {
                break;
            };
            next = read.seq + 1;
            for event in &events {
                transcript.push_late(event);
                bytes += event.weight();
            }
        }
        Ok(transcript)
    }
}

#[cfg(test)]
mod tests;
