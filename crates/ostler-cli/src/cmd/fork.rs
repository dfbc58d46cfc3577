//! `ostler fork`: continues a copy of a session of the daemon.

use super::resume::print_new;
use crate::args::SessionArgs;
use crate::daemon;
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output;

/// Forks the session, which itself is left as it is.
pub(crate) async fn run(args: SessionArgs) -> Result<Code> {
    let client = daemon::client()?;
    let earlier = client.session(&args.id).await?;
    let session = client.control(&earlier.id, "fork").await?;
    if args.json {
        output::print_serialized(&session)?;
    } else {
        print_new("forked", &earlier, &session);
    }
    Ok(exit::OK)
}
