//! `ostler acp`: serves an agent to an editor over the Agent Client Protocol, many sessions at once, on stdin and stdout.

mod ending;
mod history;
mod opening;
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
use ostler::clip::plain;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::pipes::Line;
use self::request::EditorRequest;
use self::server::{CROWDED, Server};
use crate::args::AcpArgs;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::signals::{Caught, Signals};
use crate::spec::Chosen;
use crate::store::{self, Keeping};
use crate::{config, output, spec, trust_review};

/// Serves until the editor closes stdin or stdout, or a signal comes.
pub(crate) async fn run(mut args: AcpArgs) -> Result<Code, Fault> {
    if let Some(flag) = args.misplaced() {
        return Err(
            Fault::usage(format!("{flag} is for the editor to say, for each session"))
                .hint("session/new and session/load of the protocol carry it (docs/acp-server.md)"),
        );
    }
    let here = spec::directory(None)?;
    let project = trust_review::open(
        (args.start.config, &args.start.policy),
        &here,
        Attendance::Unattended,
    )?;
    let config = config::load(args.start.config, &project)?;
    config::remarks(&config, &project)
        .iter()
        .for_each(|remark| output::tell(&plain(remark)));
    let Keeping { host, store } = store::keeping(&mut args.start, &here, &config)?;
    let chosen = spec::choose(&config, &args.start, (&host, false)).await?;
    let dialect = spec::likely_language(&args.start, &config, &chosen);
    let Chosen { name, agent } = chosen;
    let mut signals = Signals::listen()?;
    let mut lines = pipes::lines()?;
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
        seats: HashMap::new(),
        tasks: JoinSet::new(),
        errands: JoinSet::new(),
        notices: false,
    };
    let code = serve(&mut server, &mut lines, &mut signals).await;
    let is_read = end(&mut server, &mut signals).await;
    drop(server);
    // What was handed over last is still to be written.
    let patience = if is_read {
        pipes::PATIENCE
    } else {
        Duration::ZERO
    };
    match tokio::time::timeout(patience, done).await {
        Ok(Ok(Err(error))) => output::gone(&error),
        _ => Ok(code),
    }
}

/// Serves until there is a reason to end.
async fn serve(
    server: &mut Server,
    lines: &mut mpsc::Receiver<Line>,
    signals: &mut Signals,
) -> Code {
    loop {
        tokio::select! {
            permit = server.out.clone().reserve_owned(), if !server.queue.is_empty() => match (permit, server.queue.pop_front()) {
                (Ok(permit), Some(line)) => drop(permit.send(line)),
                _ => return exit::OK, // nobody reads any more
            },
            () = server.out.closed() => return exit::OK,
            line = lines.recv(), if server.queue.len() < CROWDED => match line {
                Some(line) => server.hear(line),
                None => return exit::OK,
            },
            Some(line) = server.errands.join_next() => server.queue.extend(line),
            Some(left) = server.tasks.join_next() => left.into_iter().for_each(|left| server.left(left)),
            caught = signals.next() => match caught {
                Caught::Interrupt => return Code(130),
                Caught::Terminate => return Code(143),
                Caught::Continue => {}
            },
        }
    }
}

/// Ends all sessions in good order, and tells the editor what it is owed; another signal does not wait. Whether the editor has
/// read it all.
async fn end(server: &mut Server, signals: &mut Signals) -> bool {
    let tell = |server: &Server, wish: fn() -> EditorRequest| {
        server
            .seats
            .values()
            .for_each(|seat| seat.ask(wish()).unwrap_or_default()); // one that is gone has ended
    };
    tell(server, || EditorRequest::End);
    let mut is_read = true;
    let mut until = pipes::patience();
    loop {
        if !is_read {
            server.queue.clear();
            server.errands.abort_all();
        }
        if server.tasks.is_empty() && server.errands.is_empty() && server.queue.is_empty() {
            return is_read;
        }
        // The time is the editor's, to read the next line: it begins when there is one.
        if server.queue.is_empty() {
            until = pipes::patience();
        }
        tokio::select! {
            room = pipes::room(server.out.clone(), Some(until)), if !server.queue.is_empty() => {
                match (room, server.queue.pop_front()) {
                    (Some(room), Some(line)) => drop(room.send(line)),
                    _ => is_read = false,
                }
                until = pipes::patience();
            }
            Some(left) = server.tasks.join_next() => left.into_iter().for_each(|left| server.left(left)),
            errand = tokio::time::timeout(pipes::PATIENCE, server.errands.join_next()), if !server.errands.is_empty() => {
                match errand {
                    Ok(line) => server.queue.extend(line.into_iter().flatten()),
                    Err(_) => server.errands.abort_all(),
                }
            }
            caught = signals.next() => match caught {
                Caught::Interrupt | Caught::Terminate => {
                    is_read = false;
                    tell(server, || EditorRequest::Kill);
                }
                Caught::Continue => {}
            },
        }
    }
}
