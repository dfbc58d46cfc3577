//! `ostler open`: opens the daemon's page in the browser, logged in with a one-time link.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use ostler_daemon::client::Client;

use super::serve;
use crate::args::OpenArgs;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{self, print_line};
use crate::{daemon, environment};

/// Opens the page, or prints its link.
pub(crate) async fn run(args: OpenArgs) -> Result<Code> {
    let client = daemon::client()?;
    if !client.is_running().await {
        errln!("no daemon is running: starting one");
        serve::start(&client).await?;
    }
    let session = match &args.id {
        Some(id) => Some(client.session(id).await?.id),
        None => None,
    };
    let mut link = client.browser_link().await?;
    if let Some(id) = session {
        link.url.push_str(&format!("&next=/s/{id}"));
    }
    if args.json {
        output::print_serialized(&link)?;
        return Ok(exit::OK);
    }
    if args.print {
        print_line(&link.url);
        show_code(&client).await?;
        return Ok(exit::OK);
    }
    let opener = environment::url_opener().ok_or_else(|| {
        Fault::unavailable("no browser can be opened from here")
            .hint("`ostler open --print` prints a link, for a browser on this machine")
    })?;
    // Whatever captures the output of a program must not get the link.
    if std::io::stderr().is_terminal() {
        errln!("opening {}", link.url);
        errln!("the link works once, for two minutes");
    }
    show_code(&client).await?;
    open(&opener, &link.url)?;
    Ok(exit::OK)
}

/// Shows the approval code, to a person only.
async fn show_code(client: &Client) -> Result<()> {
    if std::io::stderr().is_terminal() {
        let code = client.approval_code().await?.code;
        errln!("approval code: {code} (the page asks for it before you can approve)");
    }
    Ok(())
}

/// Starts the system's program for opening links.
fn open(opener: &Path, url: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let output = options.write(true).open("/dev/null");
    let output = output.map_err(Fault::internal)?;
    let started =
        ostler::detached::spawn(opener, &[OsString::from(url)], output).map_err(|error| {
            Fault::unavailable(format!("{} cannot be started: {error}", opener.display()))
                .hint("`ostler open --print` prints a link")
        });
    started.map(drop)
}
