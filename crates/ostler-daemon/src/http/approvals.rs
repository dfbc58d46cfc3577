//! Approvals: permission requests that wait for an answer.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use ostler_store::ApprovalState;

use super::Reply;
use super::body::{Query, invalid, json, parse, read, to_the_end};
use crate::api::{ApprovalList, ApprovalView};
use crate::manager::Manager;
use crate::problem::{Problem, ProblemKind};
use crate::scope::Caller;

pub(super) async fn list(State(manager): State<Arc<Manager>>, RawQuery(query): RawQuery) -> Reply {
    let mut query = Query::parse(query.as_deref())?;
    let state = query.take("state").map(|name| {
        let known = ApprovalState::ALL
            .into_iter()
            .find(|state| state.as_str() == name);
        let names = ApprovalState::ALL.map(ApprovalState::as_str).join(", ");
        known.ok_or_else(|| invalid("state", &name, &format!("one of {names}")))
    });
    let state = state.transpose()?;
    query.finish()?;
    let found = manager
        .with_store(move |store| store.approvals(state))
        .await?;
    let approvals = found.into_iter().map(ApprovalView::from).collect();
    json(StatusCode::OK, &ApprovalList { approvals })
}

pub(super) async fn get(State(manager): State<Arc<Manager>>, Path(id): Path<String>) -> Reply {
    let own = id.clone();
    let found = manager
        .with_store(move |store| store.approval(&own))
        .await?;
    let found = found
        .ok_or_else(|| Problem::new(ProblemKind::UnknownApproval, format!("no approval {id:?}")))?;
    json(StatusCode::OK, &ApprovalView::from(found))
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
