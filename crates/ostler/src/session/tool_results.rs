//! Results of tools that the caller runs itself. A result may arrive before or after it is awaited.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_core::event::{RefusalCode, Refused, RequestKind};
use tokio::sync::oneshot;

use super::remote::SubmittedResult;

/// Maximum number of results that were submitted before they were awaited.
const MAX_EARLY: usize = 100;

/// Number of calls after which finished ones are forgotten.
const MAX_REMEMBERED: usize = 10_000;

/// Results that the caller submits for the agent, by call id.
#[derive(Debug, Default)]
pub(crate) struct Submissions(Mutex<HashMap<String, Submission>>);

#[derive(Debug)]
enum Submission {
    /// The agent waits for the result.
    Awaited(oneshot::Sender<SubmittedResult>),
    /// The result was submitted before the agent asked for it.
    Early(SubmittedResult),
    /// The result was delivered.
    Done,
}

impl Submissions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Submission>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the caller to submit the result of a call. Returns `None` if it never will.
    pub(crate) async fn result_of(&self, call: &str) -> Option<SubmittedResult> {
        let receiver = {
            let mut submissions = self.lock();
            let (sender, receiver) = oneshot::channel();
            match submissions.insert(call.to_owned(), Submission::Awaited(sender)) {
                Some(Submission::Early(result)) => {
                    submissions.insert(call.to_owned(), Submission::Done);
                    return Some(result);
                }
                _ => receiver,
            }
        };
        receiver.await.ok()
    }

    /// Returns true if the agent waits for the result of this call.
    pub(super) fn awaits(&self, call: &str) -> bool {
        matches!(self.lock().get(call), Some(Submission::Awaited(_)))
    }

    pub(super) fn submit(&self, result: SubmittedResult) -> Result<(), Refused> {
        let refuse = |code: RefusalCode, why: String| Refused {
            request: RequestKind::SubmitToolResults,
            why,
            code,
        };
        let mut submissions = self.lock();
        if submissions.len() > MAX_REMEMBERED {
            submissions.retain(|_, submission| !matches!(submission, Submission::Done));
        }
        let id = result.id.clone();
        match submissions.remove(&id) {
            Some(Submission::Awaited(waiting)) => {
                submissions.insert(id.clone(), Submission::Done);
                waiting.send(result).map_err(|_| {
                    refuse(
                        RefusalCode::Decided,
                        format!("the result of {id} is no longer awaited"),
                    )
                })
            }
            Some(done) => {
                submissions.insert(id.clone(), done);
                Err(refuse(
                    RefusalCode::Decided,
                    format!("{id} already has a result"),
                ))
            }
            None if submissions
                .values()
                .filter(|submission| matches!(submission, Submission::Early(_)))
                .count()
                >= MAX_EARLY =>
            {
                Err(refuse(
                    RefusalCode::Unknown,
                    format!("no tool call {id} is waiting for a result"),
                ))
            }
            None => {
                submissions.insert(id, Submission::Early(result));
                Ok(())
            }
        }
    }
}
