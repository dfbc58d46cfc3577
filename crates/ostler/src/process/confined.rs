//! Putting a child under a confinement, and counting what it starts.

use std::io;
use std::os::unix::process::CommandExt;

use ostler_tools::confine::{Confinement, Kept, prepare};

/// Has `command` confined between fork and exec. What is returned is to be kept until everything has ended.
pub(super) fn confine(command: &mut std::process::Command, confinement: &Confinement) -> io::Result<Option<Kept>> {
    let (ready, kept) = prepare(confinement)?;
    #[expect(unsafe_code, reason = "there is no safe way to run code between fork and exec")]
    // SAFETY: `enter` was made for this place: it only makes system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || ready.enter());
    }
    Ok(kept)
}

/// A limit on the number of processes that the kernel may not hold by itself.
#[derive(Debug)]
pub(super) struct Crowd {
    most: u64,
    tasks_before: u64,
    looks: u32,
}

impl Crowd {
    /// A limit, if the confinement has one.
    pub(super) fn of(confinement: Option<&Confinement>) -> Option<Self> {
        let most = confinement?.limits.processes?;
        Some(Self { most, tasks_before: tasks(), looks: 0 })
    }

    /// Whether there are more than allowed. Counting looks at every process of the machine, so it is mostly done when the machine
    /// as a whole has many more than before.
    pub(super) fn is_too_large(&mut self, count: impl FnOnce() -> usize) -> bool {
        self.looks = self.looks.wrapping_add(1);
        let suspicious = tasks() > self.tasks_before + self.most / 2;
        (suspicious || self.looks.is_multiple_of(20)) && count() as u64 > self.most
    }
}

/// How many threads the machine runs: the second half of the fourth word.
fn tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = text.split_whitespace().nth(3).and_then(|word| word.split_once('/')?.1.parse().ok());
    tasks.unwrap_or(u64::MAX / 2)
}
