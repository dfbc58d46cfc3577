//! Chats in the daemon: `ostler chat --daemon` creates a session and shows it like `ostler attach`.

use crate::args::{ChatArgs, Format};
use crate::cmd::attach;
use crate::daemon;
use crate::exit::Code;
use crate::fault::{Fault, Result};
use crate::follow::{StartedRun, follow};

pub(super) async fn run(args: ChatArgs, is_terminal: bool) -> Result<Code> {
    if !is_terminal {
        return Err(Fault::usage("`ostler chat --daemon` needs a terminal")
            .hint("use `ostler run --daemon` for a task, and `ostler send` for further messages"));
    }
    follow(Format::Human, begin(&args).await).await
}

async fn begin(args: &ChatArgs) -> Result<StartedRun> {
    let client = daemon::client()?;
    let created = daemon::create(&client, daemon::chat_request(args)?).await?;
    attach::show(client, created, args.view, (Format::Human, true))
}
