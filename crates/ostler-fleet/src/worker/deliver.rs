//! Delivery: the record of an attempt, its artifacts and its result, however long it takes.

use std::sync::Arc;
use std::time::Duration;

use ostler_core::event::Timestamp;
use ostler_eval::trial::TrialResult;

use super::{Worker, locked};
use crate::message::{Ending, ResultMessage};
use crate::nats::{Announced, AppendError, Appended};
use crate::spool::{ARTIFACTS, Spool};
use crate::subject::artifacts_bucket;

/// Maximum size of a chunk of the record.
const MAX_CHUNK: usize = 256 * 1024;
/// Part of the server's limit that is left to subject and headers.
const HEADERS: usize = 4 * 1024;
/// Longest text of a result that is too large for the server.
const MAX_TEXT: usize = 1024;
/// Time between two tries while the server cannot be reached.
const RETRY: Duration = Duration::from_millis(250);

impl Worker {
    /// Publishes the record as it grows, then artifacts and result, and removes the spool.
    pub(super) async fn deliver(self: Arc<Self>, spool: Arc<Spool>) {
        *locked(&self.spools) += 1;
        let result = self.publish_record(&spool).await;
        self.publish_artifacts(&spool, &result).await;
        self.publish_result(&spool, &result).await;
        spool.remove();
        *locked(&self.spools) -= 1;
    }

    /// Publishes the result. The owner recognizes it by the worker's instance.
    async fn publish_result(&self, spool: &Spool, result: &ResultMessage) {
        let subject = spool.entry.subject().result();
        let mut behind = 0;
        loop {
            let most = self.connection.max_payload().saturating_sub(HEADERS);
            let payload = fitting(result, most);
            let stored = self.connection.store_result(&subject, behind, payload);
            match stored.await {
                Ok(()) => return,
                Err(AppendError::Stale) => match self.connection.last_result(&subject).await {
                    // An earlier try has stored it.
                    Ok(Some((_, stored))) if is_of(&stored, &result.instance) => return,
                    // A message of another process does not count for the owner.
                    Ok(Some((sequence, _))) => behind = sequence,
                    Ok(None) => behind = 0,
                    Err(_) => {}
                },
                Err(AppendError::Unconfirmed(_)) => {}
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Publishes the whole record. Returns the result once it is there.
    async fn publish_record(&self, spool: &Spool) -> ResultMessage {
        let subject = spool.entry.subject().events();
        let mut at = self.end_of_record(&subject).await;
        loop {
            // The result is written last: nothing follows it in the record.
            let result = spool.result();
            let most = self.connection.max_payload().saturating_sub(HEADERS);
            let chunk = spool.read_at(at.bytes, MAX_CHUNK.min(most));
            let chunk = chunk.unwrap_or_default();
            if !chunk.is_empty() {
                match self.connection.append(&subject, at, chunk.into()).await {
                    Ok(appended) => at = appended,
                    // A replica that lags behind may have named an older end.
                    Err(AppendError::Stale | AppendError::Unconfirmed(_)) => {
                        tokio::time::sleep(RETRY).await;
                        at = self.end_of_record(&subject).await;
                    }
                }
                continue;
            }
            match result {
                Some(result) => return result,
                None => spool.grown().await,
            }
        }
    }

    async fn end_of_record(&self, subject: &str) -> Appended {
        loop {
            match self.connection.end_of_record(subject).await {
                Ok(end) => return end,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    async fn publish_artifacts(&self, spool: &Spool, result: &ResultMessage) {
        let (Ending::Finished {
            artifacts: Some(artifacts),
            ..
        }
        | Ending::Session {
            bundle: Some(artifacts),
            ..
        }) = &result.ending
        else {
            return;
        };
        let bucket = artifacts_bucket(&spool.entry.worker);
        let file = spool.path(ARTIFACTS);
        let announced = Announced {
            name: &artifacts.name,
            sha256: &artifacts.sha256,
            bytes: artifacts.bytes,
        };
        // Its name is that of the attempt.
        let ever = Timestamp(0);
        while file.is_file() {
            let put = self.connection.put_object(&bucket, announced, &file, ever);
            match put.await {
                Ok(()) => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}

/// Returns true if a stored result is of this process.
fn is_of(stored: &[u8], instance: &str) -> bool {
    serde_json::from_slice::<ResultMessage>(stored).is_ok_and(|it| it.instance == instance)
}

/// Returns a result as it is sent. One that is too large for the server loses its details, which
/// are in the artifacts too.
fn fitting(message: &ResultMessage, most: usize) -> Vec<u8> {
    let encode = |message: &ResultMessage| serde_json::to_vec(message).unwrap_or_default();
    let whole = encode(message);
    if whole.len() <= most {
        return whole;
    }
    let mut short = message.clone();
    let Ending::Finished { result, .. } = &mut short.ending else {
        return whole;
    };
    let bytes = whole.len();
    let warning = format!("shortened: the result has {bytes} bytes, and {most} can be sent");
    shorten(result, &warning);
    let shortened = encode(&short);
    if shortened.len() <= most {
        return shortened;
    }
    if let Ending::Finished { result, .. } = &mut short.ending {
        result.evaluations.clear();
        result.warnings = vec![warning];
    }
    encode(&short)
}

/// Cuts long texts, and removes figures of evaluators.
fn shorten(result: &mut TrialResult, warning: &str) {
    let cut = |text: &mut String| {
        let end = text.floor_char_boundary(MAX_TEXT);
        text.truncate(end);
    };
    result.message.iter_mut().for_each(cut);
    result.warnings.iter_mut().for_each(cut);
    for evaluation in &mut result.evaluations {
        evaluation.metrics.clear();
        evaluation.artifacts.clear();
        evaluation.reason.iter_mut().for_each(cut);
    }
    result.warnings.push(warning.to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(reason: &str, evaluations: usize) -> ResultMessage {
        let evaluation = serde_json::json!({
            "name": "e", "kind": "command", "verdict": "failed", "reason": reason,
            "metrics": {"long": reason}, "artifacts": [], "weight": 1.0, "required": true,
            "duration_ms": 1,
        });
        let result = serde_json::json!({
            "key": {"case": "c", "contender": "o", "repetition": 1},
            "identity": {
                "case": "c", "case_hash": "", "commit": "", "agent": "claude",
                "agent_version": null, "model": null, "prompt_hash": "",
                "isolation": "directory", "ostler": "",
            },
            "verdict": "failed", "blame": "agent", "cause": null, "message": reason,
            "score": 0.5, "evaluations": vec![evaluation; evaluations],
            "usage": ostler_core::usage::Usage::unknown(ostler_core::usage::Scope::Session),
            "attempts": 1, "session": null, "started_at": "", "completed_at": "",
            "agent_ms": 1, "working_ms": null, "diff_files": 0, "artifacts": "",
            "replayed": false, "metered": false,
        });
        ResultMessage {
            instance: "i".to_owned(),
            record_bytes: 7,
            ending: Ending::Finished {
                result: serde_json::from_value(result).unwrap(),
                disposition: crate::message::SentDisposition::Accept,
                artifacts: None,
            },
        }
    }

    #[test]
    fn a_result_that_is_too_large_is_shortened() {
        let sent = |message: &ResultMessage| -> (usize, TrialResult) {
            let payload = fitting(message, 20_000);
            let sent: ResultMessage = serde_json::from_slice(&payload).unwrap();
            assert_eq!((sent.instance, sent.record_bytes), ("i".to_owned(), 7));
            let Ending::Finished { result, .. } = sent.ending else {
                panic!("it is finished");
            };
            (payload.len(), *result)
        };
        let (_, whole) = sent(&message("short", 2));
        assert_eq!((whole.evaluations.len(), whole.warnings.len()), (2, 0));
        let long = "ä".repeat(50_000);
        for (count, left) in [(2, 2), (100, 0)] {
            let (length, short) = sent(&message(&long, count));
            assert!(length <= 20_000, "{length}");
            assert_eq!(short.evaluations.len(), left);
            assert_eq!(short.score, Some(0.5));
            assert!(short.warnings[0].starts_with("shortened: "), "{short:?}");
        }
    }
}
