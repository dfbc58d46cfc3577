//! Slow tests: memory stays flat under a flood of output, and a killed evaluation is resumed.

mod killed_evaluation;

use std::io::Read;
use std::time::Duration;

use ostler_testkit::crowd::Crowd;
use ostler_testkit::processes;

use crate::rig::Rig;

const MIB: u64 = 1024 * 1024;

/// Limit on the program's allocations, whatever the agent prints.
const MAX_KIB: u64 = 50_000_000 / 1024;

/// When the test reads stdout.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ReadTiming {
    Immediately,
    /// Once the agent has printed everything, so the reader is busy by construction.
    AfterAllIsPrinted,
}

/// Runs an agent that prints a flood in lines of this size, and checks the program's peak
/// allocations.
fn check_flood(total: u64, line: u64, timing: ReadTiming) {
    let rig = Rig::new();
    let printed = rig.path("printed");
    let script = format!(
        "read\ninit\nflood {total} {line}\npid-file {}\nresult done\nread-until-eof",
        printed.display()
    );
    let mut child = rig
        .fake_run(
            &script,
            &["--output", "events", "--max-log-size", "4GB", "hi"],
        )
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    if timing == ReadTiming::AfterAllIsPrinted {
        assert!(
            processes::wait_until(Duration::from_secs(280), || printed.exists()),
            "the agent blocks on a missing reader"
        );
    }
    let mut out = child.stdout.take().unwrap();
    let (mut peak, mut received, mut last) = (0, 0u64, Vec::new());
    let mut chunk = vec![0; 1024 * 1024];
    while let Ok(n @ 1..) = out.read(&mut chunk) {
        received += n as u64;
        last.extend_from_slice(&chunk[..n]);
        let keep = last.len().saturating_sub(64 * 1024);
        last.drain(..keep);
        peak = peak.max(processes::peak_allocated_kib(child.id()).unwrap_or(0));
    }
    assert!(child.wait().unwrap().success());
    assert!(
        received > total / 100 * 95,
        "only {received} bytes received"
    );
    assert!(String::from_utf8_lossy(&last).contains("\"cause\":\"completed\""));
    assert!(
        peak > 0 && peak < MAX_KIB,
        "{line} bytes per line, {timing:?}: peak of {peak} KiB"
    );
}

// S4-34, S4-40: a flood of output is stored and printed while the program stays under 50 MB. Lines
// of 4 MiB matter most: data in flight is bounded by bytes in every queue from the agent to stdout.
#[test]
fn flood_keeps_memory_flat() {
    check_flood(128 * MIB, 64 * 1024, ReadTiming::Immediately);
    check_flood(64 * MIB, 4 * MIB, ReadTiming::Immediately);
}

// S4-34: output that is not read waits in the log, not in memory.
#[test]
fn unread_flood_keeps_memory_flat() {
    check_flood(64 * MIB, 4 * MIB, ReadTiming::AfterAllIsPrinted);
}

// P2, P4, P67: on a machine with many other processes, the guard leaves nothing behind, however the
// session ends, and touches nothing else.
#[test]
fn the_guard_leaves_nothing_among_2000_other_processes() {
    let crowd = Crowd::start(2_000);
    crate::guard::children_are_killed_after_a_normal_exit();
    crate::guard::killing_ostler_leaves_no_process();
    assert!(crowd.is_complete(), "another process was killed");
}

// The daemon is killed at 50 moments; no log has a gap, an open turn or two ends.
#[test]
fn logs_survive_a_daemon_that_is_killed_again_and_again() {
    crate::chaos::run();
}
