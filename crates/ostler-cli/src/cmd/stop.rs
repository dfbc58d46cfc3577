//! `ostler stop`: stops a session of the daemon.

use ostler::event::SessionState;

use crate::args::SessionArgs;
use crate::daemon;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{self, name};

/// Stops the session gracefully, without waiting for its end.
pub(crate) async fn run(args: SessionArgs) -> Result<Code> {
    let session = daemon::client()?.stop(&args.id).await?;
    if args.json {
        output::print_serialized(&session)?;
    } else if session.state == SessionState::Ended {
        outln!("{} has ended", name(&session.name));
    } else {
        outln!("stopping {}", name(&session.name));
    }
    Ok(exit::OK)
}
