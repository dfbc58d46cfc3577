//! What takes long to prove: memory stays flat under a flood.

use std::io::Read;
use std::time::Duration;

use ostler_testkit::processes;

use crate::rig::Rig;

const MIB: u64 = 1024 * 1024;

/// What the program may allocate at most, whatever an agent prints (document 004).
const MOST_KIB: u64 = 50_000_000 / 1024;

/// When stdout is read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reads {
    AtOnce,
    /// When the agent has printed everything: a busy reader by construction.
    WhenAllIsPrinted,
}

/// Runs an agent that prints a flood in lines of this size, and checks what the program took at most.
fn flood(total: u64, line: u64, reads: Reads) {
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
    if reads == Reads::WhenAllIsPrinted {
        assert!(
            processes::wait_until(Duration::from_secs(280), || printed.exists()),
            "the agent waits for a reader"
        );
    }
    let mut out = child.stdout.take().unwrap();
    let (mut peak, mut came, mut last) = (0, 0u64, Vec::new());
    let mut chunk = vec![0; 1024 * 1024];
    while let Ok(n @ 1..) = out.read(&mut chunk) {
        came += n as u64;
        last.extend_from_slice(&chunk[..n]);
        let keep = last.len().saturating_sub(64 * 1024);
        last.drain(..keep);
        peak = peak.max(processes::peak_allocated_kib(child.id()).unwrap_or(0));
    }
    assert!(child.wait().unwrap().success());
    assert!(came > total / 100 * 95, "{came} bytes arrived");
    assert!(String::from_utf8_lossy(&last).contains("\"cause\":\"completed\""));
    assert!(
        peak > 0 && peak < MOST_KIB,
        "{line} bytes per line, {reads:?}: peak of {peak} KiB"
    );
}

// S4-34, S4-40: a flood of output, stored and printed, and the memory of the program stays under 50 MB. Lines of 4 MiB count
// most: what is in flight is bounded by bytes, in every queue from the agent to stdout.
#[test]
fn a_flood_keeps_memory_flat() {
    flood(128 * MIB, 64 * 1024, Reads::AtOnce);
    flood(64 * MIB, 4 * MIB, Reads::AtOnce);
}

// S4-34: what nobody reads waits in the log, not in memory.
#[test]
fn a_flood_that_nobody_reads_keeps_memory_flat() {
    flood(64 * MIB, 4 * MIB, Reads::WhenAllIsPrinted);
}
