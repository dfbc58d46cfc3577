//! Idempotency keys: a request that is repeated with the same key takes effect once.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use ostler_store::IdempotentRequest;
use sha2::{Digest, Sha256};

use super::Reply;
use super::body::{text_response, to_the_end};
use crate::manager::Manager;
use crate::problem::{Problem, ProblemKind};

/// The header of a request.
const HEADER: &str = "idempotency-key";

/// The header of a repeated response.
const REPLAYED: &str = "idempotent-replayed";

/// Maximum length of a key.
const MAX_KEY: usize = 255;

/// A request that may have an idempotency key.
pub(super) struct Repeatable<'a> {
    /// Its headers.
    pub(super) headers: &'a HeaderMap,
    /// Its method and path.
    pub(super) what: &'a str,
    /// Its body.
    pub(super) body: &'a [u8],
    /// The status of its response if it succeeds.
    pub(super) status: StatusCode,
    /// The agent's session if an agent sent it: its keys are not those of other callers.
    pub(super) owner: Option<&'a str>,
}

/// Runs a request, unless one with the same key was answered before. `run` gets the key, and
/// returns the status and the JSON of its response.
pub(super) async fn once<F>(
    manager: Arc<Manager>,
    request: Repeatable<'_>,
    run: impl FnOnce(Option<String>) -> F + Send + 'static,
) -> Reply
where
    F: Future<Output = Result<(StatusCode, String), Problem>> + Send + 'static,
{
    let Some(key) = request.headers.get(HEADER) else {
        let (status, text) = to_the_end(run(None)).await?;
        return Ok(json(status, text));
    };
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=MAX_KEY).contains(&key.len()));
    let key = key.ok_or_else(|| {
        let why = format!("Idempotency-Key: expected 1 to {MAX_KEY} printable ASCII characters");
        Problem::new(ProblemKind::BadRequest, why)
    })?;
    let fingerprint = fingerprint(request.what, request.body);
    let key = match request.owner {
        None => key.to_owned(),
        Some(session) => format!("{session} {key}"),
    };
    let run = run(Some(key.clone()));
    let status = request.status;
    to_the_end(async move { run_once(&manager, key, fingerprint, status, run).await }).await
}

async fn run_once(
    manager: &Manager,
    key: String,
    fingerprint: String,
    expected: StatusCode,
    run: impl Future<Output = Result<(StatusCode, String), Problem>>,
) -> Reply {
    let (own, at) = (key.clone(), manager.embedder.now());
    let begun = manager
        .with_store(move |store| store.begin_idempotent(&own, &fingerprint, at))
        .await?;
    match begun {
        IdempotentRequest::New => {}
        IdempotentRequest::Done(stored) => {
            let (status, text) = stored.split_once(' ').unwrap_or(("200", &stored));
            let status = status.parse().unwrap_or(StatusCode::OK);
            return Ok(replayed(json(status, text.to_owned())));
        }
        IdempotentRequest::TookEffect(session) => {
            let session = manager.get(&session).await?;
            return Ok(replayed(super::body::json(expected, &session)?));
        }
        IdempotentRequest::Running => {
            let why = "a request with this idempotency key is being processed";
            return Err(Problem::new(ProblemKind::KeyBusy, why));
        }
        IdempotentRequest::Different => {
            let why = "this idempotency key was used for another request";
            return Err(Problem::new(ProblemKind::KeyReused, why));
        }
    }
    let result = run.await;
    let stored = result
        .as_ref()
        .ok()
        .map(|(status, text)| format!("{} {text}", status.as_u16()));
    // A request that failed can be repeated.
    manager
        .with_store(move |store| store.end_idempotent(&key, stored.as_deref()))
        .await?;
    result.map(|(status, text)| json(status, text))
}

/// Marks a response as that of an earlier request.
fn replayed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

fn fingerprint(what: &str, body: &[u8]) -> String {
    let mut hash = Sha256::new_with_prefix(what.as_bytes());
    hash.update([0]);
    hash.update(body);
    let hash = hash.finalize();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn json(status: StatusCode, text: String) -> Response {
    text_response(status, "application/json", text)
}
