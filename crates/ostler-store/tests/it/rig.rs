//! Sessions made up for tests, and a way to wait for a future without a runtime.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use ostler_core::event::{
    At, Ended, Event, EventKind, Origin, Started, Text, TextKind, TurnEnded, TurnStarted,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::{Tokens, Usage};
use ostler_store::{Entry, Log, LogError, Opening, Store};

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread: the store needs no runtime.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        std::thread::park();
    }
}

pub(crate) fn opening(session: &str, at: i64) -> Opening {
    Opening {
        session: session.into(),
        agent: "one".into(),
        dir: "/work".into(),
        at: At(at),
        continues: None,
        pid: std::process::id(),
    }
}

pub(crate) fn entry(session: &str, seq: u64, kind: impl Into<EventKind>) -> Entry {
    let at = At(1_000_000 + i64::try_from(seq).unwrap());
    Entry {
        event: Event {
            seq,
            at,
            session: session.into(),
            turn: 1,
            kind: kind.into(),
        },
        raw_offset: seq * 10,
    }
}

pub(crate) fn text(words: &str) -> Text {
    Text {
        kind: TextKind::Reply,
        text: words.into(),
        delta: true,
        message: None,
        parent: None,
    }
}

pub(crate) fn texts(session: &str, from: u64, count: u64) -> Vec<Entry> {
    (from..from + count)
        .map(|seq| entry(session, seq, text("some words of a reply")))
        .collect()
}

pub(crate) fn append(store: &Store, entries: Vec<Entry>) -> Result<(), LogError> {
    wait(store.append(Arc::new(entries)))
}

/// A session from its beginning to its end, one turn, so many words.
pub(crate) fn whole(session: &str, prompt: &str, words: &str) -> Vec<Entry> {
    let started = Started {
        agent: "one".into(),
        agent_version: Some("1.2".into()),
        native_session: Some(format!("native-{session}")),
        model: Some("m".into()),
        cwd: None,
        tools: Vec::new(),
    };
    let outcome = Outcome::new(Cause::Completed, "done");
    let usage = Usage::of(
        Some("m".into()),
        Tokens {
            input: 3,
            output: 4,
            ..Tokens::default()
        },
    )
    .reported(0.5);
    vec![
        entry(session, 1, started),
        entry(
            session,
            2,
            TurnStarted {
                origin: Origin::Caller,
                prompt: Some(prompt.into()),
            },
        ),
        entry(session, 3, text(words)),
        entry(
            session,
            4,
            TurnEnded {
                outcome: outcome.clone(),
                text: words.into(),
                structured: None,
                usage: Some(usage.clone()),
            },
        ),
        entry(
            session,
            5,
            Ended {
                outcome,
                exit_code: Some(0),
                signal: None,
                usage: Some(usage),
            },
        ),
    ]
}

/// Opens a session and keeps it whole.
pub(crate) fn keep_whole(store: &Store, session: &str, at: i64) {
    store.open(&opening(session, at)).unwrap();
    let mut entries = whole(session, "a task", "words");
    entries
        .iter_mut()
        .for_each(|entry| entry.event.at = At(at + 1));
    append(store, entries).unwrap();
}

/// The mode of a file, its permissions alone.
pub(crate) fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions()) & 0o777
}
