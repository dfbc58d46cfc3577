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

/// Runs a request, unless one with the same key was answered before. `what` and `body` identify its
/// content; `run` returns the status and the JSON of its response.
pub(super) async fn once(
    manager: Arc<Manager>,
    headers: &HeaderMap,
    what: &str,
    body: &[u8],
    run: impl Future<Output = Result<(StatusCode, String), Problem>> + Send + 'static,
) -> Reply {
    let Some(key) = headers.get(HEADER) else {
        let (status, text) = to_the_end(run).await?;
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
    let (key, fingerprint) = (key.to_owned(), fingerprint(what, body));
    to_the_end(async move { run_once(&manager, key, fingerprint, run).await }).await
}

async fn run_once(
    manager: &Manager,
    key: String,
    fingerprint: String,
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
            let mut response = json(status, text.to_owned());
            response
                .headers_mut()
                .insert(REPLAYED, HeaderValue::from_static("true"));
            return Ok(response);
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
