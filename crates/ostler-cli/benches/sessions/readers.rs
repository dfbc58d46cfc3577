//! Completeness: many readers of one session, none of which may miss an event.

use std::time::Instant;

use ostler::Session;
use ostler::session::{ReadItem, Reader};

/// Reads a session with `count` readers, and prints the number of events, the number that any
/// reader missed, and the milliseconds.
pub(crate) async fn check(mut session: Session, count: Option<usize>) {
    let remote = session.remote();
    let begin = Instant::now();
    let others: Vec<_> = (1..count.unwrap_or(1))
        .map(|_| tokio::spawn(read_all(remote.events(1))))
        .collect();
    let (mut last, mut seen) = (0, 0);
    while let Some(event) = session.next().await {
        seen += 1;
        last = event.seq;
    }
    let mut lost = last - seen;
    for other in others {
        lost += last - other.await.unwrap();
    }
    println!("{last} {lost} {:.3}", super::ms(begin.elapsed()));
}

/// Reads to the end, fetches events that have left memory, and returns the number of events
/// in order.
async fn read_all(mut reader: Reader) -> u64 {
    let (mut next, mut seen) = (1, 0);
    let mut on_event = |seq: u64| {
        seen += u64::from(seq == next);
        next = seq + 1;
        next
    };
    while let Some(item) = reader.next().await {
        match item {
            ReadItem::Event(event) => drop(on_event(event.seq)),
            ReadItem::Gap { from, to } => {
                let mut at = from;
                while at <= to {
                    let page = reader.fetch(at, 256).unwrap();
                    assert!(!page.is_empty(), "events {at} to {to} can be fetched");
                    for event in page {
                        at = on_event(event.seq);
                    }
                }
            }
        }
    }
    seen
}
