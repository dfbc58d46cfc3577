//! `ostler pause`: holds back the messages of a session of the daemon.

use ostler::event::SessionState;

use crate::args::SessionArgs;
use crate::daemon;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{self, name};

/// Pauses the session. Its current turn continues.
pub(crate) async fn run(args: SessionArgs) -> Result<Code> {
    let session = daemon::client()?.control(&args.id, "pause").await?;
    if args.json {
        output::print_serialized(&session)?;
    } else if session.state == SessionState::Paused {
        outln!("paused {}", name(&session.name));
    } else {
        outln!("pausing {}", name(&session.name));
    }
    Ok(exit::OK)
}
