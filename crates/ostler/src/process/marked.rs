//! Discovery of a session's processes by the mark in their environment (Linux), whatever group or
//! session they moved to. Sessions that end at the same time share one pass over `/proc`.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{OnceLock, mpsc};

use rustix::process::Signal;
use tokio::sync::oneshot;

use super::recent_pids::{self, PidRange, SpawnSnapshot};
use super::sweep::{ProcessRef, live, signal, stat};
use crate::host::SESSION_VARIABLE;

/// Initial size of the buffer for an environment.
const BUFFER_BYTES: usize = 32 * 1024;

/// The session whose processes to look for.
#[derive(Debug, Clone)]
pub(super) struct Query {
    /// The environment entry that identifies every process of the session.
    pub(super) mark: String,
    /// Id of the agent's process session.
    pub(super) session: Option<u32>,
    /// A snapshot from before the first of them was started. Without it, every process is visited.
    pub(super) since: Option<SpawnSnapshot>,
}

/// The result of a pass for one session.
#[derive(Debug, Clone, Default)]
pub(super) struct PassResult {
    /// Live processes with the mark, except this one.
    pub(super) marked: Vec<ProcessRef>,
    /// Whether the agent's process session has a process that is alive but has no environment,
    /// because it is exiting or in the middle of `exec`. Only suitable for waiting: session ids can
    /// be reused.
    pub(super) has_exiting: bool,
}

/// Returns the live processes whose environment contains `mark`, except this one.
pub(super) fn find_by_mark(mark: &str) -> Vec<ProcessRef> {
    let query = Query {
        mark: mark.to_owned(),
        session: None,
        since: None,
    };
    let found = pass(&[&query], None).remove(mark);
    found.unwrap_or_default().marked
}

/// Looks for the processes of a session: at once if only a few ids are possible, otherwise in a
/// pass shared by all sessions that request one before it begins. Returns `None` if the sweeper
/// thread is not running.
pub(super) async fn find(query: Query) -> Option<PassResult> {
    let range = PidRange::since([query.since]);
    if range.is_some_and(|range| range.is_short()) {
        return pass(&[&query], range).remove(&query.mark);
    }
    let (reply, found) = oneshot::channel();
    request(query, Some(reply));
    found.await.ok()
}

/// Requests that the processes of a session are killed, in a shared pass. Does not wait for it.
pub(super) fn kill(query: Query) {
    request(query, None);
}

/// A query and the channel for its result. Without a channel, the processes found are killed.
type Request = (Query, Option<oneshot::Sender<PassResult>>);

fn request(query: Query, reply: Option<oneshot::Sender<PassResult>>) {
    static THREAD: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    // If the thread has ended, the reply channel is dropped, and `find` returns `None`.
    let _ = THREAD.get_or_init(start_sweeper).send((query, reply));
}

/// Starts the sweeper thread, which makes the shared passes.
fn start_sweeper() -> mpsc::Sender<Request> {
    let (requests, inbox) = mpsc::channel::<Request>();
    let work = move || {
        while let Ok(first) = inbox.recv() {
            let batch: Vec<Request> = std::iter::once(first).chain(inbox.try_iter()).collect();
            let queries: Vec<&Query> = batch.iter().map(|(query, _)| query).collect();
            let found = pass(
                &queries,
                PidRange::since(queries.iter().map(|query| query.since)),
            );
            for (query, reply) in batch {
                let found = found.get(&query.mark).cloned().unwrap_or_default();
                match reply {
                    // The session may have been dropped.
                    Some(reply) => drop(reply.send(found)),
                    None => signal(&found.marked, Signal::KILL),
                }
            }
        }
    };
    // If the thread cannot be created, the channel is closed.
    let _ = std::thread::Builder::new()
        .name("ostler-sweeper".into())
        .spawn(work);
    requests
}

/// Visits every process that can belong to one of the sessions once, and returns the result for
/// each mark. Without a range, those are all processes.
fn pass(queries: &[&Query], range: Option<PidRange>) -> HashMap<String, PassResult> {
    let (mut found, mut marks) = (HashMap::new(), HashMap::new());
    for Query { mark, session, .. } in queries {
        found.insert(mark.clone(), PassResult::default());
        if let Some(session) = session.and_then(|id| i32::try_from(id).ok()) {
            marks.insert(session, mark.as_str());
        }
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut environ = Environ(Vec::with_capacity(BUFFER_BYTES));
    recent_pids::visit(range, |pid| {
        if pid == own {
            return;
        }
        let entries = environ.read(pid);
        if entries.is_empty() {
            let live = stat(pid).filter(|stat| !stat.zombie);
            let mark = live.and_then(|stat| marks.get(&stat.session));
            if let Some(found) = mark.and_then(|mark| found.get_mut(*mark)) {
                found.has_exiting = true;
            }
            return;
        }
        // Searching the whole environment is much faster than checking each entry.
        if std::str::from_utf8(entries).is_ok_and(|text| !text.contains(SESSION_VARIABLE)) {
            return;
        }
        let marks = entries
            .split(|byte| *byte == 0)
            .filter_map(|entry| std::str::from_utf8(entry).ok());
        for mark in marks {
            if let Some(found) = found.get_mut(mark) {
                found.marked.extend(live(pid));
            }
        }
    });
    found
}

/// A reusable buffer for the environment of a process.
struct Environ(Vec<u8>);

impl Environ {
    /// Returns the environment of a process. It is empty if there is none or it cannot be read.
    fn read(&mut self, pid: i32) -> &[u8] {
        self.0.clear();
        if let Ok(file) = File::open(format!("/proc/{pid}/environ")) {
            // The kernel fills the buffer as far as it can.
            while let Ok(1..) = rustix::io::read(&file, rustix::buffer::spare_capacity(&mut self.0))
                && self.0.len() == self.0.capacity()
            {
                self.0.reserve(self.0.len());
            }
        }
        &self.0
    }
}
