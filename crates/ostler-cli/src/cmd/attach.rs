//! `ostler attach`: shows a session of the daemon, sends messages to it and answers its requests.

use std::io::IsTerminal;

use ostler::event::SessionState;
use ostler::render::display::short_id;
use ostler::spec::Attendance;
use ostler_daemon::api::SessionView;
use ostler_daemon::client::Client;

use crate::args::{AttachArgs, Format, ViewArgs};
use crate::ask::{self, Prompter};
use crate::cmd::sessions::shown_dir;
use crate::composer::Composer;
use crate::control::Control;
use crate::daemon::{self, DaemonSession, History};
use crate::environment;
use crate::exit::Code;
use crate::fault::{Fault, Result};
use crate::follow::{StartedRun, follow};
use crate::output::style::DIM;
use crate::output::{View, name, one_line};
use crate::signals::Signals;

/// Shows the session until it ends or the user detaches.
pub(crate) async fn run(args: AttachArgs) -> Result<Code> {
    let format = args.format();
    follow(format, begin(&args).await).await
}

async fn begin(args: &AttachArgs) -> Result<StartedRun> {
    let client = daemon::client()?;
    let found = match &args.id {
        Some(id) => client.session(id).await?,
        None => newest(&client).await?,
    };
    show(client, found, args.view, (args.format(), args.all))
}

/// Prepares to show a session; `all` says whether earlier turns are shown too.
pub(crate) fn show(
    client: Client,
    found: SessionView,
    view: ViewArgs,
    (format, all): (Format, bool),
) -> Result<StartedRun> {
    let signals = Signals::listen()?;
    let attendance = ask::attendance_for(format);
    let is_live = found.state != SessionState::Ended;
    let composes = attendance == Attendance::Attended && is_live && std::io::stdout().is_terminal();
    if format == Format::Human {
        head(&found);
    }
    let view = View {
        args: view,
        dir: Some(found.dir),
        is_live,
        is_stored: true,
        shows_prompts: true,
        ..View::default()
    };
    let session = DaemonSession::new(client, found.id);
    let prompter = Prompter::new(Control::Daemon(session.clone()), attendance);
    let composer = composes
        .then(|| Composer::open(session.clone()))
        .transpose()?;
    if let (Some(_), Some(terminal)) = (&composer, prompter.terminal()) {
        terminal.hide_input();
    }
    // Other formats are for programs, which get every event.
    let history = if all || format != Format::Human {
        History::All
    } else {
        History::LastTurn
    };
    let run = StartedRun::in_daemon(&session, history, prompter, signals, view);
    Ok(run.attached(composer))
}

/// Returns the newest running session of the daemon, preferably one in this directory.
async fn newest(client: &Client) -> Result<SessionView> {
    let page = client.sessions("limit=500").await?;
    let mut sessions: Vec<SessionView> = page.sessions;
    sessions.retain(|session| session.managed);
    let here = environment::directory()
        .and_then(std::fs::canonicalize)
        .ok();
    let own = sessions
        .iter()
        .position(|session| Some(&session.dir) == here.as_ref());
    let at = own.unwrap_or(0);
    if at < sessions.len() {
        return Ok(sessions.swap_remove(at));
    }
    Err(Fault::usage("no session is running in the daemon")
        .hint("start one with `ostler run --detach \"…\"`"))
}

/// Prints which session is shown, and how to leave it.
fn head(session: &SessionView) {
    let state = match session.state {
        SessionState::Ended => "ended",
        _ => "Ctrl-C to detach",
    };
    errln!(
        "{DIM}{} · session {} in {} · {state}{DIM:#}",
        name(&session.name),
        name(short_id(&session.id)),
        one_line(&shown_dir(&session.dir), 100),
    );
}
