//! Approvals: permission requests that wait for an answer.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use ostler_store::{ApprovalFilter, ApprovalSelection, ApprovalState};

use super::Reply;
use super::body::{Query, invalid, json, parse, read, to_the_end};
use crate::api::ApprovalList;
use crate::manager::Manager;
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

/// Maximum number of requests per page.
const MAX_PAGE: usize = 500;

/// Number of decided requests per page, if the client does not say how many.
const DECIDED_PAGE: usize = 100;

pub(super) async fn list(State(manager): State<Arc<Manager>>, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let selection = query.take("state").map(|name| selection(&name));
    let selection = selection.transpose()?.unwrap_or_default();
    let limit: Option<usize> = query.take_as("limit", "a number")?;
    let limit = limit.map(|limit| limit.clamp(1, MAX_PAGE));
    let is_decided = selection == ApprovalSelection::Decided;
    let limit = limit.or(is_decided.then_some(DECIDED_PAGE));
    let filter = ApprovalFilter {
        selection,
        session: query.take("session"),
        after: query.take("cursor"),
        limit: limit.map(|limit| limit + 1),
    };
    query.finish()?;
    let mut found = manager
        .with_store(move |store| store.list_approvals(&filter))
        .await?;
    let has_more = limit.is_some_and(|limit| found.len() > limit);
    found.truncate(limit.unwrap_or(usize::MAX));
    let next = found.last().filter(|_| has_more);
    let next = next.map(|approval| approval.id.clone());
    let mut approvals = Vec::with_capacity(found.len());
    for approval in found {
        approvals.push(manager.approval_view(approval).await);
    }
    json(StatusCode::OK, &ApprovalList { approvals, next })
}

fn selection(name: &str) -> Result<ApprovalSelection, Problem> {
    let mut states = ApprovalState::ALL.into_iter();
    match name {
        "all" => Ok(ApprovalSelection::All),
        "decided" => Ok(ApprovalSelection::Decided),
        name => match states.find(|state| state.as_str() == name) {
            Some(state) => Ok(ApprovalSelection::In(state)),
            None => {
                let names = ApprovalState::ALL.map(ApprovalState::as_str).join(", ");
                let expected = format!("all, decided, or one of {names}");
                Err(invalid("state", name, &expected))
            }
        },
    }
}

pub(super) async fn get(State(manager): State<Arc<Manager>>, Path(id): Path<String>) -> Reply {
    let own = id.clone();
    let found = manager
        .with_store(move |store| store.approval(&own))
        .await?;
    let found = found
        .ok_or_else(|| Problem::new(ProblemKind::UnknownApproval, format!("no approval {id:?}")))?;
    json(StatusCode::OK, &manager.approval_view(found).await)
}

pub(super) async fn answer(
    State(manager): State<Arc<Manager>>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Reply {
    let answer = parse(&read(&headers, body).await?)?;
    let answered = to_the_end(async move { manager.answer(&id, answer, &caller).await }).await?;
    json(StatusCode::OK, &answered)
}
