//! Runs in the daemon: `ostler run --detach` and `ostler run --daemon`.

use ostler::render::display::short_id;
use ostler::spec::Attendance;
use ostler_daemon::api::SessionView;
use ostler_daemon::client::Client;

use crate::args::{Format, RunArgs};
use crate::ask::{self, Prompter};
use crate::control::Control;
use crate::daemon::{self, DaemonSession, History};
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::follow::{StartedRun, follow};
use crate::output::style::DIM;
use crate::output::{self, View, print_line};
use crate::signals::Signals;

pub(super) async fn run(args: RunArgs) -> Result<Code> {
    let format = args.task.format();
    if !args.detach {
        return follow(format, begin(&args).await).await;
    }
    let client = daemon::client()?;
    let session = output::reporting(format, create(&client, &args).await)?;
    if format == Format::Json {
        output::print_serialized(&session)?;
    } else {
        print_line(&session.id);
        let id = short_id(&session.id);
        errln!("  {DIM}follow it with: ostler attach {id}{DIM:#}");
    }
    Ok(exit::OK)
}

/// Creates the session in the daemon.
async fn create(client: &Client, args: &RunArgs) -> Result<SessionView> {
    let mut request = daemon::session_request(args)?;
    // A script would wait for an answer that nobody knows of.
    let is_script = ask::attendance_for(args.task.format()) == Attendance::Unattended;
    if is_script && !args.detach && !args.attended {
        request.attended = Some(false);
    }
    daemon::create(client, request).await
}

/// Creates the session and prepares to follow it.
async fn begin(args: &RunArgs) -> Result<StartedRun> {
    let client = daemon::client()?;
    let signals = Signals::listen()?;
    let created = create(&client, args).await?;
    let attendance = ask::attendance_for(args.task.format());
    let view = View {
        args: args.task.view,
        dir: Some(created.dir),
        is_live: true,
        is_stored: true,
        ..View::default()
    };
    let session = DaemonSession::new(client, created.id);
    let prompter = Prompter::new(Control::Daemon(session.clone()), attendance);
    Ok(StartedRun::in_daemon(
        &session,
        History::All,
        prompter,
        signals,
        view,
    ))
}
