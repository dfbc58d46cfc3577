//! Many sleeping processes on the machine: `crowd COUNT`.
//!
//! It prints a line once all of them exist, and ends them when its stdin is closed. They also end
//! if it is killed.

#![expect(
    clippy::disallowed_methods,
    reason = "a test tool whose forked processes end without returning from `main`"
)]

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    {
        use std::io::Write;

        match linux::run() {
            Ok(()) => return ExitCode::SUCCESS,
            Err(error) => drop(writeln!(std::io::stderr(), "crowd: {error}")),
        }
    }
    ExitCode::FAILURE
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Read, Write};

    use rustix::process::{
        Pid, Signal, WaitOptions, getpid, getppid, kill_process, set_parent_process_death_signal,
        waitpid,
    };

    pub(super) fn run() -> io::Result<()> {
        let count = std::env::args().nth(1).and_then(|count| count.parse().ok());
        let count: usize = count.ok_or_else(|| io::Error::other("usage: crowd COUNT"))?;
        let mut members = Members(Vec::with_capacity(count));
        let leader = getpid();
        for _ in 0..count {
            match fork()? {
                Some(member) => members.0.push(member),
                None => sleep(leader),
            }
        }
        io::stdout().write_all(b"ready\n")?;
        io::stdin().read_to_end(&mut Vec::new())?;
        Ok(())
    }

    /// Forks this process. Returns `None` in the child.
    fn fork() -> io::Result<Option<Pid>> {
        #[expect(unsafe_code, reason = "there is no safe wrapper")]
        // SAFETY: this process has a single thread, so the child may do whatever its parent may.
        let forked = unsafe { libc::fork() };
        match forked {
            -1 => Err(io::Error::last_os_error()),
            child => Ok(Pid::from_raw(child)),
        }
    }

    /// Sleeps until the leader ends.
    fn sleep(leader: Pid) -> ! {
        let set = set_parent_process_death_signal(Some(Signal::KILL));
        if set.is_err() || getppid() != Some(leader) {
            std::process::exit(1);
        }
        loop {
            std::thread::park();
        }
    }

    /// Processes that are killed and reaped when this is dropped.
    struct Members(Vec<Pid>);

    impl Drop for Members {
        fn drop(&mut self) {
            for member in &self.0 {
                let _ = kill_process(*member, Signal::KILL);
            }
            for member in &self.0 {
                let _ = waitpid(Some(*member), WaitOptions::empty());
            }
        }
    }
}
