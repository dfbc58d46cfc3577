//! Throughput of the store, compared with a plain file of JSON lines in the same run.
//!
//! `cargo xtask bench append` prints Markdown tables. The events are pieces of a model's reply, as
//! most events are.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and stops at the first error"
)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ostler_core::event::{Event, Text, TextKind, Timestamp};
use ostler_store::{Log, LogEntry, NewSession, Store};

const BATCHES: [usize; 3] = [1, 16, 256];

/// Number of events of a run in the second table.
const RUN: usize = 5_000;

/// Stores the batches of a session, each before the next.
type Backend = fn(&Path, &str, &[Vec<LogEntry>]);

fn main() {
    let dir = tempfile::tempdir_in(".").unwrap(); // a real disk, where /tmp may be memory
    let backends: [(&str, Backend); 3] = [
        ("**Ostler's store**", store),
        ("JSON lines, a write per batch", |dir, id, batches| {
            lines(dir, id, batches, false);
        }),
        (
            "JSON lines, a write and fsync per batch",
            |dir, id, batches| lines(dir, id, batches, true),
        ),
    ];
    println!(
        "| backend (events/s) | {} |",
        BATCHES
            .map(|batch| format!("batches of {batch}"))
            .join(" | ")
    );
    println!("|---|---|---|---|");
    for (name, backend) in backends {
        let cells = BATCHES.map(|batch| {
            let events = (batch * 200).clamp(1_000, 50_000);
            format!(
                "{:.0}",
                events as f64 / best(dir.path(), backend, (events, batch)).as_secs_f64()
            )
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    println!(
        "\n| backend (ms for a run of {RUN} events, from open to close) \
         | batches of 1 | batches of 16 | batches of 256 |\n|---|---|---|---|"
    );
    for (name, backend) in &backends[..2] {
        let cells = BATCHES.map(|batch| {
            format!(
                "{:.1}",
                best(dir.path(), *backend, (RUN, batch)).as_secs_f64() * 1e3
            )
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    let quick = best(dir.path(), store, (1, 1));
    println!(
        "\nA run of one event, from open to close of an existing store: {:.1} ms.",
        quick.as_secs_f64() * 1e3
    );
}

/// Makes each session id unique.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Returns the best of three runs, since other work on the machine disturbs them.
fn best(dir: &Path, backend: Backend, (events, batch): (usize, usize)) -> Duration {
    let once = |_| {
        let id = format!("s-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let entries: Vec<LogEntry> = (1..=events).map(|seq| entry(&id, seq)).collect();
        let batches: Vec<Vec<LogEntry>> = entries.chunks(batch).map(<[LogEntry]>::to_vec).collect();
        let start = Instant::now();
        backend(dir, &id, &batches);
        start.elapsed()
    };
    (0..3).map(once).min().unwrap()
}

fn entry(session: &str, seq: usize) -> LogEntry {
    let text = Text {
        kind: TextKind::Reply,
        text: "a few words ".into(),
        delta: true,
        message: Some("msg_01AbCdEfGhIjKl".into()),
        parent: None,
    };
    let event = Event {
        seq: seq as u64,
        at: Timestamp(1_767_225_600_000),
        session: session.into(),
        turn: 1,
        kind: text.into(),
    };
    LogEntry {
        event,
        raw_offset: seq as u64 * 200,
    }
}

fn store(dir: &Path, id: &str, batches: &[Vec<LogEntry>]) {
    let store = Store::open(&dir.join("store")).unwrap();
    let new_session = NewSession {
        session: id.to_owned(),
        agent: "one".into(),
        dir: "/work".into(),
        at: Timestamp(1_767_225_600_000),
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid: std::process::id(),
    };
    store.open(&new_session).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        for batch in batches {
            store.append(Arc::new(batch.clone())).await.unwrap();
        }
    });
}

fn lines(dir: &Path, id: &str, batches: &[Vec<LogEntry>], sync: bool) {
    let mut file = File::create(dir.join(format!("{id}.jsonl"))).unwrap();
    for batch in batches {
        let text: String = batch
            .iter()
            .map(|entry| entry.event.to_json() + "\n")
            .collect();
        file.write_all(text.as_bytes()).unwrap();
        if sync {
            file.sync_data().unwrap();
        }
    }
}
