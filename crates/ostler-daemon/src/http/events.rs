//! Event streams (SSE): history, then live, each event exactly once. Everything is read from the
//! store, so a slow reader is never dropped and never blocks a session.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use futures_core::Stream;
use futures_util::{StreamExt, stream};
use ostler_store::{EventRow, SessionStatus};
use tokio::sync::watch;
use tokio::time::Interval;

use super::Reply;
use super::body::{Query, invalid, text_response};
use crate::manager::Manager;
use crate::problem::Problem;

/// Maximum number of events that are read at once.
const PAGE: usize = 256;

/// How often a frame shows that the connection is alive: a comment in the stream of one session,
/// and in the stream of all an event `heartbeat`, which scripts of a browser can see.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How often to look for events of sessions that another process runs.
const POLL: Duration = Duration::from_millis(500);

/// How long a client should wait before it connects again, in milliseconds.
const RETRY: u32 = 1_000;

/// Streams the events of one session.
pub(super) async fn session(
    State(manager): State<Arc<Manager>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let since = start(&mut query, &headers)?.unwrap_or(0);
    query.finish()?;
    let row = manager.row(&id).await?;
    let reader = SessionReader {
        stored: manager.feed.subscribe(&row.session),
        manager,
        session: row.session,
        next: since.saturating_add(1),
        phase: Phase::History,
        beat: beat(),
    };
    let frames = stream::unfold(reader, SessionReader::advance);
    Ok(response(since, frames))
}

/// Returns the last event that the client has: `Last-Event-ID`, or else `since`.
fn start(query: &mut Query, headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let since = query.take_as("since", "the number of an event")?;
    let last = headers.get("last-event-id").map(|value| {
        let number = value.to_str().ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| invalid("Last-Event-ID", "", "the number of an event"))
    });
    Ok(last.transpose()?.or(since))
}

/// Returns a response with these frames. Every frame has an `id`, also one that is no event, so
/// that a client that connects again continues from there.
fn response(
    since: u64,
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response<Body> {
    let first = format!("id: {since}\nretry: {RETRY}\n\n");
    let first = stream::iter([Ok(Bytes::from(first))]);
    let mut response = text_response(
        axum::http::StatusCode::OK,
        "text/event-stream",
        Body::from_stream(first.chain(frames)),
    );
    let no_buffering = HeaderValue::from_static("no");
    response
        .headers_mut()
        .insert("x-accel-buffering", no_buffering);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Events of the past are being sent.
    History,
    /// Everything that was stored has been sent.
    Live,
    /// The last frame was sent.
    Done,
}

type Frame<T> = Option<(Result<Bytes, Infallible>, T)>;

struct SessionReader {
    manager: Arc<Manager>,
    session: String,
    next: u64,
    phase: Phase,
    stored: Option<watch::Receiver<u64>>,
    /// Ticks when no frame was sent for a while.
    beat: Interval,
}

impl SessionReader {
    async fn advance(mut self) -> Frame<Self> {
        loop {
            if self.phase == Phase::Done {
                return None;
            }
            if let Some(stored) = &mut self.stored {
                stored.mark_unchanged(); // what is stored from here on wakes this reader
            }
            // Before the query: if the session had ended by now, the query returns its last event.
            let is_over = self.is_over().await;
            let last = self.next - 1;
            match self.page().await {
                Err(problem) => {
                    self.phase = Phase::Done;
                    return self.frame(error_frame(last, &problem));
                }
                Ok(page) if !page.is_empty() => {
                    let (frames, last) = frames(&page, |row| row.seq);
                    self.next = last.map_or(self.next, |row| row.seq + 1);
                    if last.is_some_and(|row| row.kind == "ended") {
                        self.phase = Phase::Done;
                    }
                    return self.frame(frames);
                }
                Ok(_) if self.phase == Phase::History => {
                    self.phase = if is_over { Phase::Done } else { Phase::Live };
                    let data = format!("{{\"seq\":{last}}}");
                    return self.frame(named_frame("caught_up", last, &data));
                }
                Ok(_) if is_over => return None,
                Ok(_) => {}
            }
            if self.wait().await == Wakeup::Heartbeat {
                return self.frame(format!("id: {last}\n: heartbeat\n\n").into());
            }
        }
    }

    fn frame(mut self, frame: Bytes) -> Frame<Self> {
        self.beat.reset();
        Some((Ok(frame), self))
    }

    async fn page(&self) -> Result<Vec<EventRow>, Problem> {
        let (session, next) = (self.session.clone(), self.next);
        self.manager
            .with_store(move |store| store.event_rows(&session, next, PAGE))
            .await
    }

    /// Returns true if no process runs the session.
    async fn is_over(&self) -> bool {
        if self.stored.is_some() {
            return false;
        }
        let row = self.manager.row(&self.session).await;
        !row.is_ok_and(|row| matches!(row.status, SessionStatus::Live(_)))
    }

    async fn wait(&mut self) -> Wakeup {
        let Some(stored) = &mut self.stored else {
            return tokio::select! {
                _ = self.beat.tick() => Wakeup::Heartbeat,
                () = tokio::time::sleep(POLL) => Wakeup::Stored, // by another process, perhaps
            };
        };
        tokio::select! {
            _ = self.beat.tick() => Wakeup::Heartbeat,
            changed = stored.changed() => {
                if changed.is_err() {
                    self.stored = None; // the rest is in the store
                }
                Wakeup::Stored
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wakeup {
    /// Something may have been stored.
    Stored,
    /// No frame was sent for a while.
    Heartbeat,
}

/// Returns an interval that ticks when a heartbeat is due, counted from its last reset.
fn beat() -> Interval {
    let mut beat = tokio::time::interval(HEARTBEAT);
    beat.reset(); // it would tick at once
    beat
}

/// Returns the frames of a page, and its last row.
fn frames(page: &[EventRow], id: impl Fn(&EventRow) -> u64) -> (Bytes, Option<&EventRow>) {
    let size = page.iter().map(|row| row.json.len() + 48).sum();
    let mut frames = String::with_capacity(size);
    for row in page {
        // JSON has no raw line breaks, so one `data` line is enough.
        frames.push_str("id: ");
        frames.push_str(&id(row).to_string());
        frames.push_str("\ndata: ");
        frames.push_str(&row.json);
        frames.push_str("\n\n");
    }
    (frames.into(), page.last())
}

/// Returns a frame that is no event of a session. Its `id` is that of the last one.
fn named_frame(name: &str, last: u64, data: &str) -> Bytes {
    format!("id: {last}\nevent: {name}\ndata: {data}\n\n").into()
}

fn error_frame(last: u64, problem: &Problem) -> Bytes {
    let body = serde_json::to_string(&problem.body()).unwrap_or_default();
    named_frame("problem", last, &body)
}

/// Streams the events of all sessions, or of those that are named, over one connection.
pub(super) async fn all(
    State(manager): State<Arc<Manager>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let since = start(&mut query, &headers)?;
    let named = query.take_all("session");
    query.finish()?;
    let mut sessions = HashSet::new();
    for id in named {
        sessions.insert(manager.row(&id).await?.session);
    }
    // Without a position, only what comes from now on.
    let position = match since {
        Some(position) => position,
        None => {
            manager
                .with_store(ostler_store::Store::last_position)
                .await?
        }
    };
    let reader = AllReader {
        stored: manager.feed.subscribe_all(),
        manager,
        sessions,
        position,
        phase: Phase::History,
        beat: beat(),
    };
    let frames = stream::unfold(reader, AllReader::advance);
    Ok(response(position, frames))
}

struct AllReader {
    manager: Arc<Manager>,
    /// Sessions to show; all if it is empty.
    sessions: HashSet<String>,
    position: u64,
    phase: Phase,
    stored: watch::Receiver<u64>,
    /// Ticks when no frame was sent for a while.
    beat: Interval,
}

impl AllReader {
    async fn advance(mut self) -> Frame<Self> {
        loop {
            if self.phase == Phase::Done {
                return None;
            }
            self.stored.mark_unchanged();
            let position = self.position;
            let page = self
                .manager
                .with_store(move |store| store.events_after(position, PAGE))
                .await;
            let has_more = match page {
                Err(problem) => {
                    self.phase = Phase::Done;
                    return self.frame(error_frame(position, &problem));
                }
                Ok(mut page) if !page.is_empty() => {
                    self.position = page.last().map_or(position, |row| row.position);
                    if !self.sessions.is_empty() {
                        page.retain(|row| self.sessions.contains(&row.session));
                    }
                    if !page.is_empty() {
                        return self.frame(frames(&page, |row| row.position).0);
                    }
                    true
                }
                Ok(_) if self.phase == Phase::History => {
                    self.phase = Phase::Live;
                    return self.position_frame("caught_up");
                }
                Ok(_) => false,
            };
            tokio::select! {
                biased;
                // Also while only other sessions are busy.
                _ = self.beat.tick() => return self.position_frame("heartbeat"),
                () = std::future::ready(()), if has_more => {}
                changed = self.stored.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = tokio::time::sleep(POLL) => {} // another process may have stored something
            }
        }
    }

    fn position_frame(self, name: &str) -> Frame<Self> {
        let position = self.position;
        let data = format!("{{\"position\":{position}}}");
        self.frame(named_frame(name, position, &data))
    }

    fn frame(mut self, frame: Bytes) -> Frame<Self> {
        self.beat.reset();
        Some((Ok(frame), self))
    }
}
