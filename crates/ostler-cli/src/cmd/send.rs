//! `ostler send`: sends a message to a session of the daemon.

use ostler_daemon::api::{SendMessage, WhenBusy};

use crate::args::SendArgs;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{self, name};
use crate::{daemon, prompt};

/// Sends the message.
pub(crate) async fn run(args: SendArgs) -> Result<Code> {
    let text = if args.text == "-" {
        prompt::stdin()?
    } else {
        args.text
    };
    if text.trim().is_empty() {
        return Err(Fault::usage("the message is empty"));
    }
    let when_busy = if args.steer {
        WhenBusy::Steer
    } else {
        WhenBusy::Queue
    };
    let message = SendMessage { text, when_busy };
    let session = daemon::client()?.send(&args.id, &message).await?;
    if args.json {
        output::print_serialized(&session)?;
    } else {
        outln!("sent to {}", name(&session.name));
    }
    Ok(exit::OK)
}
