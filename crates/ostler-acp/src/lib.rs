//! Serves an agent to an editor over the [Agent Client Protocol](https://agentclientprotocol.com)
//! (ACP), with any number of sessions.
//!
//! ```
//! use std::io;
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use ostler::{Agents, Host, Spec};
//! use ostler::spec::{AfterTurn, Attendance};
//! use ostler_acp::{Embedder, Pipes, PrepareError, PreparedSession, ServeEnd, Service};
//!
//! struct Program;
//!
//! impl Embedder for Program {
//!     fn prepare(&self, dir: &Path) -> Result<PreparedSession, PrepareError> {
//!         let spec = Spec::default()
//!             .dir(dir)
//!             .after_turn(AfterTurn::Wait)
//!             .attendance(Attendance::Attended);
//!         Ok(PreparedSession { host: Host::default(), spec })
//!     }
//!
//!     fn warn(&self, warning: &str) {
//!         eprintln!("{warning}");
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let agent = Agents::builtin().get("scripted").expect("a built-in agent");
//! let service = Service {
//!     dialect: agent.dialect(),
//!     agent,
//!     host: Host::default(),
//!     store: None,
//!     settings_hint: "see the manual for the settings".into(),
//!     embedder: Arc::new(Program),
//! };
//! let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
//! let pipes = Pipes { input: request.as_bytes(), output: io::sink() };
//! let end = ostler_acp::serve(service, pipes, std::future::pending).await;
//! assert_eq!(end.expect("pipes that work"), ServeEnd::Disconnected);
//! # });
//! ```
//!
//! The server reads one JSON-RPC message per line from [`Pipes::input`], and starts a session of
//! the agent for each that the editor opens. An [`Embedder`] provides the spec of each session, so
//! configuration, policy and trust stay with the program.

mod editor_session;
mod embedder;
mod history;
mod permission_question;
mod pipes;
mod prompt;
mod request;
mod server;
mod session_params;
mod stop_reason;
mod tool;
mod update;
mod wire;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use ostler::dialect::Dialect;
use ostler::{Agent, Host};
use ostler_store::Store;
use tokio::sync::mpsc;
use tracing::debug;

pub use self::embedder::{Embedder, PrepareError, PreparedSession};
use self::pipes::InputLine;
use self::request::EditorRequest;
use self::server::{QUEUE_LIMIT, Server};

/// The agent to serve, and what its sessions have in common.
pub struct Service {
    /// The agent.
    pub agent: Arc<dyn Agent>,
    /// Dialect of the agent, unless the spec of a session selects another.
    pub dialect: &'static dyn Dialect,
    /// Host for requests that belong to no session.
    pub host: Host,
    /// Store of earlier sessions. Without it, the editor can neither list nor load any.
    pub store: Option<Arc<Store>>,
    /// Hint for the user if the agent rejects a spec.
    pub settings_hint: String,
    /// The program around the server.
    pub embedder: Arc<dyn Embedder>,
}

/// Connection to the editor. Each direction has its own thread, so blocking pipes are fine.
pub struct Pipes<R, W> {
    /// Messages from the editor, until it closes.
    pub input: R,
    /// Messages to the editor.
    pub output: W,
}

/// Why the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeEnd {
    /// The editor closed its end of a pipe.
    Disconnected,
    /// The caller stopped the server.
    Stopped,
}

/// Error of the connection to the editor.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The output could not be written.
    #[error("cannot write the output: {0}")]
    Write(io::Error),
}

/// Serves until the editor closes a pipe or the caller stops the server.
///
/// `stop` is called for a future that resolves when the server should stop, and again while
/// sessions are ending: the second time, they are killed. A future may be dropped before it
/// resolves.
///
/// # Errors
///
/// Returns an error if the threads for the pipes cannot be started, or the output cannot be
/// written.
pub async fn serve<R, W>(
    service: Service,
    pipes: Pipes<R, W>,
    mut stop: impl AsyncFnMut(),
) -> Result<ServeEnd, ServeError>
where
    R: Read + Send + 'static,
    W: Write + Send + 'static,
{
    let mut lines = pipes::spawn_reader(pipes.input).map_err(ServeError::Thread)?;
    let (out, done) = pipes::spawn_writer(pipes.output).map_err(ServeError::Thread)?;
    let mut server = Server::new(service, out);
    let end = serve_requests(&mut server, &mut lines, &mut stop).await;
    debug!(?end, sessions = server.tasks.len(), "ending all sessions");
    let editor_reads = end_sessions(&mut server, &mut stop).await;
    drop(server);
    // The last lines are still to be written.
    let timeout = if editor_reads {
        pipes::READ_TIMEOUT
    } else {
        Duration::ZERO
    };
    match tokio::time::timeout(timeout, done).await {
        Ok(Ok(Err(error))) => Err(ServeError::Write(error)),
        _ => Ok(end),
    }
}

/// Serves until the editor disconnects or the server is stopped.
async fn serve_requests(
    server: &mut Server,
    lines: &mut mpsc::Receiver<InputLine>,
    stop: &mut impl AsyncFnMut(),
) -> ServeEnd {
    loop {
        tokio::select! {
            permit = server.out.clone().reserve_owned(), if !server.queue.is_empty() => {
                match (permit, server.queue.pop_front()) {
                    (Ok(permit), Some(line)) => drop(permit.send(line)),
                    _ => return ServeEnd::Disconnected,
                }
            }
            () = server.out.closed() => return ServeEnd::Disconnected,
            line = lines.recv(), if server.queue.len() < QUEUE_LIMIT => match line {
                Some(line) => {
                    server.on_line(line);
                    // Sessions receive their requests before more are read, so only a session that
                    // cannot keep up rejects any.
                    tokio::task::yield_now().await;
                }
                None => return ServeEnd::Disconnected,
            },
            Some(line) = server.jobs.join_next() => server.queue.extend(line),
            Some(closed) = server.tasks.join_next() => {
                closed.into_iter().for_each(|closed| server.on_closed(closed));
            }
            () = stop() => return ServeEnd::Stopped,
        }
    }
}

/// Ends all sessions gracefully and sends the outstanding responses; another stop ends them at
/// once. Returns true if the editor read everything.
async fn end_sessions(server: &mut Server, stop: &mut impl AsyncFnMut()) -> bool {
    server.broadcast(|| EditorRequest::End);
    let mut editor_reads = true;
    let mut read_deadline = pipes::read_deadline();
    loop {
        if !editor_reads {
            server.queue.clear();
            server.jobs.abort_all();
        }
        if server.tasks.is_empty() && server.jobs.is_empty() && server.queue.is_empty() {
            return editor_reads;
        }
        // The timeout is for reading one line, so it starts when there is one.
        if server.queue.is_empty() {
            read_deadline = pipes::read_deadline();
        }
        tokio::select! {
            permit = pipes::reserve(server.out.clone(), Some(read_deadline)),
                if !server.queue.is_empty() =>
            {
                match (permit, server.queue.pop_front()) {
                    (Some(permit), Some(line)) => drop(permit.send(line)),
                    _ => editor_reads = false,
                }
                read_deadline = pipes::read_deadline();
            }
            Some(closed) = server.tasks.join_next() => {
                closed.into_iter().for_each(|closed| server.on_closed(closed));
            }
            job = tokio::time::timeout(pipes::READ_TIMEOUT, server.jobs.join_next()),
                if !server.jobs.is_empty() =>
            {
                match job {
                    Ok(line) => server.queue.extend(line.into_iter().flatten()),
                    Err(_) => server.jobs.abort_all(),
                }
            }
            () = stop() => {
                editor_reads = false;
                server.broadcast(|| EditorRequest::Kill);
            }
        }
    }
}
