//! `ostler interrupt`: interrupts the turn of a session of the daemon.

use crate::args::SessionArgs;
use crate::daemon;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{self, name};

/// Interrupts the turn.
pub(crate) async fn run(args: SessionArgs) -> Result<Code> {
    let client = daemon::client()?;
    let session = client.session(&args.id).await?;
    let result = client.interrupt(&session.id).await?;
    if args.json {
        output::print_serialized(&result)?;
    } else if result.interrupted {
        outln!("interrupted {}", name(&session.name));
    } else {
        outln!("{} has no turn to interrupt", name(&session.name));
    }
    Ok(exit::OK)
}
