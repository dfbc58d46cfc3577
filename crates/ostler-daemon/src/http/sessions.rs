//! Sessions: create, list, control, delete.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use ostler_core::event::SessionState;
use ostler_store::{Filter, SessionStatus};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::body::{Query, invalid, json, parse, read, seconds, text_response, to_the_end};
use super::idempotency::Repeatable;
use super::{Reply, idempotency};
use crate::api::{CreateSession, Interrupted, SessionResult, SessionView};
use crate::manager::{ListQuery, Manager};
use crate::problem::{Problem, ProblemKind};
use crate::scope::{self, Caller};

type Shared = State<Arc<Manager>>;

/// Maximum time to wait for a result.
const MAX_WAIT: Duration = Duration::from_secs(600);

/// How often to look for a result, if no event says when.
const POLL: Duration = Duration::from_millis(500);

pub(super) async fn create(
    State(manager): Shared,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Reply {
    let bytes = read(&headers, body).await?;
    let request: CreateSession = parse(&bytes)?;
    let own = manager.clone();
    if let Caller::Agent { session, .. } = &caller {
        let parent = session.clone().unwrap_or_default();
        let repeatable = Repeatable {
            headers: &headers,
            what: "POST /v1/sessions",
            body: &bytes,
            status: StatusCode::CREATED,
            owner: session.as_deref(),
        };
        let run = |key| async move {
            let child = own.create_child(&parent, request, key).await?;
            encoded(StatusCode::CREATED, &child)
        };
        return idempotency::once(manager, repeatable, run).await;
    }
    if let Some(field) = scope::needs_approval(&caller, &request) {
        let why = format!("{field}: only a caller with the scope `approve` can set it");
        return Err(Problem::new(ProblemKind::Forbidden, why)
            .hint("use the Unix socket, or send the approval code"));
    }
    let run = |key| async move { encoded(StatusCode::CREATED, &own.create(request, key).await?) };
    let repeatable = Repeatable {
        headers: &headers,
        what: "POST /v1/sessions",
        body: &bytes,
        status: StatusCode::CREATED,
        owner: None,
    };
    idempotency::once(manager, repeatable, run).await
}

pub(super) async fn list(State(manager): Shared, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let state = query.take("state").map(|name| {
        let known = SessionState::ALL
            .into_iter()
            .find(|state| state.as_str() == name);
        let names = SessionState::ALL.map(SessionState::as_str).join(", ");
        known.ok_or_else(|| invalid("state", &name, &format!("one of {names}")))
    });
    let state = state.transpose()?;
    let labels = query.take_all("label").into_iter().map(|label| {
        let parts = label
            .split_once('=')
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
        parts.ok_or_else(|| invalid("label", &label, "NAME=VALUE"))
    });
    let labels = labels.collect::<Result<_, _>>()?;
    let all = query.take_as("all", "true or false")?.unwrap_or(false);
    let [text, dir_text, label_text] = ["q", "dir_contains", "label_contains"]
        .map(|name| query.take(name).filter(|text| !text.is_empty()));
    let filter = Filter {
        agent: query.take("agent"),
        dir: query.take("dir").map(PathBuf::from),
        limit: query.take_as("limit", "a number")?,
        after: query.take("cursor"),
        text,
        dir_text,
        label_text,
        waiting: query.take_as("waiting", "true or false")?.unwrap_or(false),
        parent: query.take("parent"),
        state,
        labels,
        ..Filter::default()
    };
    query.finish()?;
    // Sessions that have ended are listed if they are asked for.
    let all = all || state == Some(SessionState::Ended);
    json(
        StatusCode::OK,
        &manager.list(ListQuery { filter, all }).await?,
    )
}

pub(super) async fn get(
    State(manager): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Reply {
    let session = manager.get(&id).await?;
    let (status, text) = encoded(StatusCode::OK, &session)?;
    let hash = Sha256::digest(text.as_bytes());
    let tag: String = hash
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let tag = format!("\"{tag}\"");
    let known = headers
        .get(header::IF_NONE_MATCH)
        .map(HeaderValue::as_bytes);
    let mut response = if known == Some(tag.as_bytes()) {
        text_response(StatusCode::NOT_MODIFIED, "application/json", Body::empty())
    } else {
        text_response(status, "application/json", text)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

pub(super) async fn send(
    State(manager): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Reply {
    let bytes = read(&headers, body).await?;
    let message = parse(&bytes)?;
    let what = format!("POST /v1/sessions/{id}/messages");
    let own = manager.clone();
    let run = |key| async move {
        own.send(&id, message, key).await?;
        encoded(StatusCode::ACCEPTED, &own.get(&id).await?)
    };
    let repeatable = Repeatable {
        headers: &headers,
        what: &what,
        body: &bytes,
        status: StatusCode::ACCEPTED,
        owner: None,
    };
    idempotency::once(manager, repeatable, run).await
}

pub(super) async fn interrupt(State(manager): Shared, Path(id): Path<String>) -> Reply {
    let interrupted = manager.interrupt(&id).await?;
    json(StatusCode::OK, &Interrupted { interrupted })
}

pub(super) async fn pause(State(manager): Shared, Path(id): Path<String>) -> Reply {
    json(StatusCode::OK, &manager.pause(&id).await?)
}

pub(super) async fn resume(State(manager): Shared, Path(id): Path<String>) -> Reply {
    let own = id.clone();
    let session = to_the_end(async move { manager.resume(&own).await }).await?;
    json(created_unless_same(&session, &id), &session)
}

pub(super) async fn stop(State(manager): Shared, Path(id): Path<String>) -> Reply {
    let session = to_the_end(async move { manager.stop(&id).await }).await?;
    json(StatusCode::ACCEPTED, &session)
}

pub(super) async fn report(
    State(manager): Shared,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Reply {
    let report = parse(&read(&headers, body).await?)?;
    manager.report(&id, &report).await?;
    json(StatusCode::ACCEPTED, &manager.get(&id).await?)
}

pub(super) async fn restart(State(manager): Shared, Path(id): Path<String>) -> Reply {
    let session = to_the_end(async move { manager.restart(&id).await }).await?;
    json(StatusCode::CREATED, &session)
}

pub(super) async fn fork(State(manager): Shared, Path(id): Path<String>) -> Reply {
    let session = to_the_end(async move { manager.fork(&id).await }).await?;
    json(StatusCode::CREATED, &session)
}

pub(super) async fn delete(State(manager): Shared, Path(id): Path<String>) -> Reply {
    to_the_end(async move { manager.delete(&id).await }).await?;
    let mut response = text_response(StatusCode::NO_CONTENT, "application/json", Body::empty());
    response.headers_mut().remove(header::CONTENT_TYPE);
    Ok(response)
}

fn created_unless_same(session: &SessionView, id: &str) -> StatusCode {
    if session.id == id {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    }
}

/// Waits for the end of the current turn, and returns it.
pub(super) async fn result(
    State(manager): Shared,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let wait = query.take("wait").map(|text| {
        seconds(&text)
            .filter(|time| *time <= MAX_WAIT)
            .ok_or_else(|| invalid("wait", &text, "a time such as `60s`, at most 10 minutes"))
    });
    let wait = wait.transpose()?.unwrap_or_default();
    query.finish()?;
    let row = manager.row(&id).await?;
    let mut stored = manager.feed.subscribe(&row.session);
    let concluded = async {
        loop {
            if let Some(stored) = &mut stored {
                stored.mark_unchanged();
            }
            let result = conclusion(&manager, &row.session).await?;
            if result.done {
                return Ok::<_, Problem>(result);
            }
            let changed = match &mut stored {
                Some(receiver) => tokio::time::timeout(POLL, receiver.changed()).await,
                // Another process runs it.
                None => {
                    tokio::time::sleep(POLL).await;
                    continue;
                }
            };
            if let Ok(Err(_)) = changed {
                stored = None; // it has ended
            }
        }
    };
    let result = match tokio::time::timeout(wait, concluded).await {
        Ok(result) => result?,
        Err(_) => conclusion(&manager, &row.session).await?,
    };
    let status = if result.done {
        StatusCode::OK
    } else {
        StatusCode::ACCEPTED
    };
    json(status, &result)
}

/// Returns the conclusion of a session so far.
async fn conclusion(manager: &Manager, id: &str) -> Result<SessionResult, Problem> {
    let own = id.to_owned();
    // Before the query: a message that starts a turn meanwhile must not be missed.
    let has_unstarted = manager.has_unstarted_message(id);
    let (row, turn, end) = manager
        .with_store(move |store| {
            let row = store.session(&own)?;
            let turn = store.last_event(&own, "turn_ended")?;
            let end = store.last_event(&own, "ended")?;
            Ok((row, turn, end))
        })
        .await?;
    let row = row.ok_or_else(|| crate::manager::unknown_session(id))?;
    let event = |json: Option<String>| json.and_then(|json| serde_json::from_str(&json).ok());
    let (turn, end): (Option<Value>, Option<Value>) = (event(turn), event(end));
    let number = turn.as_ref().and_then(|turn| turn["turn"].as_u64());
    let number = number
        .and_then(|turn| u32::try_from(turn).ok())
        .unwrap_or(0);
    let is_over = !matches!(row.status, SessionStatus::Live(_));
    let last = turn.as_ref().or(end.as_ref());
    let field = |name: &str| {
        last.map(|event| event[name].clone())
            .filter(|v| !v.is_null())
    };
    Ok(SessionResult {
        done: is_over || (row.turns > 0 && number == row.turns && !has_unstarted),
        turn: number,
        text: field("text")
            .and_then(|text| text.as_str().map(str::to_owned))
            .unwrap_or_default(),
        outcome: field("outcome"),
        usage: field("usage"),
        session: row.into(),
    })
}

fn encoded(
    status: StatusCode,
    value: &impl serde::Serialize,
) -> Result<(StatusCode, String), Problem> {
    let text = serde_json::to_string(value)
        .map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))?;
    Ok((status, text))
}
