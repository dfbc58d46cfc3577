//! Cost of the search index and of lists, in a store of 20,000 sessions and a million events.
//!
//! `cargo xtask bench search` prints a Markdown table. Most events are pieces of replies, as in
//! real sessions; the words are drawn from a vocabulary of identifiers.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and stops at the first error"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ostler_core::event::{
    Event, EventKind, Origin, Text, TextKind, Timestamp, ToolCall, ToolResult, TurnStarted,
};
use ostler_core::raw_json::RawJson;
use ostler_store::{Cancel, Filter, Log, LogEntry, NewSession, SearchQuery, Store};

const SESSIONS: u64 = 20_000;

/// Number of events of each session.
const EVENTS: u64 = 50;

fn main() {
    let dir = tempfile::tempdir_in(".").unwrap(); // a real disk, where /tmp may be memory
    let mut words = Words(1);
    let store = Store::open(dir.path()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let ((), filled) = timed(|| {
        for session in 0..SESSIONS {
            fill(&store, &runtime, session, &mut words);
        }
    });
    println!(
        "| {SESSIONS} sessions, {} events | |\n|---|---|",
        SESSIONS * EVENTS
    );
    row("stored in", filled);
    let before = size(dir.path());
    drop(store);
    let (store, opened) = timed(|| Store::open(dir.path()).unwrap());
    row("opened in", opened);
    let ((), indexed) = timed(|| while store.index_some().unwrap() {});
    row("indexed in", indexed);
    let after = size(dir.path());
    println!("| size before and after | {before} MB, {after} MB |");
    let cancel = Cancel::default();
    for text in [
        "needle_in_the_haystack",
        "foo_bar",
        "\"is the\"",
        "zz",
        "a",
        "解析",
    ] {
        let query = SearchQuery::new(text, 50);
        let (page, time) = timed(|| store.search(&query, &cancel).unwrap());
        row(
            &format!("search for `{text}`: {} hits", page.hits.len()),
            time,
        );
    }
    let page = Filter {
        limit: Some(100),
        ..Filter::default()
    };
    let (_, time) = timed(|| store.sessions(&page).unwrap());
    row("list 100 sessions", time);
    let text = Filter {
        text: Some("no such text".to_owned()),
        ..page.clone()
    };
    let (_, time) = timed(|| store.sessions(&text).unwrap());
    row("list by a text that no session has", time);
    let waiting = Filter {
        waiting: true,
        ..page
    };
    let (_, time) = timed(|| store.sessions(&waiting).unwrap());
    row("list those that wait", time);
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = run();
    (result, start.elapsed())
}

fn row(name: &str, time: Duration) {
    println!("| {name} | {:.1} ms |", time.as_secs_f64() * 1e3);
}

/// Returns the size of the database in megabytes.
fn size(dir: &Path) -> u64 {
    let files = ["sessions.db", "sessions.db-wal"];
    let bytes = files.map(|file| dir.join(file).metadata().map_or(0, |meta| meta.len()));
    bytes.iter().sum::<u64>() / 1_000_000
}

/// A source of words that are always the same.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.0 >> 33
    }

    fn text(&mut self, count: u64) -> String {
        const COMMON: [&str; 12] = [
            "the",
            "is",
            "of",
            "function",
            "return",
            "src/lib.rs",
            "error:",
            "foo_bar",
            "let",
            "解析器",
            "test",
            "and",
        ];
        let mut text = String::new();
        for _ in 0..count {
            let word = self.next();
            if word.is_multiple_of(3) {
                text += &format!("name_{:x} ", word % 20_000);
            } else {
                text += COMMON[usize::try_from(word % 12).unwrap()];
                text.push(' ');
            }
        }
        text
    }
}

fn fill(store: &Store, runtime: &tokio::runtime::Runtime, number: u64, words: &mut Words) {
    let id = format!("{number:08x}-session");
    let at = Timestamp(1_767_225_600_000 + i64::try_from(number).unwrap());
    let new_session = NewSession {
        session: id.clone(),
        agent: "one".into(),
        dir: "/work".into(),
        at,
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid: u32::MAX,
    };
    store.open(&new_session).unwrap();
    let entries = (1..=EVENTS).map(|seq| LogEntry {
        event: Event {
            seq,
            at,
            session: id.clone().into(),
            turn: 1,
            kind: kind(seq, number, words),
        },
        raw_offset: 0,
    });
    let entries = Arc::new(entries.collect());
    runtime.block_on(store.append(entries)).unwrap();
}

fn kind(seq: u64, session: u64, words: &mut Words) -> EventKind {
    match seq {
        1 => TurnStarted {
            origin: Origin::Caller,
            prompt: Some(words.text(20)),
        }
        .into(),
        20 | 40 => ToolCall {
            id: "c".into(),
            name: "Bash".into(),
            input: RawJson::of(&serde_json::json!({ "command": words.text(10) })),
            parent: None,
        }
        .into(),
        21 | 41 => ToolResult {
            id: "c".into(),
            name: None,
            ok: true,
            output: match session {
                77 => "a needle_in_the_haystack".to_owned(),
                _ => words.text(100),
            },
            denied: false,
            content: None,
        }
        .into(),
        _ => Text {
            kind: TextKind::Reply,
            text: words.text(3),
            delta: true,
            message: Some("msg_01AbCdEfGhIjKl".into()),
            parent: None,
        }
        .into(),
    }
}
