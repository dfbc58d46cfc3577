//! Tools that the caller runs itself: somebody waits for their results, whichever comes first.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ostler_core::event::Refused;
use tokio::sync::oneshot;

use super::remote::Submitted;

/// How many results may lie here that nobody has asked for yet.
const EARLY: usize = 100;

/// How many calls are remembered after their results.
const REMEMBERED: usize = 10_000;

/// Results on their way from the caller to the agent.
#[derive(Debug, Default)]
pub(crate) struct Submissions(Mutex<HashMap<String, Place>>);

#[derive(Debug)]
enum Place {
    Awaited(oneshot::Sender<Submitted>),
    /// It came before the agent asked.
    Early(Submitted),
    JobResult,
}

impl Submissions {
    fn places(&self) -> MutexGuard<'_, HashMap<String, Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result of a call, as soon as the caller hands it over; none when nobody will.
    pub(crate) async fn result_of(&self, call: &str) -> Option<Submitted> {
        let receiver = {
            let mut places = self.places();
            let (sender, receiver) = oneshot::channel();
            match places.insert(call.to_owned(), Place::Awaited(sender)) {
                Some(Place::Early(result)) => {
                    places.insert(call.to_owned(), Place::JobResult);
                    return Some(result);
                }
                _ => receiver,
            }
        };
        receiver.await.ok()
    }

    /// Whether the agent waits for the result of this call.
    pub(super) fn awaits(&self, call: &str) -> bool {
        matches!(self.places().get(call), Some(Place::Awaited(_)))
    }

    pub(super) fn submit(&self, result: Submitted) -> Result<(), Refused> {
        let refuse = |code: &str, why: String| Refused {
            request: "submit_tool_results".into(),
            why,
            code: code.into(),
        };
        let mut places = self.places();
        if places.len() > REMEMBERED {
            places.retain(|_, place| !matches!(place, Place::JobResult));
        }
        let id = result.id.clone();
        match places.remove(&id) {
            Some(Place::Awaited(waiting)) => {
                places.insert(id.clone(), Place::JobResult);
                waiting
                    .send(result)
                    .map_err(|_| refuse("decided", format!("nobody waits for {id} any more")))
            }
            Some(done) => {
                places.insert(id.clone(), done);
                Err(refuse("decided", format!("{id} has its result")))
            }
            None if places
                .values()
                .filter(|place| matches!(place, Place::Early(_)))
                .count()
                >= EARLY =>
            {
                Err(refuse("unknown", format!("nobody asked for {id}")))
            }
            None => {
                places.insert(id, Place::Early(result));
                Ok(())
            }
        }
    }
}
