//! `ostler restart`: stops a session of the daemon and continues it in a new one.

use super::resume::print_new;
use crate::args::SessionArgs;
use crate::daemon;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output;

/// Restarts the session.
pub(crate) async fn run(args: SessionArgs) -> Result<Code> {
    let client = daemon::client()?;
    let earlier = client.session(&args.id).await?;
    let session = client.control(&earlier.id, "restart").await?;
    if args.json {
        output::print_serialized(&session)?;
    } else {
        print_new("restarted", &earlier, &session);
    }
    Ok(exit::OK)
}
