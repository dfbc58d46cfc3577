//! Many more processes on the machine, as a build server or a desktop has.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::{fake, processes};

/// Sleeping processes that end with this value, or with this program.
#[derive(Debug)]
pub struct Crowd {
    leader: Child,
    count: usize,
}

impl Crowd {
    /// Starts `count` processes.
    ///
    /// # Panics
    /// If they cannot be started, or the program `crowd` has not been built.
    #[must_use]
    pub fn start(count: usize) -> Self {
        let leader = Command::new(fake::built("crowd"))
            .arg(count.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut leader = leader.expect("start crowd");
        let mut ready = String::new();
        let stdout = leader.stdout.take().expect("its stdout");
        BufReader::new(stdout).read_line(&mut ready).expect("read");
        assert_eq!(ready, "ready\n", "{count} processes do not start");
        Self { leader, count }
    }

    /// Returns true if all of them are still alive.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        processes::descendants(self.leader.id()).len() == self.count
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        drop(self.leader.stdin.take());
        let _ = self.leader.wait();
    }
}
