//! Information that belongs to no session: agents, search, usage, health, metrics.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use ostler_store::{Filter, UsageGroup, UsageKey, UsageQuery};
use serde_json::{Value, json};

use super::body::{Query, invalid, json as json_response, text_response};
use super::{Reply, Secrets};
use crate::api::{AgentList, ApprovalCode, SearchMatch, SearchMatches};
use crate::manager::Manager;
use crate::openapi;
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

type Shared = State<Arc<Manager>>;

/// Maximum number of matches.
const MAX_MATCHES: usize = 200;

pub(super) async fn agents(State(manager): Shared) -> Reply {
    let agents = manager.embedder.agents().await;
    json_response(StatusCode::OK, &AgentList { agents })
}

pub(super) async fn search(State(manager): Shared, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let text = query.take("q").filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| invalid("q", "", "the text to search for"))?;
    let limit: Option<usize> = query.take_as("limit", "a number")?;
    let filter = Filter {
        agent: query.take("agent"),
        dir: query.take("dir").map(Into::into),
        limit: Some(limit.unwrap_or(50).clamp(1, MAX_MATCHES)),
        ..Filter::default()
    };
    query.finish()?;
    let hits = manager
        .with_store(move |store| store.search(&text, &filter))
        .await?;
    let matches = hits.into_iter().map(|hit| SearchMatch {
        session: hit.session.into(),
        turn: hit.turn,
        at: hit.at.to_string(),
        speaker: hit.speaker.as_str().to_owned(),
        excerpt: hit.excerpt,
    });
    let matches = matches.collect();
    json_response(StatusCode::OK, &SearchMatches { matches })
}

pub(super) async fn usage(State(manager): Shared, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let by = query.take("by").unwrap_or_else(|| "agent".to_owned());
    let key = match by.as_str() {
        "agent" => UsageKey::Agent,
        "model" => UsageKey::Model,
        "day" => UsageKey::Day,
        "dir" => UsageKey::Dir,
        other => return Err(invalid("by", other, "agent, model, day or dir")),
    };
    let since = query.take_as("since", "a time in RFC 3339")?;
    query.finish()?;
    let report = manager
        .with_store(move |store| store.usage(&UsageQuery { since, by: key }))
        .await?;
    let groups: Vec<Value> = report.groups.iter().map(group).collect();
    let body = json!({"by": by, "groups": groups, "total": group(&report.total)});
    json_response(StatusCode::OK, &body)
}

fn group(group: &UsageGroup) -> Value {
    json!({
        "key": group.key,
        "sessions": group.sessions,
        "turns": group.turns,
        "usage": group.usage,
    })
}

pub(super) async fn health() -> Response {
    text_response(StatusCode::OK, "text/plain", "ok\n")
}

/// Ready if the store can be read.
pub(super) async fn ready(State(manager): Shared) -> Reply {
    manager
        .with_store(ostler_store::Store::last_position)
        .await?;
    Ok(text_response(StatusCode::OK, "text/plain", "ready\n"))
}

pub(super) async fn metrics(State(manager): Shared) -> Response {
    let (running, waiting) = manager.counts();
    let text = manager.metrics.text(running, waiting);
    text_response(StatusCode::OK, "text/plain; version=0.0.4", text)
}

pub(super) async fn openapi() -> Reply {
    json_response(StatusCode::OK, &openapi::document())
}

/// Returns the approval code, to a user on the socket only.
pub(super) async fn approval_code(
    Extension(caller): Extension<Caller>,
    Extension(secrets): Extension<Option<Arc<Secrets>>>,
) -> Reply {
    if !matches!(caller, Caller::User { .. }) {
        let why = "the approval code is only given out on the Unix socket";
        return Err(Problem::new(ProblemKind::Forbidden, why));
    }
    let secrets = secrets.ok_or_else(|| {
        Problem::new(
            ProblemKind::NotFound,
            "there is no approval code without `--listen`",
        )
    })?;
    let code = secrets.code.reveal().to_owned();
    json_response(StatusCode::OK, &ApprovalCode { code })
}
