//! The thread that spawns children.
//!
//! The parent-death signal is tied to the *thread* that spawned the child. A child spawned from a
//! thread pool would die when the pool releases that thread. The main thread lives as long as the
//! process; on any other, children are spawned by a thread that does.

use std::io;
use std::sync::{OnceLock, mpsc};

type Job = Box<dyn FnOnce() + Send>;

static THREAD: OnceLock<mpsc::Sender<Job>> = OnceLock::new();

/// Runs a job that spawns a child, and waits for its result.
pub(super) fn run<T: Send + 'static>(
    job: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    if lives_as_long_as_process() {
        return job();
    }
    let gone = || io::Error::other("the thread that spawns processes has ended");
    let (reply, result) = mpsc::channel();
    let job = move || drop(reply.send(job()));
    let sent = THREAD.get_or_init(start).send(Box::new(job));
    sent.map_err(|_| gone())?;
    result.recv().map_err(|_| gone())?
}

/// Returns true if the current thread is the main thread, or if it makes no difference.
fn lives_as_long_as_process() -> bool {
    #[cfg(target_os = "linux")]
    return rustix::thread::gettid() == rustix::process::getpid();
    #[cfg(not(target_os = "linux"))]
    true
}

fn start() -> mpsc::Sender<Job> {
    let (jobs, inbox) = mpsc::channel::<Job>();
    let work = move || inbox.into_iter().for_each(|job| job());
    // If the thread cannot be created, the channel is closed and every spawn fails with an error.
    let _ = std::thread::Builder::new()
        .name("ostler-spawner".into())
        .spawn(work);
    jobs
}
