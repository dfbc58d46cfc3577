//! Test support: invented sessions, and an executor without a runtime.

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use ostler_core::event::{
    Ended, Event, EventKind, Origin, Started, Text, TextKind, Timestamp, TurnEnded, TurnStarted,
};
use ostler_core::outcome::{Cause, Outcome};
use ostler_core::usage::{Tokens, Usage};
use ostler_store::{Log, LogEntry, LogError, NewSession, Store};

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks on a future without a runtime, since the store needs none.
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

pub(crate) fn new_session(session: &str, at: i64) -> NewSession {
    NewSession {
        session: session.into(),
        agent: "one".into(),
        dir: "/work".into(),
        at: Timestamp(at),
        continues: None,
        labels: std::collections::BTreeMap::new(),
        pid: std::process::id(),
    }
}

pub(crate) fn entry(session: &str, seq: u64, kind: impl Into<EventKind>) -> LogEntry {
    let at = Timestamp(1_000_000 + i64::try_from(seq).unwrap());
    LogEntry {
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

pub(crate) fn texts(session: &str, from: u64, count: u64) -> Vec<LogEntry> {
    (from..from + count)
        .map(|seq| entry(session, seq, text("some words of a reply")))
        .collect()
}

pub(crate) fn append(store: &Store, entries: Vec<LogEntry>) -> Result<(), LogError> {
    wait(store.append(Arc::new(entries)))
}

/// Returns the events of a session with one turn, from start to end.
pub(crate) fn whole_session(session: &str, prompt: &str, words: &str) -> Vec<LogEntry> {
    let started = Started {
        agent: "one".into(),
        agent_version: Some("1.2".into()),
        native_session: Some(format!("native-{session}")),
        model: Some("m".into()),
        cwd: None,
        tools: Vec::new(),
    };
    let outcome = Outcome::new(Cause::Completed, "done");
    let usage = Usage::for_turn(
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

/// Opens a session and stores all of its events.
pub(crate) fn store_whole(store: &Store, session: &str, at: i64) {
    store.open(&new_session(session, at)).unwrap();
    let mut entries = whole_session(session, "a task", "words");
    entries
        .iter_mut()
        .for_each(|entry| entry.event.at = Timestamp(at + 1));
    append(store, entries).unwrap();
}

/// Returns the permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions()) & 0o777
}
