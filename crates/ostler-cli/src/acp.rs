//! `ostler acp`: serves an agent to an editor over the Agent Client Protocol, many sessions at once, on stdin and stdout.

mod ending;
mod history;
mod opening;
mod pipes;
mod prompt;
mod seat;
mod server;
mod tool;
mod update;
mod wire;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ostler::Agents;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::pipes::Line;
use self::seat::Wish;
use self::server::{CROWDED, Server};
use crate::args::AcpArgs;
use crate::exit::{self, Code};
use crate::fault::Fault;
use crate::signals::{Caught, Signals};
use crate::store::{self, Keeping};
use crate::{output, spec};

/// How long the last lines have to be read.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Serves until the editor closes stdin or stdout, or a signal comes.
pub(crate) async fn run(mut args: AcpArgs) -> Result<Code, Fault> {
    if let Some(flag) = args.misplaced() {
        return Err(Fault::usage(format!("{flag} is for the editor to say, for each session"))
            .hint("session/new and session/load of the protocol carry it (docs/acp-server.md)"));
    }
    let here = spec::directory(None)?;
    let Keeping { host, store } = store::keeping(&mut args.start, &here)?;
    let agent = spec::choose(&Agents::builtin(), &args.start, (&host, false)).await?;
    let mut signals = Signals::listen()?;
    let mut lines = pipes::lines()?;
    let (out, done) = pipes::writer()?;
    let mut server = Server {
        agent,
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
    end(&mut server, &mut signals).await;
    drop(server);
    match tokio::time::timeout(LAST_WORDS, done).await {
        Ok(Ok(Err(error))) => output::gone(&error),
        _ => Ok(code),
    }
}

/// Serves until there is a reason to end.
async fn serve(server: &mut Server, lines: &mut mpsc::Receiver<Line>, signals: &mut Signals) -> Code {
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
            Some(left) = server.tasks.join_next() => {
                left.into_iter().for_each(|id| drop(server.seats.remove(&id)));
            }
            caught = signals.next() => match caught {
                Caught::Interrupt => return Code(130),
                Caught::Terminate => return Code(143),
                Caught::Continue => {}
            },
        }
    }
}

/// Ends all sessions in good order; another signal does not wait.
async fn end(server: &mut Server, signals: &mut Signals) {
    for line in std::mem::take(&mut server.queue) {
        let _ = server.out.try_send(line); // whoever does not read does not hold this up
    }
    let tell = |server: &Server, wish: fn() -> Wish| {
        server.seats.values().for_each(|seat| drop(seat.try_send(wish())));
    };
    tell(server, || Wish::End);
    while !server.tasks.is_empty() {
        tokio::select! {
            _ = server.tasks.join_next() => {}
            caught = signals.next() => match caught {
                Caught::Interrupt | Caught::Terminate => tell(server, || Wish::Kill),
                Caught::Continue => {}
            },
        }
    }
}
