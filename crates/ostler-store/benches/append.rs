//! How fast events are kept: the store beside a plain file of JSON lines, in the same run.
//!
//! `cargo xtask bench append` prints Markdown tables. The events are a model's reply in pieces, as most events are.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark reads the clock, prints, and stops at the first fault"
)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ostler_core::event::{At, Event, Text, TextKind};
use ostler_store::{Entry, Log, Opening, Store};

const BATCHES: [usize; 3] = [1, 16, 256];

/// How many events a run has in the second table.
const RUN: usize = 5_000;

/// Keeps events of a session in batches of so many, each kept before the next.
type Keeper = fn(&Path, &str, &[Vec<Entry>]);

fn main() {
    let dir = tempfile::tempdir_in(".").unwrap(); // a real disk, where /tmp may be memory
    let keepers: [(&str, Keeper); 3] = [
        ("**Ostler's store**", store),
        ("JSON lines, a write per batch", |dir, id, batches| {
            lines(dir, id, batches, false)
        }),
        (
            "JSON lines, a write and fsync per batch",
            |dir, id, batches| lines(dir, id, batches, true),
        ),
    ];
    println!(
        "| keeper (events/s) | {} |",
        BATCHES
            .map(|batch| format!("batches of {batch}"))
            .join(" | ")
    );
    println!("|---|---|---|---|");
    for (name, keeper) in keepers {
        let cells = BATCHES.map(|batch| {
            let events = (batch * 200).clamp(1_000, 50_000);
            format!(
                "{:.0}",
                events as f64 / best(dir.path(), keeper, (events, batch)).as_secs_f64()
            )
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    println!(
        "\n| keeper (ms for a run of {RUN} events, from opening to closing) | batches of 1 | batches of 16 | batches of 256 |\n|---|---|---|---|"
    );
    for (name, keeper) in &keepers[..2] {
        let cells = BATCHES.map(|batch| {
            format!(
                "{:.1}",
                best(dir.path(), *keeper, (RUN, batch)).as_secs_f64() * 1e3
            )
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    let quick = best(dir.path(), store, (1, 1));
    println!(
        "\nA run of one event, from opening an existing store to closing it: {:.1} ms.",
        quick.as_secs_f64() * 1e3
    );
}

/// Each session has a name of its own.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Best of three: the machine has other things to do.
fn best(dir: &Path, keeper: Keeper, (events, batch): (usize, usize)) -> Duration {
    let once = |_| {
        let id = format!("s-{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let entries: Vec<Entry> = (1..=events).map(|seq| entry(&id, seq)).collect();
        let batches: Vec<Vec<Entry>> = entries.chunks(batch).map(<[Entry]>::to_vec).collect();
        let begin = Instant::now();
        keeper(dir, &id, &batches);
        begin.elapsed()
    };
    (0..3).map(once).min().unwrap()
}

fn entry(session: &str, seq: usize) -> Entry {
    let text = Text {
        kind: TextKind::Reply,
        text: "a few words ".into(),
        delta: true,
        message: Some("msg_01AbCdEfGhIjKl".into()),
        parent: None,
    };
    let event = Event {
        seq: seq as u64,
        at: At(1_767_225_600_000),
        session: session.into(),
        turn: 1,
        kind: text.into(),
    };
    Entry {
        event,
        raw_offset: seq as u64 * 200,
    }
}

fn store(dir: &Path, id: &str, batches: &[Vec<Entry>]) {
    let store = Store::open(&dir.join("store")).unwrap();
    let opening = Opening {
        session: id.to_owned(),
        agent: "one".into(),
        dir: "/work".into(),
        at: At(1_767_225_600_000),
        continues: None,
        pid: std::process::id(),
    };
    store.open(&opening).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        for batch in batches {
            store.append(Arc::new(batch.clone())).await.unwrap();
        }
    });
}

fn lines(dir: &Path, id: &str, batches: &[Vec<Entry>], sync: bool) {
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
