//! History of a session: pages of events and of its transcript, changed files, timeline, documents.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use futures_util::stream;
use ostler::Agents;
use ostler::render::{Export, ExportFormat, display};
use ostler_core::event::{Event, Timestamp};
use ostler_core::log::SessionRecord;
use ostler_core::raw_json::RawJson;
use ostler_page::changes::{self, ChangeLog};
use ostler_page::export::{self, SessionDocument};
use ostler_page::page::{self, EventSource, PagePosition, PageQuery};
use ostler_page::tools::ToolContext;
use ostler_store::{EventRow, SessionRow, SessionStatus, Store, StoreError};

use super::Reply;
use super::body::{Query, invalid, json, text_response};
use crate::api::{HistoryPage, SessionView};
use crate::manager::Manager;
use crate::problem::{Problem, ProblemKind};

type Shared = State<Arc<Manager>>;

/// Number of events of a page by default, and at most.
const DEFAULT_EVENTS: usize = 200;
const MAX_EVENTS: usize = 1_000;

/// Maximum size of the events of a page, in bytes. A page has at least one event.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Number of events that are read at once for a whole session.
const READ: usize = 1_000;

/// Returns a page of events, as they are stored.
pub(super) async fn history(
    State(manager): Shared,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let after = query.take_as("after", EVENT)?;
    let before = query.take_as("before", EVENT)?;
    let limit = query.take_as("limit", "a number")?;
    query.finish()?;
    let limit: usize = limit.unwrap_or(DEFAULT_EVENTS).clamp(1, MAX_EVENTS);
    let session = manager.row(&id).await?.session;
    let range = EventRange {
        after: after.unwrap_or(0),
        before,
        limit,
    };
    let rows = manager
        .with_store(move |store| range.read(store, &session))
        .await?;
    let (first, last) = (rows.front(), rows.back());
    let (first, last) = (first.map(|row| row.seq), last.map(|row| row.seq));
    let events = rows.iter().map(|row| RawJson::parse(&row.json));
    let events = events.collect::<Result<_, _>>().map_err(|error| {
        Problem::new(ProblemKind::StoreFailed, format!("invalid event: {error}"))
    })?;
    let page = HistoryPage {
        events,
        first,
        last,
    };
    json(StatusCode::OK, &page)
}

/// What the number of an event is.
const EVENT: &str = "the number of an event";

/// A range of events.
struct EventRange {
    after: u64,
    before: Option<u64>,
    limit: usize,
}

impl EventRange {
    /// Reads the first events of the range or, if it has an end, the last.
    fn read(&self, store: &Store, session: &str) -> Result<VecDeque<EventRow>, StoreError> {
        let first = self.after.saturating_add(1);
        let end = match self.before {
            Some(before) => before.min(store.last_seq(session)?.saturating_add(1)),
            None => u64::MAX,
        };
        let mut next = match self.before {
            Some(_) => end.saturating_sub(self.limit as u64).max(first),
            None => first,
        };
        let (mut rows, mut bytes) = (VecDeque::new(), 0);
        while next < end && rows.len() < self.limit {
            let page = store.event_rows(session, next, self.limit - rows.len())?;
            let Some(last) = page.last() else {
                break;
            };
            next = last.seq + 1;
            for row in page.into_iter().filter(|row| row.seq < end) {
                bytes += row.json.len();
                rows.push_back(row);
            }
            // The events next to the end that was asked for stay.
            while bytes > MAX_BYTES && rows.len() > 1 {
                let left_out = match self.before {
                    Some(_) => rows.pop_front(),
                    None => rows.pop_back(),
                };
                bytes -= left_out.map_or(0, |row| row.json.len());
                next = if self.before.is_some() { next } else { end };
            }
        }
        Ok(rows)
    }
}

/// Returns a page of the transcript.
pub(super) async fn transcript(
    State(manager): Shared,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let after = query.take_as("after", EVENT)?.map(PagePosition::After);
    let before = query.take_as("before", EVENT)?.map(PagePosition::Before);
    let around = query.take_as("around", EVENT)?.map(PagePosition::Around);
    let limit = query.take_as("limit", "a number")?;
    query.finish()?;
    let mut positions = [after, before, around].into_iter().flatten();
    let position = positions.next().unwrap_or(PagePosition::After(0));
    if positions.next().is_some() {
        let why = "only one of `after`, `before` and `around` can be given";
        return Err(Problem::new(ProblemKind::BadRequest, why));
    }
    let limit = limit.unwrap_or(page::DEFAULT_ITEMS);
    let row = manager.row(&id).await?;
    let page = manager
        .with_store(move |store| {
            let source = StoredEvents {
                store,
                last: store.last_seq(&row.session)?,
                is_over: !matches!(row.status, SessionStatus::Live(_)),
                session: &row.session,
            };
            page::page(&source, &tools(&row), PageQuery { position, limit })
        })
        .await?;
    json(StatusCode::OK, &page)
}

/// Returns the changed files.
pub(super) async fn changes(
    State(manager): Shared,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    Query::parse(query.as_deref())?.finish()?;
    let row = manager.row(&id).await?;
    let changes = manager
        .with_store(move |store| {
            let last = store.last_seq(&row.session)?;
            let (mut log, mut next) = (ChangeLog::new(tools(&row)), 1);
            while next <= last {
                let types = changes::EVENT_TYPES;
                let events = store.events_of_types(&row.session, (next, last), types)?;
                events.iter().for_each(|event| log.push(event));
                next = events.last().map_or(last, |event| event.seq) + 1;
            }
            Ok(log.changes())
        })
        .await?;
    json(StatusCode::OK, &changes)
}

/// Returns the timeline.
pub(super) async fn timeline(
    State(manager): Shared,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    Query::parse(query.as_deref())?.finish()?;
    let row = manager.row(&id).await?;
    let timelines = manager.cached.timelines.clone();
    let timeline = manager
        .with_store(move |store| timelines.read(store, &row.session, || tools(&row)))
        .await?;
    json(StatusCode::OK, &timeline)
}

/// Downloads the session as a document.
pub(super) async fn export(
    State(manager): Shared,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let format = query.take("format");
    query.finish()?;
    let row = manager.row(&id).await?;
    let name = file_name(&row);
    match format.as_deref().unwrap_or("html") {
        "html" => {
            let document = html_document(&manager, row).await?;
            let response = text_response(StatusCode::OK, "text/html; charset=utf-8", document);
            Ok(download(response, &format!("{name}.html")))
        }
        "md" => {
            let body = streamed(manager, row, ExportFormat::Markdown);
            let response = text_response(StatusCode::OK, "text/markdown; charset=utf-8", body);
            Ok(download(response, &format!("{name}.md")))
        }
        "json" | "jsonl" => {
            let body = streamed(manager, row, ExportFormat::Jsonl);
            let response = text_response(StatusCode::OK, "application/jsonl", body);
            Ok(download(response, &format!("{name}.jsonl")))
        }
        other => Err(invalid("format", other, "`html`, `md` or `json`")),
    }
}

async fn html_document(manager: &Manager, row: SessionRow) -> Result<String, Problem> {
    let now = manager.embedder.now();
    let data = manager
        .with_store(move |store| {
            let mut document = SessionDocument::new(&tools(&row));
            for_each_event(store, &row.session, |event| document.push(event))?;
            Ok(document.into_data(SessionView::from(row), now))
        })
        .await?;
    let title = format!("{} – Ostler", data.session.name);
    export::html(&title, &data)
        .map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))
}

/// Returns the body of a document that is written event by event.
fn streamed(manager: Arc<Manager>, row: SessionRow, format: ExportFormat) -> Body {
    let export = Export::new(format);
    let (session, began_at) = (row.session.clone(), row.began_at);
    let head = export.head(&SessionRecord::from(row), began_at);
    let writer = DocumentWriter {
        manager,
        session,
        export: Some(export),
        next: 1,
    };
    let head = stream::iter([Ok::<_, Infallible>(Bytes::from(head))]);
    let rest = stream::unfold(writer, DocumentWriter::advance);
    Body::from_stream(futures_util::StreamExt::chain(head, rest))
}

struct DocumentWriter {
    manager: Arc<Manager>,
    session: String,
    /// `None` after the end of the document.
    export: Option<Export>,
    next: u64,
}

impl DocumentWriter {
    async fn advance(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        let mut export = self.export.take()?;
        let (session, next) = (self.session.clone(), self.next);
        let events = self
            .manager
            .with_store(move |store| store.events(&session, next, READ))
            .await;
        let text = match events {
            Ok(events) if !events.is_empty() => {
                self.next = events.last().map_or(self.next, |event| event.seq + 1);
                let text: String = events.iter().map(|event| export.event(event)).collect();
                self.export = Some(export);
                text
            }
            Ok(_) => export.foot(),
            Err(problem) => {
                // The status was sent: the document says that it is incomplete.
                tracing::warn!(%problem, "a document is incomplete");
                format!("\n[incomplete: {problem}]\n")
            }
        };
        Some((Ok(text.into()), self))
    }
}

/// Makes a response a file to store. A browser must never show it with the rights of the page.
fn download(mut response: Response<Body>, name: &str) -> Response<Body> {
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("sandbox"),
    );
    let disposition = format!("attachment; filename=\"{name}\"");
    let disposition = HeaderValue::from_str(&disposition)
        .unwrap_or_else(|_| HeaderValue::from_static("attachment"));
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    response
}

/// Returns the name of a document, without its extension.
fn file_name(row: &SessionRow) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() { c } else { '-' }
    };
    let name = format!("ostler-{}-{}", row.agent, display::short_id(&row.session));
    name.chars().map(safe).collect()
}

fn tools(row: &SessionRow) -> ToolContext {
    let agent = Agents::builtin().get(&row.agent);
    ToolContext::new(agent.map(|agent| agent.dialect()), &row.dir)
}

fn for_each_event(
    store: &Store,
    session: &str,
    mut run: impl FnMut(&Event),
) -> Result<(), StoreError> {
    let mut next = 1;
    loop {
        let events = store.events(session, next, READ)?;
        let Some(last) = events.last() else {
            return Ok(());
        };
        next = last.seq + 1;
        events.iter().for_each(&mut run);
    }
}

/// Events of a session in the store.
struct StoredEvents<'a> {
    store: &'a Store,
    session: &'a str,
    last: u64,
    is_over: bool,
}

impl EventSource for StoredEvents<'_> {
    type Error = StoreError;

    fn read(&self, from: u64, most: usize) -> Result<Vec<Event>, StoreError> {
        self.store.events(self.session, from, most)
    }

    fn read_types(&self, from: u64, to: u64, types: &[&str]) -> Result<Vec<Event>, StoreError> {
        self.store.events_of_types(self.session, (from, to), types)
    }

    fn turn_start(&self, turn: u32) -> Result<Option<Timestamp>, StoreError> {
        self.store.turn_start(self.session, turn)
    }

    fn last_seq(&self) -> u64 {
        self.last
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
