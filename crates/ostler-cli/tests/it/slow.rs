//! What takes long to prove: memory stays flat under a flood.

use std::io::Read;

use ostler_testkit::processes;

use crate::rig::Rig;

// S4-34, S4-40: a gigabyte of output, and the program's own memory stays under 100 MB.
#[test]
fn a_flood_of_one_gibibyte_keeps_memory_flat() {
    let rig = Rig::new();
    let script = "read\ninit\nflood 1073741824 65536\nresult done\nread-until-eof";
    let mut child =
        rig.fake_run(script, &["--output", "events", "hi"]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut peak, mut total, mut last) = (0, 0u64, Vec::new());
    let mut chunk = vec![0; 1024 * 1024];
    while let Ok(n @ 1..) = out.read(&mut chunk) {
        total += n as u64;
        last.extend_from_slice(&chunk[..n]);
        let keep = last.len().saturating_sub(64 * 1024);
        last.drain(..keep);
        peak = peak.max(processes::peak_rss_kib(child.id()).unwrap_or(0));
    }
    assert!(child.wait().unwrap().success());
    assert!(total > 1_000_000_000, "{total} bytes arrived");
    assert!(String::from_utf8_lossy(&last).contains("\"cause\":\"completed\""));
    assert!(peak > 0 && peak < 100 * 1024, "peak of {peak} KiB");
}
