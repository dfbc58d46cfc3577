//! End of an attempt: its result with the paths of this machine, and its artifacts.

use ostler_eval::identity::{case_hash, settings_hash};
use ostler_eval::run_trial::{Attempt, Disposition, publish_result};
use ostler_eval::trial::{Blame, Verdict};

use super::AttemptDriver;
use crate::archive::{self, Contents};
use crate::message::{ArtifactReference, Ending};
use crate::nats::Announced;
use crate::owner::mirror::Mirror;
use crate::subject::artifacts_bucket;

impl AttemptDriver<'_> {
    /// Returns the end of the attempt once its result and its whole record are here.
    pub(super) async fn end(&mut self) -> Option<Attempt> {
        let received = self.mirror.as_ref().map_or(0, Mirror::received);
        let is_given_up = self.gives_up_record;
        let result = self
            .result
            .take_if(|it| it.record_bytes <= received || is_given_up)?;
        let is_short = result.record_bytes > received;
        let Ending::Finished {
            result,
            disposition,
            artifacts,
        } = result.ending
        else {
            return Some(self.lost("its worker gave it up".to_owned()));
        };
        let request = self.placement.request;
        let mut result = *result;
        result.artifacts.clone_from(&request.artifacts);
        result.key = request.key();
        result.identity.case_hash = case_hash(&request.case);
        result.identity.settings_hash = settings_hash(&request.contender);
        result.attempts = u32::try_from(request.attempt).unwrap_or(u32::MAX);
        let mut disposition = Disposition::from(disposition);
        if let Some(artifacts) = artifacts
            && let Err(message) = self.take_artifacts(&artifacts).await
        {
            result.verdict = Verdict::Errored;
            result.blame = Some(Blame::Infrastructure);
            result.message = Some(message);
            disposition = Disposition::Retry(None);
        }
        let is_own = |session: &String| self.mirror.as_ref().is_some_and(|it| it.has(session));
        if let Some(session) = result.session.take_if(|session| !is_own(session)) {
            let warning = format!("{session} is not in the record of the attempt");
            result.warnings.push(warning);
        }
        let failure = self.mirror.as_ref().and_then(|it| it.failure.clone());
        let failure = failure.or(is_short.then(|| "the end of the record".to_owned()));
        if let Some(why) = failure {
            result
                .warnings
                .push(format!("events are missing in the store: {why}"));
        }
        if disposition == Disposition::Accept && !self.is_lost {
            publish_result(request, &mut result);
        }
        Some(Attempt {
            result,
            disposition,
        })
    }

    /// Fetches, checks and unpacks the artifacts.
    async fn take_artifacts(&self, artifacts: &ArtifactReference) -> Result<(), String> {
        let Some(holder) = &self.holder else {
            return Ok(());
        };
        let bucket = artifacts_bucket(&holder.worker);
        let announced = Announced {
            name: &artifacts.name,
            sha256: &artifacts.sha256,
            bytes: artifacts.bytes,
        };
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let connection = &self.place.connection;
        let got = connection.await_object(&bucket, announced, file.path());
        got.await
            .map_err(|error| format!("artifacts of {}: {error}", holder.worker))?;
        let (path, target) = (file.path(), &self.placement.request.artifacts);
        archive::unpack_aside(path, target, Contents::Artifacts)
            .await
            .map_err(|error| format!("{}: {error}", target.display()))
    }
}
