//! Slow: a gigabyte through one session, and two hundred sessions through one process, measured.

use std::time::Instant;

use ostler::event::EventKind;
use ostler::{Cause, Session};
use ostler_core::lines::LINE_CAP;
use ostler_testkit::crowd::Crowd;
use ostler_testkit::processes;

use crate::rig::{Rig, left};

const GIB: usize = 1024 * 1024 * 1024;
const LONG_LINE: usize = 4 * 1024 * 1024;

/// Maximum memory of a process, whatever an agent prints (source S4).
const MOST_KIB: u64 = 50_000_000 / 1024;

fn own_rss_kib() -> u64 {
    processes::rss_kib(std::process::id()).unwrap()
}

/// Starts measuring the peak, in a process that is set up like `main` of the program `ostler`.
fn watch_peak() {
    ostler::host::return_large_buffers();
    processes::reset_own_peak();
}

/// Checks that the process has not exceeded its limit since [`watch_peak`].
fn check_peak(name: &str) {
    let peak = processes::peak_allocated_kib(std::process::id()).unwrap();
    assert!(peak < MOST_KIB, "{name}: {peak} KiB");
}

/// An agent that prints a flood in lines of this size.
fn flood(bytes: usize, line: usize) -> Rig {
    let mut rig = Rig::new(format!(
        "read\ninit\nflood {bytes} {line}\nresult done\nread-until-eof"
    ));
    rig.spec.limits.event_bytes = None;
    rig
}

/// Reads a session to its end, event by event. The whole flood must arrive, in order.
async fn drain(mut session: Session, expected: usize) {
    let (mut bytes, mut seq, mut ended) = (0, 0, None);
    while let Some(event) = session.next().await {
        assert_eq!(event.seq, seq + 1, "an event is missing");
        seq = event.seq;
        if let EventKind::Text(text) = &event.kind {
            bytes += text.text.len();
        }
        if let EventKind::Ended(it) = event.kind {
            ended = Some(it.outcome.cause);
        }
    }
    assert!(
        bytes > expected / 100 * 95,
        "only {bytes} bytes of text arrived"
    );
    assert_eq!(ended, Some(Cause::Completed));
}

// S4-34, S4-40: whatever an agent prints, memory stays flat.
#[tokio::test]
async fn a_gigabyte_of_output_keeps_memory_below_50_mb() {
    watch_peak();
    drain(flood(GIB, 64 * 1024).start(), GIB).await;
    check_peak("lines of 64 KiB");
}

// S4-34, S4-40: the length of the lines does not matter.
#[tokio::test]
async fn long_lines_keep_memory_flat() {
    let total = GIB / 4;
    watch_peak();
    drain(flood(total, LONG_LINE).start(), total).await;
    check_peak("lines of 4 MiB");
}

// S4-34: the content of the lines does not matter either: text with escapes cannot be borrowed from
// the line.
#[tokio::test]
async fn long_lines_with_escapes_keep_memory_flat() {
    let text = format!("{}\\n\\\"", "x".repeat(60)).repeat(LONG_LINE / 64);
    let block = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
    let line =
        format!(r#"{{"type":"assistant","message":{{"role":"assistant","content":{block}}}}}"#)
            + "\n";
    let mut rig = Rig::new("read\ninit\nloop 32\nfile $DIR/line\nend\nresult done\nread-until-eof");
    std::fs::write(rig.path("line"), line).unwrap();
    drop((text, block));
    rig.spec.limits.event_bytes = None;
    watch_peak();
    drain(rig.start(), 32 * LONG_LINE).await;
    check_peak("lines of 4 MiB with escapes");
}

// S4-34: unread events wait on disk, even if that is all of them, and are read back in small pages.
// This simulates a busy machine: the reader starts when the agent is done.
#[tokio::test]
async fn a_reader_that_stalls_keeps_memory_flat() {
    for line in [64 * 1024, LONG_LINE] {
        let total = GIB / 8;
        watch_peak();
        let rig = flood(total, line);
        let session = rig.start();
        let mut other = session.remote().events(1);
        while other.next().await.is_some() {} // until the end, without fetching what it misses
        drop(other);
        check_peak(&format!("{line} bytes per line, written"));
        drain(session, total).await;
        check_peak(&format!("{line} bytes per line, read"));
    }
}

// S4-34: one endless line needs at most the line cap in addition.
#[tokio::test]
async fn a_gigabyte_in_one_line_takes_no_more_than_the_cap() {
    watch_peak();
    let pieces = GIB / (1024 * 1024);
    let rig = Rig::new(format!(
        "read\ninit\nloop {pieces}\nfile $DIR/piece\nend\nprint \nresult done\nread-until-eof"
    ));
    std::fs::write(rig.path("piece"), vec![b'x'; 1024 * 1024]).unwrap();
    let session = rig.start();
    let own = std::process::id();
    let seen = crate::rig::finish(session).await;
    let peak = processes::peak_allocated_kib(own).unwrap();
    println!("one line: peak {} MiB", peak / 1024);
    // A line is read whole up to its cap; apart from that, it takes no more than any other output.
    assert!(peak < MOST_KIB + LINE_CAP as u64 / 1024, "{peak} KiB");
    let [line] = seen.unreadable()[..] else {
        panic!("not one line")
    };
    assert_eq!((line.length, line.raw.len()), (GIB as u64, 4096));
    assert_eq!(seen.outcome().cause, Cause::Completed);
}

// P2, P4: on a machine with many other processes, what an agent leaves behind is found, and nothing
// else is touched. The agent runs for long enough that every process is searched.
#[tokio::test]
async fn leftovers_are_found_among_2000_other_processes() {
    let crowd = Crowd::start(2_000);
    let rig = Rig::new(
        "read\ninit\nspawn-child $DIR/near\nspawn-setsid $DIR/far\nsleep 300\nresult hi\n\
         read-until-eof",
    );
    let seen = rig.run().await;
    assert_eq!(seen.outcome().cause, Cause::Completed);
    assert!(!processes::alive(rig.pid("near")) && !processes::alive(rig.pid("far")));
    assert!(crowd.is_complete(), "another process was killed");
}

// S4-35, S4-36: successes, deaths, failed starts, stops and dropped sessions in turn; none leaves
// anything behind.
#[tokio::test]
async fn two_hundred_runs_leak_nothing() {
    let good = Rig::new(
        "stderr hm\nread\ninit\nspawn-setsid\nflood 200000 2000\nresult hi\nread-until-eof",
    );
    let mut dead = Rig::new("read\ninit\nspawn-child\ndie-by 9");
    let mut missing = Rig::new("");
    missing.spec.program = Some("/nowhere/claude".into());
    let stopped = Rig::new("read\ninit\ntext working\nhang").grace_ms(20);
    // Broken agents are started anyway: that is what this test covers.
    for rig in [&mut dead, &mut missing] {
        rig.host = rig
            .host
            .clone()
            .with_breakers(ostler::agent::Breakers::off());
    }
    let own = std::process::id();
    let mut after_warm_up = None;
    let began = Instant::now();
    for round in 0..50 {
        assert_eq!(good.run().await.outcome().cause, Cause::Completed);
        assert_eq!(dead.run().await.outcome().cause, Cause::AgentDied);
        assert_eq!(missing.run().await.outcome().cause, Cause::Unavailable);
        let session = stopped.start();
        let id = session.id().to_owned();
        if round % 2 == 0 {
            session.remote().stop();
            crate::rig::finish(session).await;
        } else {
            drop(session);
            crate::rig::until("a dropped session goes", || left(&id).is_empty()).await;
        }
        if round == 10 {
            after_warm_up = Some((processes::open_fds(own).unwrap(), own_rss_kib()));
        }
    }
    println!("200 runs took {:?}", began.elapsed());
    let (fds, rss) = after_warm_up.unwrap();
    // The task of the last dropped session may take a moment to close its pipes.
    crate::rig::until("no more descriptors than before", || {
        processes::open_fds(own).unwrap() <= fds
    })
    .await;
    crate::rig::until("no child", || processes::descendants(own).is_empty()).await;
    assert!(!has_zombies(own), "a child was not waited for");
    let grown = own_rss_kib().saturating_sub(rss);
    println!("{fds} descriptors, {rss} KiB, grown by {grown} KiB");
    assert!(
        grown < 8 * 1024,
        "{grown} KiB more than after the first 44 runs"
    );
}

fn has_zombies(parent: u32) -> bool {
    let children = std::fs::read_dir(format!("/proc/{parent}/task"))
        .unwrap()
        .flatten()
        .filter_map(|thread| {
            let children = std::fs::read_to_string(thread.path().join("children")).ok()?;
            Some(
                children
                    .split_whitespace()
                    .filter_map(|pid| pid.parse().ok())
                    .collect::<Vec<u32>>(),
            )
        });
    children.flatten().any(processes::zombie)
}

/// Processes that have nothing to do with a session. They end with this value.
struct Foreign(Vec<std::process::Child>);

impl Foreign {
    fn start(count: usize) -> Self {
        let start = |_| {
            // Another session's mark is not this session's.
            std::process::Command::new("sleep")
                .arg("1000")
                .env("OSTLER_SESSION", "another")
                .spawn()
                .unwrap()
        };
        Self((0..count).map(start).collect())
    }

    fn all_live(&mut self) -> bool {
        let lives = |child: &mut std::process::Child| child.try_wait().unwrap().is_none();
        self.0.iter_mut().all(lives)
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

// P1, P2: sessions that end at the same time share one look at all processes. Each finds its own
// among 2,000 foreign ones, in its group and outside of it. None of the foreign ones is touched.
#[tokio::test]
async fn sessions_that_end_together_find_their_processes_among_2000() {
    let mut foreign = Foreign::start(2000);
    let rigs: Vec<Rig> = (0..8)
        .map(|_| {
            let spawned = "spawn-child $DIR/near\nspawn-setsid $DIR/far";
            Rig::new(format!("read\ninit\n{spawned}\nresult hi\nread-until-eof"))
        })
        .collect();
    let sessions = rigs.iter().map(|rig| crate::rig::finish(rig.start()));
    for seen in futures_util::future::join_all(sessions).await {
        assert_eq!(seen.outcome().cause, Cause::Completed);
    }
    for rig in &rigs {
        for name in ["near", "far"] {
            assert!(!processes::alive(rig.pid(name)), "{name} is left");
        }
    }
    assert!(foreign.all_live());
}
