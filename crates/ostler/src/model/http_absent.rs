//! Replacement for the HTTP client in a build without the feature `api`: every server is refused,
//! with a hint.

use std::convert::Infallible;

use ostler_core::spec::{Spec, SpecError};
use ostler_model::ModelRequest;
use ostler_model::runner_protocol::Failed;

use super::{Model, ModelFuture, ReplyStream};
use crate::host::Host;

/// A server, which cannot exist in this build.
pub(crate) struct Http(Infallible);

impl Http {
    /// How to make the agent usable.
    pub(crate) const SETUP: &str =
        "This build has no HTTP client: enable the feature `api` of the crate `ostler`.";

    /// Refuses every server.
    pub(crate) fn new(_: &Host, _: &Spec) -> Result<Self, SpecError> {
        Err(SpecError::secret("base_url", Self::SETUP))
    }

    /// Returns false: a key would not help.
    pub(crate) fn is_configured(_: &Host) -> bool {
        false
    }

    pub(crate) fn base(&self) -> &str {
        match self.0 {}
    }

    pub(crate) async fn models(&self) -> Result<Vec<String>, Failed> {
        match self.0 {}
    }
}

impl Model for Http {
    fn call<'a>(&'a self, _: &'a ModelRequest) -> ModelFuture<'a, ReplyStream> {
        match self.0 {}
    }

    fn name(&self) -> ModelFuture<'_, String> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_refused_with_the_feature_that_it_needs() {
        let host = Host::new([("OPENAI_API_KEY".into(), "sk-of-the-host".into())]);
        assert!(!Http::is_configured(&host));
        let refused = Http::new(&host, &Spec::default())
            .map(|_| ())
            .unwrap_err()
            .to_string();
        assert!(refused.contains("feature `api`"), "{refused}");
    }
}
