//! Bounds on what a session stores: a flood of any kind ends it, and its log and raw output stay
//! small.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use ostler::agent::ApiAgent;
use ostler::event::EventKind;
use ostler::testing::{Events, MockAgent, Script};
use ostler::{Agent, Cause, Event, Spec};
use ostler_core::log::older_raw;

use super::log::MemoryLog;
use crate::rig::{LONG, Rig, Seen, finish, host};

const LIMIT: u64 = 200_000;

fn size(events: &[Event]) -> u64 {
    events
        .iter()
        .map(|event| event.to_json().len() as u64)
        .sum()
}

/// Checks that a full log ended the session cleanly, and that the stored size is within the bound.
fn check(name: &str, seen: &Seen) {
    let outcome = seen.outcome();
    assert_eq!(outcome.cause, Cause::OutputLimit, "{name}: {outcome:?}");
    assert_eq!(seen.notices("log_full").len(), 1, "{name}");
    // The last events repeat the answer; the results of open calls are as small as the calls.
    assert!(
        size(&seen.0) <= 2 * LIMIT + 10_000,
        "{name}: {} bytes",
        size(&seen.0)
    );
}

// A model that streamed grew the store by 0.85 GB in 6 s. A flood now ends the session, and its log
// has every event, including the end.
#[tokio::test]
async fn a_flood_of_any_kind_ends_the_session() {
    let floods = [
        ("text", "loop forever\nflood 100000 1000\nend"),
        ("small pieces", "loop forever\ndelta x\nend"),
        (
            "unreadable lines",
            "loop forever\nprint this is not JSON\nend",
        ),
        (
            "unknown messages",
            "loop forever\nprint {\"type\":\"made_up\"}\nend",
        ),
        (
            "tool results",
            "loop forever\ntool-use t1 Bash {}\ntool-result t1 and so on and on\nend",
        ),
    ];
    for (name, flood) in floods {
        let mut rig = Rig::new(format!("read\ninit\n{flood}")).grace_ms(100);
        rig.spec.limits.event_bytes = Some(LIMIT);
        // If the bound is broken, an endless agent must not hang the test.
        rig.spec.limits.wall = Some(2 * LONG);
        let log = MemoryLog::default();
        rig.host = rig.host.with_log(Arc::new(log.clone()));
        let seen = rig.run().await;
        check(name, &seen);
        assert_eq!(
            log.events(&seen.0[0].session),
            seen.0,
            "{name}: the log has all of it, and its end"
        );
    }
}

// Without a log, unread events are spilled to a file: the same bound applies to it.
#[tokio::test]
async fn the_bound_holds_without_a_log() {
    let mut rig = Rig::new("read\ninit\nloop forever\nflood 100000 1000\nend").grace_ms(100);
    rig.spec.limits.event_bytes = Some(LIMIT);
    rig.spec.limits.wall = Some(2 * LONG);
    let session = rig.start();
    let outcome = session.remote();
    crate::rig::until("the session ends", || {
        outcome.status().state == ostler::event::SessionState::Ended
    })
    .await;
    check("no reader", &finish(session).await);
}

// Not only processes: also a model that Ostler calls itself, and played events.
#[tokio::test]
async fn the_bound_holds_for_agents_without_a_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = Spec::new("go").dir(dir.path());
    spec.limits.event_bytes = Some(LIMIT);
    let reply = format!("[[reply]]\ntext = \"{}\"\n", "and so on ".repeat(50_000));
    let model = ApiAgent::playing(Script::parse(&reply).unwrap());
    check(
        "model",
        &finish(model.start(&host(&[]), spec.clone()).unwrap()).await,
    );
    let line = format!(
        "{{\"type\":\"notice\",\"level\":\"info\",\"code\":\"x\",\"message\":\"{}\"}}\n",
        "x".repeat(900)
    );
    let mock = MockAgent::playing(line.repeat(1000).parse::<Events>().unwrap());
    check("mock", &finish(mock.start(&host(&[]), spec).unwrap()).await);
}

/// Runs a flood to its end. The raw output goes to the caller's file `own`, and to the log's file
/// `stored`, which has this limit.
async fn raw(limit: Option<u64>, flood: &str) -> (Rig, Seen) {
    let mut rig = Rig::new(format!("read\ninit\n{flood}\nresult done\nread-until-eof"));
    rig.spec.limits.raw_bytes = limit;
    rig.spec.raw_log = Some(rig.path("own"));
    let log = MemoryLog::with_raw(rig.path("stored"));
    rig.host = rig.host.with_log(Arc::new(log));
    let seen = rig.run().await;
    assert_eq!(seen.outcome().cause, Cause::Completed);
    (rig, seen)
}

#[tokio::test]
async fn the_oldest_raw_output_is_dropped_with_one_notice() {
    let (rig, seen) = raw(Some(100_000), "flood 1000000 1000").await;
    let older = older_raw(&rig.path("stored"));
    let stored = [std::fs::read(&older).unwrap(), rig.read("stored")].concat();
    assert!(
        (50_000..=100_000).contains(&stored.len()),
        "{}",
        stored.len()
    );
    let all = rig.read("own");
    assert!(
        all.len() > 1_000_000,
        "the caller's own file has everything"
    );
    assert!(
        all.ends_with(&stored),
        "the newest part is stored unchanged"
    );
    assert!(stored.starts_with(b"{"), "it begins with a line");
    assert_eq!(seen.notices("raw_dropped").len(), 1);
    for path in [older, rig.path("stored")] {
        assert_eq!(
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}

#[tokio::test]
async fn raw_output_within_the_limit_is_whole() {
    for limit in [None, Some(10_000_000)] {
        let (rig, seen) = raw(limit, "flood 1000000 1000").await;
        assert!(rig.read("stored") == rig.read("own"));
        assert!(seen.notices("raw_dropped").is_empty() && !older_raw(&rig.path("stored")).exists());
    }
}

#[tokio::test]
async fn raw_output_in_one_long_line_is_bounded_too() {
    let (rig, _) = raw(Some(100_000), "long-line 1000000").await;
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&rig.path("stored")) + size(&older_raw(&rig.path("stored"))) <= 100_000);
}

// Once the log is full, raw output is no longer stored either.
#[tokio::test]
async fn a_full_log_stores_no_raw_output() {
    let mut rig = Rig::new("read\ninit\nloop forever\nflood 100000 1000\nend").grace_ms(300);
    rig.spec.limits.event_bytes = Some(LIMIT);
    rig.spec.limits.wall = Some(2 * LONG);
    let log = MemoryLog::with_raw(rig.path("stored"));
    rig.host = rig.host.with_log(Arc::new(log));
    let seen = rig.run().await;
    check("flood", &seen);
    assert!(
        rig.read("stored").len() < 2 * 200_000 + 200_000,
        "{}",
        rig.read("stored").len()
    );
}

// Another session can resume one that ended because its log was full.
#[tokio::test]
async fn what_was_stored_can_be_continued() {
    let dir = tempfile::tempdir().unwrap();
    let script = |text: &str| ApiAgent::playing(Script::parse(text).unwrap());
    let log = Arc::new(MemoryLog::default());
    let host = host(&[]).with_log(log);
    let mut spec = Spec::new("go").dir(dir.path());
    spec.limits.event_bytes = Some(20_000);
    let reply = format!("[[reply]]\ntext = \"{}\"\n", "and so on ".repeat(10_000));
    let first = finish(script(&reply).start(&host, spec.clone()).unwrap()).await;
    assert_eq!(first.outcome().cause, Cause::OutputLimit);
    spec.set("resume", [first.0[0].session.to_string()])
        .unwrap();
    let second = finish(
        script("[[reply]]\ntext = \"done\"\n")
            .start(&host, spec)
            .unwrap(),
    )
    .await;
    assert_eq!(
        (second.outcome().cause, second.turn().text.as_str()),
        (Cause::Completed, "done")
    );
    assert!(
        second
            .kinds()
            .any(|kind| matches!(kind, EventKind::Started(_)))
    );
}
