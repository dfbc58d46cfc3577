//! Attacks on live sessions found in a review: each of these once went wrong.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::event::{EventKind, NoticeCode};
use ostler::log::{LogError, NewSession, SessionRecord};
use ostler::spec::AfterTurn;
use ostler::{Event, Log};
use ostler_core::log::{AppendFuture, LogEntry};

use crate::rig::{LONG, PATH, Rig, host, read_until, until};

#[derive(Default)]
struct Inner {
    entries: Mutex<Vec<LogEntry>>,
    panics: AtomicBool,
    /// Whether the last append waits for `release`, and whether it has begun.
    holds_end: bool,
    holding: AtomicBool,
    release: tokio::sync::Notify,
    breaks_after: Option<usize>,
    breaks_at_end: bool,
    appends: AtomicUsize,
}
#[derive(Clone, Default)]
struct Stub(Arc<Inner>);
impl Log for Stub {
    fn open(&self, _: &NewSession) -> Result<(), LogError> {
        Ok(())
    }
    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
        let log = self.0.clone();
        Box::pin(async move {
            assert!(!log.panics.load(Ordering::Relaxed), "the log panics");
            let end = entries
                .iter()
                .any(|e| matches!(e.event.kind, EventKind::Ended(_)));
            if log.holds_end && end {
                log.holding.store(true, Ordering::Relaxed);
                log.release.notified().await;
            }
            if log.breaks_at_end && end {
                return Err(LogError("disk full".into()));
            }
            if log
                .breaks_after
                .is_some_and(|n| log.appends.fetch_add(1, Ordering::Relaxed) >= n)
            {
                return Err(LogError("the disk is full".into()));
            }
            log.entries.lock().unwrap().extend(entries.iter().cloned());
            Ok(())
        })
    }
    fn read(&self, _: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        let entries = self.0.entries.lock().unwrap();
        Ok(entries
            .iter()
            .map(|e| &e.event)
            .filter(|e| e.seq >= from)
            .take(most)
            .cloned()
            .collect())
    }
    fn raw(&self, _: &str) -> Option<PathBuf> {
        None
    }
    fn find(&self, _: &str) -> Result<Option<SessionRecord>, LogError> {
        Ok(None)
    }
}

const GONE: &str = "read-user\ninit\ntext one\nresult one\nexit 3";

fn refused_sends(events: &[Event]) -> usize {
    events
        .iter()
        .filter(|e| matches!(&e.kind, EventKind::Refused(r) if r.request.as_str() == "send"))
        .count()
}

// A message after a stop is refused by an event or by the call's error, even if the agent is not
// running.
#[tokio::test]
async fn a_message_after_a_stop_is_refused_or_an_error() {
    let mut rig = Rig::new(GONE);
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    let gone = |kind: &EventKind| {
        matches!(kind,
        EventKind::Notice(notice) if notice.code.as_str() == "agent_gone")
    };
    read_until(&mut session, gone).await;
    until("gone", || session.remote().pid().is_none()).await;
    session.stop();
    let sent = session.send("lost?");
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    assert!(
        sent.is_err() || refused_sends(&events) == 1,
        "accepted and lost"
    );
}

// The same during startup.
#[tokio::test]
async fn a_message_after_a_stop_at_the_start_is_not_lost() {
    let mut rig = Rig::new(GONE).behind("#!/bin/sh\nsleep 1\nexec $FAKE \"$@\"\n");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    tokio::task::yield_now().await;
    session.stop();
    let sent = session.send("lost?");
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    assert!(
        sent.is_err() || refused_sends(&events) >= 1,
        "accepted and lost"
    );
}

// A message sent while a slow log stores the last events is refused, not accepted and lost. With an
// agent that runs until the stop, and with one that exited before.
#[tokio::test]
async fn message_while_the_last_events_are_stored_is_refused() {
    for exited in [false, true] {
        let mut rig = Rig::new(if exited {
            GONE
        } else {
            "read-user\ninit\ntext one\nresult one\nread-until-eof"
        });
        rig.spec.after_turn = AfterTurn::Wait;
        let log = Stub(Arc::new(Inner {
            holds_end: true,
            ..Inner::default()
        }));
        rig.host = rig.host.with_log(Arc::new(log.clone()));
        let mut session = rig.start();
        read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
        if exited {
            until("gone", || session.remote().pid().is_none()).await;
        }
        session.stop();
        until("the last events are on their way into the log", || {
            log.0.holding.load(Ordering::Relaxed)
        })
        .await;
        let sent = session.send("lost?");
        log.0.release.notify_one();
        let mut events = Vec::new();
        while let Some(event) = session.next().await {
            events.push(event);
        }
        assert!(
            sent.is_err() || refused_sends(&events) == 1,
            "exited {exited}: accepted and lost"
        );
    }
}

// A panic in a log ends the session for its readers; none waits forever.
#[tokio::test]
async fn a_log_that_panics_leaves_no_reader_waiting() {
    let mut rig = Rig::new("read-user\ninit\ntext one\nresult one\nread-until-eof");
    let log = Stub::default();
    log.0.panics.store(true, Ordering::Relaxed);
    rig.host = rig.host.with_log(Arc::new(log));
    let mut session = rig.start();
    let run = tokio::time::timeout(LONG, session.wait()).await;
    assert!(run.is_ok(), "Session::wait hangs forever");
}

// The same when the runtime is dropped.
#[test]
fn dropped_runtime_leaves_no_reader_waiting() {
    let rig = Rig::new("read-user\ninit\nhang");
    let first = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut session = first.block_on(async {
        let mut s = rig.start();
        read_until(&mut s, |w| matches!(w, EventKind::Started(_))).await;
        s
    });
    first.shutdown_timeout(Duration::from_secs(5));
    let second = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let run = second.block_on(async { tokio::time::timeout(LONG, session.wait()).await });
    assert!(run.is_ok(), "Session::wait hangs forever");
}

// Events cannot be spilled: the agent is held up, and a reader that starts late gets every event.
#[tokio::test]
async fn late_reader_gets_every_event_if_none_can_be_spilled() {
    let mut rig = Rig::new("read\ninit\nflood 20000000 2000\nresult done\nread-until-eof");
    rig.host = host(&[("PATH", PATH), ("TMPDIR", "/nonexistent")]);
    let mut session = rig.start();
    tokio::time::sleep(Duration::from_millis(1000)).await;
    let (mut n, mut last, mut ended) = (0u64, 0, false);
    loop {
        match tokio::time::timeout(LONG, session.next()).await {
            Err(_) => break,
            Ok(None) => {
                ended = true;
                break;
            }
            Ok(Some(event)) => {
                n += 1;
                last = event.seq;
            }
        }
    }
    session.kill();
    assert!(ended, "stuck after {n} events, last {last}");
    assert!(n > 1000, "{n} events of a flood");
    assert_eq!(n, last, "events are missing");
}

// A slow reader gets every event: those the log stored before it failed, and those spilled
// afterwards.
#[tokio::test]
async fn events_of_a_failed_log_can_still_be_read() {
    let mut rig = Rig::new(
        "read\ninit\nflood 20000000 2000\npid-file $DIR/flooded\nresult done\nread-until-eof",
    );
    let log = Stub(Arc::new(Inner {
        breaks_after: Some(80),
        ..Inner::default()
    }));
    rig.host = rig.host.with_log(Arc::new(log.clone()));
    let mut session = rig.start();
    until("flooded", || rig.path("flooded").exists()).await;
    let mut seqs = Vec::new();
    while let Some(event) = session.next().await {
        seqs.push(event.seq);
    }
    let last = *seqs.last().unwrap();
    assert_eq!(seqs.len() as u64, last);
}

// The event of a last line without a newline has that line's offset in the raw output.
#[tokio::test]
async fn last_line_without_a_newline_has_its_offset() {
    let mut rig = Rig::new("read-user\ninit\ntext one\nprint-nonl {\"type\":\"odd\"}\nexit 0");
    rig.spec.raw_log = Some(rig.path("raw"));
    let log = Stub::default();
    rig.host = rig.host.with_log(Arc::new(log.clone()));
    let mut session = rig.start();
    session.wait().await;
    let raw = rig.text("raw");
    let at = raw.rfind("{\"type\":\"odd\"}").unwrap() as u64;
    let entries = log.0.entries.lock().unwrap();
    let odd = entries
        .iter()
        .find(|e| matches!(&e.event.kind, EventKind::Notice(n) if n.code.as_str() == "unknown_message"))
        .unwrap();
    assert_eq!(odd.raw_offset, at);
}

// A failure of the very last append is reported too.
#[tokio::test]
async fn failure_of_the_last_append_is_reported() {
    let mut rig = Rig::new("read-user\ninit\ntext one\nresult one\nread-until-eof");
    rig.host = rig.host.with_log(Arc::new(Stub(Arc::new(Inner {
        breaks_at_end: true,
        ..Inner::default()
    }))));
    let mut session = rig.start();
    let mut events = Vec::new();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    assert!(
        events
            .iter()
            .any(|e| matches!(&e.kind, EventKind::Notice(n) if n.code.as_str() == "store_failed")),
        "the failure is not reported"
    );
}

// The agent dies before a steering message could be written to it: a notice or a refusal says so.
#[tokio::test]
async fn undelivered_steered_message_is_reported() {
    let mut rig = Rig::new("read-user\nwait-file $DIR/go\ndie-by 9");
    rig.spec.after_turn = AfterTurn::Wait;
    let mut session = rig.start();
    let mut events = read_until(&mut session, |kind| {
        matches!(kind, EventKind::TurnStarted(_))
    })
    .await;
    session
        .remote()
        .send_when("steer me", ostler::session::WhenBusy::Steer)
        .unwrap();
    std::fs::write(rig.path("go"), "").unwrap();
    events.extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
    session.stop();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    let has_notice = |code: &str| {
        events
            .iter()
            .any(|e| matches!(&e.kind, EventKind::Notice(n) if n.code.as_str() == code))
    };
    assert!(
        has_notice("steer_dropped") || refused_sends(&events) == 1,
        "the steered message was never written, and no event reports it"
    );
}

struct Slow(Stub, Duration);
impl Log for Slow {
    fn open(&self, o: &NewSession) -> Result<(), LogError> {
        self.0.open(o)
    }
    fn append(&self, entries: Arc<Vec<LogEntry>>) -> AppendFuture {
        let (next, wait) = (self.0.append(entries), self.1);
        Box::pin(async move {
            tokio::time::sleep(wait).await;
            next.await
        })
    }
    fn read(&self, s: &str, from: u64, most: usize) -> Result<Vec<Event>, LogError> {
        self.0.read(s, from, most)
    }
    fn raw(&self, _: &str) -> Option<PathBuf> {
        None
    }
    fn find(&self, _: &str) -> Result<Option<SessionRecord>, LogError> {
        Ok(None)
    }
}

// The agent's session id is known at once, however slow the log is: a restarted agent does not
// start over.
#[tokio::test]
async fn a_slow_log_does_not_make_an_agent_forget() {
    for slow in [0, 800] {
        let rig = Rig::new("dump-args $DIR/args\nread-user\ninit\ntext half\nsleep 200\ndie-by 9");
        let mut rig = rig.behind("#!/bin/sh\nexec $FAKE \"$@\"\n");
        rig.spec.after_turn = AfterTurn::Wait;
        rig.host = rig
            .host
            .with_log(Arc::new(Slow(Stub::default(), Duration::from_millis(slow))));
        let mut session = rig.start();
        session.send("two").unwrap();
        let mut events =
            read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
        events
            .extend(read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await);
        session.stop();
        while let Some(event) = session.next().await {
            events.push(event);
        }
        let fresh = events
            .iter()
            .any(|e| matches!(&e.kind, EventKind::Notice(n) if n.code.as_str() == "fresh_start"));
        assert!(
            !fresh,
            "log that takes {slow} ms: the conversation was lost"
        );
    }
}

// A change requested while the agent starts is not confirmed before the agent received it.
#[tokio::test]
async fn a_model_that_is_set_at_the_start_reaches_the_agent() {
    let mut claimed = 0;
    for _ in 0..8 {
        let mut rig = Rig::new(
            "dump-args $DIR/args\nread-user\ninit\ntext one\nresult one\ndump-stdin $DIR/stdin\nread-until-eof",
        );
        rig.spec.after_turn = AfterTurn::Wait;
        let mut session = rig.start();
        let remote = session.remote();
        let change = tokio::time::timeout(Duration::from_secs(2), remote.set_model("other-model"));
        let (done, _) = tokio::join!(
            change,
            read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_)))
        );
        // The agent writes its files when it gets to them.
        let written = |name: &str| std::fs::read_to_string(rig.path(name)).unwrap_or_default();
        let reached =
            || written("args").contains("other-model") || written("stdin").contains("other-model");
        if matches!(done, Ok(Ok(()))) {
            claimed += 1;
            until("the confirmed change reaches the agent", reached).await;
        }
        session.kill();
        while session.next().await.is_some() {}
    }
    assert!(claimed > 0, "no change was made at all");
}

struct Block;
impl ostler::Tool for Block {
    fn name(&self) -> &str {
        "block"
    }
    fn description(&self) -> &str {
        "b"
    }
    fn schema(&self) -> String {
        r#"{"type":"object"}"#.into()
    }
    fn call<'a>(&'a self, _: &'a str) -> ostler::tools::ToolFuture<'a> {
        Box::pin(async {
            std::thread::sleep(Duration::from_secs(2));
            Ok("x".into())
        })
    }
}

// A tool that blocks its thread gets the agent ended. The next message restarts it from the stored
// events: no notice reports a fresh start.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn restarted_agent_without_memory_reports_no_fresh_start() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.toml"), "[[reply]]\nwhen = { prompt = \"block\" }\ncalls = [{ tool = \"block\", input = {} }]\nrepeat = true\n[[reply]]\nrepeat = true\ntext = \"ok\"\n").unwrap();
    let mut spec = ostler::Spec::new("my name is Ann")
        .after_turn(AfterTurn::Wait)
        .dir(dir.path().to_owned());
    spec.set("script", [dir.path().join("s.toml").to_str().unwrap()])
        .unwrap();
    spec.limits.grace = Duration::from_millis(150);
    let log = Stub::default();
    let host = ostler::Host::default()
        .with_tool(Block)
        .with_log(Arc::new(log));
    let mut session = ostler::Agents::builtin()
        .get("scripted")
        .unwrap()
        .start(&host, spec)
        .unwrap();
    let mut events = read_until(&mut session, |kind| matches!(kind, EventKind::TurnEnded(_))).await;
    session.send("block").unwrap();
    events.extend(read_until(&mut session, |kind| matches!(kind, EventKind::ToolCall(_))).await);
    session.interrupt().await;
    session.send("what is my name?").unwrap();
    events.extend(
        read_until(
            &mut session,
            |kind| matches!(kind, EventKind::TurnEnded(t) if t.text == "ok"),
        )
        .await,
    );
    session.send("block").unwrap();
    events.extend(read_until(&mut session, |kind| matches!(kind, EventKind::ToolCall(_))).await);
    session.interrupt().await;
    session.send("and now?").unwrap();
    events.extend(
        read_until(
            &mut session,
            |kind| matches!(kind, EventKind::TurnEnded(t) if t.text == "ok"),
        )
        .await,
    );
    session.stop();
    while let Some(event) = session.next().await {
        events.push(event);
    }
    let codes: Vec<_> = events
        .iter()
        .filter_map(|e| {
            if let EventKind::Notice(n) = &e.kind {
                Some(n.code.clone())
            } else {
                None
            }
        })
        .collect();
    assert!(
        !codes.contains(&NoticeCode::FreshStart),
        "the log has it all, and the agent begins anew"
    );
}
