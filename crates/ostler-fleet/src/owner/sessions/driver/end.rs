//! End of a session: its result, and the bundle with its changes.

use ostler::outcome::Reason;
use ostler::session::SessionRequest;
use ostler::{Cause, Outcome};

use super::{End, FleetSessions, Holder, SessionDriver, at, lost, stopped};
use crate::message::{ArtifactReference, Ending};
use crate::nats::{Announced, ObjectError};
use crate::owner::sessions::bundle_file;
use crate::subject::{Token, artifacts_bucket};

/// Warning at the end of a session that was killed before its changes arrived.
const KILLED: &str = "The changes did not arrive before the session was killed.";

impl SessionDriver {
    /// Returns the end of the session once its result and its whole record are here.
    pub(super) async fn end(&mut self) -> Option<End> {
        let received = self.lines.received();
        let result = self.result.take_if(|it| it.record_bytes <= received)?;
        let mut is_complete = true;
        let failure = match result.ending {
            Ending::Session {
                failure,
                bundle,
                warnings,
            } => {
                self.warnings.extend(warnings);
                if let Some(bundle) = bundle
                    && let Some(why) = self.take_bundle(&bundle).await
                {
                    is_complete = false;
                    self.warnings.push(why);
                }
                failure.map(|why| Outcome::new(Cause::Unavailable, why))
            }
            Ending::Abandoned { reason } => Some(
                Outcome::new(
                    Cause::AgentDied,
                    format!("The worker gave the session up: {reason}."),
                )
                .because(Reason::WorkerLost),
            ),
            Ending::Finished { .. } => None,
        };
        // What could not be taken over stays on the server.
        self.is_delivered = is_complete;
        Some(match (self.held.take(), failure) {
            (Some(event), _) => End::Finished(event),
            // It was stopped before its agent started.
            (None, Some(_)) if self.is_stopping => stopped(),
            (None, Some(outcome)) => lost(outcome),
            (None, None) => {
                let why = "The worker sent a result without the session's last event.";
                lost(Outcome::new(Cause::Protocol, why))
            }
        })
    }

    /// Fetches the bundle, unless the session is killed meanwhile. Returns a warning if it did
    /// not arrive.
    async fn take_bundle(&mut self, bundle: &ArtifactReference) -> Option<String> {
        let Holder { worker, .. } = self.holder.clone()?;
        let (fleet, attempt) = (self.fleet.clone(), self.attempt.clone());
        let kill_until = self.kill_until;
        let killed = async {
            loop {
                let request = self.relay.next().await;
                if matches!(request.request, SessionRequest::Kill) {
                    return;
                }
                self.calls.push(request);
            }
        };
        let taken = tokio::select! {
            biased;
            taken = fleet.take_bundle(&worker, &attempt, bundle) => taken,
            () = killed => return Some(KILLED.to_owned()),
            () = at(kill_until) => return Some(KILLED.to_owned()),
        };
        let error = taken.err()?;
        Some(format!("The changes are lost: {error}"))
    }

    /// Returns the end of a session whose worker is silent.
    pub(super) fn worker_lost(&mut self) -> End {
        if let Some(event) = self.held.take() {
            let why = "The changes did not arrive: the worker is silent.";
            self.warnings.push(why.to_owned());
            return End::Finished(event);
        }
        let lease = self.fleet.options.lease;
        let why = match &self.holder {
            Some(Holder { worker, .. }) => {
                format!("The worker {worker} that ran the session was silent for {lease:?}.")
            }
            None => format!("No worker has asked for the session within {lease:?}."),
        };
        let outcome = Outcome::new(Cause::AgentDied, why).because(Reason::WorkerLost);
        lost(outcome.hint("start it again; `ostler fleet status` shows the workers"))
    }
}

impl FleetSessions {
    /// Fetches and checks the bundle of a session.
    async fn take_bundle(
        &self,
        worker: &Token,
        session: &Token,
        bundle: &ArtifactReference,
    ) -> Result<(), ObjectError> {
        let failed = |error: std::io::Error| ObjectError::File(error.to_string());
        let bundles = &self.options.bundles;
        std::fs::create_dir_all(bundles).map_err(failed)?;
        let file = tempfile::NamedTempFile::new_in(bundles).map_err(failed)?;
        let announced = Announced {
            name: &bundle.name,
            sha256: &bundle.sha256,
            bytes: bundle.bytes,
        };
        let bucket = artifacts_bucket(worker);
        let connection = &self.connection;
        let got = connection.await_object(&bucket, announced, file.path());
        got.await?;
        let target = bundle_file(bundles, session.as_str());
        file.persist(target).map_err(|error| failed(error.error))?;
        Ok(())
    }
}
