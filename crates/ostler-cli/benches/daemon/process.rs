//! A server's process, as the kernel accounts for it.

use std::process::Child;
use std::time::Duration;

/// A server that is killed when the measurement ends.
pub(crate) struct Process {
    pub(crate) child: Child,
    /// Removed after the process has ended.
    pub(crate) _home: tempfile::TempDir,
}

impl Process {
    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// Returns the memory of the process, with pages that it shares with others.
    pub(crate) fn rss_kib(&self) -> u64 {
        sum(&self.read("smaps_rollup"), "Rss:")
    }

    /// Returns the memory that it shares with no other process.
    pub(crate) fn private_kib(&self) -> u64 {
        sum(&self.read("smaps_rollup"), "Private_")
    }

    /// Returns the processor time of the process, without its children.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = self.read("stat");
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        let fields = rest.split(' ').skip(11).take(2);
        let ticks: u64 = fields.map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10) // 100 ticks per second
    }
}

fn sum(text: &str, prefix: &str) -> u64 {
    let lines = text.lines().filter(|line| line.starts_with(prefix));
    let number = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
    lines.filter_map(number).sum()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
