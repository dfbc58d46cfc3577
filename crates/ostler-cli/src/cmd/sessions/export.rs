//! `ostler sessions export`: writes a session as a document.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use ostler::log::SessionRecord;
use ostler::render::{Export, ExportFormat};
use ostler_store::Store;

use crate::args::{SessionsExportArgs, Transcript};
use crate::exit::{self, Code};
use crate::fault::Result;
use crate::output::{self, TerminalFilter};
use crate::store::{pages, resolve};

/// Writes a session to stdout or to a file.
pub(super) fn run(store: &Store, args: &SessionsExportArgs) -> Result<Code> {
    let row = resolve(store, &args.id)?;
    let format = match args.format {
        Transcript::Md => ExportFormat::Markdown,
        Transcript::Html => ExportFormat::Html,
        Transcript::Jsonl => ExportFormat::Jsonl,
    };
    let cannot = |error: &io::Error| {
        let file = args.to.as_deref().unwrap_or("stdout".as_ref());
        usage!("cannot write {}: {error}", file.display())
    };
    let mut out: Box<dyn Write> = match &args.to {
        Some(file) => Box::new(BufWriter::new(
            File::create(file).map_err(|error| cannot(&error))?,
        )),
        None => Box::new(BufWriter::new(TerminalFilter::stdout())),
    };
    let (session, began_at) = (row.session.clone(), row.began_at);
    let mut export = Export::new(format);
    let mut written = out.write_all(export.head(&SessionRecord::from(row), began_at).as_bytes());
    for events in pages(store, &session) {
        let events = events?;
        let mut write = |event| out.write_all(export.event(event).as_bytes());
        written = written.and_then(|()| events.iter().try_for_each(&mut write));
        if written.is_err() {
            break;
        }
    }
    let written = written
        .and_then(|()| out.write_all(export.foot().as_bytes()))
        .and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(exit::OK),
        Err(error) if args.to.is_some() => Err(cannot(&error)),
        Err(error) => output::on_write_error(&error),
    }
}
