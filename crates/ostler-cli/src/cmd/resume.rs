//! `ostler resume`: resumes a session of the daemon that is paused or has ended.

use ostler::render::display::short_id;
use ostler_daemon::api::SessionView;

use crate::args::SessionArgs;
use crate::daemon;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::style::DIM;
use crate::output::{self, name};

/// Delivers the messages that were held back, or continues the session in a new one.
pub(crate) async fn run(args: SessionArgs) -> Result<Code> {
    let client = daemon::client()?;
    let earlier = client.session(&args.id).await?;
    let session = client.control(&earlier.id, "resume").await?;
    if args.json {
        output::print_serialized(&session)?;
    } else if session.id == earlier.id {
        outln!("resumed {}", name(&session.name));
    } else {
        print_new("resumed", &earlier, &session);
    }
    Ok(exit::OK)
}

/// Prints that a session continues in a new one.
pub(super) fn print_new(done: &str, earlier: &SessionView, session: &SessionView) {
    outln!("{done} {} as {}", name(&earlier.name), name(&session.name));
    let id = name(short_id(&session.id));
    errln!("  {DIM}follow it with: ostler attach {id}{DIM:#}");
}
