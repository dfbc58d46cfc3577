//! Information that belongs to no session: agents, search, usage, health, metrics.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use ostler_store::{Cancel, SearchQuery, Speaker, UsageKey, UsageQuery};

use super::body::{Query, invalid, json as json_response, text_response};
use super::{App, Reply};
use crate::api::{AgentList, ApprovalCode, SearchMatches, UsageTable};
use crate::manager::Manager;
use crate::openapi;
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

type Shared = State<Arc<Manager>>;

/// Maximum number of matches.
const MAX_MATCHES: usize = 200;

/// What a time is.
const RFC_3339: &str = "a time in RFC 3339";

pub(super) async fn agents(State(manager): Shared, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let fresh = query.take_as("fresh", "true or false")?.unwrap_or(false);
    query.finish()?;
    let agents = manager.agents(fresh).await;
    json_response(StatusCode::OK, &AgentList { agents })
}

pub(super) async fn search(State(manager): Shared, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let text = query.take("q").filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| invalid("q", "", "the text to search for"))?;
    let limit: Option<usize> = query.take_as("limit", "a number")?;
    let speaker = query.take("speaker").map(|name| {
        let known = Speaker::ALL.into_iter().find(|it| it.as_str() == name);
        let names = Speaker::ALL.map(Speaker::as_str).join(", ");
        known.ok_or_else(|| invalid("speaker", &name, &format!("one of {names}")))
    });
    let search = SearchQuery {
        agent: query.take("agent"),
        dir: query.take("dir").map(Into::into),
        speaker: speaker.transpose()?,
        since: query.take_as("since", RFC_3339)?,
        until: query.take_as("until", RFC_3339)?,
        after: query.take_as("cursor", "`next` of the previous page")?,
        ..SearchQuery::new(text, limit.unwrap_or(50).clamp(1, MAX_MATCHES))
    };
    query.finish()?;
    // If the client disconnects, this future is dropped.
    let cancel = CancelOnDrop(Cancel::default());
    let own = cancel.0.clone();
    let page = manager
        .with_store(move |store| store.search(&search, &own))
        .await?;
    let found = SearchMatches {
        matches: page.hits.into_iter().map(Into::into).collect(),
        next: page.next.map(|position| position.to_string()),
    };
    json_response(StatusCode::OK, &found)
}

/// Cancels a query when it is dropped.
struct CancelOnDrop(Cancel);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

pub(super) async fn usage(State(manager): Shared, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let by = query.take("by").unwrap_or_else(|| "agent".to_owned());
    let split = query.take("split");
    let key = usage_key("by", &by)?;
    let split_key = split
        .as_deref()
        .map(|name| match usage_key("split", name)? {
            same if same == key => Err(invalid("split", name, "another key than that of `by`")),
            other => Ok(other),
        });
    // A plus sign in a query stands for a space.
    let offset = query.take("tz").map(|text| {
        let offset = text.replace(' ', "+").parse();
        offset.map_err(|_| invalid("tz", &text, "an offset such as `+02:00`"))
    });
    let usage = UsageQuery {
        since: query.take_as("since", RFC_3339)?,
        until: query.take_as("until", RFC_3339)?,
        by: key,
        split: split_key.transpose()?,
        offset: offset.transpose()?.unwrap_or_default(),
    };
    query.finish()?;
    let report = manager.with_store(move |store| store.usage(&usage)).await?;
    let table = UsageTable::of(report, &by, split.as_deref());
    json_response(StatusCode::OK, &table)
}

fn usage_key(parameter: &str, name: &str) -> Result<UsageKey, Problem> {
    match name {
        "agent" => Ok(UsageKey::Agent),
        "model" => Ok(UsageKey::Model),
        "day" => Ok(UsageKey::Day),
        "dir" => Ok(UsageKey::Dir),
        other => Err(invalid(parameter, other, "agent, model, day or dir")),
    }
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
    let text = manager.metrics.text(&manager.gauges());
    text_response(StatusCode::OK, "text/plain; version=0.0.4", text)
}

pub(super) async fn openapi() -> Reply {
    json_response(StatusCode::OK, &openapi::document())
}

/// Returns the approval code, to a user on the socket only.
pub(super) async fn approval_code(
    Extension(caller): Extension<Caller>,
    Extension(app): Extension<App>,
) -> Reply {
    if !matches!(caller, Caller::User { .. }) {
        let why = "the approval code is only given out on the Unix socket";
        return Err(Problem::new(ProblemKind::Forbidden, why));
    }
    let code = app.secrets.code.reveal().to_owned();
    json_response(StatusCode::OK, &ApprovalCode { code })
}
