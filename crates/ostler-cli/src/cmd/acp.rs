//! `ostler acp`: serves an agent to an editor over the Agent Client Protocol on stdin and stdout,
//! with any number of sessions.

mod stop_reason;
mod history;
mod session_params;
mod pipes;
mod prompt;
mod editor_session;
mod server;
mod tool;
mod update;
mod wire;
mod request;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ostler::Attendance;
use ostler::clip::sanitize;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::pipes::InputLine;
use self::request::EditorRequest;
use self::server::{QUEUE_LIMIT, Server};
use crate::args::AcpArgs;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::signals::{SignalAction, Signals};
use crate::spec::ChosenAgent;
use crate::store::{self, SessionStorage};
use crate::{config, output, spec, trust_review};

/// Serves until the editor closes stdin or stdout, or a signal arrives.
pub(crate) async fn run(mut args: AcpArgs) -> Result<Code, Fault> {
    if let Some(flag) = args.misplaced() {
        return Err(Fault::usage(format!(
            "{flag} cannot be used with `ostler acp`: the editor sets it for each session"
        ))
        .hint("see docs/acp-server.md"));
    }
    let here = spec::directory(None)?;
    let project = trust_review::open(
        (args.start.config, &args.start.policy),
        &here,
        Attendance::Unattended,
    )?;
    let config = config::load(args.start.config, &project)?;
    config::ignored_warnings(&config, &project)
        .iter()
        .for_each(|remark| output::eprint_line(&sanitize(remark)));
    let SessionStorage { host, store } = store::prepare_storage(&mut args.start, &here, &config)?;
    let chosen = spec::choose(&config, &args.start, (&host, false)).await?;
    let dialect = spec::likely_dialect(&args.start, &config, &chosen);
    let ChosenAgent { name, agent } = chosen;
    let mut signals = Signals::listen()?;
    let mut lines = pipes::stdin_lines()?;
    let (out, done) = pipes::writer()?;
    let mut server = Server {
        name,
        agent,
        dialect,
        host,
        store,
        args: args.start,
        out,
        queue: VecDeque::new(),
        sessions: HashMap::new(),
        tasks: JoinSet::new(),
        jobs: JoinSet::new(),
        notices: false,
    };
    let code = serve(&mut server, &mut lines, &mut signals).await;
    let editor_reads = end(&mut server, &mut signals).await;
    drop(server);
    // The last lines are still to be written.
    let timeout = if editor_reads {
        pipes::READ_TIMEOUT
    } else {
        Duration::ZERO
    };
    match tokio::time::timeout(timeout, done).await {
        Ok(Ok(Err(error))) => output::on_write_error(&error),
        _ => Ok(code),
    }
}

/// Serves until the editor disconnects or a signal arrives, and returns the exit code.
async fn serve(
    server: &mut Server,
    lines: &mut mpsc::Receiver<InputLine>,
    signals: &mut Signals,
) -> Code {
    loop {
        tokio::select! {
            permit = server.out.clone().reserve_owned(), if !server.queue.is_empty() => {
                match (permit, server.queue.pop_front()) {
                    (Ok(permit), Some(line)) => drop(permit.send(line)),
                    _ => return exit::OK, // the editor closed stdout
                }
            }
            () = server.out.closed() => return exit::OK,
            line = lines.recv(), if server.queue.len() < QUEUE_LIMIT => match line {
                Some(line) => server.on_line(line),
                None => return exit::OK,
            },
            Some(line) = server.jobs.join_next() => server.queue.extend(line),
            Some(closed) = server.tasks.join_next() => {
                closed.into_iter().for_each(|closed| server.on_closed(closed));
            }
            caught = signals.next() => match caught {
                SignalAction::Interrupt => return Code(130),
                SignalAction::Terminate => return Code(143),
                SignalAction::Continue => {}
            },
        }
    }
}

/// Ends all sessions gracefully and sends the outstanding responses; another signal ends them at
/// once. Returns true if the editor read everything.
async fn end(server: &mut Server, signals: &mut Signals) -> bool {
    let broadcast = |server: &Server, request: fn() -> EditorRequest| {
        for session in server.sessions.values() {
            // An error means that the session already ended.
            session.submit(request()).unwrap_or_default();
        }
    };
    broadcast(server, || EditorRequest::End);
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
            caught = signals.next() => match caught {
                SignalAction::Interrupt | SignalAction::Terminate => {
                    editor_reads = false;
                    broadcast(server, || EditorRequest::Kill);
                }
                SignalAction::Continue => {}
            },
        }
    }
}
