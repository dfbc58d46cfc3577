//! `ostler sessions export`: writes a session as a document.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use ostler::Agents;
use ostler::log::SessionRecord;
use ostler::render::{Export, ExportFormat};
use ostler_daemon::api::SessionView;
use ostler_page::export::{SessionDocument, html};
use ostler_page::tools::ToolContext;
use ostler_store::{SessionRow, Store};

use crate::args::{SessionsExportArgs, Transcript};
use crate::environment;
use crate::exit::{self, Code};
use crate::fault::{Fault, Result};
use crate::output::{self, TerminalFilter};
use crate::store::{pages, resolve};

/// Writes a session to stdout or to a file.
pub(super) fn run(store: &Store, args: &SessionsExportArgs) -> Result<Code> {
    let row = resolve(store, &args.id)?;
    // Before the file is created: a document is complete or does not exist.
    let document = match args.format {
        Transcript::Html => Some(document(store, &row)?),
        Transcript::Md | Transcript::Jsonl => None,
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
    let written = match (document, args.format) {
        (Some(document), _) => out.write_all(document.as_bytes()),
        (None, Transcript::Jsonl) => write_events(store, row, ExportFormat::Jsonl, &mut *out)?,
        (None, _) => write_events(store, row, ExportFormat::Markdown, &mut *out)?,
    };
    match written.and_then(|()| out.flush()) {
        Ok(()) => Ok(exit::OK),
        Err(error) if args.to.is_some() => Err(cannot(&error)),
        Err(error) => output::on_write_error(&error),
    }
}

/// Writes a document event by event.
fn write_events(
    store: &Store,
    row: SessionRow,
    format: ExportFormat,
    out: &mut dyn Write,
) -> Result<io::Result<()>> {
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
    Ok(written.and_then(|()| out.write_all(export.foot().as_bytes())))
}

/// Returns a session as one HTML file that opens without a server.
fn document(store: &Store, row: &SessionRow) -> Result<String> {
    let agent = Agents::builtin().get(&row.agent);
    let tools = ToolContext::new(agent.map(|agent| agent.dialect()), &row.dir);
    let mut document = SessionDocument::new(&tools);
    for events in pages(store, &row.session) {
        events?.iter().for_each(|event| document.push(event));
    }
    let session = SessionView::from(row.clone());
    let title = format!("{} – Ostler", session.name);
    let data = document.into_data(session, environment::now());
    html(&title, &data).map_err(Fault::internal)
}
