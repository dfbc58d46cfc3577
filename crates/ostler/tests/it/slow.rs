//! Slow: a gigabyte through one session, and two hundred sessions through one process, measured.

use std::time::Instant;

use ostler::Cause;
use ostler::event::What;
use ostler_testkit::processes;

use crate::rig::{Rig, left};

const GIB: usize = 1024 * 1024 * 1024;

fn own_rss_kib() -> u64 {
    processes::rss_kib(std::process::id()).unwrap()
}

// S4-34, S4-40: whatever an agent prints, memory stays flat.
#[tokio::test]
async fn a_gigabyte_of_output_keeps_memory_below_100_mb() {
    for line in [64 * 1024, 4 * 1024 * 1024] {
        let rig = Rig::new(format!("read\ninit\nflood {GIB} {line}\nresult done\nread-until-eof"));
        let began = Instant::now();
        let mut session = rig.start();
        let (mut bytes, mut peak, mut last) = (0, 0, None);
        while let Some(event) = session.next().await {
            if let What::Text(text) = &event.what {
                bytes += text.text.len();
                peak = peak.max(own_rss_kib());
            }
            last = Some(event.what);
        }
        println!("{line} bytes per line: peak {} MiB, {:?}", peak / 1024, began.elapsed());
        assert!(bytes > GIB / 100 * 95, "only {bytes} bytes of text came");
        assert!(matches!(&last, Some(What::Ended(ended)) if ended.outcome.cause == Cause::Completed), "{last:?}");
        assert!(peak < 100_000_000 / 1024, "{peak} KiB");
    }
}

// S4-34: nor does one endless line.
#[tokio::test]
async fn a_gigabyte_in_one_line_keeps_memory_below_100_mb() {
    let pieces = GIB / (1024 * 1024);
    let rig = Rig::new(format!("read\ninit\nloop {pieces}\nfile $DIR/piece\nend\nprint \nresult done\nread-until-eof"));
    std::fs::write(rig.path("piece"), vec![b'x'; 1024 * 1024]).unwrap();
    let session = rig.start();
    let own = std::process::id();
    let seen = crate::rig::finish(session).await;
    let peak = processes::peak_rss_kib(own).unwrap();
    println!("peak {} MiB", peak / 1024);
    assert!(peak < 100_000_000 / 1024, "{peak} KiB");
    let [line] = seen.unreadable()[..] else { panic!("not one line") };
    assert_eq!((line.length, line.raw.len()), (GIB as u64, 4096));
    assert_eq!(seen.outcome().cause, Cause::Completed);
}

// S4-35, S4-36: good runs, deaths, failed starts, stops and dropped sessions in turn; nothing stays of any.
#[tokio::test]
async fn two_hundred_runs_leak_nothing() {
    let good = Rig::new("stderr hm\nread\ninit\nspawn-setsid\nflood 200000 2000\nresult hi\nread-until-eof");
    let mut dead = Rig::new("read\ninit\nspawn-child\ndie-by 9");
    let mut missing = Rig::new("");
    missing.spec.program = Some("/nowhere/claude".into());
    let stopped = Rig::new("read\ninit\ntext working\nhang").grace_ms(20);
    // What is broken is started all the same: that is what is tried here.
    for rig in [&mut dead, &mut missing] {
        rig.host = rig.host.clone().with_breakers(ostler::Breakers::off());
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
    // The task of the last dropped session may take a moment to let go of its pipes.
    crate::rig::until("no more descriptors than before", || processes::open_fds(own).unwrap() <= fds).await;
    crate::rig::until("no child", || processes::descendants(own).is_empty()).await;
    assert!(!has_zombies(own), "a child was not waited for");
    let grown = own_rss_kib().saturating_sub(rss);
    println!("{fds} descriptors, {rss} KiB, grown by {grown} KiB");
    assert!(grown < 8 * 1024, "{grown} KiB more than after the first 44 runs");
}

fn has_zombies(parent: u32) -> bool {
    let children = std::fs::read_dir(format!("/proc/{parent}/task")).unwrap().flatten().filter_map(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children")).ok()?;
        Some(children.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
    });
    children.flatten().any(processes::zombie)
}
