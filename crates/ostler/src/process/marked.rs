//! Discovery of a session's processes by the mark in their environment (Linux), wherever they moved
//! to. Sessions that end at the same time share one pass over `/proc`.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::sync::{OnceLock, mpsc};

use rustix::process::Signal;
use tokio::sync::oneshot;

use super::recent::{self, Since};
use super::sweep::{ProcessRef, live, signal, stat};
use crate::host::SESSION_VARIABLE;

/// Initial size of the buffer for an environment.
const BUFFER: usize = 32 * 1024;

/// The processes of a session to look for.
#[derive(Debug, Clone)]
pub(super) struct Query {
    /// The environment entry that identifies every process of the session.
    pub(super) mark: String,
    /// Id of the agent's process session.
    pub(super) session: Option<u32>,
    /// A moment before the first of them was started, if it is known. They are found without it,
    /// but every process is looked at.
    pub(super) since: Option<Since>,
}

/// What a pass found.
#[derive(Debug, Clone, Default)]
pub(super) struct Found {
    /// Live processes with the mark, except this one.
    pub(super) marked: Vec<ProcessRef>,
    /// Whether the agent's process session has a process that is alive but has no environment: one
    /// that is exiting, or for a moment one that is in `exec`. Only suitable for waiting, because
    /// session ids can be reused.
    pub(super) has_exiting: bool,
}

/// Returns the live processes whose environment contains `mark`, except this one.
pub(super) fn marked(mark: &str) -> Vec<ProcessRef> {
    let query = Query {
        mark: mark.to_owned(),
        session: None,
        since: None,
    };
    let found = pass(&[&query]).remove(mark);
    found.unwrap_or_default().marked
}

/// Looks for the processes of a session, in a pass that all sessions share that ask until it
/// begins. Returns `None` if that is not possible.
pub(super) async fn find(query: Query) -> Option<Found> {
    let (reply, found) = oneshot::channel();
    request(query, Some(reply));
    found.await.ok()
}

/// Kills the processes of a session soon, in a pass that sessions share.
pub(super) fn kill(query: Query) {
    request(query, None);
}

/// A query, and who waits for the result; what is found is killed if nobody does.
type Request = (Query, Option<oneshot::Sender<Found>>);

fn request(query: Query, reply: Option<oneshot::Sender<Found>>) {
    static THREAD: OnceLock<mpsc::Sender<Request>> = OnceLock::new();
    // If the thread has ended, the reply is dropped, and who waits for it gets nothing.
    let _ = THREAD.get_or_init(start).send((query, reply));
}

fn start() -> mpsc::Sender<Request> {
    let (requests, inbox) = mpsc::channel::<Request>();
    let work = move || {
        while let Ok(first) = inbox.recv() {
            let batch: Vec<Request> = std::iter::once(first).chain(inbox.try_iter()).collect();
            let queries: Vec<&Query> = batch.iter().map(|(query, _)| query).collect();
            let found = pass(&queries);
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

/// Looks once at every process that can belong to a session, and returns what was found for each
/// mark.
fn pass(queries: &[&Query]) -> HashMap<String, Found> {
    let (mut found, mut marks) = (HashMap::new(), HashMap::new());
    for Query { mark, session, .. } in queries {
        found.insert(mark.clone(), Found::default());
        if let Some(session) = session.and_then(|id| i32::try_from(id).ok()) {
            marks.insert(session, mark.as_str());
        }
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut environ = Environ(vec![0; BUFFER]);
    recent::visit(queries.iter().map(|query| query.since), |pid| {
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
        // Searching the whole is much faster than looking at each entry.
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
    /// Returns the environment of a process, empty if it has none or cannot be read.
    fn read(&mut self, pid: i32) -> &[u8] {
        let mut filled = 0;
        if let Ok(mut file) = File::open(format!("/proc/{pid}/environ")) {
            while let Ok(n @ 1..) = file.read(&mut self.0[filled..]) {
                filled += n;
                if filled < self.0.len() {
                    break; // the kernel fills the buffer as far as it can
                }
                self.0.resize(2 * filled, 0);
            }
        }
        &self.0[..filled]
    }
}
