//! Pages of generated sessions: nothing is lost or repeated, and a page costs what it shows.

use std::cell::Cell;
use std::convert::Infallible;

use ostler_core::event::{EventKind, TextKind};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::item::ItemKind;
use crate::transcript::tests::{call, event, prompt, result, text, turn_ended};

struct Events {
    events: Vec<Event>,
    reads: Cell<usize>,
    is_over: bool,
}

impl Events {
    fn new(kinds: impl IntoIterator<Item = EventKind>) -> Self {
        let events = (1..).zip(kinds).map(|(seq, kind)| event(seq, kind));
        Self {
            events: events.collect(),
            reads: Cell::new(0),
            is_over: true,
        }
    }

    fn page(&self, position: PagePosition, limit: usize, limits: Limits) -> TranscriptPage {
        let query = PageQuery { position, limit };
        page_within(self, &ToolContext::default(), query, limits).unwrap()
    }
}

impl EventSource for Events {
    type Error = Infallible;

    fn read(&self, from: u64, most: usize) -> Result<Vec<Event>, Infallible> {
        // As many as the store would return at once if they were large.
        let start = usize::try_from(from - 1).unwrap().min(self.events.len());
        let events = self.events[start..].iter().take(most.min(7));
        let events: Vec<Event> = events.cloned().collect();
        self.reads.set(self.reads.get() + events.len());
        Ok(events)
    }

    fn read_types(&self, from: u64, to: u64, types: &[&str]) -> Result<Vec<Event>, Infallible> {
        let events = self.events.iter();
        let events = events.filter(|it| (from..=to).contains(&it.seq));
        // As the store would if each were large.
        let events = events.filter(|it| types.contains(&it.kind.as_str()));
        Ok(events.take(1).cloned().collect())
    }

    fn turn_start(&self, _: u32) -> Result<Option<Timestamp>, Infallible> {
        Ok(Some(Timestamp(500)))
    }

    fn last_seq(&self) -> u64 {
        self.events.len() as u64
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Limits of a page of a few events.
const SMALL: Limits = Limits {
    events: 12,
    bytes: 1 << 20,
    look_back: 100,
    peek: 5,
    look_ahead: 100,
    late_bytes: 1_000_000,
};

/// Texts by author, and tool calls, of all pages. A message that continues is appended.
#[derive(Debug, Default, PartialEq)]
struct Content {
    texts: Vec<(String, String)>,
    tools: Vec<(String, Option<bool>)>,
    others: Vec<(u64, String)>,
}

fn content(pages: &[TranscriptPage]) -> Content {
    let mut content = Content::default();
    for item in pages.iter().flat_map(|page| &page.items) {
        match &item.kind {
            ItemKind::Reply(message) | ItemKind::Thinking(message) => {
                let kind = matches!(item.kind, ItemKind::Reply(_));
                let author = format!("{kind} {:?}", message.parent);
                let mut earlier = content.texts.iter_mut().rev();
                match earlier
                    .find(|it| it.0 == author)
                    .filter(|_| message.continued)
                {
                    Some(earlier) => earlier.1.push_str(&message.text),
                    None => content.texts.push((author, message.text.clone())),
                }
            }
            ItemKind::Tool(tool) => content.tools.push((tool.id.clone(), tool.ok)),
            other => {
                let json = serde_json::to_value(other).unwrap();
                content.others.push((item.seq, json["type"].to_string()));
            }
        }
    }
    content
}

fn whole(source: &Events) -> Content {
    let mut transcript = Transcript::default();
    source
        .events
        .iter()
        .for_each(|event| transcript.push(event));
    transcript.finish();
    let last = source.last_seq();
    content(&[TranscriptPage {
        items: transcript.items(),
        first_seq: 1,
        last_seq: last,
        complete_to: last,
        has_before: false,
        has_after: false,
        total_events: last,
    }])
}

/// An event of a session, by its number: authors, calls and results mix as they like.
fn kinds() -> impl Strategy<Value = Vec<EventKind>> {
    let parent = prop::sample::select(vec![None, Some("p1"), Some("p2")]);
    let kind = prop::sample::select(vec![TextKind::Reply, TextKind::Thinking]);
    let texts = (kind, "[a-z]{1,3}", prop::bool::weighted(0.9), parent)
        .prop_map(|(kind, it, delta, parent)| (0_u8, text(kind, &it, delta, parent)));
    let other = prop::sample::select(vec![1_u8, 1, 2, 2, 2, 3, 4]);
    let other = other.prop_map(|which| (which, prompt("")));
    let kinds = prop::collection::vec(prop_oneof![4 => texts, 2 => other], 0..120);
    kinds.prop_map(|kinds| {
        let (mut calls, mut running) = (0, Vec::new());
        let kind = |(which, kind): (u8, EventKind)| match which {
            1 => {
                calls += 1;
                running.push(calls);
                call(&calls.to_string(), "x", &json!({}), None)
            }
            2 if !running.is_empty() => result(&running.remove(0).to_string(), true, ""),
            2 | 3 => prompt("next"),
            4 => turn_ended(""),
            _ => kind,
        };
        kinds.into_iter().map(kind).collect()
    })
}

proptest! {
    #[test]
    fn pages_contain_everything_once(kinds in kinds(), limit in 1_usize..6) {
        let source = Events::new(kinds);
        let want = whole(&source);

        let mut forward = Vec::new();
        let mut after = 0;
        loop {
            let page = source.page(PagePosition::After(after), limit, SMALL);
            prop_assert!(page.items.len() <= limit);
            prop_assert_eq!(page.first_seq, after + 1);
            prop_assert!(page.last_seq > after || !page.has_after);
            prop_assert!(page.complete_to <= page.last_seq);
            after = page.last_seq;
            let is_last = !page.has_after;
            forward.push(page);
            if is_last {
                break;
            }
        }
        prop_assert_eq!(&content(&forward), &want);

        let mut backward = Vec::new();
        let mut before = source.last_seq() + 1;
        loop {
            let page = source.page(PagePosition::Before(before), limit, SMALL);
            prop_assert!(page.items.len() <= limit);
            prop_assert_eq!(page.last_seq, before - 1);
            prop_assert!(page.first_seq < before || !page.has_before);
            before = page.first_seq;
            let is_first = !page.has_before;
            backward.insert(0, page);
            if is_first {
                break;
            }
        }
        prop_assert_eq!(&content(&backward), &want);
    }

    #[test]
    fn a_page_around_an_event_contains_it(kinds in kinds(), limit in 2_usize..8, at in 1_u64..120) {
        let source = Events::new(kinds);
        let last = source.last_seq();
        let seq = at.min(last).max(1);
        let page = source.page(PagePosition::Around(seq), limit, SMALL);
        if last > 0 {
            prop_assert!((page.first_seq..=page.last_seq).contains(&seq), "{page:?}");
        }
    }
}

#[test]
fn a_message_of_many_deltas_is_split_and_costs_a_page() {
    let deltas = (0..100_000).map(|n| text(TextKind::Reply, &format!("{n} "), true, None));
    let source = Events::new(
        [prompt("go")]
            .into_iter()
            .chain(deltas)
            .chain([turn_ended("")]),
    );
    let first = source.page(PagePosition::After(0), 200, LIMITS);
    assert_eq!(
        (first.items.len(), first.last_seq, first.has_after),
        (1, 1, true)
    );
    source.reads.set(0);
    let second = source.page(PagePosition::After(1), 200, LIMITS);
    assert_eq!((second.items.len(), second.first_seq), (1, 2));
    let part = serde_json::to_value(&second.items[0]).unwrap();
    assert_eq!((&part["open"], part.get("continued")), (&json!(true), None));
    let third = source.page(PagePosition::After(second.last_seq), 200, LIMITS);
    let part = serde_json::to_value(&third.items[0]).unwrap();
    assert_eq!(
        (&part["open"], &part["continued"]),
        (&json!(true), &json!(true))
    );
    let end = source.page(PagePosition::Before(100_003), 200, LIMITS);
    let last = end.items.last().unwrap();
    assert!(matches!(last.kind, ItemKind::TurnEnded(_)) && end.last_seq == 100_002);
    let middle = source.page(PagePosition::Around(50_000), 200, LIMITS);
    assert!((middle.first_seq..=middle.last_seq).contains(&50_000));
    // Four pages: each reads its events, those before it and those after it, at most twice.
    assert!(
        source.reads.get() < 4 * 2 * 11_000,
        "{}",
        source.reads.get()
    );
}

#[test]
fn a_small_page_of_a_long_session_reads_little() {
    let turns = (0..20_000).flat_map(|n| {
        let deltas = (0..3).map(|it| text(TextKind::Reply, &format!("{it}"), true, None));
        let turn = [prompt(&format!("{n}"))].into_iter().chain(deltas);
        turn.chain([turn_ended("")])
    });
    let source = Events::new(turns);
    assert_eq!(source.last_seq(), 100_000);
    for position in [
        PagePosition::After(0),
        PagePosition::After(50_000),
        PagePosition::Before(100_001),
        PagePosition::Around(70_003),
    ] {
        source.reads.set(0);
        let page = source.page(position, 30, LIMITS);
        assert!(
            (25..=30).contains(&page.items.len()),
            "{position:?} {}",
            page.items.len()
        );
        assert!(
            source.reads.get() <= 1_000,
            "{position:?}: {}",
            source.reads.get()
        );
    }
}

#[test]
fn a_call_has_its_result_wherever_the_page_ends() {
    let replies = || (0..20).map(|n| text(TextKind::Reply, &format!("{n}"), false, None));
    let calls = [prompt("go"), call("1", "x", &json!({}), None)];
    let other = [call("2", "y", &json!({}), None), result("2", true, "")];
    let ends = [result("1", true, "out"), turn_ended("")];
    let replies = replies().chain(other).chain(replies());
    let source = Events::new(calls.into_iter().chain(replies).chain(ends));
    let page = source.page(PagePosition::After(0), 2, SMALL);
    let tool = serde_json::to_value(&page.items[1]).unwrap();
    assert_eq!(
        (&tool["output"], &tool["last_seq"]),
        (&json!("out"), &json!(45))
    );
    assert_eq!((page.last_seq, page.complete_to), (2, 2));
    // The page with the result does not repeat the call, and knows when the turn started.
    let limits = Limits {
        look_back: 3,
        ..SMALL
    };
    let page = source.page(PagePosition::Before(47), 2, limits);
    let types: Vec<_> = page
        .items
        .iter()
        .map(|it| serde_json::to_value(it).unwrap())
        .collect();
    assert_eq!(
        (&types[0]["type"], &types[1]["type"]),
        (&json!("reply"), &json!("turn_ended"))
    );
    assert_eq!(types[1]["duration_ms"], 45_500);
}

#[test]
fn what_is_being_written_is_open() {
    let kinds = [
        prompt("go"),
        text(TextKind::Reply, "a", false, None),
        call("1", "x", &json!({}), None),
        text(TextKind::Reply, "b", true, None),
    ];
    let mut source = Events::new(kinds);
    let open =
        |page: &TranscriptPage| serde_json::to_value(&page.items[3]).unwrap()["open"].clone();
    source.is_over = false;
    let page = source.page(PagePosition::After(0), 10, LIMITS);
    assert_eq!(
        (open(&page), page.complete_to, page.last_seq),
        (json!(true), 2, 4)
    );
    source.is_over = true;
    assert_eq!(
        open(&source.page(PagePosition::After(0), 10, LIMITS)),
        false
    );
    for (position, first, last) in [
        (PagePosition::After(4), 5, 4),
        (PagePosition::After(99), 5, 4),
        (PagePosition::Before(1), 1, 0),
        (PagePosition::Before(0), 1, 0),
    ] {
        let page = source.page(position, 10, LIMITS);
        assert_eq!(
            (page.items.len(), page.first_seq, page.last_seq),
            (0, first, last),
            "{position:?}"
        );
    }
    let empty = Events::new([]).page(PagePosition::Around(1), 10, LIMITS);
    assert_eq!(
        (empty.items.len(), empty.total_events, empty.has_before),
        (0, 0, false)
    );
}
